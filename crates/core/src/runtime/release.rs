//! The end of a lease.

use std::iter;
use std::time::Duration;

use super::{Call, Errand, Handed, Held, Patience};
use crate::clock::NotBefore;
use crate::contract::{Error, Event, LostReason, NotUnlocked, UnlockRequest};

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
    /// The reply to an unlock was lost, and when it was repeated another owner had the lock, or had had it. Whether that
    /// owner's lease began before the lock was given back cannot be told from the record: the run may have been
    /// overlapped.
    MaybeOverlapped,
    /// The unlock did not succeed, or not within the 10 s that the caller of a task waits for it. After a task it goes on in
    /// the background while the lease lasts, unless the store's client is closed. At the latest, the lock is free when
    /// `lock_at_most_for` has passed.
    Failed(Error),
}

impl Held {
    /// Gives the lock back once, and logs any failure. If it is not given back then, which happens
    /// to [`Patience::Caller`] only, the release must go on in the background.
    pub(crate) async fn release(&self, request: &UnlockRequest, patience: Patience) -> Release {
        if !self.state().release(request) {
            return Release::Released;
        }
        self.give_back(request, patience).await
    }

    /// Never gives the lock back: its lease ends by itself.
    pub(crate) fn leave(&self) {
        if self.state().release(&UnlockRequest::new()) {
            let why = NotUnlocked::Left;
            self.report(|lease| Event::UnlockFailed { lease, why });
        }
    }

    /// Hands the release to the duties, in case that the current runtime leaves it undone. `None` if they cannot do it: a
    /// task that was spawned with the lock may still run.
    pub(super) fn hand_over(&self) -> Option<Handed> {
        if !self.state().is_idle() {
            return None;
        }
        self.context().hand_over(|context| {
            let lease = self.lease();
            let at_most = lease.lock_at_most_for();
            let now = context.clock.now();
            let from = NotBefore::after(now, Duration::ZERO);
            self.state().send_unlock(now);
            let unlock = (from, Call::Unlock(lease, self.state().release_request()));
            let strays = self.strays(now);
            let withdrawals = strays.iter().flat_map(|strays| strays.calls(context));
            let calls = iter::once(unlock).chain(withdrawals);
            let errand = Errand::new(context, at_most, calls, None);
            self.state().share_unlock(errand.progress());
            errand
        })
    }

    pub(super) async fn give_back(&self, request: &UnlockRequest, patience: Patience) -> Release {
        self.stop_spawned().await;
        let release = self.unlock(request, patience).await;
        match &release {
            Release::Failed(error)
                if patience == Patience::Caller && !error.is_final() && self.lasts() =>
            {
                let lease = self.lease();
                let lease = &lease;
                self.context()
                    .report(&Event::UnlockDelayed { lease, error });
                return release;
            }
            _ => self.set_given_back(),
        }
        match &release {
            Release::Released | Release::Reentrant => self.emit(|lease| Event::Unlocked { lease }),
            Release::Lost => self.mark_lost(LostReason::NotHeldInStore),
            Release::MaybeOverlapped => self.mark_lost(LostReason::MaybeOverlapped),
            Release::Failed(error) => {
                let (lease, why) = (&self.lease(), NotUnlocked::Failed(error));
                self.context().report(&Event::UnlockFailed { lease, why });
            }
        }
        release
    }
}
