//! The trait that a store implements.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::admin::{Change, Changed};
use shedlock_core::check_longest;
use shedlock_core::{
    Attempt, AttemptRequest, Budget, Capabilities, Clock, ExtendRequest, Extension, Finding,
    Journal, Lease, ListRequest, LockName, LockRecord, Migration, MigrationStep, Owner, Schema,
    Slot, SlotEnd, SystemClock, UnlockRequest,
};

use crate::errors::Result;
use crate::limits::check_name_length;

pub(crate) const DEFAULT_LONGEST_CALL: Duration = Duration::from_secs(10);

/// The name of a record that is read only to see whether the store replies.
pub(crate) const PROBE: &str = "check";

/// A store that can keep locks: the trait that a provider author implements.
///
/// [`StoreProvider`](crate::StoreProvider) turns it into a [`LockProvider`](shedlock_core::LockProvider). The provider
/// checks each request before passing it to the store, adds the names of the store and the lock to each error, and ends
/// every call except [`list`](Self::list) after [`longest_call`](Self::longest_call). The calls follow the contract of
/// `LockProvider`, with these differences:
///
/// - [`check_name`](Self::check_name) and [`check_duration`](Self::check_duration) have already accepted names and
///   durations.
/// - [`end`](Self::end) is both an unlock and, unless [`withdraw`](Self::withdraw) is overridden, a withdrawal.
/// - [`look`](Self::look) returns a version of a type of the store's own, which [`change`](Self::change) and
///   [`remove`](Self::remove) get back.
///
/// A store that keeps records with versions has less to implement: see [`VersionedStore`](crate::VersionedStore).
///
/// Write the methods as `async fn`.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// The state of a record when it was read: the condition of [`change`](Self::change) and [`remove`](Self::remove).
    type Version: Send + Sync + 'static;

    /// The store's short name for messages: "etcd".
    fn name(&self) -> &str;

    /// Returns the capabilities of locks in this store.
    fn capabilities(&self) -> Capabilities;

    /// The longest time that any call except a list can take; 10 s unless overridden.
    fn longest_call(&self) -> Duration {
        DEFAULT_LONGEST_CALL
    }

    /// The clock that measures [`longest_call`](Self::longest_call).
    fn clock(&self) -> &Arc<dyn Clock> {
        SystemClock::shared()
    }

    /// Whether the store itself tests a connection that has been idle before it sends an attempt on it. If not, which
    /// is the default, the provider reads the [server's time](Self::server_time) before an attempt that follows half a
    /// minute without a reply. A connection that was cut meanwhile then fails that read, and not the attempt.
    fn tests_connections(&self) -> bool {
        false
    }

    /// Refuses names that the store cannot hold as `InvalidInput`, before any I/O. Unless overridden, it refuses names
    /// longer than the declared maximum.
    fn check_name(&self, name: &LockName) -> Result<()> {
        check_name_length(name, self.capabilities().longest_name)
    }

    /// Refuses durations that the store cannot express as `InvalidInput`, before any I/O. Unless overridden, it refuses
    /// durations over a hundred years. `what` names the setting.
    fn check_duration(&self, what: impl fmt::Display, duration: Duration) -> Result<()> {
        check_longest(what, duration)
    }

    /// As [`LockProvider::attempt`](shedlock_core::LockProvider::attempt), within this budget: it counts the requests,
    /// and says whether one may be repeated. The call is ended from outside when the time is over.
    fn attempt(
        &self,
        request: &AttemptRequest,
        budget: &Budget,
    ) -> impl Future<Output = Result<Attempt>> + Send;

    /// As [`LockProvider::withdraw`](shedlock_core::LockProvider::withdraw). Unless overridden, it ends the lease at
    /// once. That is enough if the store refuses late copies of an attempt by its own clock.
    fn withdraw(&self, request: &AttemptRequest) -> impl Future<Output = Result<bool>> + Send {
        async { Ok(self.end(&End::withdrawn(request)).await? == Ended::ByThisCall) }
    }

    /// As [`LockProvider::extend`](shedlock_core::LockProvider::extend).
    fn extend(
        &self,
        lease: &Lease,
        request: &ExtendRequest,
    ) -> impl Future<Output = Result<Extension>> + Send;

    /// Ends a lease, if the record still contains it and it still runs. Afterwards the record names no holder.
    fn end(&self, end: &End<'_>) -> impl Future<Output = Result<Ended>> + Send;

    /// Reads the record of a lock, together with the condition for changing it only if it has not changed since.
    fn look(
        &self,
        name: &LockName,
    ) -> impl Future<Output = Result<Option<Seen<Self::Version>>>> + Send;

    /// The unit in which the store keeps the end of a lease; a millisecond unless overridden.
    fn unit(&self) -> Duration {
        Duration::from_millis(1)
    }

    /// As [`LockProvider::change`](shedlock_core::LockProvider::change).
    fn change(
        &self,
        name: &LockName,
        seen: &Seen<Self::Version>,
        change: &Change,
    ) -> impl Future<Output = Result<Changed>> + Send;

    /// As [`LockProvider::remove`](shedlock_core::LockProvider::remove).
    fn remove(
        &self,
        name: &LockName,
        seen: &Seen<Self::Version>,
    ) -> impl Future<Output = Result<Changed>> + Send;

    /// As [`LockProvider::inspect`](shedlock_core::LockProvider::inspect). Unless overridden, it returns the record
    /// that [`look`](Self::look) reads.
    fn inspect(&self, name: &LockName) -> impl Future<Output = Result<Option<LockRecord>>> + Send {
        async { Ok(self.look(name).await?.map(|seen| seen.record)) }
    }

    /// As [`LockProvider::list`](shedlock_core::LockProvider::list). Set a time limit for each of its requests: the
    /// list as a whole has none.
    fn list(&self, request: &ListRequest) -> impl Future<Output = Result<Vec<LockRecord>>> + Send;

    /// As [`LockProvider::check`](shedlock_core::LockProvider::check).
    fn check(&self) -> impl Future<Output = Result<()>> + Send;

    /// Checks what only this store can check: its settings, its servers, this user's privileges. It is called after
    /// [`check`](Self::check) has succeeded, and changes nothing. The checks that are the same for every store (records,
    /// clocks, round trips) are made by the provider.
    fn diagnose(&self) -> impl Future<Output = Result<Vec<Finding>>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Reads the store's clock in one round trip, for a comparison with the clock of this host; `None` if the store
    /// does not return its time. Unless overridden, it reads a record and returns `None`.
    fn server_time(&self) -> impl Future<Output = Result<Option<SystemTime>>> + Send {
        async {
            let _ = self.look(&LockName::new(PROBE)?).await?;
            Ok(None)
        }
    }

    /// As [`LockProvider::written_until`](shedlock_core::LockProvider::written_until).
    fn written_until(&self) -> impl Future<Output = Result<Option<SystemTime>>> + Send {
        async { Ok(None) }
    }

    /// As [`LockProvider::journal`](shedlock_core::LockProvider::journal). A store without one returns `None`.
    fn journal(self: Arc<Self>) -> Option<Arc<dyn Journal>> {
        None
    }

    /// As [`LockProvider::migrate`](shedlock_core::LockProvider::migrate). Does nothing unless overridden.
    fn migrate(&self) -> impl Future<Output = Result<Migration>> + Send {
        async { Ok(Migration::default()) }
    }

    /// As [`LockProvider::plan_migration`](shedlock_core::LockProvider::plan_migration). Override it together with
    /// [`migrate`](Self::migrate).
    fn plan_migration(&self) -> impl Future<Output = Result<Vec<MigrationStep>>> + Send {
        async { Ok(Vec::new()) }
    }

    /// As [`LockProvider::schema`](shedlock_core::LockProvider::schema). Override it together with
    /// [`migrate`](Self::migrate).
    fn schema(&self) -> Schema {
        Schema::default()
    }
}

