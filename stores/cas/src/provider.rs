//! The provider over a store of versioned records.

use std::sync::Arc;
use std::time::Duration;

use ErrorKind::{Unavailable, Unknown};
use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Capabilities, Clock, ClockSource, Error, ErrorKind,
    ExtendRequest, Extension, ForceUnlock, ForceUnlockRequest, Lease, ListRequest, LockDefaults,
    LockName, LockProvider, LockRecord, Migration, Owner, ProviderIdentity, ResetSlotRequest,
    SlotReset, SystemClock, Unlock, UnlockRequest, answered_within, listed,
};

use crate::ending::Ended;
use crate::time::{LONGEST, Now};
use crate::{Found, Reading, Record, VersionedStore, Written};

/// How much the clients' clocks may differ unless the provider is told: one second.
///
/// Hosts that keep time by NTP differ by milliseconds, and by some hundreds of them for a while
/// after a restart or where a leap second is smeared by some and not by others. A second covers
/// that, and costs no more than a lock of a crashed holder that comes free a second later.
pub const DEFAULT_TOLERATED_SKEW: Duration = Duration::from_secs(1);

/// Rounds of an attempt before it is skipped as contended, and of another call before it is an
/// error: each is lost only where somebody else won one.
pub(crate) const ROUNDS: usize = 4;

/// As many locks are listed at a time, at the least.
const FEWEST: usize = 100;

/// A record, if there is one, and the instant of its reading.
pub(crate) type Look<V> = (Option<Found<V>>, Now);

/// What became of a write.
pub(crate) enum Wrote<V> {
    /// It stands.
    Done(Found<V>),
    /// Another write came before it, so that it changed nothing.
    Raced,
    /// Its answer was lost, and another write stands now. It may have been in effect until then.
    Overtaken,
}

impl<V> Wrote<V> {
    /// What stands, for calls that judge a record again whatever else became of the write.
    pub(crate) fn done(self) -> Option<Found<V>> {
        match self {
            Self::Done(found) => Some(found),
            Self::Raced | Self::Overtaken => None,
        }
    }
}

/// The lock contract over a [`VersionedStore`].
#[derive(Debug)]
pub struct CasProvider<S> {
    pub(crate) store: S,
    clock: Arc<dyn Clock>,
    skew: Duration,
    defaults: LockDefaults,
    identity: ProviderIdentity,
}

impl<S: VersionedStore> CasProvider<S> {
    /// A provider over this store.
    pub fn new(store: S) -> Self {
        Self {
            store,
            clock: Arc::new(SystemClock),
            skew: DEFAULT_TOLERATED_SKEW,
            defaults: LockDefaults::new(),
            identity: ProviderIdentity::unique(),
        }
    }

    /// Sets how much the clocks of all programs that share the locks may differ, ShedLock's
    /// included. All of them have to agree on it. Without meaning where the store tells the time.
    ///
    /// Too small, and two may hold one lock for as long as their clocks differ; too large, and a
    /// lock whose holder crashed comes free later, and at-most has to be longer.
    #[must_use]
    pub fn with_tolerated_skew(mut self, skew: Duration) -> Self {
        self.skew = skew;
        self
    }

    /// Sets durations for locks that set none.
    #[must_use]
    pub fn with_defaults(mut self, defaults: LockDefaults) -> Self {
        self.defaults = defaults;
        self
    }

    /// Sets the client's clock, for tests.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The store.
    pub fn versioned_store(&self) -> &S {
        &self.store
    }

    /// The record and the instant, of one reading.
    pub(crate) async fn look(&self, name: &LockName) -> Result<Look<S::Version>, Error> {
        let reading = self.store.read(name).await?;
        self.judged(reading)
    }

    pub(crate) fn judged(&self, reading: Reading<S::Version>) -> Result<Look<S::Version>, Error> {
        let now = match self.store.store_time() {
            None => self.client_now(),
            Some(resolution) => {
                let told = reading.time.ok_or_else(|| {
                    Error::new(
                        ErrorKind::Configuration,
                        "an answer of the store does not tell its time: does something between \
                         here and there take it out?",
                    )
                })?;
                Now::of_store(told, resolution, self.clock.system_time())?
            }
        };
        let found = reading.found.map(|mut found| {
            // Where the token is the number of the write that acquired, that write could not know it.
            // A released record without a token is a withdrawal's.
            let owner = &found.record.owner;
            let is_acquired = Owner::is_ours(owner) && !Owner::is_released(owner);
            if found.record.fencing_token.is_none() && is_acquired {
                found.record.fencing_token = self.store.revision(&found.version);
            }
            found
        });
        Ok((found, now))
    }

    fn client_now(&self) -> Now {
        Now::of_client(self.clock.system_time(), self.skew)
    }

    /// What the lease knows of its record, where that is enough to act without reading it: its
    /// version, if it still stands, says that nobody has touched it.
    pub(crate) fn known(&self, lease: &Lease) -> Option<Look<S::Version>> {
        let found = lease.state::<Found<S::Version>>()?;
        if self.store.store_time().is_some() || self.store.comes_again(&found.version) {
            return None;
        }
        Some((Some(found.clone()), self.client_now()))
    }

