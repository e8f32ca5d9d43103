//! The store: which keys, over which connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use etcd_client::Client;
use shedlock_core::{
    Attempt, AttemptRequest, Capabilities, Clock, ClockSource, Error, ExtendRequest, Extension,
    Failover, Lease, ListRequest, LockDefaults, LockName, LockRecord, Owner, Slot, SlotState,
    SystemClock,
};
use shedlock_store::{
    Changed, End, Ended, FromClient, HUNDRED_YEARS, Seen, Store, StoreProvider, whole_millis,
};

use crate::EtcdProvider;
use crate::codec::{Keys, LONGEST_NAME};
use crate::connections::Connections;
use crate::found::Found;
use crate::txn::Own;

/// The shortest lease of a server that is set up as it ships.
const USUALLY_SHORTEST: u64 = 2;

/// How long the store may take to see that a lease is over, and to agree on it: it looks twice a
/// second.
const LATE: Duration = Duration::from_secs(1);

/// The keys of one environment.
#[derive(Debug)]
pub struct EtcdStore {
    pub(crate) connections: Arc<Connections>,
    pub(crate) keys: Keys,
    pub(crate) clock: Arc<dyn Clock>,
    /// The shortest lease that the servers keep, in seconds, as the last check has found it.
    shortest: AtomicU64,
}

/// Sets how a provider names its keys; made by `EtcdProvider::builder`.
#[derive(Debug)]
#[must_use = "a builder does nothing before `build`"]
pub struct Builder {
    connections: Connections,
    key_prefix: String,
    environment: String,
    defaults: LockDefaults,
    clock: Arc<dyn Clock>,
}

impl FromClient for EtcdStore {
    type Client = Client;
    type Builder = Builder;

    fn builder(client: Client) -> Builder {
        Builder::new(Connections::of(client))
    }
}

impl Builder {
    pub(crate) fn new(connections: Connections) -> Self {
        Self {
            connections,
            key_prefix: "shedlock".to_owned(),
            environment: "default".to_owned(),
            defaults: LockDefaults::new(),
            clock: Arc::new(SystemClock),
        }
    }

    shedlock_store::setters! { []
        /// The environment in the keys: `default` unless set, as in ShedLock. Locks of two environments
        /// are two.
        environment(environment: impl Into<String>) = environment.into();

        /// What the keys of locks begin with: `shedlock` unless set, as in ShedLock. ShedLock over a
        /// client with a namespace has that before it.
        key_prefix(prefix: impl Into<String>) = prefix.into();

        /// Durations for locks that set none, and what owners start with.
        defaults(defaults: LockDefaults) = defaults;

        /// This host's clock, by which slots that lie too far ahead are refused, at-least is counted,
        /// and times are shown; for tests. Leases are judged by the store.
        clock(clock: Arc<dyn Clock>) = clock;
    }

    /// Checks the settings; no I/O.
    ///
    /// # Errors
    /// `InvalidInput` for an environment or a prefix that is empty, holds control characters, or
    /// would mix up the keys of locks with those beside them.
    pub fn build(self) -> Result<EtcdProvider, Error> {
        let keys = Keys::new(&self.key_prefix, &self.environment);
        let store = EtcdStore {
            connections: Arc::new(self.connections),
            keys: keys.map_err(|error| error.with_store("etcd"))?,
            clock: self.clock,
            shortest: AtomicU64::new(USUALLY_SHORTEST),
        };
        Ok(StoreProvider::new(store).with_defaults(self.defaults))
    }
}

impl Store for EtcdStore {
    type Version = Found;

    fn name(&self) -> &str {
        "etcd"
    }

    fn capabilities(&self) -> Capabilities {
        let shortest = Duration::from_secs(self.shortest.load(Ordering::Relaxed));
        let mut capabilities = Capabilities::new(ClockSource::Store);
        capabilities.slot_clock = ClockSource::Clients {
            tolerated_skew: Slot::DEFAULT_TOLERANCE,
        };
        // Either for a lease that the server makes longer, or for one that is rounded up.
        capabilities.granularity = shortest.saturating_add(LATE);
        capabilities.longest_lock_at_most_for = HUNDRED_YEARS;
        capabilities.longest_name = LONGEST_NAME;
        capabilities.failover = Failover::Majority;
        capabilities
    }

    fn longest_call(&self) -> Duration {
        self.connections.longest_call()
    }

    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    async fn attempt(&self, request: &AttemptRequest) -> Result<Attempt, Error> {
        self.take(request).await
    }

    async fn withdraw(&self, request: &AttemptRequest) -> Result<bool, Error> {
        self.take_back(request).await
    }

    async fn extend(&self, lease: &Lease, request: &ExtendRequest) -> Result<Extension, Error> {
        self.prolong(lease, request).await
    }

    async fn end(&self, end: &End<'_>) -> Result<Ended, Error> {
        let known = match end.lease {
            Some(lease) => self.known(lease).await?,
            None => self.find(end.name).await?,
        };
        self.finish(end, known).await
    }

    async fn look(&self, name: &LockName) -> Result<Option<Seen<Found>>, Error> {
        let found = self.find(name).await?;
        let record = found.shown(name, self.clock.system_time());
        let version = Some(found).filter(|found| found.lock.is_some() || found.kept.is_some());
        Ok(version.map(|version| Seen { record, version }))
    }

    async fn free(&self, name: &LockName, seen: &Seen<Found>) -> Result<Changed, Error> {
        let found = &seen.version;
        // The record is of our own acquisitions: what frees ShedLock's leaves it.
        let mut record = Some(found.record()).filter(|it| it.owner == found.value().owner);
        if let Some(record) = &mut record {
            record.owner = Owner::released_text(Owner::without_mark(&record.owner));
            record.locked_until = whole_millis(self.clock.system_time());
        }
        let change = self.change(name, found, Own::Delete, record);
        Ok(change.await?.0)
    }

    async fn set_slots(
        &self,
        name: &LockName,
        seen: &Seen<Found>,
        slots: SlotState,
    ) -> Result<Changed, Error> {
        let mut record = seen.version.record();
        record.slots = slots;
        let change = self.change(name, &seen.version, Own::Leave, Some(record));
        Ok(change.await?.0)
    }

    /// With the end that the store itself returns, in seconds, of what ShedLock holds.
    async fn inspect(&self, name: &LockName) -> Result<Option<LockRecord>, Error> {
        let Some(seen) = self.look(name).await? else {
            return Ok(None);
        };
        let mut record = seen.record;
        if let Some(lock) = seen.version.lock.filter(|lock| lock.lease != 0)
            && record.locked_until.is_none()
            && let Some(left) = self.left(lock.lease).await?
        {
            record.locked_until = record.read_at.map(|now| now + left);
        }
        Ok(Some(record))
    }

    async fn list(&self, request: &ListRequest) -> Result<Vec<LockRecord>, Error> {
        self.page(request).await
    }

    /// Reads a key that no lock needs to have, and asks for the shortest lease, which is given back.
    async fn check(&self) -> Result<(), Error> {
        self.find(&LockName::new("check")?).await?;
        let granted = self.grant(Duration::ZERO).await?;
        self.revoke(granted.id);
        let shortest = granted.lasts.as_secs();
        self.shortest.store(shortest, Ordering::Relaxed);
        Ok(())
    }
}
