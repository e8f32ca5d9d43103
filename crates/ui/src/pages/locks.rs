//! *Locks*: a page of all locks, also without a journal.

use askama::Template;
use axum::Extension;
use axum::extract::Query;
use axum::response::Response;
use shedlock_core::{LockRecord, Slot};

use super::{Frame, Listed, ROWS, Shared, given};
use crate::Access;
use crate::components::{Badge, LeaseBar, Pager, Text, When, link};
use crate::failure::{Failure, render};
use crate::reading;
use crate::store::Store;

#[derive(Template)]
#[template(path = "locks.html")]
struct Page {
    frame: Frame,
    rows: Vec<LockRow>,
    pager: Pager,
    /// Why there is more in no other page.
    no_journal: Option<Text>,
}

/// What the pages show of a lock.
pub(crate) struct LockRow {
    pub(crate) url: String,
    pub(crate) name: Text,
    pub(crate) badge: Badge,
    pub(crate) owner: Option<Text>,
    /// Who has paused it, and why.
    pub(crate) pause: Option<Text>,
    pub(crate) lease: Option<LeaseBar>,
    pub(crate) locked_at: Option<When>,
    pub(crate) locked_until: Option<When>,
    pub(crate) token: String,
    pub(crate) slot: Option<When>,
    pub(crate) slot_done: Option<When>,
    pub(crate) attempts: String,
}

impl LockRow {
    pub(crate) fn of(store: &Store, lock: &LockRecord) -> Self {
        let number = |number: Option<u64>| number.map(|it| it.to_string()).unwrap_or_default();
        let slot = |slot: Option<Slot>| slot.map(|slot| When::of(slot.instant()));
        let name = lock.name.as_str();
        Self {
            url: link("job", &[("store", &store.name), ("name", name)]),
            name: Text::of(name),
            badge: Badge::of_lock(lock.state),
            owner: lock.owner.as_deref().map(Text::of),
            pause: lock.pause().map(|pause| Text::of(&pause.to_string())),
            lease: LeaseBar::of(lock),
            locked_at: lock.locked_at.map(When::of),
            locked_until: lock.locked_until.map(When::of),
            token: number(lock.fencing_token),
            slot: slot(lock.last_slot),
            slot_done: slot(lock.last_slot_done),
            attempts: number(lock.slot_attempts.map(u64::from)),
        }
    }
}

pub(crate) async fn locks(
    dashboard: Shared,
    Extension(access): Extension<Access>,
    Query(parameters): Query<Listed>,
) -> Result<Response, Failure> {
    let store = dashboard.store(given(parameters.store.as_ref())).await?;
    let after = given(parameters.after.as_ref());
    let read = async {
        let locks = reading::locks(&*store.provider, after, ROWS).await?;
        Ok((locks, store.existing_journal().await?.is_some()))
    };
    let (locks, has_journal) = store.read(read).await?;
    let page = |after: &str| link("locks", &[("store", &store.name), ("after", after)]);
    Ok(render(&Page {
        frame: Frame::of("locks", "Locks", &dashboard, &access, Some(store)).live(),
        pager: Pager::of(after, &locks, |lock| lock.name.as_str(), page),
        rows: locks.iter().map(|lock| LockRow::of(store, lock)).collect(),
        no_journal: (!has_journal).then(|| Text::long(&store.why_no_journal())),
    }))
}
