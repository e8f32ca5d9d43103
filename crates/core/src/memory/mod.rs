//! Locks in the memory of one process: for tests, for the simulation, and for programs that run as
//! a single process.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::admin::{Change, Changed, LeaseChange, Seen};
use crate::clock::{Clock, SystemClock};
use crate::duration::{HUNDRED_YEARS, check_longest};
use crate::{
    Attempt, AttemptRequest, BoxFuture, Capabilities, ClockSource, Error, ErrorKind, ExtendRequest,
    Extension, Failover, Lease, ListRequest, LockDefaults, LockName, LockProvider, LockRecord,
    Migration, MigrationStep, Owner, ProviderIdentity, Setting, Skip, Slot, SlotEnd, SlotState,
    Unlock, UnlockRequest,
};

/// Implements the whole contract over a map in memory.
///
/// Clones share the records, so two clones are two clients of one store.
/// [`another_client`](Self::another_client) creates a client with a separate identity. You can
/// replace the clock that judges leases by one that a test moves.
///
/// ```
/// use shedlock::{Executor, LockConfig, ManualClock, MemoryProvider, Outcome};
/// use std::sync::Arc;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// # runtime.block_on(async {
/// let provider = MemoryProvider::with_clock(Arc::new(ManualClock::new()));
/// let executor = Executor::new(Arc::new(provider));
/// let config = LockConfig::new("payroll").lock_at_most_for("10m").lock_at_least_for("1m");
/// assert!(executor.execute(&config, async { 42 }).await?.is_executed());
/// // lock_at_least_for keeps it taken, since the clock stands still.
/// assert!(matches!(executor.execute(&config, async { 42 }).await?, Outcome::Skipped(_)));
/// # Ok::<(), shedlock::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct MemoryProvider {
    records: Arc<Mutex<BTreeMap<LockName, Record>>>,
    clock: Arc<dyn Clock>,
    defaults: LockDefaults,
    identity: ProviderIdentity,
}

#[derive(Clone, Debug, PartialEq)]
struct Record {
    owner: Arc<str>,
    /// How the lease of the owner was ended, if it was. Other stores append a mark to the owner's
    /// text.
    mark: Option<Mark>,
    locked_at: SystemTime,
    locked_until: SystemTime,
    fencing_token: Option<u64>,
    slots: SlotState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Released,
    /// By force.
    Freed,
}

