//! The [`Store`] over a [`VersionedStore`]: its reads, its writes, and the clock that leases are
//! judged by.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::admin::{Change, Changed, LeaseChange};
use shedlock_core::{
    Attempt, AttemptRequest, Budget, Capabilities, Clock, ClockSource, ExtendRequest, Extension,
    Finding, Lease, ListRequest, LockName, LockRecord, Migration, MigrationStep, Schema,
    SystemClock,
};

use super::time::Now;
use super::{Found, Reading, Record, VersionedStore, Written};
use crate::HUNDRED_YEARS;
use crate::StoreProvider;
use crate::errors::{ROUNDS, Result, configuration};
use crate::limits::check_name_length;
use crate::list::{Part, paged};
use crate::store::{End, Ended, PROBE, Seen, Store};

/// The default for the tolerated difference between the clients' clocks: one second.
///
/// Clocks of hosts that use NTP differ by milliseconds. For a while after a restart, or if only
/// some hosts smear a leap second, they differ by some hundreds of milliseconds. One second covers
/// that. Its cost is that the lock of a crashed holder is freed a second later.
pub const DEFAULT_TOLERATED_SKEW: Duration = Duration::from_secs(1);

/// The smallest number of locks to request at a time for a list.
const FEWEST: usize = 100;

/// A record, if there is one, and the time at which it was read.
pub(crate) type Look<V> = (Option<Found<V>>, Now);

/// The outcome of a write, and the record that it wrote if it succeeded.
pub(crate) type Wrote<V> = (Changed, Option<Found<V>>);

/// The [`Store`] over a [`VersionedStore`].
#[derive(Debug)]
pub struct Versioned<S> {
    pub(crate) store: S,
    clock: Arc<dyn Clock>,
    skew: Duration,
}

impl<S: VersionedStore> Versioned<S> {
    /// Creates a store of locks over this store of records.
    pub fn new(store: S) -> Self {
        Self {
            store,
            clock: Arc::new(SystemClock),
            skew: DEFAULT_TOLERATED_SKEW,
        }
    }

    /// Sets the largest tolerated difference between the clocks of all programs that share the
    /// locks, including ShedLock's. All these programs must use the same value. It has no effect if
    /// the store reports its own time.
    ///
    /// If it is too small, two holders may hold one lock for as long as their clocks differ. If it
    /// is too large, the lock of a crashed holder is freed later, and at-most must be longer.
    #[must_use]
    pub fn with_tolerated_skew(mut self, skew: Duration) -> Self {
        self.skew = skew;
        self
    }

    /// Sets the client's clock, for tests.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Creates a provider over this store.
    pub fn provider(self) -> StoreProvider<Self> {
        StoreProvider::of(self)
    }

    /// Returns the store that keeps the records.
    pub fn records(&self) -> &S {
        &self.store
    }

    /// Reads the record, and the time at which it was read.
    pub(crate) async fn read(&self, name: &LockName) -> Result<Look<S::Version>> {
        let reading = self.store.read(name).await?;
        self.judged(reading)
    }

    pub(crate) fn judged(&self, reading: Reading<S::Version>) -> Result<Look<S::Version>> {
        let now = match self.store.store_time() {
            None => self.client_now(),
            Some(resolution) => {
                let told = reading.time.ok_or_else(|| {
                    configuration("the store's reply contains no time").advise(
                        "check whether a proxy between this client and the store removes it",
                    )
                })?;
                Now::of_store(told, resolution, self.clock.system_time())?
            }
        };
        let found = reading.found.map(|Found { record, version }| Found {
            record: record.with_token_of(self.store.revision(&version)),
            version,
        });
        Ok((found, now))
    }

    fn client_now(&self) -> Now {
        Now::of_client(self.clock.system_time(), self.skew)
    }

    /// Returns the record that the lease carries, if that is enough to act without a read: as long
    /// as its version is current, no one has changed the record.
    pub(crate) fn known(&self, lease: &Lease) -> Option<Look<S::Version>> {
        let found = lease.state::<Found<S::Version>>()?;
        if self.store.store_time().is_some() || self.store.comes_again(&found.version) {
            return None;
        }
        Some((Some(found.clone()), self.client_now()))
    }

    /// Writes, and reads back if the reply is lost. The store then holds this record, another
    /// record, or still the previous one. Only in the last case is the outcome an error, because
    /// the write may still arrive.
    pub(crate) async fn write(
        &self,
        name: &LockName,
        before: Option<&S::Version>,
        record: Record,
    ) -> Result<Wrote<S::Version>> {
        match self.store.write(name, before, &record).await {
            Ok(Written::Done(version)) => Ok((Changed::Done, Some(Found { record, version }))),
            Ok(Written::Raced) => Ok((Changed::Raced, None)),
            Err(error) if error.is_outcome_unknown() => {
                let Ok(reading) = self.store.read(name).await else {
                    return Err(error);
                };
                let found = reading.found;
                // Compare the version first: an equal record may replace a record.
                match found {
                    found if found.as_ref().map(|found| &found.version) == before => Err(error),
                    Some(found) if found.record == record => Ok((Changed::Done, Some(found))),
                    _ => Ok((Changed::Overtaken, None)),
                }
            }
            Err(error) => Err(error),
        }
    }
}

