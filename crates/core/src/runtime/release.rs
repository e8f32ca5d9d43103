//! The end of a lease.

use std::sync::Arc;

use super::{Held, LostReason};
use crate::{Error, Event, UnlockRequest};

/// How the lock was given back after its task.
#[derive(Debug)]
#[non_exhaustive]
pub enum Release {
    /// The lock was unlocked. `lock_at_least_for` may still keep it taken.
    Released,
    /// Nothing to give back: the task ran inside a lock of the same name, which is still held.
    Reentrant,
    /// The store reported that the lease was no longer ours.
    Lost,
    /// The unlock did not succeed. The lock is free when `lock_at_most_for` has passed.
    Failed(Error),
}

impl Held {
    /// Gives the lock back once, and logs any failure.
    pub(crate) async fn release(&self, request: &UnlockRequest) -> Release {
        if !self.claim_release(request) {
            return Release::Released;
        }
        self.give_back(request).await
    }

    async fn give_back(&self, request: &UnlockRequest) -> Release {
        self.stop_spawned().await;
        let release = self.unlock(request).await;
        self.set_given_back();
        match &release {
            Release::Released | Release::Reentrant => {
                self.emit(|lease| Event::Unlocked { lease });
                tracing::debug!(lock = self.name().as_str(), "lock released");
            }
            Release::Lost => self.mark_lost(LostReason::NotHeldInStore),
            Release::Failed(error) => {
                tracing::error!(
                    lock = self.name().as_str(),
                    owner = self.owner().as_str(),
                    error = %format_args!("{error:#}"),
                    "cannot unlock; the lock will be free when lock_at_most_for has passed"
                );
                self.emit(|lease| Event::UnlockFailed { lease });
            }
        }
        release
    }
}

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
