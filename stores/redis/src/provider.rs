//! The lock contract over the scripts.

mod attempt;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Capabilities, ClockSource, Error, ErrorKind, ExtendRequest,
    Extension, Failover, ForceUnlock, ForceUnlockRequest, Lease, ListRequest, LockDefaults,
    LockName, LockProvider, LockRecord, Migration, Owner, ProviderIdentity, ResetSlotRequest, Slot,
    SlotEnd, SlotReset, Unlock, UnlockRequest,
};

use crate::builder::Builder;
use crate::clocks::Clocks;
use crate::confirm::{Confirmation, Shortfall};
use crate::connections::Connections;
use crate::found::Found;
use crate::key::{Keys, LONGEST_NAME, Pair};
use crate::list::record;
use crate::script::{self, Script};
use crate::send::{run, run_confirmed};
use crate::verdict::unexpected;
use crate::{address, check, list};

/// Locks in Redis or Valkey. Clones are one provider.
///
/// The server's clock judges leases; whole milliseconds, rounded up. Any name up to 16 KiB is
/// accepted.
#[derive(Clone)]
pub struct RedisProvider {
    inner: Arc<Inner>,
}

struct Inner {
    connections: Connections,
    keys: Keys,
    defaults: LockDefaults,
    confirmation: Option<Confirmation>,
    server_skew: Duration,
    identity: ProviderIdentity,
    clocks: Clocks,
    /// As the last check has found it.
    durable: AtomicBool,
    /// Whether the replicas that are not waited for were warned of.
    has_warned: AtomicBool,
}

/// A hundred years, which numbers in scripts can count in microseconds.
pub(crate) const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

impl RedisProvider {
    /// With ShedLock's keys, over the client or connection that the user has.
    ///
    /// # Panics
    /// Never: ShedLock's own prefix and environment are accepted.
    pub fn new(connections: impl Into<Connections>) -> Self {
        let keys = Keys::new("job-lock", "default").expect("ShedLock's own words are accepted");
        Self::from_parts(
            connections.into(),
            keys,
            LockDefaults::new(),
            None,
            Duration::ZERO,
        )
    }

    /// With settings of one's own.
    pub fn builder(connections: impl Into<Connections>) -> Builder {
        Builder::new(connections.into())
    }