impl<S: VersionedStore> Store for Versioned<S> {
    /// The record, and the time at which it was read.
    type Version = (Found<S::Version>, Now);

    fn name(&self) -> &str {
        self.store.store()
    }

    fn capabilities(&self) -> Capabilities {
        let millisecond = Duration::from_millis(1);
        let (clock, coarse) = match self.store.store_time() {
            // Once when a lease is written, and once when it is judged.
            Some(resolution) => (ClockSource::Store, 2 * resolution),
            None => {
                let tolerated_skew = self.skew;
                (ClockSource::Clients { tolerated_skew }, tolerated_skew)
            }
        };
        let mut capabilities = Capabilities::new(clock);
        capabilities.granularity = coarse.saturating_add(millisecond);
        capabilities.longest_lock_at_most_for = HUNDRED_YEARS;
        // In each round a read, a write, and a read back if the reply is lost; and the test of an idle connection.
        let round = self.store.most_requests_per_round();
        capabilities.most_requests = ROUNDS * (round + round / 2) + 1;
        self.store.capabilities(capabilities)
    }

    fn longest_call(&self) -> Duration {
        self.store.longest_call()
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn check_name(&self, name: &LockName) -> Result<()> {
        check_name_length(name, self.capabilities().longest_name)?;
        self.store.check_name(name)
    }

    async fn attempt(&self, request: &AttemptRequest, budget: &Budget) -> Result<Attempt> {
        self.take(request, budget).await
    }

    async fn withdraw(&self, request: &AttemptRequest) -> Result<bool> {
        self.take_back(request).await
    }

    async fn extend(&self, lease: &Lease, request: &ExtendRequest) -> Result<Extension> {
        self.prolong(lease, request).await
    }

    async fn end(&self, end: &End<'_>) -> Result<Ended> {
        self.finish(end, end.lease.and_then(|lease| self.known(lease)))
            .await
    }

    async fn look(&self, name: &LockName) -> Result<Option<Seen<Self::Version>>> {
        let (found, now) = self.read(name).await?;
        Ok(found.map(|found| Seen {
            record: found.record.as_seen(name, now),
            version: (found, now),
        }))
    }

    async fn change(
        &self,
        name: &LockName,
        seen: &Seen<Self::Version>,
        change: &Change,
    ) -> Result<Changed> {
        let (before, now) = &seen.version;
        let mut record = before.record.clone();
        record.slots = change.slots.unwrap_or(record.slots);
        match &change.lease {
            LeaseChange::Keep => {}
            LeaseChange::End { owner, kept } => {
                record.owner.clone_from(owner);
                record.locked_until = kept.map_or(now.past(), |kept| kept.max(now.past()));
            }
            LeaseChange::Take { owner, until } => {
                let slots = record.slots;
                let lasts = until.duration_since(now.told).unwrap_or_default();
                record = self.acquired(owner, Some(&before.record), lasts, *now)?;
                record.slots = slots;
            }
        }
        let written = self.write(name, Some(&before.version), record);
        Ok(written.await?.0)
    }

    async fn remove(&self, name: &LockName, seen: &Seen<Self::Version>) -> Result<Changed> {
        let (before, _) = &seen.version;
        match self.store.remove(name, &before.version).await {
            Ok(is_done) => Ok(Changed::done(is_done)),
            Err(error) if error.is_outcome_unknown() => {
                let Ok(reading) = self.store.read(name).await else {
                    return Err(error);
                };
                match reading.found {
                    None => Ok(Changed::Done),
                    // The removal may still arrive.
                    Some(found) if found.version == before.version => Err(error),
                    Some(_) => Ok(Changed::Overtaken),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn list(&self, request: &ListRequest) -> Result<Vec<LockRecord>> {
        // There may be many free locks that the request does not want.
        let limit = request.limit().max(FEWEST);
        let read = |after: Option<LockName>, _| async move {
            let mut some = self.store.list(after.as_ref(), limit).await?;
            some.retain(|(name, _)| after.as_ref().is_none_or(|after| name > after));
            some.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
            let last = some.last().map(|(name, _)| name.clone());
            let next = last.filter(|_| some.len() >= limit);
            let found = some.into_iter().map(|(name, reading)| {
                let look = reading.and_then(|reading| self.judged(reading));
                let record = look.map(|(found, now)| Some(found?.record.as_seen(&name, now)));
                (name.to_string(), record)
            });
            let found = found.collect();
            Ok(Part { found, next })
        };
        paged(self.name(), request, request.after.as_ref().cloned(), read).await
    }

    async fn check(&self) -> Result<()> {
        self.store.check().await
    }

    async fn diagnose(&self) -> Result<Vec<Finding>> {
        self.store.diagnose().await
    }

    async fn server_time(&self) -> Result<Option<SystemTime>> {
        Ok(self.store.read(&LockName::new(PROBE)?).await?.time)
    }

    async fn migrate(&self) -> Result<Migration> {
        self.store.migrate().await
    }

    async fn plan_migration(&self) -> Result<Vec<MigrationStep>> {
        self.store.plan_migration().await
    }

    fn schema(&self) -> Schema {
        self.store.schema()
    }
}
