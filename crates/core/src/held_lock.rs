//! A lock in the hand.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::runtime::{Held, KeepAlive, ReleaseOnDrop};
use crate::{Error, ExtendRequest, Lease, LockName, Owner, Release, Slot, UnlockRequest};

/// A lock that is held, to be given back by [`unlock`](Self::unlock).
///
/// Dropped, it is given back in the background, if there is a tokio runtime; otherwise it is free
/// when lock_at_most_for is over.
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
#[must_use = "dropped, the lock is given back at once"]
pub struct HeldLock {
    held: Arc<Held>,
    /// Dropped before the release: nothing extends a lease that is given back.
    pub(crate) keep_alive: Option<KeepAlive>,
    release: ReleaseOnDrop,
}

impl HeldLock {
    pub(crate) fn new(held: Arc<Held>) -> Self {
        Self {
            release: ReleaseOnDrop::new(held.clone()),
            keep_alive: None,
            held,
        }
    }

    /// The lock.
    pub fn name(&self) -> &LockName {
        self.held.name()
    }

    /// The owner of this lease.
    pub fn owner(&self) -> &Owner {
        self.held.owner()
    }

    /// The fencing token, where the store keeps one.
    pub fn fencing_token(&self) -> Option<u64> {
        self.held.fencing_token()
    }

    /// The slot that was claimed with the lock.
    pub fn slot(&self) -> Option<Slot> {
        self.held.slot()
    }

    /// Which attempt at its slot this is, from 1, where the slot must not be lost.
    pub fn slot_attempt(&self) -> Option<u32> {
        self.held.slot_attempt()
    }

    /// The lease as the provider granted or last extended it.
    pub fn lease(&self) -> Lease {
        self.held.lease()
    }

    /// When the lease ends in the store, by the store's clock, where the store tells.
    pub fn locked_until(&self) -> Option<SystemTime> {
        self.held.locked_until()
    }

    /// How long the lease lasts for us, the margin taken off: zero when it is lost.
    pub fn time_left(&self) -> Duration {
        self.held.time_left()
    }

    /// True once the lease has ended, or may have.
    pub fn is_lost(&self) -> bool {
        self.held.lost().is_some()
    }

    /// Makes the lease end as asked, counted from now.
    ///
    /// # Errors
    /// As [`CurrentLock::extend`](crate::CurrentLock::extend).
    pub async fn extend(&self, request: &ExtendRequest) -> Result<(), Error> {
        self.held.extend(request).await
    }

    /// Gives the lock back: free at once, or when lock_at_least_for is over. A slot that was claimed
    /// with it is done; [`fail`](Self::fail) and [`unlock_with`](Self::unlock_with) say otherwise,
    /// and dropping leaves it open.
    ///
    /// A failing store is asked again while the lease lasts. Dropped before it is done, the unlock
    /// may or may not have reached the store; the lock is free when lock_at_most_for is over.
    pub async fn unlock(self) -> Release {
        let request = self.held.unlock_request(true);
        self.unlock_with(&request).await
    }

    /// Gives the lock back after work that failed: a slot that must not be lost is tried again after
    /// its backoff. Otherwise as [`unlock`](Self::unlock).
    pub async fn fail(self) -> Release {
        let request = self.held.unlock_request(false);
        self.unlock_with(&request).await
    }

    /// Gives the lock back as the request says; otherwise as [`unlock`](Self::unlock).
    pub async fn unlock_with(self, request: &UnlockRequest) -> Release {
        let Self {
            held,
            keep_alive,
            release,
        } = self;
        drop(keep_alive);
        let released = held.release(request).await;
        release.defuse();
        released
    }
}

impl fmt::Debug for HeldLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HeldLock").field(&self.held).finish()
    }
}
