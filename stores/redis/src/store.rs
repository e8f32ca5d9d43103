//! The calls of the store's contract, one script each.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::ready;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use shedlock_core::admin::{Change, Changed, LeaseChange};
use shedlock_core::{
    Attempt, AttemptRequest, BoundedAttempt, Budget, Capabilities, ClockSource, Error, ErrorKind,
    ExtendRequest, Extension, Failover, Finding, Journal, Lease, ListRequest, LockDefaults,
    LockName, LockRecord, LockState, Retries, Schema, Slot, SlotEnd, answered_within,
};
use shedlock_provider::{
    End, Ended, FromClient, HUNDRED_YEARS, NeedsNoSettings, Result, Seen, Store, StoreProvider,
    VALID, check_slot, conflict, listed, maybe, refusal, slot_ahead, unknown,
};

use crate::RedisProvider;
use crate::clocks::Clocks;
use crate::codec::{Found, slots_of, words};
use crate::confirm::{Confirmation, Shortfall};
use crate::connections::Connections;
use crate::journal::{self, RedisJournal};
use crate::key::{Keys, LONGEST_NAME};
use crate::scripts::{self, Script};

const READ: usize = 100;

/// The locks of one environment.
#[derive(Debug)]
pub struct RedisStore {
    pub(crate) connections: Connections,
    pub(crate) keys: Keys,
    pub(crate) confirmation: Option<Confirmation>,
    server_skew: Duration,
    pub(crate) clocks: Clocks,
    /// Whether the server is durable, according to the last check.
    pub(crate) durable: AtomicBool,
    /// Whether the warning about unconfirmed replicas was logged.
    pub(crate) has_warned: AtomicBool,
}

/// Configures how a provider names its keys, and what it waits for. Created by `RedisProvider::builder`.
#[derive(Debug)]
#[must_use = "a builder does nothing before `build`"]
pub struct Builder {
    pub(crate) connections: Connections,
    pub(crate) key_prefix: String,
    pub(crate) environment: String,
    pub(crate) defaults: LockDefaults,
    pub(crate) wait_replicas: Option<u32>,
    pub(crate) wait_timeout: Option<Duration>,
    pub(crate) sends_once: bool,
    pub(crate) server_skew: Duration,
}

impl FromClient for RedisStore {
    type Client = Connections;
    type Builder = Builder;

    fn builder(connections: Connections) -> Builder {
        Builder {
            connections,
            key_prefix: "job-lock".to_owned(),
            environment: "default".to_owned(),
            defaults: LockDefaults::new(),
            wait_replicas: None,
            wait_timeout: None,
            sends_once: false,
            server_skew: Duration::ZERO,
        }
    }
}

impl NeedsNoSettings for RedisStore {
    type Store = Self;

    fn with_defaults(client: Connections) -> StoreProvider<Self> {
        Self::builder(client).build().expect(VALID)
    }
}

impl Builder {
    shedlock_provider::setters! { []
        /// Sets the environment in the keys. Default: `default`, as in ShedLock. Locks of different environments are
        /// independent.
        environment(environment: impl Into<String>) = environment.into();

        /// Sets the prefix of the locks' keys. Default: `job-lock`, as in ShedLock.
        key_prefix(prefix: impl Into<String>) = prefix.into();

        /// Sets the durations for locks that set none, and the start of owners.
        defaults(defaults: LockDefaults) = defaults;

        /// Sets how many replicas must confirm (`WAIT`) a granted lock, an extension or a done slot. After a failover
        /// to one of them these are not lost.
        ///
        /// A lock that is not confirmed within [`wait_timeout`](Self::wait_timeout) is given back, and the attempt
        /// fails with `Unavailable`. An extension or an unlock that is not confirmed fails with `OutcomeUnknown`.
        ///
        /// A replica that takes over judges leases by its own clock. Keep the clocks of all servers synchronized, and
        /// set [`server_skew`](Self::server_skew) to the remaining skew.
        wait_replicas(replicas: u32) = Some(replicas);

        /// Sets how long to wait for replicas. Default: 1 s. Calls share a connection, and each waits for the ones
        /// before it, so keep this time well below the response timeout.
        wait_timeout(timeout: Duration) = Some(timeout);

        /// States that the cluster's client was built with `retries(0)`, so that it sends no attempt twice and no
        /// attempt needs to be withdrawn once more. Default: false over a [`ClusterClient`](redis::cluster::ClusterClient)
        /// or one of its connections. Without an effect over other clients, which send everything once.
        sends_once(is_so: bool) = is_so;

        /// Sets the maximum clock skew between servers that judge leases one after another. Default: zero. A server
        /// that takes over judges by its own clock, so the runtime stops relying on a lease this much before its end,
        /// and lock_at_most_for must be longer.
        server_skew(skew: Duration) = skew;
    }

