//! What a mistake works with.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use shedlock_core::admin::Seen;
use shedlock_core::{
    Attempt, AttemptRequest, Clock, Error, ErrorKind, ForceUnlockRequest, Lease, LockName,
    LockProvider, LockRecord, LockState, Moment, Owner, ResumeRequest, Slot, UnlockRequest, admin,
};
use shedlock_provider::MemoryProvider;

use super::clock::WrongClock;
use crate::SeededRng;

/// Access to a store's records past its provider, for mistakes that a correct provider cannot be
/// brought to make.
pub trait Records: fmt::Debug + Send + Sync {
    /// Writes a record. Its token and its slot stay as they are.
    fn write(&self, name: &LockName, owner: &str, from: SystemTime, until: SystemTime);

    /// Deletes a record.
    fn remove(&self, name: &LockName);
}

impl Records for MemoryProvider {
    fn write(&self, name: &LockName, owner: &str, from: SystemTime, until: SystemTime) {
        self.write_as_shedlock(name, owner, from, until);
    }

    fn remove(&self, name: &LockName) {
        self.delete(name);
    }
}

/// What the clients of one store share. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<Memory>>);

/// What mistaken clients remember.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) names: HashSet<LockName>,
    pub(super) owners: HashSet<String>,
    pub(super) tokens: HashMap<LockName, u64>,
    pub(super) slots: HashMap<LockName, Slot>,
    /// How many locks were acquired.
    pub(super) acquisitions: u64,
    /// The last attempt, and when it was made.
    pub(super) asked: Option<(Owner, Moment)>,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a mistake is made: one client of a store.
pub(crate) struct Site {
    /// The correct provider.
    pub(super) inner: Arc<dyn LockProvider>,
    pub(super) records: Option<Arc<dyn Records>>,
    /// Shows the client's real time, and waits.
    pub(super) clock: Arc<dyn Clock>,
    /// The clock that the client's executor reads.
    pub(super) wrong_clock: Arc<WrongClock>,
    pub(super) rng: Mutex<SeededRng>,
    /// What this client remembers, and what all clients of the store do.
    pub(super) own: Shared,
    pub(super) shared: Shared,
}

impl Site {
    pub(super) fn one_in(&self, many: u64) -> bool {
        self.rng().one_in(many)
    }

    fn rng(&self) -> MutexGuard<'_, SeededRng> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn sleep(&self, duration: Duration) {
        self.clock.sleep_until(self.clock.now() + duration).await;
    }

    /// Waits long enough for other clients to take their first step too.
    pub(super) async fn between_two_steps(&self) {
        self.sleep(Duration::from_millis(20)).await;
    }

    /// The store's records, for a mistake that no provider makes by itself.
    pub(super) fn records(&self) -> Result<&dyn Records, Error> {
        self.records.as_deref().ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                "the harness gives this mistake no access to the records",
            )
        })
    }

    /// The time at which this record was read.
    pub(super) fn read_at(&self, record: &LockRecord) -> SystemTime {
        record.read_at.unwrap_or_else(|| self.clock.system_time())
    }

    /// An owner that no client knows.
    pub(super) fn another_owner(&self) -> Result<Owner, Error> {
        let random = self.rng().number();
        Owner::parse(&format!("another/1/{random:016x}"))
    }

    /// The owner that holds the lock.
    pub(super) async fn holder(&self, name: &LockName) -> Result<Option<Owner>, Error> {
        let record = self.inner.inspect(name).await?;
        let held = record.filter(|record| record.state == LockState::Held);
        let owner = held.and_then(|record| record.owner);
        owner.map(|owner| Owner::parse(&owner)).transpose()
    }

    pub(super) async fn force(&self, name: &LockName) -> Result<(), Error> {
        let request = ForceUnlockRequest::new(name.clone());
        admin::force_unlock(&*self.inner, &request).await.map(drop)
    }

    pub(super) async fn end_pause(&self, name: &LockName) -> Result<(), Error> {
        let request = ResumeRequest::new(name.clone());
        admin::resume(&*self.inner, &request).await.map(drop)
    }

    /// Reads the record as it is shown wrongly.
    pub(super) async fn shown(
        &self,
        name: &LockName,
        show: impl FnOnce(&mut LockRecord),
    ) -> Result<Option<Seen>, Error> {
        let mut seen = self.inner.look(name).await?;
        if let Some(seen) = &mut seen {
            show(&mut seen.record);
        }
        Ok(seen)
    }

    /// Lets another owner acquire and unlock the lock, so that the record no longer names the
    /// previous owner.
    pub(super) async fn another_lease(
        &self,
        name: &LockName,
        at_most: Duration,
    ) -> Result<(), Error> {
        let other = AttemptRequest::new(name.clone(), self.another_owner()?, at_most);
        if let Attempt::Acquired(lease) = self.inner.attempt(&other).await? {
            self.inner.unlock(&lease, &UnlockRequest::new()).await?;
        }
        Ok(())
    }
}

/// This attempt, made by another owner or for another time.
pub(super) fn changed(
    request: &AttemptRequest,
    owner: &Owner,
    at_most: Duration,
) -> AttemptRequest {
    let other = without_slot(request, owner, at_most).with_completion(request.completion);
    match request.slot {
        Some(slot) => other
            .with_slot(slot)
            .with_slot_tolerance(request.slot_tolerance),
        None => other,
    }
}

/// The same without its slot.
pub(super) fn without_slot(
    request: &AttemptRequest,
    owner: &Owner,
    at_most: Duration,
) -> AttemptRequest {
    let at_least = request.lock_at_least_for.min(at_most);
    AttemptRequest::new(request.name.clone(), owner.clone(), at_most)
        .with_lock_at_least_for(at_least)
        .with_timeout(request.timeout)
}

/// What the store granted to a changed attempt, as the lease that was asked for.
pub(super) fn passed_on(request: &AttemptRequest, answer: Attempt) -> Attempt {
    match answer {
        Attempt::Acquired(stored) => Attempt::Acquired(as_lease_of(request, &stored)),
        answer => answer,
    }
}

fn as_lease_of(request: &AttemptRequest, stored: &Lease) -> Lease {
    let mut lease = Lease::granted(request)
        .with_slot_attempt(stored.slot_attempt())
        .with_raw_state(stored.raw_state().cloned());
    if let Some(token) = stored.fencing_token() {
        lease = lease.with_fencing_token(token);
    }
    if let Some(at) = stored.acquired_at() {
        lease = lease.with_acquired_at(at);
    }
    match stored.locked_until() {
        Some(until) => lease.with_locked_until(until),
        None => lease,
    }
}

/// This lease, as if this owner had it.
pub(super) fn lease_of(lease: &Lease, owner: Owner) -> Lease {
    with_at_least(lease, owner, lease.lock_at_least_for())
}

/// This lease, as if this owner had it and had asked for this at-least.
pub(super) fn with_at_least(lease: &Lease, owner: Owner, at_least: Duration) -> Lease {
    let at_most = lease.lock_at_most_for();
    let mut request = AttemptRequest::new(lease.name().clone(), owner, at_most)
        .with_lock_at_least_for(at_least.min(at_most));
    if let Some(slot) = lease.slot() {
        request = request.with_slot(slot);
    }
    as_lease_of(&request, lease)
}