impl MemoryProvider {
    /// Creates an empty store on the real clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// Creates an empty store whose leases are judged by the calendar of this clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self {
            records: Arc::default(),
            clock,
            defaults: LockDefaults::new(),
            identity: ProviderIdentity::unique(),
        }
    }

    /// Sets durations for locks that set none.
    #[must_use]
    pub fn with_defaults(mut self, defaults: LockDefaults) -> Self {
        self.defaults = defaults;
        self
    }

    /// Creates another client of the same store: it shares records and clock, but has a separate
    /// identity.
    #[must_use]
    pub fn another_client(&self) -> Self {
        Self {
            identity: ProviderIdentity::unique(),
            ..self.clone()
        }
    }

    /// Deletes a record, as a person might by hand. Returns true if there was one.
    pub fn delete(&self, name: &LockName) -> bool {
        self.lock().remove(name).is_some()
    }

    /// Deletes all records.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// Writes a record as ShedLock would: its owner is a bare host name, and fencing token and slot
    /// stay unchanged.
    pub fn write_as_shedlock(
        &self,
        name: &LockName,
        host: &str,
        locked_at: SystemTime,
        locked_until: SystemTime,
    ) {
        let mut records = self.lock();
        let before = records.get(name);
        let record = Record {
            owner: host.into(),
            mark: None,
            locked_at,
            locked_until,
            fencing_token: before.and_then(|record| record.fencing_token),
            slots: before.map(|record| record.slots).unwrap_or_default(),
        };
        records.insert(name.clone(), record);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<LockName, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_attempt(&self, request: &AttemptRequest) -> Result<Attempt, Error> {
        request.validate()?;
        check_longest(Setting::AtMost, request.lock_at_most_for)?;
        let mut records = self.lock();
        let now = self.clock.system_time();
        let locked_until = after(now, request.lock_at_most_for)?;
        let found = records.get_mut(&request.name);
        let before = found.as_deref();

        if let Some(record) = before.filter(|record| record.is_held_by(&request.owner, now)) {
            return Ok(Attempt::Acquired(record.as_lease(request)));
        }
        if let Some(slot) = request.slot {
            if slot.instant() > after(now, request.slot_tolerance)? {
                return Err(slot_ahead(slot, now));
            }
            if let Some(record) = before {
                let seen = record.as_record(&request.name, now);
                let slots = record.slots.as_of(now);
                if let Some(reason) = slots.refusal(request, record.shedlock_at(), seen.state) {
                    return Ok(Attempt::Skipped(seen.as_skip_for(reason, &slots)));
                }
            }
        }
        if let Some(record) = before.filter(|record| record.locked_until > now) {
            return Ok(Attempt::Skipped(record.as_skip(&request.name, now)));
        }
        if before
            .is_some_and(|record| record.mark.is_some() && *record.owner == *request.owner.as_str())
        {
            return Err(Error::attempt_ended());
        }

        let stored_token = before.and_then(|record| record.fencing_token);
        let record = Record {
            owner: request.owner.shared(),
            mark: None,
            locked_at: now,
            locked_until,
            fencing_token: Some(next_token(stored_token, now)),
            slots: before
                .map(|record| record.slots)
                .unwrap_or_default()
                .as_of(now)
                .taken(request),
        };
        let lease = record.as_lease(request);
        match found {
            Some(before) => *before = record,
            None => drop(records.insert(request.name.clone(), record)),
        }
        Ok(Attempt::Acquired(lease))
    }

    fn end(
        &self,
        name: &LockName,
        owner: &Owner,
        at_least: Duration,
        slot: Option<(Slot, SlotEnd)>,
    ) -> Result<Ended, Error> {
        let mut records = self.lock();
        let now = self.clock.system_time();
        let Some(record) = records.get_mut(name) else {
            return Ok(Ended::Lost);
        };
        if record.mark == Some(Mark::Released) && *record.owner == *owner.as_str() {
            return Ok(Ended::Before);
        }
        let is_unused = matches!(slot, Some((_, SlotEnd::NotStarted)));
        if !record.names(owner) || !is_unused && record.locked_until <= now {
            return Ok(Ended::Lost);
        }
        record.locked_until = after(record.locked_at, at_least)?.max(now);
        record.mark = Some(Mark::Released);
        match slot {
            Some((_, SlotEnd::Failed { retry_after })) => {
                record.locked_until = record.locked_until.max(after(now, retry_after)?);
            }
            Some((slot, end)) => record.slots = record.slots.ended(slot, end),
            None => {}
        }
        Ok(Ended::Now)
    }

    fn try_extend(&self, lease: &Lease, request: &ExtendRequest) -> Result<Extension, Error> {
        request
            .validate(lease.lock_at_least_for())
            .map_err(|e| e.with_lock(lease.name().as_str()))?;
        check_longest(Setting::AtMost, request.lock_at_most_for)?;
        let mut records = self.lock();
        let now = self.clock.system_time();
        match records.get_mut(lease.name()) {
            Some(record) if record.is_held_by(lease.owner(), now) => {
                let end = after(now, request.lock_at_most_for)?;
                record.locked_until = record.locked_until.max(end);
                let extended = lease
                    .extended(request)
                    .with_locked_until(record.locked_until);
                Ok(Extension::Extended(extended))
            }
            _ => Ok(Extension::Lost),
        }
    }

    fn try_change(&self, name: &LockName, seen: &Record, change: &Change) -> Changed {
        let mut records = self.lock();
        let now = self.clock.system_time();
        let Some(record) = records.get_mut(name).filter(|record| *record == seen) else {
            return Changed::Raced;
        };
        match &change.lease {
            LeaseChange::Keep => {}
            // It has ended by itself.
            LeaseChange::End { .. } if record.locked_until <= now => return Changed::Raced,
            LeaseChange::End { owner, kept } => {
                let is_freed = Owner::is_freed(owner);
                record.mark = Some(if is_freed {
                    Mark::Freed
                } else {
                    Mark::Released
                });
                record.locked_until = kept.map_or(now, |kept| kept.max(now));
            }
            LeaseChange::Take { owner, until } => {
                record.owner = owner.as_str().into();
                record.mark = None;
                record.locked_at = now;
                record.locked_until = *until;
                record.fencing_token = Some(next_token(record.fencing_token, now));
            }
        }
        record.slots = change.slots.unwrap_or(record.slots);
        Changed::Done
    }

    fn page(&self, request: &ListRequest) -> Vec<LockRecord> {
        let now = self.clock.system_time();
        let start = request
            .after
            .as_ref()
            .map_or(Bound::Unbounded, Bound::Excluded);
        self.lock()
            .range::<LockName, _>((start, Bound::Unbounded))
            .filter(|(name, record)| {
                let is_wanted = !request.held_only || record.locked_until > now;
                is_wanted && !name.is_of_store()
            })
            .take(request.limit())
            .map(|(name, record)| record.as_record(name, now))
            .collect()
    }

    fn context(&self, error: Error) -> Error {
        error.with_store(self.store())
    }
}

enum Ended {
    Now,
    Before,
    Lost,
}

impl Record {
    fn as_lease(&self, request: &AttemptRequest) -> Lease {
        let lease = Lease::granted(request)
            .with_acquired_at(self.locked_at)
            .with_locked_until(self.locked_until)
            .with_slot_attempt(request.slot.and(self.slots.attempts));
        match self.fencing_token {
            Some(token) => lease.with_fencing_token(token),
            None => lease,
        }
    }

