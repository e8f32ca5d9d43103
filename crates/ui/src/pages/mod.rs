//! The pages.

mod audit;
mod confirm;
mod job;
mod jobs;
mod locks;
mod now;
mod runs;
mod stores;

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::OriginalUri;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use shedlock_core::{Clock as _, SystemClock};

pub(crate) use audit::{Parameters as AuditParameters, audit};
pub(crate) use confirm::{again, confirm};
pub(crate) use job::job;
pub(crate) use jobs::jobs;
pub(crate) use locks::locks;
pub(crate) use now::{Seen, now};
pub(crate) use runs::{Filter, instant_of, runs};
pub(crate) use stores::stores;

use crate::Access;
use crate::assets::{ICON, SCRIPT, STYLE};
use crate::components::{Text, When, link};
use crate::dashboard::Inner;
use crate::store::Store;

/// The state that all pages share.
pub(crate) type Shared = axum::extract::State<Arc<Inner>>;

/// How many rows a page shows.
pub(crate) const ROWS: usize = 50;

/// The parameters of a list by name.
#[derive(Deserialize)]
pub(crate) struct Listed {
    store: Option<String>,
    /// The last name of the previous page.
    after: Option<String>,
}

/// What surrounds a page.
pub(crate) struct Frame {
    title: String,
    icon: &'static str,
    style: &'static str,
    script: &'static str,
    /// The pages, and whether each is this one.
    pages: Vec<Link>,
    /// The stores, if there are several and the page is about one.
    stores: Vec<Link>,
    user: Option<Text>,
    at: When,
    /// Whether the script reads the page again every few seconds.
    is_live: bool,
}

pub(crate) struct Link {
    pub(crate) url: String,
    pub(crate) text: String,
    pub(crate) is_here: bool,
}

impl Frame {
    /// `store` is the one that the page is about.
    fn of(
        page: &str,
        title: &str,
        dashboard: &Inner,
        access: &Access,
        store: Option<&Store>,
    ) -> Self {
        let chosen = store.filter(|_| dashboard.places.len() > 1);
        let name = chosen.map_or("", |store| &store.name);
        let pages = [
            ("now", "Now"),
            ("jobs", "Jobs"),
            ("locks", "Locks"),
            ("runs", "Runs"),
            ("stores", "Stores"),
            ("audit", "Audit"),
        ];
        let is_page = |it: &str| it == page;
        let pages = pages.map(|(it, text)| Link {
            url: link(it, &[("store", if it == "stores" { "" } else { name })]),
            text: text.to_owned(),
            is_here: is_page(it),
        });
        let places = dashboard.places.iter().filter(|_| chosen.is_some());
        let stores = places.map(|place| Link {
            url: link(page, &[("store", &place.name)]),
            text: place.name.clone(),
            is_here: place.name == name,
        });
        Self {
            title: Text::of(title).plain(),
            icon: &ICON.name,
            style: &STYLE.name,
            script: &SCRIPT.name,
            pages: pages.into(),
            stores: stores.collect(),
            user: access.actor().map(|actor| Text::of(actor.user())),
            at: When::of(SystemClock.system_time()),
            is_live: false,
        }
    }

    /// A page that shows what was read at this instant.
    fn with_reading_at(mut self, at: SystemTime) -> Self {
        self.at = When::of(at);
        self
    }

    fn live(mut self) -> Self {
        self.is_live = true;
        self
    }
}

/// Redirects to the page *Now*, whatever prefix the request had, and whether or not it ended with a
/// slash.
pub(crate) async fn root(OriginalUri(uri): OriginalUri) -> Response {
    let last = uri.path().rsplit('/').next().unwrap_or_default();
    // With a dot in front, since `https:x/now` would be the URL of a host.
    let to = match last {
        "" => "now".to_owned(),
        last => format!("./{last}/now"),
    };
    (StatusCode::SEE_OTHER, [(LOCATION, to)]).into_response()
}

/// A parameter of a form that was left empty is as if it were missing.
pub(crate) fn given(parameter: Option<&String>) -> Option<&str> {
    parameter.map(|it| it.trim()).filter(|it| !it.is_empty())
}
