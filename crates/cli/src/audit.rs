//! What operators do to locks, as the journal keeps it.

use std::sync::Arc;

use shedlock::{Actor, Journal, LockName, SystemClock};
use shedlock_core::shown::record_action;
pub(crate) use shedlock_core::shown::taken_from;
use shedlock_core::within;

use crate::journal::FLUSH;
use crate::output::{self, visible};
use crate::store::Store;
use crate::terminal::Terminal;
use crate::user;

/// Records an operator's actions, if the store has a journal.
pub(crate) struct Trail {
    is_required: bool,
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
}

impl Trail {
    pub(crate) fn of(store: &Store, terminal: Terminal) -> Self {
        Self {
            is_required: store.has_own_journal(),
            journal: store.journal(),
            terminal,
        }
    }

    /// Records them in this journal.
    pub(crate) fn in_journal(journal: Arc<dyn Journal>, terminal: Terminal) -> Self {
        Self {
            is_required: true,
            journal: Some(journal),
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
        let write = record_action(&*journal, actor, what, &action.detail, action.reason);
        let why = match within(&SystemClock, FLUSH, write).await {
            Some(Ok(true)) => {
                self.journal = Some(journal);
                return;
            }
            Some(Ok(false)) if self.is_required => {
                "there is none; create it with `shedlock migrate --journal`".to_owned()
            }
            Some(Ok(false)) => return,
            Some(Err(error)) => error.to_string(),
            None => format!("no reply within {}", output::duration(FLUSH)),
        };
        self.terminal.warning(&format!(
            "{}: done, but the journal may not show it: {why}",
            visible(action.name.as_str())
        ));
    }
}