    /// Checks the settings and builds the provider. No I/O.
    ///
    /// # Errors
    /// `InvalidInput` for replicas without a time to wait for them or a time without replicas, and for an environment
    /// or a prefix that is empty, contains control characters, or would confuse the keys of locks with the records next
    /// to them.
    pub fn build(self) -> Result<RedisProvider> {
        let keys = Keys::new(&self.key_prefix, &self.environment);
        let confirmation = Confirmation::new(self.wait_replicas, self.wait_timeout);
        let store = RedisStore {
            keys: keys.map_err(|error| error.with_store("redis"))?,
            confirmation: confirmation.map_err(|error| error.with_store("redis"))?,
            server_skew: self.server_skew,
            clocks: Clocks::new(self.connections.is_cluster),
            connections: match self.sends_once {
                true => self.connections.that_send_once(),
                false => self.connections,
            },
            durable: AtomicBool::new(false),
            has_warned: AtomicBool::new(false),
        };
        Ok(StoreProvider::of(store).with_defaults(self.defaults))
    }
}

/// What a lock's keys contain.
#[derive(Clone, Debug)]
pub struct Version {
    /// The value of the lock's own key, which is different for each acquisition; none if the key does not exist.
    value: Option<Vec<u8>>,
    /// The record next to it; empty if there is none.
    record: String,
}

impl RedisStore {
    async fn run(
        &self,
        script: &Script,
        name: &LockName,
        arguments: &[impl AsRef<[u8]> + Sync],
        wanted: Option<Confirmation>,
    ) -> Result<(Found, Option<Shortfall>)> {
        let pair = self.keys.of(name);
        let answer = script.run(&self.connections, &pair, arguments, wanted);
        let (found, shortfall) = answer.await?;
        if found.now > UNIX_EPOCH {
            self.clocks.of(&pair.lock).observe(found.now);
        }
        Ok((found, shortfall))
    }

    async fn claim(
        &self,
        request: &AttemptRequest,
        not_after: SystemTime,
    ) -> Result<BoundedAttempt> {
        let not_after = not_after.duration_since(UNIX_EPOCH).unwrap_or_default();
        let slot = request.slot;
        let tolerance = slot.map(|_| request.slot_tolerance.min(HUNDRED_YEARS));
        let retries = request.completion.retries();
        let skipped = request.skipped_slots;
        let arguments = [
            request.owner.as_str(),
            &micros(request.lock_at_most_for),
            &not_after.as_micros().to_string(),
            &shown(slot.map(Slot::as_micros)),
            &shown(tolerance.map(|tolerance| tolerance.as_micros())),
            &shown(retries.map(Retries::get_max_attempts)),
            &shown(request.previous_slot.map(Slot::as_micros)),
            flag(self.confirmation),
            &shown(skipped.map(|it| it.from.as_micros())),
            &shown(skipped.map(|it| it.until.as_micros())),
        ];
        let is_plain = slot.is_none() && self.confirmation.is_none();
        let arguments = &arguments[..if is_plain { 3 } else { arguments.len() }];
        let wanted = self.confirmation;
        let answer = self.run(&scripts::ATTEMPT, &request.name, arguments, wanted);
        let (found, shortfall) = answer.await?;
        let attempt = match (&*found.word, shortfall) {
            ("won", None) => Attempt::Acquired(found.lease(request)),
            ("won", Some(shortfall)) => {
                self.undo(request, &found).await?;
                return Err(shortfall.taken_back());
            }
            ("taken", Some(shortfall)) if found.is_held_by(&request.owner) => {
                return Err(shortfall.in_doubt());
            }
            ("taken" | "refused", _) => taken(request, &found)?,
            ("ahead", _) => {
                let slot = slot.ok_or_else(|| found.unexpected())?;
                return Err(slot_ahead(slot, found.now, CLOCK));
            }
            ("over", _) => return Err(Error::attempt_ended()),
            ("late", _) => {
                let store_time = found.now;
                return Ok(BoundedAttempt::TooLate { store_time });
            }
            _ => return Err(found.unexpected()),
        };
        Ok(BoundedAttempt::Judged(attempt))
    }

    /// Gives back a won attempt that too few replicas have confirmed.
    async fn undo(&self, request: &AttemptRequest, won: &Found) -> Result<()> {
        let before = won.before.as_deref().unwrap_or_default();
        let arguments = [request.owner.as_str(), before];
        let undone = self.run(&scripts::UNDO, &request.name, &arguments, None);
        undone.await.map(drop).map_err(|error| {
            unknown("too few replicas confirmed the lock, and releasing it failed")
                .advise("the lock may be held")
                .retry()
                .with_source(error)
        })
    }

