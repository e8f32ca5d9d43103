//! What a store implements.

use std::fmt;
use std::time::Duration;

use shedlock_core::{
    Attempt, AttemptRequest, Capabilities, Clock, ExtendRequest, Extension, Lease, ListRequest,
    LockName, LockRecord, Migration, Owner, Slot, SlotEnd, SlotState, SystemClock, UnlockRequest,
};

use crate::errors::Result;
use crate::limits::{check_duration, check_name_length};

pub(crate) const DEFAULT_LONGEST_CALL: Duration = Duration::from_secs(10);

/// A store that locks can be kept in: what the author of a provider implements.
///
/// [`StoreProvider`](crate::StoreProvider) makes a [`LockProvider`](shedlock_core::LockProvider) of it. It checks each
/// request before the store sees it, adds the names of store and lock to each error, and ends each call but
/// [`list`](Self::list) after [`longest_call`](Self::longest_call). The contract of the calls is the one of
/// `LockProvider`; these are the differences:
///
/// - names and durations have been accepted by [`check_name`](Self::check_name) and
///   [`check_duration`](Self::check_duration);
/// - [`end`](Self::end) is both an unlock and, unless [`withdraw`](Self::withdraw) is overridden, a withdrawal;
/// - forced unlocks and slot resets are written once, over [`look`](Self::look) and two conditional writes,
///   [`free`](Self::free) and [`set_slots`](Self::set_slots).
///
/// A store that keeps records with versions has less to write: see [`VersionedStore`](crate::VersionedStore).
///
/// Write the methods as `async fn`.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// What a record was when it was read: the condition of [`free`](Self::free) and
    /// [`set_slots`](Self::set_slots).
    type Version: Send + Sync;

    /// The store's short name for messages: "etcd".
    fn name(&self) -> &str;

    /// What locks in this store can do.
    fn capabilities(&self) -> Capabilities;

    /// After this long every call but a list has returned; 10 s unless overridden.
    fn longest_call(&self) -> Duration {
        DEFAULT_LONGEST_CALL
    }

    /// The clock that measures [`longest_call`](Self::longest_call).
    fn clock(&self) -> &dyn Clock {
        &SystemClock
    }

    /// Refuses names that the store cannot hold as `InvalidInput`, before any I/O: those longer than is declared, unless
    /// overridden.
    fn check_name(&self, name: &LockName) -> Result<()> {
        check_name_length(name, self.capabilities().longest_name)
    }

    /// Refuses durations that the store cannot express as `InvalidInput`, before any I/O: those over a hundred years,
    /// unless overridden. `what` names the setting.
    fn check_duration(&self, what: &str, duration: Duration) -> Result<()> {
        check_duration(what, duration)
    }

    /// As [`LockProvider::attempt`](shedlock_core::LockProvider::attempt).
    fn attempt(&self, request: &AttemptRequest) -> impl Future<Output = Result<Attempt>> + Send;

    /// As [`LockProvider::withdraw`](shedlock_core::LockProvider::withdraw). Ends the lease at once unless overridden,
    /// which is enough where the store refuses copies that arrive late by its clock.
    fn withdraw(&self, request: &AttemptRequest) -> impl Future<Output = Result<bool>> + Send {
        async { Ok(self.end(&End::withdrawn(request)).await? == Ended::ByThisCall) }
    }

    /// As [`LockProvider::extend`](shedlock_core::LockProvider::extend).
    fn extend(
        &self,
        lease: &Lease,
        request: &ExtendRequest,
    ) -> impl Future<Output = Result<Extension>> + Send;

    /// Ends a lease, if it is still the record's and still runs. The record then names no holder.
    fn end(&self, end: &End<'_>) -> impl Future<Output = Result<Ended>> + Send;

    /// The record of a lock, and what it takes to change it only if it has not changed since.
    fn look(
        &self,
        name: &LockName,
    ) -> impl Future<Output = Result<Option<Seen<Self::Version>>>> + Send;

    /// Frees a lock that was seen held, at once, if its record is as it was seen. The record names the same owner,
    /// marked as released.
    fn free(
        &self,
        name: &LockName,
        seen: &Seen<Self::Version>,
    ) -> impl Future<Output = Result<Changed>> + Send;

    /// Replaces what is kept of the slots, if the record is as it was seen.
    fn set_slots(
        &self,
        name: &LockName,
        seen: &Seen<Self::Version>,
        slots: SlotState,
    ) -> impl Future<Output = Result<Changed>> + Send;

    /// As [`LockProvider::inspect`](shedlock_core::LockProvider::inspect): what [`look`](Self::look) sees, unless
    /// overridden.
    fn inspect(&self, name: &LockName) -> impl Future<Output = Result<Option<LockRecord>>> + Send {
        async { Ok(self.look(name).await?.map(|seen| seen.record)) }
    }

    /// As [`LockProvider::list`](shedlock_core::LockProvider::list). Bound each request of it: the whole may take as
    /// long as it likes.
    fn list(&self, request: &ListRequest) -> impl Future<Output = Result<Vec<LockRecord>>> + Send;

    /// As [`LockProvider::check`](shedlock_core::LockProvider::check).
    fn check(&self) -> impl Future<Output = Result<()>> + Send;

    /// As [`LockProvider::migrate`](shedlock_core::LockProvider::migrate). Does nothing unless overridden.
    fn migrate(&self) -> impl Future<Output = Result<Migration>> + Send {
        async { Ok(Migration::default()) }
    }
}

