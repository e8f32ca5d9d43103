//! The locks that this process holds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Deadline, LeaseClock, Reading};
use crate::{
    Attempt, AttemptRequest, BoxFuture, Error, ExtendRequest, Extension, Lease, LockProvider,
    Owner, Unlock, UnlockRequest,
};

/// Tracks the leases that were taken through it and still run: for a health page, or to give all of
/// them back at shutdown.
///
/// Clones share the list. A lease is removed from it when it is unlocked, is lost, or has ended. A
/// lease whose unlock failed stays until it has ended.
///
/// ```
/// use shedlock::{Attempt, Executor, LockConfig, MemoryProvider, TrackingProvider};
/// use std::sync::Arc;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let tracking = TrackingProvider::new(Arc::new(MemoryProvider::new()));
/// let executor = Executor::new(Arc::new(tracking.clone()));
/// let held = executor.lock(&LockConfig::new("payroll").lock_at_most_for("10m")).await?;
/// assert_eq!(tracking.held()[0].name().as_str(), "payroll");
/// if let Attempt::Acquired(lock) = held {
///     lock.unlock().await;
/// }
/// assert!(tracking.held().is_empty());
/// # Ok::<(), shedlock::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct TrackingProvider {
    inner: Arc<dyn LockProvider>,
    clock: LeaseClock,
    held: Arc<Mutex<HashMap<Owner, Tracked>>>,
}

#[derive(Debug)]
struct Tracked {
    lease: Lease,
    over: Deadline,
}

impl TrackingProvider {
    /// Wraps a provider.
    pub fn new(inner: Arc<dyn LockProvider>) -> Self {
        Self::over(inner, LeaseClock::system())
    }

    /// Wraps a provider. This clock determines when leases have ended.
    pub fn with_clock(inner: Arc<dyn LockProvider>, clock: Arc<dyn Clock>) -> Self {
        Self::over(inner, LeaseClock::new(clock))
    }

    fn over(inner: Arc<dyn LockProvider>, clock: LeaseClock) -> Self {
        Self {
            inner,
            clock,
            held: Arc::default(),
        }
    }

    /// Returns the leases that run, in the order of their names.
    pub fn held(&self) -> Vec<Lease> {
        let now = self.clock.read();
        let mut tracked = self.lock();
        tracked.retain(|_, tracked| !tracked.over.has_passed(now));
        let mut leases: Vec<Lease> = tracked
            .values()
            .map(|tracked| tracked.lease.clone())
            .collect();
        drop(tracked);
        leases.sort_by(|a, b| (a.name(), a.owner().as_str()).cmp(&(b.name(), b.owner().as_str())));
        leases
    }

    fn track(&self, lease: &Lease, asked: Reading, lock_at_most_for: Duration) {
        let over = asked.deadline(lock_at_most_for);
        let mut held = self.lock();
        // An extension never shortens a lease.
        let over = held
            .get(lease.owner())
            .map_or(over, |known| over.unless_earlier(known.over));
        let lease = lease.clone();
        held.insert(lease.owner().clone(), Tracked { lease, over });
    }

    fn forget(&self, owner: &Owner) {
        self.lock().remove(owner);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Owner, Tracked>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LockProvider for TrackingProvider {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(async move {
            let asked = self.clock.read();
            let answer = self.inner.attempt(request).await?;
            if let Attempt::Acquired(lease) = &answer {
                self.track(lease, asked, request.lock_at_most_for());
            }
            Ok(answer)
        })
    }

    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let ended = self.inner.withdraw(request).await?;
            self.forget(request.owner());
            Ok(ended)
        })
    }

    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        Box::pin(async move {
            let asked = self.clock.read();
            let answer = self.inner.extend(lease, request).await?;
            match &answer {
                Extension::Extended(lease) => self.track(lease, asked, request.lock_at_most_for()),
                Extension::Lost => self.forget(lease.owner()),
            }
            Ok(answer)
        })
    }

    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        Box::pin(async move {
            let answer = self.inner.unlock(lease, request).await?;
            self.forget(lease.owner());
            Ok(answer)
        })
    }

    fn for_duties(&self) -> Option<BoxFuture<'_, Result<Arc<dyn LockProvider>, Error>>> {
        let opened = self.inner.for_duties()?;
        Some(Box::pin(async move {
            let inner = opened.await?;
            Ok(Arc::new(Self {
                inner,
                ..self.clone()
            }) as Arc<dyn LockProvider>)
        }))
    }

    crate::delegate!(inner except attempt, withdraw, extend, unlock, for_duties);
}