    /// Connects to what a URL names. The connection is kept, and made again when it breaks.
    ///
    /// | URL | leads to |
    /// |---|---|
    /// | `redis://user:password@host:6379/0` | one server |
    /// | `redis-sentinel://user:password@host1:26379,host2,host3/mymaster/0` | the primary that these sentinels name `mymaster`; user, password and database are the server's |
    /// | `redis-cluster://user:password@host1:6379,host2,host3` | the cluster that these servers, or some of them, belong to |
    /// | `rediss://…`, `rediss-sentinel://…`, `rediss-cluster://…` | the same, encrypted |
    ///
    /// | option | meaning | unless set |
    /// |---|---|---|
    /// | `environment` | the environment in the keys | `default` |
    /// | `key_prefix` | what the keys of locks begin with | `job-lock` |
    /// | `lock_at_most_for`, `lock_at_least_for`, `owner_prefix` | for locks that set none | – |
    /// | `connect_timeout`, `response_timeout` | how long a connection and an answer may take | `5s` |
    /// | `tls_ca` | file (PEM) of those who may have signed the server's certificate | the system's, or Mozilla's |
    /// | `tls_cert`, `tls_key` | files (PEM) of a certificate of ours and its key | – |
    /// | `sentinel_username`, `sentinel_password` | what the sentinels themselves ask for | – |
    /// | `wait_replicas`, `wait_timeout` | see [`Builder::wait_for_replicas`] | no replicas; `1s` |
    /// | `server_skew` | see [`Builder::server_skew`] | zero |
    /// | `protocol` | the client's own: `resp2` or `resp3` | `resp2` |
    ///
    /// # Errors
    /// `InvalidInput` for what is wrong with the URL, which is in no message; `Configuration` where
    /// the server does not let us in, is a replica or too old; `Unavailable` where there is none.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let provider = address::builder(url)?.build()?;
        provider.check().await?;
        Ok(provider)
    }

    pub(crate) fn from_parts(
        connections: Connections,
        keys: Keys,
        defaults: LockDefaults,
        confirmation: Option<Confirmation>,
        server_skew: Duration,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                clocks: Clocks::new(connections.is_cluster()),
                connections,
                keys,
                defaults,
                confirmation,
                server_skew,
                identity: ProviderIdentity::unique(),
                durable: AtomicBool::new(false),
                has_warned: AtomicBool::new(false),
            }),
        }
    }

    async fn run(
        &self,
        script: &Script,
        name: &LockName,
        arguments: &[&str],
    ) -> Result<Found, Error> {
        let pair = self.inner.keys.of(name)?;
        let found = run(&self.inner.connections, script, &pair, arguments).await?;
        self.observe(&pair, &found);
        Ok(found)
    }

    /// The same, confirmed by replicas where that is asked for.
    async fn run_confirmed(
        &self,
        script: &Script,
        name: &LockName,
        arguments: &[&str],
    ) -> Result<(Found, Option<Shortfall>), Error> {
        let Some(wanted) = self.inner.confirmation else {
            return Ok((self.run(script, name, arguments).await?, None));
        };
        let pair = self.inner.keys.of(name)?;
        let connections = &self.inner.connections;
        let answer = run_confirmed(connections, script, &pair, arguments, wanted).await?;
        self.observe(&pair, &answer.0);
        Ok(answer)
    }

    /// Takes down the server's time, where a reply reports it.
    fn observe(&self, pair: &Pair, found: &Found) {
        if found.now > UNIX_EPOCH {
            self.inner.clocks.of(&pair.lock).observe(found.now);
        }
    }

    /// Tells a script that replicas will be waited for.
    fn confirms(&self) -> &'static str {
        match self.inner.confirmation {
            Some(_) => "1",
            None => "",
        }
    }

    /// Whether the lease was ended, had been before, or is lost.
    async fn finish(
        &self,
        name: &LockName,
        owner: &Owner,
        at_least: Duration,
        acquired: Option<SystemTime>,
        slot: Option<(Slot, SlotEnd)>,
    ) -> Result<Ended, Error> {
        let acquired = acquired.and_then(|at| Slot::at(at).ok());
        let (mut done, mut pause, mut given, mut before) = (None, None, None, None);
        match slot {
            Some((slot, SlotEnd::Done { .. })) => done = Some(slot.as_micros()),
            Some((_, SlotEnd::Failed { retry_after })) => {
                pause = Some(micros(retry_after, "the pause of a failed slot")?);
            }
            Some((slot, SlotEnd::NotStarted)) => {
                given = Some(slot.as_micros());
                before = Some(slot.just_before().as_micros());
            }
            Some((slot, SlotEnd::Cut)) => given = Some(slot.as_micros()),
            _ => {}
        }
        let kept_for = micros(at_least, "lock_at_least_for")?;
        let is_plain = at_least.is_zero() && done.or(given).is_none() && pause.is_none();
        let arguments = [
            owner.as_str(),
            &shown(acquired.map(Slot::as_micros)),
            &kept_for,
            &shown(done),
            &pause.unwrap_or_default(),
            if done.is_some() { self.confirms() } else { "" },
            &shown(given),
            &shown(before),
        ];
        let arguments = if is_plain {
            &arguments[..1]
        } else {
            &arguments[..]
        };
        // Nobody is harmed by a lock that a failover forgets to be free.
        let (found, shortfall) = if done.is_some() {
            self.run_confirmed(&script::FINISH, name, arguments).await?
        } else {
            (self.run(&script::FINISH, name, arguments).await?, None)
        };
        match (&*found.word, shortfall) {
            ("lost", _) => Ok(Ended::Lost),
            (_, Some(shortfall)) => Err(shortfall.in_doubt()),
            ("ended", None) => Ok(Ended::Now),
            ("before", None) => Ok(Ended::Before),
            _ => Err(unexpected(&found)),
        }
    }

    async fn try_extend(&self, lease: &Lease, request: &ExtendRequest) -> Result<Extension, Error> {
        request.validate(lease.lock_at_least_for())?;
        let at_most = micros(request.lock_at_most_for(), "lock_at_most_for")?;
        let arguments = [lease.owner().as_str(), &at_most];
        let (found, shortfall) = self
            .run_confirmed(&script::EXTEND, lease.name(), &arguments)
            .await?;
        if found.word == "lost" {
            return Ok(Extension::Lost);
        }
        if let Some(shortfall) = shortfall {
            return Err(shortfall.in_doubt());
        }
        let extended = lease.extended(request);
        Ok(Extension::Extended(match found.locked_until() {
            Some(until) => extended.with_locked_until(until),
            None => extended,
        }))
    }

    async fn try_force_unlock(&self, request: &ForceUnlockRequest) -> Result<ForceUnlock, Error> {
        let name = request.name();
        let mut expected = Vec::new();
        if let Some(owner) = request.expected_owner() {
            let found = self.run(&script::INSPECT, name, &[]).await?;
            let Some(value) = &found.raw else {
                return Ok(ForceUnlock::NotHeld);
            };
            let before = found.record(name);
            if before.owner.as_deref() != Some(owner) {
                return Ok(ForceUnlock::OwnerDiffers(before));
            }
            expected.clone_from(value);
        }
        // An owner is in the value as text, so that a value that names it is text.
        let expected = String::from_utf8_lossy(&expected);
        let found = self.run(&script::FORCE, name, &[&expected]).await?;
        match &*found.word {
            "free" => Ok(ForceUnlock::NotHeld),
            "freed" => Ok(ForceUnlock::Freed(found.record(name))),
            "differs" => Ok(ForceUnlock::OwnerDiffers(found.record(name))),
            _ => Err(unexpected(&found)),
        }
    }

    async fn try_reset_slot(&self, request: &ResetSlotRequest) -> Result<SlotReset, Error> {
        let target = shown(request.target().map(Slot::as_micros));
        let found = self.run(&script::RESET, request.name(), &[&target]).await?;
        match &*found.word {
            "none" => Ok(SlotReset::NoSlot),
            "behind" => Ok(SlotReset::NotAhead(found.record(request.name()))),
            "reset" => {
                let to = request.target().map_or_else(|| Slot::at(found.now), Ok)?;
                Ok(SlotReset::reset(found.record(request.name()), to))
            }
            _ => Err(unexpected(&found)),
        }
    }
}

