//! A lock that the caller holds.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::contract::{
    Error, ExtendRequest, Lease, LockName, LostReason, Owner, Slot, SlotEnd, UnlockRequest,
    error_text,
};
use crate::runtime::Release;
use crate::runtime::running::Running;
use crate::runtime::{
    Held, LookedAfter, Patience, ReleaseOnDrop, SlotWord, Unanswered, watch_deadline,
};

/// A lock that is held. Give it back with [`unlock`](Self::unlock).
///
/// If it is dropped, the lock is given back in the background: by the tokio runtime that dropped it, or over a
/// connection of the library's own if that runtime shuts down or there is none
/// ([`Capabilities::duties`](crate::Capabilities)). Otherwise the lock is free when `lock_at_most_for` has passed.
///
/// ```
/// use shedlock::{Attempt, Executor, LockConfig, MemoryProvider};
/// use std::sync::Arc;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let executor = Executor::new(Arc::new(MemoryProvider::new()));
/// let config = LockConfig::new("payroll").lock_at_most_for("10m");
/// if let Attempt::Acquired(lock) = executor.lock(&config).await? {
///     println!("{} until {:?}", lock.owner(), lock.locked_until());
///     lock.unlock().await;
/// }
/// # Ok::<(), shedlock::Error>(()) }).unwrap();
/// ```
#[must_use = "dropping it unlocks the lock at once"]
pub struct HeldLock {
    held: Arc<Held>,
    /// Reports the end before the lock is given back.
    running: Option<Running>,
    /// Dropped before the release, so that nothing extends a lease that is being given back.
    pub(crate) looked_after: Option<LookedAfter>,
    release: ReleaseOnDrop,
}

impl HeldLock {
    pub(crate) fn new(held: Arc<Held>) -> Self {
        Self {
            release: ReleaseOnDrop::new(held.clone()),
            running: None,
            looked_after: None,
            held,
        }
    }

    /// Reports the start of the work to the listeners.
    pub(crate) fn set_started(&mut self) {
        self.held.state().start();
        self.running = Some(Running::start(&self.held));
    }

    /// Returns the name of the lock.
    pub fn name(&self) -> &LockName {
        self.held.name()
    }

    /// Returns the owner of this lease.
    pub fn owner(&self) -> &Owner {
        self.held.owner()
    }

    /// Returns the fencing token, if the store keeps one.
    pub fn fencing_token(&self) -> Option<u64> {
        self.held.fencing_token()
    }

    /// Returns the slot that was claimed with the lock.
    pub fn slot(&self) -> Option<Slot> {
        self.held.slot()
    }

    /// Returns the number of this attempt at its slot, counted from 1, if the slot must not be
    /// lost.
    pub fn slot_attempt(&self) -> Option<u32> {
        self.held.slot_attempt()
    }

    /// Returns the lease as the provider granted or last extended it.
    pub fn lease(&self) -> Lease {
        self.held.lease()
    }

    /// Returns when the lease ends in the store, by the store's clock, if the store reports it.
    pub fn locked_until(&self) -> Option<SystemTime> {
        self.held.locked_until()
    }

    /// Returns how long the lease still lasts for us, with the margin subtracted; zero if it is
    /// lost.
    pub fn time_left(&self) -> Duration {
        self.held.time_left()
    }

    /// Returns the attempts of this process at the lock that the store may still receive, because
    /// their replies were lost: the one that won this lease, and earlier ones, as of a wait for the
    /// lock. This process withdraws them. Another process that gives the lock back in its place must
    /// [withdraw](crate::LockProvider::withdraw) each of them once more when its time has passed.
    pub fn unanswered(&self) -> Vec<Unanswered> {
        self.held.unanswered()
    }

    /// Returns true once the lease has ended, or may have ended.
    pub fn is_lost(&self) -> bool {
        self.held.lost().is_some()
    }

    /// Completes when the lease is lost, and returns why. Await it in one place at a time, beside
    /// the work that the lock protects. Cancellation safe.
    pub async fn lost(&self) -> LostReason {
        loop {
            watch_deadline(&self.held).await;
            match self.held.lost() {
                Some(reason) => return reason,
                // It was given back.
                None => std::future::pending().await,
            }
        }
    }

    /// Makes the lease end as requested, counted from now.
    ///
    /// # Errors
    /// As [`CurrentLock::extend`](crate::CurrentLock::extend).
    pub async fn extend(&self, request: &ExtendRequest) -> Result<(), Error> {
        self.held.extend(request).await
    }

    /// Gives the lock back: it is free at once, or when `lock_at_least_for` has passed. A slot that
    /// was claimed with it is marked as done. Use [`fail`](Self::fail) or
    /// [`unlock_with`](Self::unlock_with) to mark it differently; dropping the lock leaves the slot
    /// open.
    ///
    /// If the store fails, the unlock is retried while the lease lasts. If this future is dropped
    /// before it completes, the unlock may or may not have reached the store. The lock is then free
    /// when `lock_at_most_for` has passed.
    pub async fn unlock(self) -> Release {
        let request = self.held.unlock_request(true);
        self.unlock_with(&request).await
    }

    /// Gives the lock back after work that failed: a slot that must not be lost is tried again
    /// after its backoff. Otherwise as [`unlock`](Self::unlock).
    pub async fn fail(self) -> Release {
        let request = self.held.unlock_request(false);
        self.held.say_of_slot(SlotWord::Failed);
        self.unlock_with(&request).await
    }

    /// Gives the lock back after work that failed, with the text that listeners receive. Otherwise
    /// as [`fail`](Self::fail).
    pub async fn fail_with(self, error: impl fmt::Display) -> Release {
        self.held.fail(error_text(&error));
        self.fail().await
    }

    /// Leaves the lock taken until its lease ends, after work that may still go on and cannot be
    /// stopped, and reports to listeners that it failed with this text. Nothing extends the lease any
    /// more. Its slot stays as it is: used up, or open if it must not be lost.
    ///
    /// Listeners receive [`Event::UnlockFailed`](crate::Event::UnlockFailed).
    pub fn leave_with(self, error: impl fmt::Display) {
        let Self {
            held,
            running,
            looked_after,
            release,
        } = self;
        drop(looked_after);
        held.fail(error_text(&error));
        if let Some(running) = running {
            running.returned(None);
        }
        held.leave();
        release.defuse();
    }

    /// Gives the lock back as the request specifies. Otherwise as [`unlock`](Self::unlock).
    pub async fn unlock_with(self, request: &UnlockRequest) -> Release {
        let Self {
            held,
            running,
            looked_after,
            release,
        } = self;
        drop(looked_after);
        match request.slot_end {
            SlotEnd::Failed { .. } => held.say_of_slot(SlotWord::Failed),
            SlotEnd::Cut => held.say_of_slot(SlotWord::Cut),
            SlotEnd::NotStarted => held.say_of_slot(SlotWord::NotStarted),
            SlotEnd::Open | SlotEnd::Done { .. } => {}
        }
        if let Some(running) = running {
            running.returned(None);
        }
        let released = held.release(request, Patience::Lease).await;
        release.defuse();
        released
    }
}

impl fmt::Debug for HeldLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HeldLock").field(&self.held).finish()
    }
}
