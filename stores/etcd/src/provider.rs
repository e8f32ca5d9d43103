//! The lock contract.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Capabilities, Clock, ClockSource, Error, ExtendRequest,
    Extension, Failover, ForceUnlock, ForceUnlockRequest, Lease, ListRequest, LockDefaults,
    LockName, LockProvider, LockRecord, Migration, Moment, ProviderIdentity, ResetSlotRequest,
    Slot, SlotReset, SystemClock, Unlock, UnlockRequest,
};

use crate::builder::Builder;
use crate::connections::Connections;
use crate::ending::{End, Ended};
use crate::found::Found;
use crate::granted::{self, Granted, LONGEST, Left, left, seconds};
use crate::key::{Keys, LONGEST_NAME, Pair};
use crate::txn::{self, Change, Changed};
use crate::{address, check, list};

/// Rounds of an attempt before it is skipped as contended, and of another call before it is an
/// error: each is lost only where somebody else won one.
pub(crate) const ROUNDS: usize = 4;

/// Locks in etcd. Clones are one provider.
///
/// The store's leases judge; whole seconds, rounded up. Any name up to 4 KiB is accepted.
#[derive(Clone)]
pub struct EtcdProvider {
    inner: Arc<Inner>,
}

struct Inner {
    connections: Connections,
    keys: Keys,
    defaults: LockDefaults,
    clock: Arc<dyn Clock>,
    identity: ProviderIdentity,
    /// The shortest lease that the servers keep, in seconds, as the last check has found it.
    shortest: AtomicU64,
}

/// What a lease of ours carries for itself.
#[derive(Debug)]
pub(crate) struct Held {
    /// What stood in the store when it was last written.
    pub(crate) found: Found,
    /// When it was known to be won: at-least is counted from here.
    pub(crate) since: Moment,
    /// Until when the store's lease lasts at least; none where another call asked for it.
    pub(crate) ends: Option<Moment>,
}

/// The shortest lease of a server that is set up as it ships.
const USUALLY_SHORTEST: u64 = 2;

/// How long the store may take to see that a lease is over, and to agree on it: it looks twice a
/// second.
const LATE: Duration = Duration::from_secs(1);

impl EtcdProvider {
    /// With ShedLock's keys, over the client that the user has.
    ///
    /// # Panics
    /// Never: ShedLock's own prefix and environment are accepted.
    pub fn new(connections: impl Into<Connections>) -> Self {
        let keys = Keys::new("shedlock", "default").expect("ShedLock's own words are accepted");
        let clock = Arc::new(SystemClock);
        Self::from_parts(connections.into(), keys, LockDefaults::new(), clock)
    }

    /// With settings of one's own.
    pub fn builder(connections: impl Into<Connections>) -> Builder {
        Builder::new(connections.into())
    }

    /// Connects to the servers that a URL names: `etcd://user:password@host1:2379,host2:2379`, or
    /// `etcds://…` for TLS. One that does not answer is left for the next one.
    ///
    /// | option | meaning | unless set |
    /// |---|---|---|
    /// | `environment` | the environment in the keys | `default` |
    /// | `key_prefix` | what the keys of locks begin with | `shedlock` |
    /// | `lock_at_most_for`, `lock_at_least_for`, `owner_prefix` | for locks that set none | – |
    /// | `connect_timeout`, `response_timeout` | how long a connection and an answer may take | `5s` |
    /// | `tls_ca` | a file of certificates (PEM) that the servers' are signed by | the public ones |
    /// | `tls_cert`, `tls_key` | files (PEM) that show who we are; a server that asks for them hangs up on who has none | – |
    /// | `tls_domain` | the name in the servers' certificates, where it is not their host's | – |
    ///
    /// # Errors
    /// `InvalidInput` for what is wrong with the URL, which is in no message; `Configuration` where
    /// the store does not let us in, or a file cannot be read; `Unavailable` where there is none.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let provider = address::builder(url)?.build()?;
        provider.check().await?;
        Ok(provider)
    }

    pub(crate) fn from_parts(
        connections: Connections,
        keys: Keys,
        defaults: LockDefaults,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                connections,
                keys,
                defaults,
                clock,
                identity: ProviderIdentity::unique(),
                shortest: AtomicU64::new(USUALLY_SHORTEST),
            }),
        }
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
    }

    pub(crate) async fn look(&self, pair: &Pair) -> Result<Found, Error> {
        txn::look(&self.inner.connections, pair).await
    }

    pub(crate) async fn change(&self, change: &Change<'_>) -> Result<Changed, Error> {
        txn::change(&self.inner.connections, change).await
    }

    pub(crate) async fn grant(&self, duration: Duration) -> Result<Granted, Error> {
        let seconds = seconds(duration, "a lease")?;
        granted::grant(&self.inner.connections, self.clock(), seconds).await
    }

    /// What is left of a lease of the store, as it tells.
    pub(crate) async fn left(&self, lease: i64) -> Result<Left, Error> {
        let asked = self.clock().now();
        let left = left(&self.inner.connections, lease).await?;
        let at_most = left.unwrap_or_default();
        Ok(Left {
            ends: asked + at_most.saturating_sub(Duration::from_secs(1)),
            at_most,
        })
    }

    pub(crate) fn revoke_behind(&self, lease: i64) {
        granted::revoke_behind(&self.inner.connections, lease);
    }

    async fn finish(&self, end: End<'_>) -> Result<Ended, Error> {
        self.end(&end)
            .await
            .map_err(|error| context(error, end.name))
    }

    /// With the end that the store itself tells, in seconds, of what ShedLock holds.
    async fn try_inspect(&self, name: &LockName) -> Result<Option<LockRecord>, Error> {
        let found = self.look(&self.keys().of(name)?).await?;
        if !found.is_some() {
            return Ok(None);
        }
        let now = self.clock().system_time();
        let mut record = found.told(name, now);
        if let Some(lock) = found.lock.filter(|lock| lock.lease != 0)
            && record.locked_until.is_none()
            && let Some(left) = left(&self.inner.connections, lock.lease).await?
        {
            record.locked_until = Some(now + left);
        }
        Ok(Some(record))
    }
}

