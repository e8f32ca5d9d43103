//! What operators do to locks, as the journal keeps it.

use std::sync::Arc;
use std::time::SystemTime;

use shedlock::{Actor, Journal, LockName, LockProvider, SystemClock};
use shedlock_core::within;
use shedlock_journal::view::record_action;
pub(crate) use shedlock_journal::view::taken_from;

use crate::journal::{FLUSH, why_none};
use crate::output::{self, visible};
use crate::store::Store;
use crate::terminal::Terminal;
use crate::user;

/// Records an operator's actions, if the store has a journal.
pub(crate) struct Trail {
    /// What to say if there is no journal, if one is required.
    absent: Option<String>,
    locks: Arc<dyn LockProvider>,
    journal: Option<Arc<dyn Journal>>,
    terminal: Terminal,
}

/// What was done to a lock.
pub(crate) struct Action<'a> {
    /// One word, as journals keep it.
    pub(crate) what: &'static str,
    pub(crate) name: &'a LockName,
    pub(crate) detail: String,
    /// Empty if none was given.
    pub(crate) reason: &'a str,
    /// When the pause ends, if it is one.
    pub(crate) until: Option<SystemTime>,
}

impl Trail {
    pub(crate) fn of(store: &Store, terminal: Terminal) -> Self {
        let absent = || why_none(&store.journal_place());
        Self {
            absent: store.has_own_journal().then(absent),
            locks: store.provider().clone(),
            journal: store.journal(),
            terminal,
        }
    }

    /// Records an action that was done. If that fails, it prints a warning and records no more: the
    /// locks matter more than their history.
    pub(crate) async fn record(&mut self, action: Action<'_>) {
        let Some(journal) = self.journal.take() else {
            return;
        };
        let actor = Actor::Claimed(user::at_host());
        let what = (action.what, action.name);
        let why = (action.reason, action.until);
        let write = record_action(&*self.locks, &*journal, actor, what, &action.detail, why);
        let why = match within(&SystemClock, FLUSH, write).await {
            Some(Ok(true)) => {
                self.journal = Some(journal);
                return;
            }
            Some(Ok(false)) => match self.absent.take() {
                Some(why) => why,
                None => return,
            },
            // What was not written is the record, not the action.
            Some(Err(error)) => {
                let error = error.without_effect();
                error.cause(action.name.as_str()).to_string()
            }
            None => format!("no reply within {}", output::duration(FLUSH)),
        };
        self.terminal.warning(&format!(
            "{}: done, so do not repeat it; its record in the journal may be missing: {why}",
            visible(action.name.as_str())
        ));
    }
}