enum Ended {
    Now,
    Before,
    Lost,
}

/// A duration in microseconds, rounded up.
fn micros(duration: Duration, what: &str) -> Result<String, Error> {
    if duration > LONGEST {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!("{what} is longer than a hundred years"),
        ));
    }
    Ok(duration.as_nanos().div_ceil(1_000).to_string())
}

fn shown(number: Option<impl fmt::Display>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

impl LockProvider for RedisProvider {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(async move {
            self.try_attempt(request)
                .await
                .map_err(|error| context(error, request.name()))
        })
    }

    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let (name, owner) = (request.name(), request.owner());
            let slot = request.slot().map(|slot| (slot, SlotEnd::NotStarted));
            self.finish(name, owner, Duration::ZERO, None, slot)
                .await
                .map(|ended| matches!(ended, Ended::Now))
                .map_err(|error| context(error, name))
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
            let ended = self
                .finish(
                    lease.name(),
                    lease.owner(),
                    request.at_least_of(lease.lock_at_least_for()),
                    lease.acquired_at(),
                    lease.slot().map(|slot| (slot, request.slot_end())),
                )
                .await
                .map_err(|error| context(error, lease.name()))?;
            Ok(match ended {
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
            record(&self.inner.connections, &self.inner.keys, name)
                .await
                .map_err(|error| context(error, name))
        })
    }

    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
    ) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
        Box::pin(async move {
            list::list(&self.inner.connections, &self.inner.keys, request)
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
            let server = check::check(&self.inner.connections)
                .await
                .map_err(|error| error.with_store(STORE))?;
            self.inner.durable.store(server.durable, Ordering::Relaxed);
            self.inner.clocks.observe_only(server.time);
            if server.replicas > 0
                && self.inner.confirmation.is_none()
                && !self.inner.has_warned.swap(true, Ordering::Relaxed)
            {
                check::warn_of_replicas(server.replicas);
            }
            Ok(())
        })
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(ClockSource::Store);
        capabilities.granularity = Duration::from_millis(1);
        capabilities.server_skew = self.inner.server_skew;
        capabilities.longest_lock_at_most_for = LONGEST;
        capabilities.longest_call = self.inner.connections.longest_call();
        capabilities.longest_name = LONGEST_NAME;
        capabilities.durable = self.inner.durable.load(Ordering::Relaxed);
        capabilities.failover = match self.inner.confirmation {
            Some(Confirmation { replicas, .. }) => Failover::Confirmed { servers: replicas },
            None => Failover::MayForget,
        };
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

const STORE: &str = "redis";

fn context(error: Error, name: &LockName) -> Error {
    error.with_lock(name.as_str()).with_store(STORE)
}

impl fmt::Debug for RedisProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisProvider")
            .field("connections", &self.inner.connections)
            .field("keys", &self.inner.keys)
            .finish_non_exhaustive()
    }
}