impl LockProvider for EtcdProvider {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(async move {
            self.try_attempt(request)
                .await
                .map_err(|error| context(error, request.name()))
        })
    }

    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            self.try_withdraw(request)
                .await
                .map_err(|error| context(error, request.name()))
        })
    }

    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        Box::pin(async move {
            self.try_extend(lease, request)
                .await
                .map_err(|error| context(error, lease.name()))
        })
    }

    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        Box::pin(async move {
            let end = End {
                name: lease.name(),
                owner: lease.owner(),
                held: lease.state(),
                at_least: request.at_least_of(lease.lock_at_least_for()),
                slot: lease.slot().map(|slot| (slot, request.slot_end())),
            };
            Ok(match self.finish(end).await? {
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
            self.try_inspect(name)
                .await
                .map_err(|error| context(error, name))
        })
    }

    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
    ) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
        Box::pin(async move {
            let now = self.clock().system_time();
            list::list(&self.inner.connections, self.keys(), request, now)
                .await
                .map_err(|error| error.with_store(STORE))
        })
    }

    fn force_unlock<'a>(
        &'a self,
        request: &'a ForceUnlockRequest,
    ) -> BoxFuture<'a, Result<ForceUnlock, Error>> {
        Box::pin(async move {
            self.try_force_unlock(request)
                .await
                .map_err(|error| context(error, request.name()))
        })
    }

    fn reset_slot<'a>(
        &'a self,
        request: &'a ResetSlotRequest,
    ) -> BoxFuture<'a, Result<SlotReset, Error>> {
        Box::pin(async move {
            self.try_reset_slot(request)
                .await
                .map_err(|error| context(error, request.name()))
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let store = check::check(&self.inner.connections, self.keys())
                .await
                .map_err(|error| error.with_store(STORE))?;
            let shortest = store.shortest.as_secs();
            self.inner.shortest.store(shortest, Ordering::Relaxed);
            Ok(())
        })
    }

    fn capabilities(&self) -> Capabilities {
        let shortest = Duration::from_secs(self.inner.shortest.load(Ordering::Relaxed));
        let mut capabilities = Capabilities::new(ClockSource::Store);
        capabilities.slot_clock = ClockSource::Clients {
            tolerated_skew: Slot::DEFAULT_TOLERANCE,
        };
        // Either for a lease that the server makes longer, or for one that is rounded up.
        capabilities.granularity = shortest.saturating_add(LATE);
        capabilities.longest_lock_at_most_for = LONGEST;
        capabilities.longest_call = self.inner.connections.longest_call;
        capabilities.longest_name = LONGEST_NAME;
        capabilities.failover = Failover::Majority;
        capabilities
    }

    fn identity(&self) -> ProviderIdentity {
        self.inner.identity.clone()
    }

    fn store(&self) -> &str {
        STORE
    }

    fn defaults(&self) -> LockDefaults {
        self.inner.defaults.clone()
    }

    /// Keys need nothing made for them.
    fn migrate(&self) -> BoxFuture<'_, Result<Migration, Error>> {
        Box::pin(async { Ok(Migration::default()) })
    }
}

const STORE: &str = "etcd";

fn context(error: Error, name: &LockName) -> Error {
    error.with_lock(name.as_str()).with_store(STORE)
}

impl fmt::Debug for EtcdProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdProvider")
            .field("connections", &self.inner.connections)
            .field("keys", &self.inner.keys)
            .finish_non_exhaustive()
    }
}
