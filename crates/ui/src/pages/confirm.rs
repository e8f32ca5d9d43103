//! The page of an action, with its form.

use askama::Template;
use axum::Extension;
use axum::extract::Query;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use shedlock_core::LockName;

use super::locks::LockRow;
use super::{Frame, Shared, given};
use crate::Access;
use crate::act::{Fields, LONGEST_REASON, is_known};
use crate::action::Action;
use crate::components::{Text, link};
use crate::failure::{Failure, render};
use crate::store::Store;

#[derive(Deserialize)]
pub(crate) struct Parameters {
    store: Option<String>,
    name: String,
    #[serde(rename = "do")]
    action: String,
}

#[derive(Template)]
#[template(path = "confirm.html")]
struct Page {
    frame: Frame,
    title: &'static str,
    action: &'static str,
    store: String,
    /// The name as the form sends it.
    name: String,
    shown_name: Text,
    owner: String,
    lock: Option<LockRow>,
    /// A pause of a name that nothing is known of must be confirmed.
    is_unknown: bool,
    longest_reason: usize,
    back: String,
    /// What the operator wrote, if it was refused.
    fields: Fields,
    wrong: Option<(&'static str, Text)>,
}

impl Page {
    /// What is wrong with this field of the form.
    fn wrong_at(&self, field: &str) -> Option<&Text> {
        let wrong = self.wrong.as_ref();
        let (_, text) = wrong.filter(|(wrong, _)| *wrong == field)?;
        Some(text)
    }
}

pub(crate) async fn confirm(
    dashboard: Shared,
    Extension(access): Extension<Access>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Failure> {
    if access.actor().is_none() {
        return Err(Failure::forbidden(
            "you may only read; sign in as a user who may operate",
        ));
    }
    let store = dashboard.store(given(parameters.store.as_ref())).await?;
    let action = Action::parse(&parameters.action)?;
    let name = LockName::new(&parameters.name)?;
    let fields = Fields::default();
    let page = page(&dashboard, &access, store, (action, &name), fields, None).await?;
    Ok(render(&page))
}

/// The form once more, with what the operator wrote, and with what is wrong.
pub(crate) async fn again(
    dashboard: &Shared,
    access: &Access,
    store: &Store,
    what: (Action, &LockName),
    fields: Fields,
    failure: Failure,
) -> Result<Response, Failure> {
    let field = failure.field.unwrap_or_default();
    let wrong = Some((field, Text::long(&failure.message)));
    match page(dashboard, access, store, what, fields, wrong).await {
        Ok(page) => Ok((failure.status, render(&page)).into_response()),
        // It says at least why nothing was done.
        Err(_) => Err(failure),
    }
}

async fn page(
    dashboard: &Shared,
    access: &Access,
    store: &Store,
    (action, name): (Action, &LockName),
    fields: Fields,
    wrong: Option<(&'static str, Text)>,
) -> Result<Page, Failure> {
    let lock = store.read(store.provider.inspect(name)).await?;
    let owner = lock.as_ref().and_then(|lock| lock.owner.clone());
    Ok(Page {
        frame: Frame::of("act", action.title(), dashboard, access, None),
        title: action.title(),
        action: action.word(),
        store: store.name.clone(),
        shown_name: Text::of(name.as_str()),
        owner: owner.unwrap_or_default(),
        lock: lock.as_ref().map(|lock| LockRow::of(store, lock)),
        is_unknown: action == Action::Pause && !is_known(store, name).await?,
        longest_reason: LONGEST_REASON,
        back: link("job", &[("store", &store.name), ("name", name.as_str())]),
        name: name.as_str().to_owned(),
        fields,
        wrong,
    })
}