    /// Writes, and reads back where the answer is lost: the record is then this one, another one or
    /// still the one before. Only in the last case is the outcome an error, since the write may yet
    /// arrive.
    pub(crate) async fn write(
        &self,
        name: &LockName,
        before: Option<&S::Version>,
        record: Record,
    ) -> Result<Wrote<S::Version>, Error> {
        let written = match before {
            None => self.store.create(name, &record).await,
            Some(version) => self.store.replace(name, version, &record).await,
        };
        match written {
            Ok(Written::Done(version)) => Ok(Wrote::Done(Found { record, version })),
            Ok(Written::Raced) => Ok(Wrote::Raced),
            Err(error) if error.is_unknown() => {
                let Ok(reading) = self.store.read(name).await else {
                    return Err(error);
                };
                let found = reading.found;
                // The version first: a record may be written over by one that is equal to it.
                match found {
                    found if found.as_ref().map(|found| &found.version) == before => Err(error),
                    Some(found) if found.record == record => Ok(Wrote::Done(found)),
                    _ => Ok(Wrote::Overtaken),
                }
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn contended(&self) -> Error {
        Error::new(
            Unavailable,
            "the record was changed by somebody else each time before it could be written: ask again",
        )
    }

    /// A call may make several requests, each with a time limit of its own; `unanswered` is its kind
    /// where all of them together take too long. A list may have any number of pages to read: the first
    /// that is not answered ends it.
    async fn in_time<T>(
        &self,
        unanswered: ErrorKind,
        call: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let limit = self.capabilities().longest_call;
        answered_within(&*self.clock, limit, unanswered, call).await
    }

    fn context(&self, name: &LockName, error: Error) -> Error {
        error.with_store(self.store()).with_lock(name.as_str())
    }

    async fn page(&self, request: &ListRequest) -> Result<Vec<LockRecord>, Error> {
        let size = request.page_size();
        // Of free locks that are not wanted there may be many.
        let limit = size.max(FEWEST);
        let mut after = request.after_name().cloned();
        let mut records = Vec::new();
        loop {
            let mut some = self.store.list(after.as_ref(), limit).await?;
            some.retain(|(name, _)| after.as_ref().is_none_or(|after| name > after));
            some.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
            let are_all = some.len() < limit;
            for (name, reading) in some {
                let found = reading.and_then(|reading| self.judged(reading));
                if let Some((Some(found), now)) = listed(self.store(), name.as_str(), found)?
                    && (!request.is_held_only() || found.record.is_locked(now))
                {
                    records.push(found.record.as_lock_record(&name, now));
                    if records.len() == size {
                        return Ok(records);
                    }
                }
                after = Some(name);
            }
            if are_all {
                return Ok(records);
            }
        }
    }
}

impl<S: VersionedStore> LockProvider for CasProvider<S> {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(async move {
            let attempt = self.in_time(Unknown, self.try_attempt(request)).await;
            attempt.map_err(|error| self.context(request.name(), error))
        })
    }

    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let withdrawn = self.in_time(Unknown, self.try_withdraw(request)).await;
            withdrawn.map_err(|error| self.context(request.name(), error))
        })
    }

    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        Box::pin(async move {
            let extension = self.in_time(Unknown, self.try_extend(lease, request)).await;
            extension.map_err(|error| self.context(lease.name(), error))
        })
    }

    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        Box::pin(async move {
            let name = lease.name();
            let at_least = request.at_least_of(lease.lock_at_least_for());
            let slot = lease.slot().map(|slot| (slot, request.slot_end()));
            let ended = self.end(name, lease.owner(), self.known(lease), at_least, slot);
            let ended = self.in_time(Unknown, ended).await;
            Ok(match ended.map_err(|error| self.context(name, error))? {
                Ended::Now | Ended::Before => Unlock::Unlocked,
                Ended::Lost => Unlock::Lost,
            })
        })
    }

    fn inspect<'a>(
        &'a self,
        name: &'a LockName,
    ) -> BoxFuture<'a, Result<Option<LockRecord>, Error>> {
        Box::pin(async move {
            let context = |error| self.context(name, error);
            self.store.check_name(name).map_err(context)?;
            let look = self.in_time(Unavailable, self.look(name)).await;
            let (found, now) = look.map_err(context)?;
            Ok(found.map(|found| found.record.as_lock_record(name, now)))
        })
    }

    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
    ) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
        Box::pin(async move {
            let page = self.page(request).await;
            page.map_err(|error| error.with_store(self.store()))
        })
    }

    fn force_unlock<'a>(
        &'a self,
        request: &'a ForceUnlockRequest,
    ) -> BoxFuture<'a, Result<ForceUnlock, Error>> {
        Box::pin(async move {
            let answer = self.in_time(Unknown, self.try_force_unlock(request)).await;
            answer.map_err(|error| self.context(request.name(), error))
        })
    }

    fn reset_slot<'a>(
        &'a self,
        request: &'a ResetSlotRequest,
    ) -> BoxFuture<'a, Result<SlotReset, Error>> {
        Box::pin(async move {
            let answer = self.in_time(Unknown, self.try_reset_slot(request)).await;
            answer.map_err(|error| self.context(request.name(), error))
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let checked = self.in_time(Unavailable, self.store.check()).await;
            checked.map_err(|error| error.with_store(self.store()))
        })
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
        capabilities.longest_lock_at_most_for = LONGEST;
        self.store.capabilities(capabilities)
    }

    fn identity(&self) -> ProviderIdentity {
        self.identity.clone()
    }

    fn store(&self) -> &str {
        self.store.store()
    }

    fn defaults(&self) -> LockDefaults {
        self.defaults.clone()
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Migration, Error>> {
        Box::pin(async move {
            let migration = self.in_time(Unknown, self.store.migrate()).await;
            migration.map_err(|error| error.with_store(self.store()))
        })
    }
}