/// A record that was read.
#[derive(Clone, Debug)]
#[must_use]
pub struct Seen<V> {
    /// The public view of the record.
    pub record: LockRecord,
    /// Identifies this state of the record.
    pub version: V,
}

/// How a lease should end.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct End<'a> {
    /// The lock.
    pub name: &'a LockName,
    /// The owner of the lease.
    pub owner: &'a Owner,
    /// The lease that its holder unlocks; none for a withdrawal.
    pub lease: Option<&'a Lease>,
    /// How long the lock stays taken, counted from its acquisition.
    pub at_least: Duration,
    /// How the run of its slot ended, if it has a slot.
    pub slot: Option<(Slot, SlotEnd)>,
}

/// The outcome of ending an owner's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ended {
    /// This call ended the owner's lease.
    ByThisCall,
    /// An earlier call had already ended it.
    ByAnEarlierCall,
    /// The lease expired, or another owner has taken the lock.
    Lost,
}

impl<'a> End<'a> {
    /// Creates the end for an unlock.
    pub fn unlocked(lease: &'a Lease, request: &UnlockRequest) -> Self {
        Self {
            name: lease.name(),
            owner: lease.owner(),
            lease: Some(lease),
            at_least: request.at_least_of(lease.lock_at_least_for()),
            slot: lease.slot().map(|slot| (slot, request.slot_end)),
        }
    }

    /// Creates the end for a lease that an attempt may have won. The lease ends at once, because its task never ran.
    pub fn withdrawn(request: &'a AttemptRequest) -> Self {
        Self {
            name: &request.name,
            owner: &request.owner,
            lease: None,
            at_least: Duration::ZERO,
            slot: request.slot.map(|slot| (slot, SlotEnd::NotStarted)),
        }
    }

    /// Whether to end an expired lease as well. That is right if nothing ran under the lease: otherwise its slot would
    /// count as taken.
    pub fn includes_expired(&self) -> bool {
        self.lease.is_none() || matches!(self.slot, Some((_, SlotEnd::NotStarted)))
    }

    /// How long the lock stays taken from now because the run of its slot failed.
    pub fn retry_after(&self) -> Duration {
        match self.slot {
            Some((_, SlotEnd::Failed { retry_after, .. })) => retry_after,
            _ => Duration::ZERO,
        }
    }
}
