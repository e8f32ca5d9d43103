//! *Audit*: what operators did.

use askama::Template;
use axum::Extension;
use axum::extract::Query;
use axum::response::Response;
use serde::Deserialize;
use shedlock_core::{AuditRecord, AuditRequest, RunId};
use shedlock_journal::view::done;

use super::{Frame, ROWS, Shared, given};
use crate::Access;
use crate::components::{Pager, Text, When, link};
use crate::failure::{Failure, render};
use crate::reading;
use crate::store::Store;

/// The actions that are wanted.
#[derive(Deserialize)]
pub(crate) struct Parameters {
    store: Option<String>,
    name: Option<String>,
    /// The last action of the previous page.
    before: Option<String>,
}

#[derive(Template)]
#[template(path = "audit.html")]
struct Page {
    frame: Frame,
    rows: Vec<ActionRow>,
    store: String,
    name: String,
    pager: Pager,
    no_journal: Option<Text>,
}

/// What the pages show of an action.
pub(crate) struct ActionRow {
    pub(crate) at: When,
    pub(crate) done: Text,
    pub(crate) url: String,
    pub(crate) name: Text,
    pub(crate) by: Text,
    pub(crate) is_authenticated: bool,
    pub(crate) detail: Text,
    pub(crate) reason: Option<Text>,
}

impl ActionRow {
    pub(crate) fn of(store: &Store, action: &AuditRecord) -> Self {
        Self {
            at: When::of(action.at),
            done: Text::of(done(action)),
            url: link("job", &[("store", &store.name), ("name", &action.name)]),
            name: Text::of(&action.name),
            by: Text::of(action.actor.user()),
            is_authenticated: action.actor.is_authenticated(),
            detail: Text::long(&action.detail),
            reason: action.reason.as_deref().map(Text::long),
        }
    }
}

impl Parameters {
    pub(crate) fn store(&self) -> Option<&str> {
        given(self.store.as_ref())
    }

    pub(crate) fn request(&self) -> AuditRequest {
        let mut request = AuditRequest::new();
        if let Some(name) = given(self.name.as_ref()) {
            request = request.with_name(name);
        }
        if let Some(before) = given(self.before.as_ref()) {
            request = request.with_before(RunId::from_text(before));
        }
        request
    }
}

pub(crate) async fn audit(
    dashboard: Shared,
    Extension(access): Extension<Access>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Failure> {
    let store = dashboard.store(parameters.store()).await?;
    let request = parameters.request().with_limit(ROWS);
    let actions = store.read(reading::actions(store, &request)).await?;
    let has_journal = actions.is_some();
    let actions = actions.unwrap_or_default();
    let name = given(parameters.name.as_ref()).unwrap_or_default();
    let page = |before: &str| {
        let of = [("store", &*store.name), ("name", name), ("before", before)];
        link("audit", &of)
    };
    Ok(render(&Page {
        frame: Frame::of("audit", "Audit", &dashboard, &access, Some(store)),
        pager: Pager::of(
            given(parameters.before.as_ref()),
            &actions,
            |action| action.id.as_str(),
            page,
        ),
        rows: actions.iter().map(|it| ActionRow::of(store, it)).collect(),
        store: store.name.clone(),
        name: name.to_owned(),
        no_journal: (!has_journal).then(|| Text::long(&store.why_no_journal())),
    }))
}
