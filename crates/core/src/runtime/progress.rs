//! An unlock that the duties and a runtime may both send.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// How far the duties are with it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    state: Mutex<State>,
    answered: Notify,
}

#[derive(Debug, Default)]
struct State {
    known: Known,
    is_in_transit: bool,
}

/// What the duties know of the lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Known {
    /// They have not ended it.
    #[default]
    NotEnded,
    /// They may have ended it.
    Unclear,
    /// They have ended it.
    Ended,
}

impl Progress {
    /// The unlock is sent now, and in transit until what is returned is dropped.
    pub(crate) fn send(&self) -> InTransit<'_> {
        self.state().is_in_transit = true;
        InTransit {
            progress: self,
            known: Known::Unclear,
        }
    }

    /// What is known once no unlock is in transit. Cancellation safe.
    pub(crate) async fn known(&self) -> Known {
        loop {
            let answered = self.answered.notified();
            if let Some(known) = self.settled() {
                return known;
            }
            answered.await;
        }
    }

    fn settled(&self) -> Option<Known> {
        let state = self.state();
        (!state.is_in_transit).then_some(state.known)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An unlock without a reply.
#[derive(Debug)]
pub(crate) struct InTransit<'a> {
    progress: &'a Progress,
    known: Known,
}

impl InTransit<'_> {
    /// Its reply says this.
    pub(crate) fn answered(mut self, known: Known) {
        self.known = known;
    }
}

impl Drop for InTransit<'_> {
    fn drop(&mut self) {
        let mut state = self.progress.state();
        state.known = state.known.max(self.known);
        state.is_in_transit = false;
        drop(state);
        self.progress.answered.notify_waiters();
    }
}