/// A record as it was read.
#[derive(Clone, Debug)]
#[must_use]
pub struct Seen<V> {
    /// What it shows.
    pub record: LockRecord,
    /// What tells it from every other state of this record.
    pub version: V,
}

/// What became of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Changed {
    /// It stands.
    Done,
    /// The record had changed before. Nothing was written.
    Raced,
    /// Its answer was lost, and the record has changed since: the write may have been in effect until then.
    Overtaken,
}

impl Changed {
    /// Of a write that either stands or was not made.
    pub fn done(is_done: bool) -> Self {
        if is_done { Self::Done } else { Self::Raced }
    }
}

/// How a lease is to end.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct End<'a> {
    /// The lock.
    pub name: &'a LockName,
    /// Whose lease it is.
    pub owner: &'a Owner,
    /// The lease, where its holder unlocks it; none for a withdrawal.
    pub lease: Option<&'a Lease>,
    /// The lock stays taken for this long from its acquisition.
    pub at_least: Duration,
    /// What becomes of its slot, if it has one.
    pub slot: Option<(Slot, SlotEnd)>,
}

/// How an owner's lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ended {
    /// This owner held it until now.
    ByThisCall,
    /// This owner had ended it.
    ByAnEarlierCall,
    /// Otherwise: it expired, or the lock is another owner's by now.
    Lost,
}

impl<'a> End<'a> {
    /// An unlock.
    pub fn unlocked(lease: &'a Lease, request: &UnlockRequest) -> Self {
        Self {
            name: lease.name(),
            owner: lease.owner(),
            lease: Some(lease),
            at_least: request.at_least_of(lease.lock_at_least_for()),
            slot: lease.slot().map(|slot| (slot, request.slot_end())),
        }
    }

    /// The end of what an attempt may have won: at once, since its task never ran.
    pub fn withdrawn(request: &'a AttemptRequest) -> Self {
        Self {
            name: request.name(),
            owner: request.owner(),
            lease: None,
            at_least: Duration::ZERO,
            slot: request.slot().map(|slot| (slot, SlotEnd::NotStarted)),
        }
    }

    /// Whether it ends an expired lease as well, since nothing ran under it: its slot would count as
    /// taken otherwise.
    pub fn includes_expired(&self) -> bool {
        self.lease.is_none() || matches!(self.slot, Some((_, SlotEnd::NotStarted)))
    }

    /// How long the lock stays taken from now, because the run of its slot failed.
    pub fn retry_after(&self) -> Duration {
        match self.slot {
            Some((_, SlotEnd::Failed { retry_after, .. })) => retry_after,
            _ => Duration::ZERO,
        }
    }
}
