//! A lock that is dropped without a release.

use std::sync::Arc;

use super::Held;
use crate::Event;

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
        if held.is_given_back() {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                tracing::debug!(
                    lock = held.name().as_str(),
                    "dropped: unlocking in the background"
                );
                // Also if a release was begun and dropped: an unlock may be repeated, and reports
                // the same end of the slot.
                held.claim_release(&held.drop_request());
                let request = held.release_request();
                let behind = Behind(held);
                runtime.spawn(async move {
                    behind.0.give_back(&request).await;
                });
            }
            Err(_) => {
                tracing::warn!(
                    lock = held.name().as_str(),
                    "dropped outside a runtime; the lock will be free when lock_at_most_for has passed"
                );
                held.emit(|lease| Event::UnlockFailed { lease });
            }
        }
    }
}

/// A release in the background, which may never run if the runtime shuts down.
struct Behind(Arc<Held>);

impl Drop for Behind {
    fn drop(&mut self) {
        if !self.0.is_given_back() {
            tracing::warn!(
                lock = self.0.name().as_str(),
                owner = self.0.owner().as_str(),
                "the runtime shut down before the unlock; the lock will be free when \
                 lock_at_most_for has passed"
            );
            self.0.emit(|lease| Event::UnlockFailed { lease });
        }
    }
}
