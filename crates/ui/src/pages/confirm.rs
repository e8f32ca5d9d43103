//! The page of an action, with its form.

use askama::Template;
use axum::Extension;
use axum::extract::Query;
use axum::response::Response;
use serde::Deserialize;
use shedlock_core::LockName;

use super::locks::LockRow;
use super::{Frame, Shared, given};
use crate::Access;
use crate::act::Action;
use crate::components::{Text, link};
use crate::failure::{Failure, render};

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
    back: String,
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
    let store = dashboard.store(given(parameters.store.as_ref()))?;
    let action = Action::parse(&parameters.action)?;
    let name = LockName::new(&parameters.name)?;
    let lock = store.read(store.provider.inspect(&name)).await?;
    let owner = lock.as_ref().and_then(|lock| lock.owner.clone());
    Ok(render(&Page {
        frame: Frame::of("act", action.title(), &dashboard, &access, None),
        title: action.title(),
        action: action.word(),
        store: store.name.clone(),
        shown_name: Text::of(name.as_str()),
        owner: owner.unwrap_or_default(),
        lock: lock.as_ref().map(|lock| LockRow::of(store, lock)),
        back: link("job", &[("store", &store.name), ("name", name.as_str())]),
        name: parameters.name,
    }))
}