    async fn run_change(
        &self,
        script: &Script,
        name: &LockName,
        arguments: &[impl AsRef<[u8]> + Sync],
    ) -> Result<Changed> {
        let (found, _) = self.run(script, name, arguments, None).await?;
        match &*found.word {
            "done" => Ok(Changed::Done),
            "differs" => Ok(Changed::Raced),
            _ => Err(found.unexpected()),
        }
    }
}

impl Store for RedisStore {
    type Version = Version;

    fn name(&self) -> &str {
        "redis"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(ClockSource::Store);
        capabilities.granularity = Duration::from_millis(1);
        capabilities.server_skew = self.server_skew;
        capabilities.longest_lock_at_most_for = HUNDRED_YEARS;
        capabilities.longest_name = LONGEST_NAME;
        // Twice a script, by its hash or whole, with its confirmation, and another one that undoes it; and the test of an
        // idle connection.
        capabilities.most_requests = 2 * (3 + 2) + 1;
        capabilities.removed_by_shedlock = true;
        capabilities.durable = self.durable.load(Ordering::Relaxed);
        capabilities.repeats_attempts = !self.connections.sends_once;
        capabilities.failover = match self.confirmation {
            Some(Confirmation { replicas, .. }) => Failover::Confirmed { servers: replicas },
            None => Failover::MayForget,
        };
        capabilities
    }

    fn longest_call(&self) -> Duration {
        let wait = self.confirmation.map(|wanted| wanted.timeout);
        let longest = self.connections.longest_call;
        longest.saturating_add(wait.unwrap_or_default())
    }

    async fn attempt(&self, request: &AttemptRequest, budget: &Budget) -> Result<Attempt> {
        let clock = self.clocks.of(&self.keys.of(&request.name).lock);
        let claim = |not_after| self.claim(request, not_after);
        clock.attempt_within(budget, claim).await
    }

    async fn extend(&self, lease: &Lease, request: &ExtendRequest) -> Result<Extension> {
        let at_most = micros(request.lock_at_most_for);
        let arguments = [lease.owner().as_str(), &at_most];
        let wanted = self.confirmation;
        let answer = self.run(&scripts::EXTEND, lease.name(), &arguments, wanted);
        let (found, shortfall) = answer.await?;
        match (&*found.word, shortfall) {
            ("lost", _) => return Ok(Extension::Lost),
            (_, Some(shortfall)) => return Err(shortfall.in_doubt()),
            _ => {}
        }
        let (extended, until) = (lease.extended(request), found.locked_until());
        let extended = maybe(extended, until, Lease::with_locked_until);
        Ok(Extension::Extended(extended))
    }

    async fn end(&self, end: &End<'_>) -> Result<Ended> {
        let acquired = end.lease.and_then(Lease::acquired_at);
        let acquired = acquired.and_then(|at| Slot::at(at).ok());
        let (mut done, mut given, mut before) = (None, None, None);
        match end.slot {
            Some((slot, SlotEnd::Done { .. })) => done = Some(slot),
            Some((slot, SlotEnd::Cut)) => given = Some(slot),
            Some((slot, SlotEnd::NotStarted)) => {
                given = Some(slot);
                before = Some(slot.just_before());
            }
            _ => {}
        }
        let pause = Some(end.retry_after()).filter(|pause| !pause.is_zero());
        // It is safe if a failover loses the release of a lock.
        let wanted = self.confirmation.filter(|_| done.is_some());
        let arguments = [
            end.owner.as_str(),
            &shown(acquired.map(Slot::as_micros)),
            &micros(end.at_least),
            &shown(done.map(Slot::as_micros)),
            &shown(pause.map(micros)),
            flag(wanted),
            &shown(given.map(Slot::as_micros)),
            &shown(before.map(Slot::as_micros)),
        ];
        let is_plain = end.at_least.is_zero() && done.or(given).is_none() && pause.is_none();
        let arguments = &arguments[..if is_plain { 1 } else { arguments.len() }];
        let answer = self.run(&scripts::FINISH, end.name, arguments, wanted);
        let (found, shortfall) = answer.await?;
        match (&*found.word, shortfall) {
            ("lost", _) => Ok(Ended::Lost),
            (_, Some(shortfall)) => Err(shortfall.in_doubt()),
            ("ended", None) => Ok(Ended::ByThisCall),
            ("before", None) => Ok(Ended::ByAnEarlierCall),
            _ => Err(found.unexpected()),
        }
    }

    async fn look(&self, name: &LockName) -> Result<Option<Seen<Version>>> {
        let answer = self.run(&scripts::INSPECT, name, &[""; 0], None);
        let (found, _) = answer.await?;
        Ok(found.is_some().then(|| Seen {
            record: found.record(name),
            version: Version {
                value: found.raw,
                record: found.stored.unwrap_or_default(),
            },
        }))
    }