    fn as_record(&self, name: &LockName, now: SystemTime) -> LockRecord {
        let is_locked = self.locked_until > now;
        let mut record = LockRecord::from_stored(name.clone(), &self.stored_owner(), is_locked)
            .with_slots(self.slots);
        record.locked_at = Some(self.locked_at);
        record.locked_until = Some(self.locked_until);
        record.fencing_token = self.fencing_token;
        record.read_at = Some(now);
        record
    }

    fn is_held_by(&self, owner: &Owner, now: SystemTime) -> bool {
        self.names(owner) && self.locked_until > now
    }

    /// Returns true if this owner was the last to acquire the lock, and has not unlocked it.
    fn names(&self, owner: &Owner) -> bool {
        self.mark.is_none() && *self.owner == *owner.as_str()
    }

    /// Returns the owner text as other stores keep it.
    fn stored_owner(&self) -> Cow<'_, str> {
        match self.mark {
            None => Cow::Borrowed(&self.owner),
            Some(Mark::Released) => Cow::Owned(Owner::released_text(&self.owner)),
            Some(Mark::Freed) => Cow::Owned(Owner::freed_text(&self.owner)),
        }
    }

    fn as_skip(&self, name: &LockName, now: SystemTime) -> Skip {
        self.as_record(name, now).as_skip()
    }

    /// Returns when ShedLock acquired the lock, if it was the last to do so.
    fn shedlock_at(&self) -> Option<SystemTime> {
        (!Owner::is_ours(&self.owner)).then_some(self.locked_at)
    }
}

fn after(instant: SystemTime, duration: Duration) -> Result<SystemTime, Error> {
    instant.checked_add(duration).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidInput,
            "the duration is too long: it ends after the last representable date",
        )
        .advise("shorten it")
    })
}

fn next_token(stored: Option<u64>, now: SystemTime) -> u64 {
    micros(now).max(stored.map_or(0, |token| token + 1))
}

fn slot_ahead(slot: Slot, now: SystemTime) -> Error {
    let now = crate::text::instant(now);
    Error::new(
        ErrorKind::SlotAhead,
        format!("slot {slot} is too far ahead of the store's clock ({now})"),
    )
    .advise("claim it when it is due")
}

fn micros(instant: SystemTime) -> u64 {
    let since = instant.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

impl Default for MemoryProvider {
    fn default() -> Self {
        Self::new()
    }
}

impl LockProvider for MemoryProvider {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(async move {
            self.try_attempt(request)
                .map_err(|error| self.context(error).with_lock(request.name.as_str()))
        })
    }

    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let slot = request.slot.map(|slot| (slot, SlotEnd::NotStarted));
            let ended = self.end(&request.name, &request.owner, Duration::ZERO, slot)?;
            Ok(matches!(ended, Ended::Now))
        })
    }

    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        Box::pin(async move { self.try_extend(lease, request).map_err(|e| self.context(e)) })
    }

    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        Box::pin(async move {
            let ended = self.end(
                lease.name(),
                lease.owner(),
                request.at_least_of(lease.lock_at_least_for()),
                lease.slot().map(|slot| (slot, request.slot_end)),
            )?;
            Ok(match ended {
                Ended::Now | Ended::Before => Unlock::Unlocked,
                Ended::Lost => Unlock::Lost,
            })
        })
    }

    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
    ) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
        Box::pin(async move { Ok(self.page(request)) })
    }

    fn look<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Seen>, Error>> {
        Box::pin(async move {
            let now = self.clock.system_time();
            let found = self.lock().get(name).cloned();
            Ok(found.map(|record| {
                // Slots have whole microseconds.
                let unit = Duration::from_micros(1);
                Seen::new(record.as_record(name, now), unit, record)
            }))
        })
    }

    fn change<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
        change: &'a Change,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        Box::pin(async move { Ok(self.try_change(name, seen.version()?, change)) })
    }

    fn remove<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        Box::pin(async move {
            let seen = seen.version()?;
            let mut records = self.lock();
            let is_same = records.get(name) == Some(seen);
            if is_same {
                records.remove(name);
            }
            Ok(Changed::done(is_same))
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    fn store_time(&self) -> BoxFuture<'_, Result<Option<SystemTime>, Error>> {
        Box::pin(async { Ok(Some(self.clock.system_time())) })
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(ClockSource::Store);
        capabilities.most_requests = 1;
        capabilities.failover = Failover::Never;
        capabilities.durable = false;
        capabilities.duties = true;
        capabilities.longest_lock_at_most_for = HUNDRED_YEARS;
        capabilities
    }

    fn identity(&self) -> ProviderIdentity {
        self.identity.clone()
    }

    fn store(&self) -> &str {
        "memory"
    }

    fn defaults(&self) -> LockDefaults {
        self.defaults.clone()
    }

    fn for_duties(&self) -> Option<BoxFuture<'_, Result<Arc<dyn LockProvider>, Error>>> {
        Some(Box::pin(async {
            Ok(Arc::new(self.clone()) as Arc<dyn LockProvider>)
        }))
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Migration, Error>> {
        Box::pin(async { Ok(Migration::default()) })
    }

    fn plan_migration(&self) -> BoxFuture<'_, Result<Vec<MigrationStep>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
