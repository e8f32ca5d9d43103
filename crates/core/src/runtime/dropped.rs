//! A lock that is dropped without a release.

use std::sync::Arc;

use shedlock_support::spawn;

use super::{Handed, Held, Patience, Release};
use crate::contract::{Event, NotUnlocked};

/// Gives the lock back in the background when it is dropped. Call [`defuse`](Self::defuse) if the
/// lock was given back explicitly.
#[derive(Debug)]
pub(crate) struct ReleaseOnDrop(Option<Arc<Held>>);

impl ReleaseOnDrop {
    pub(crate) fn new(held: Arc<Held>) -> Self {
        Self(Some(held))
    }

    pub(crate) fn defuse(mut self) {
        self.0 = None;
    }
}

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        let Some(held) = self.0.take() else { return };
        if held.state().is_given_back() {
            return;
        }
        // Also if a release was begun and dropped: an unlock may be repeated, and reports the same
        // end of the slot.
        held.state().release(&held.drop_request());
        let handed = held.hand_over();
        let behind = Behind { held, handed };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        spawn(&runtime, async move { behind.give_back().await });
    }
}

/// A release in the background. If there is no runtime, or it shuts down before, the duties do it.
struct Behind {
    held: Arc<Held>,
    handed: Option<Handed>,
}

impl Behind {
    async fn give_back(mut self) {
        let request = self.held.state().release_request();
        let release = self.held.give_back(&request, Patience::Background).await;
        match self.handed.take() {
            Some(handed) if !matches!(release, Release::Failed(_)) => handed.done(),
            _ => {}
        }
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        if self.held.state().is_given_back() {
            return;
        }
        if self.handed.is_none() {
            // Its spawned tasks may be gone with the runtime.
            self.handed = self.held.hand_over();
        }
        let why = match &self.handed {
            Some(_) => NotUnlocked::HandedOver,
            None => NotUnlocked::NoRuntime,
        };
        self.held.report(|lease| Event::UnlockFailed { lease, why });
    }
}