    async fn change(
        &self,
        name: &LockName,
        seen: &Seen<Version>,
        change: &Change,
    ) -> Result<Changed> {
        let value = seen.version.value.as_deref();
        let seen_words = slots_of(&seen.version.record);
        let slots = change.slots.map(|slots| words(&slots, seen_words));
        match &change.lease {
            LeaseChange::Keep => {
                let slots = slots.as_deref().unwrap_or(seen_words);
                let arguments = [seen_words, slots];
                self.run_change(&scripts::RESET, name, &arguments).await
            }
            LeaseChange::End { owner, kept } => {
                let mark = owner.rfind(' ').map_or("", |at| &owner[at..]);
                let ends = kept.map(Slot::at).transpose()?;
                let ends = ends.map_or_else(|| "0".to_owned(), |at| at.as_micros().to_string());
                let slots = slots.unwrap_or_default();
                let arguments = [
                    value.unwrap_or_default(),
                    mark.as_bytes(),
                    ends.as_bytes(),
                    slots.as_bytes(),
                ];
                let few = if change.slots.is_some() { 4 } else { 3 };
                self.run_change(&scripts::FORCE, name, &arguments[..few])
                    .await
            }
            LeaseChange::Take { owner, until } => {
                let value = value.map_or_else(Vec::new, |value| [b"=", value].concat());
                let until = Slot::at(*until)?.as_micros().to_string();
                let slots = slots.as_deref().unwrap_or(seen_words);
                let arguments = [
                    owner.as_bytes(),
                    until.as_bytes(),
                    &value,
                    seen_words.as_bytes(),
                    slots.as_bytes(),
                ];
                self.run_change(&scripts::PAUSE, name, &arguments).await
            }
        }
    }

    async fn remove(&self, name: &LockName, seen: &Seen<Version>) -> Result<Changed> {
        let arguments = [&seen.version.record];
        self.run_change(&scripts::REMOVE, name, &arguments).await
    }

    async fn list(&self, request: &ListRequest) -> Result<Vec<LockRecord>> {
        let names = self.connections.names(&self.keys).await?.into_iter();
        let is_ahead = |name: &LockName| request.after.as_ref().is_none_or(|after| name > after);
        let size = request.limit();
        let records = stream::iter(names.filter(is_ahead)).map(|name| async move {
            let (limit, record) = (self.longest_call(), self.inspect(&name));
            let record = answered_within(&**self.clock(), limit, ErrorKind::Unavailable, record);
            let record = record.await.map_err(|error| error.with_lock(name.as_str()));
            Ok(listed("redis", name.as_str(), record)?.flatten())
        });
        let is_wanted = |record: &LockRecord| !request.held_only || record.state != LockState::Free;
        let page = records.buffered(READ.min(size));
        let page = page.try_filter_map(|record| ready(Ok(record.filter(is_wanted))));
        page.take(size).try_collect().await
    }

    fn schema(&self) -> Schema {
        Schema::default()
            .journal(journal::steps(&self.keys.journal()))
            .note("the first attempt on a lock creates its keys")
    }

    async fn check(&self) -> Result<()> {
        self.check_servers().await
    }

    async fn diagnose(&self) -> Result<Vec<Finding>> {
        self.diagnose_servers().await
    }

    fn journal(self: Arc<Self>) -> Option<Arc<dyn Journal>> {
        Some(Arc::new(RedisJournal::new(self)))
    }

    async fn server_time(&self) -> Result<Option<SystemTime>> {
        let name = LockName::new("check")?;
        let (found, _) = self.run(&scripts::INSPECT, &name, &[""; 0], None).await?;
        Ok(Some(found.now).filter(|now| *now > UNIX_EPOCH))
    }
}

const CLOCK: &str = "the server's clock";

/// Evaluates an attempt that was not granted: the lock's own key exists and belongs to this request or to another one,
/// or the slots reject the request.
pub(crate) fn taken(request: &AttemptRequest, found: &Found) -> Result<Attempt> {
    if found.is_held_by(&request.owner) {
        return Ok(Attempt::Acquired(found.lease(request)));
    }
    if found.is_endless() {
        return Err(conflict(
            "the lock's key has no time to live (TTL) and never expires; neither shedlock \
             nor ShedLock writes such a key",
        )
        .advise("check what wrote it, then delete it or unlock by force"));
    }
    check_slot(request, found.now, CLOCK)?;
    let record = found.record(&request.name);
    let refusal = refusal(request, &record, found.value.shedlock_at(), found.now);
    refusal
        .map(Attempt::Skipped)
        .ok_or_else(|| found.unexpected())
}

fn micros(duration: Duration) -> String {
    duration.as_nanos().div_ceil(1_000).to_string()
}

/// An optional value as scripts expect it: empty if there is none.
fn shown(value: Option<impl fmt::Display>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A script's argument for whether replicas must confirm.
fn flag(wanted: Option<Confirmation>) -> &'static str {
    if wanted.is_some() { "1" } else { "" }
}
