//! The store: its keys and connections, and how a lock is taken, extended and ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use ErrorKind::{Configuration, Unavailable};
use etcd_client::Client;
use shedlock_core::admin::{Change, Changed};
use shedlock_core::{
    Attempt, AttemptRequest, Budget, Capabilities, Clock, ClockSource, Error, ErrorKind,
    ExtendRequest, Extension, Failover, Finding, Lease, ListRequest, LockDefaults, LockName,
    LockRecord, Moment, Schema, Skip, SkipReason, Slot, SystemClock,
};
use shedlock_provider::{
    End, Ended, FromClient, HUNDRED_YEARS, NeedsNoSettings, ROUNDS, Record, Result, Seen, Store,
    StoreProvider, VALID, check_slot, conflict, contended, maybe, paged, quorum, refusal,
    whole_millis,
};

use crate::EtcdProvider;
use crate::codec::{Keys, LONGEST_NAME, write};
use crate::connections::Connections;
use crate::explain::is_full;
use crate::found::{Found, Granted, KeyChange};

/// The shortest lease of a server with default settings.
const USUALLY_SHORTEST: u64 = 2;

/// How long the store may take to detect that a lease has expired and to agree on it: it checks twice a second.
const LATE: Duration = Duration::from_secs(1);

/// Locks in the keys of one environment.
#[derive(Debug)]
pub struct EtcdStore {
    pub(crate) connections: Arc<Connections>,
    pub(crate) keys: Keys,
    pub(crate) clock: Arc<dyn Clock>,
    /// The shortest lease that the servers keep, in seconds, as the last check found it.
    shortest: AtomicU64,
}

/// The state that a lease of ours carries.
#[derive(Debug)]
pub(crate) struct LeaseState {
    /// What the store contained after the last write.
    pub(crate) found: Found,
    /// When the reply that granted the lock arrived: at-least is counted from here.
    pub(crate) since: Moment,
    /// The instant until which the store's lease lasts at least; none if another call requested that lease.
    pub(crate) ends: Option<Moment>,
    /// Whether an end of this lease was sent that leaves no mark; see [`end_keys`](EtcdStore::end_keys).
    pub(crate) ended_unmarked: AtomicBool,
}

impl LeaseState {
    fn new(found: Found, since: Moment, ends: Option<Moment>) -> Self {
        Self {
            found,
            since,
            ends,
            ended_unmarked: AtomicBool::new(false),
        }
    }
}

/// Configures the keys of a provider. `EtcdProvider::builder` returns it.
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

impl NeedsNoSettings for EtcdStore {
    type Store = Self;

    fn with_defaults(client: Client) -> StoreProvider<Self> {
        Self::builder(client).build().expect(VALID)
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

    shedlock_provider::setters! { []
        /// Sets the environment in the keys: `default` by default, as in ShedLock. Locks of the same name in two
        /// environments are different locks.
        environment(environment: impl Into<String>) = environment.into();

        /// Sets the prefix of the locks' keys: `shedlock` by default, as in ShedLock. If ShedLock's client has a
        /// namespace, its keys begin with that namespace, followed by the prefix.
        key_prefix(prefix: impl Into<String>) = prefix.into();

        /// Sets the durations for locks that set none, and the prefix of owners.
        defaults(defaults: LockDefaults) = defaults;

        /// Sets this host's clock, for tests. It is used to refuse slots that are too far ahead, to count at-least, and
        /// to show times. The store's leases decide when locks end.
        clock(clock: Arc<dyn Clock>) = clock;
    }

    /// Checks the settings and creates the provider, without any I/O.
    ///
    /// # Errors
    /// `InvalidInput` for an environment or a prefix that is empty, contains control characters, or would mix up lock
    /// keys with companion keys.
    pub fn build(self) -> Result<EtcdProvider> {
        let keys = Keys::new(&self.key_prefix, &self.environment);
        let store = EtcdStore {
            connections: Arc::new(self.connections),
            keys: keys.map_err(|error| error.with_store("etcd"))?,
            clock: self.clock,
            shortest: AtomicU64::new(USUALLY_SHORTEST),
        };
        Ok(StoreProvider::of(store).with_defaults(self.defaults))
    }
}

/// By how much the clocks of clients, which judge slots and pauses, may differ.
const SLOT_SKEW: Duration = Slot::DEFAULT_TOLERANCE;

impl Store for EtcdStore {
    type Version = Found;

    fn name(&self) -> &str {
        "etcd"
    }

    fn capabilities(&self) -> Capabilities {
        let shortest = Duration::from_secs(self.shortest.load(Ordering::Relaxed));
        let mut capabilities = Capabilities::new(ClockSource::Store);
        capabilities.slot_clock = ClockSource::Clients {
            tolerated_skew: SLOT_SKEW,
        };
        // Covers a lease that the server makes longer, and a duration that is rounded up.
        capabilities.granularity = shortest.saturating_add(LATE);
        capabilities.longest_lock_at_most_for = HUNDRED_YEARS;
        capabilities.longest_name = LONGEST_NAME;
        // One read, and in each round a lease, a transaction, a read back, and the lease's end; and the test of an idle
        // connection.
        capabilities.most_requests = 4 * ROUNDS + 2;
        capabilities.removed_by_shedlock = true;
        capabilities.failover = Failover::Majority;
        capabilities
    }

    fn longest_call(&self) -> Duration {
        self.connections.longest_call()
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Reads, judges, requests a lease of the store, and writes if nothing has changed since the read. Otherwise the
    /// reply contains the current state, which is judged in turn: the winner of the race usually holds the lock.
    async fn attempt(&self, request: &AttemptRequest, budget: &Budget) -> Result<Attempt> {
        let name = &request.name;
        budget.count();
        let mut found = self.find(name).await?;
        for _ in 0..ROUNDS {
            if let Some(answer) = self.judged(request, &found)? {
                return Ok(answer);
            }
            let now = self.clock.system_time();
            budget.count();
            let lease = self.grant(request.lock_at_most_for).await?;
            let value = write(now, request.owner.as_str()).into_bytes();
            let record = taken(request, &found, now, lease);
            let own = KeyChange::Put(value, lease.id);
            budget.count();
            match self.change_keys(name, &found, own, Some(record)).await? {
                (Changed::Done, now) => {
                    let lease = self.won(request, now, Some(lease.ends));
                    return Ok(Attempt::Acquired(lease));
                }
                (_, now) => found = now,
            }
        }
        let judged = self.judged(request, &found)?;
        Ok(judged.unwrap_or_else(|| Attempt::Skipped(Skip::new(SkipReason::Contended))))
    }

    /// Ends the lease that the attempt has won, if any. Returns whether there was one.
    ///
    /// Otherwise a copy of the attempt may still be on its way. Its transaction requires that the companion record
    /// still has the revision read before the copy was sent, or that the record does not exist. So an existing record
    /// is written again, and a missing one is created as released. The store then refuses the copy whenever it arrives.
    /// If a write here loses a race, the copy may have won it, so the keys are judged again.
    async fn withdraw(&self, request: &AttemptRequest) -> Result<bool> {
        let (name, owner) = (&request.name, &request.owner);
        let mut found = self.find(name).await?;
        for _ in 0..ROUNDS {
            if found.names(owner) {
                match self.finish(&End::withdrawn(request), found).await? {
                    Ended::ByThisCall => return Ok(true),
                    Ended::ByAnEarlierCall => return Ok(false),
                    Ended::Lost => {
                        found = self.find(name).await?;
                        continue;
                    }
                }
            }
            if found.is_released_by(owner) || !found.admits_copies() {
                return Ok(false);
            }
            let mut record = found.record();
            if found.kept.is_none() {
                record.owner = owner.released();
            }
            let change = self.change_keys(name, &found, KeyChange::Leave, Some(record));
            match change.await? {
                (Changed::Done, _) => return Ok(false),
                (_, now) => found = now,
            }
        }
        Err(contended())
    }

    /// Moves the lock's own key to a new lease of the store. Keeping the old lease alive would save one write, but the
    /// cluster does not agree on keep-alives: a leader that was paused ends leases by its own state, even those that
    /// another leader has kept alive in the meantime.
    ///
    /// If the old lease lasts longer than requested, the lock keeps it and nothing is written. How long it lasts is for
    /// the store to report: the clocks of this host may have stood still since it was granted.
    async fn extend(&self, lease: &Lease, request: &ExtendRequest) -> Result<Extension> {
        let (name, owner) = (lease.name(), lease.owner());
        let held = lease.state::<LeaseState>();
        let since = held.map_or_else(|| self.clock.now(), |held| held.since);
        let extended = |until: Option<SystemTime>, found, ends| {
            let state = LeaseState::new(found, since, ends);
            let extended = lease.extended(request).with_state(Arc::new(state));
            Extension::Extended(maybe(extended, until, Lease::with_locked_until))
        };
        let mut found = self.known(lease).await?;
        for _ in 0..ROUNDS {
            let Some(mut lock) = found.held_by(owner).cloned() else {
                return Ok(Extension::Lost);
            };
            let old = lock.lease;
            let (ends, mut at_most) = self.end_of(held, old).await?;
            if self.clock.now() + request.lock_at_most_for <= ends {
                let asked = self.clock.now();
                let both = futures_util::future::join(self.find(name), self.left(old));
                let (now, left) = both.await;
                found = now?;
                match found.held_by(owner) {
                    Some(now) if found.ends_with(old) => lock = now.clone(),
                    _ => continue,
                }
                at_most = left?.unwrap_or_default();
                let at_least = at_most.saturating_sub(Duration::from_secs(1));
                if request.lock_at_most_for <= at_least {
                    return Ok(extended(found.end_of(lease), found, Some(asked + at_least)));
                }
            }
            let now = self.clock.system_time();
            let lasts = request.lock_at_most_for.max(at_most);
            let Some(new) = self.grant_again(lease, lasts).await? else {
                return Ok(Extension::Lost);
            };
            let until = whole_millis(now) + new.lasts;
            // By the wall clock, which may have been set since.
            let until = found.end_of(lease).map_or(until, |end| end.max(until));
            let mut record = found.record();
            record.owner = owner.to_string();
            record.locked_until = until;
            record.fencing_token = Some(lock.token);
            let own = KeyChange::Put(lock.value.clone(), new.id);
            match self.change_keys(name, &found, own, Some(record)).await? {
                (Changed::Done, found) => {
                    self.revoke(old);
                    return Ok(extended(Some(until), found, Some(new.ends)));
                }
                (_, now) => found = now,
            }
        }
        Err(contended())
    }

    async fn end(&self, end: &End<'_>) -> Result<Ended> {
        let known = match end.lease {
            Some(lease) => self.known(lease).await?,
            None => self.find(end.name).await?,
        };
        self.finish(end, known).await
    }

    async fn look(&self, name: &LockName) -> Result<Option<Seen<Found>>> {
        self.look_at(name).await
    }

    async fn change(
        &self,
        name: &LockName,
        seen: &Seen<Found>,
        change: &Change,
    ) -> Result<Changed> {
        self.change_record(name, &seen.version, change).await
    }

    async fn remove(&self, name: &LockName, seen: &Seen<Found>) -> Result<Changed> {
        self.remove_record(name, &seen.version).await
    }

    async fn list(&self, request: &ListRequest) -> Result<Vec<LockRecord>> {
        let after = request.after.as_ref().cloned();
        paged("etcd", request, after, |after, _| self.read(after)).await
    }

    fn schema(&self) -> Schema {
        Schema::default().note("the first attempt on a lock creates its keys")
    }

    /// Reads a key that need not exist, and requests the shortest lease, which is then revoked. A store that is full
    /// grants no lease, but serves reads and ends locks, so it passes.
    async fn check(&self) -> Result<()> {
        self.find(&LockName::new("check")?).await?;
        let granted = match self.grant(Duration::ZERO).await {
            Err(error) if is_full(&error) => return Ok(()),
            granted => granted?,
        };
        self.revoke(granted.id);
        let shortest = granted.lasts.as_secs();
        self.shortest.store(shortest, Ordering::Relaxed);
        Ok(())
    }

    /// Users without the role root may not read the status where authentication is on.
    async fn diagnose(&self) -> Result<Vec<Finding>> {
        let status = |it: Arc<Client>| async move { it.maintenance_client().status().await };
        let members = |it: Arc<Client>| async move { it.cluster_client().member_list().await };
        let status = match self.connections.ask(Unavailable, status).await {
            Ok(status) => status,
            Err(error) if error.kind() == Configuration => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let members = self.connections.ask(Unavailable, members).await?;
        let members = members.members();
        let voters = members.iter().filter(|member| !member.is_learner()).count();
        let errors = status.errors();
        Ok(vec![
            Finding::ok("version", format!("etcd {}", status.version())),
            quorum(voters),
            if errors.is_empty() {
                Finding::ok("alarms", "no alarms are active")
            } else {
                Finding::error(
                    "alarms",
                    format!("active alarms: {}", errors.join(", ")),
                    "find their cause with `etcdctl endpoint status` and `etcdctl alarm list`; if \
                     the space quota is used up, compact and defragment, then disarm the alarm",
                )
            },
        ])
    }
}

impl EtcdStore {
    /// Returns the answer to this request if it requires no write.
    fn judged(&self, request: &AttemptRequest, found: &Found) -> Result<Option<Attempt>> {
        // A repeated attempt whose first reply was lost.
        if found.held_by(&request.owner).is_some() {
            let lease = self.won(request, found.clone(), None);
            return Ok(Some(Attempt::Acquired(lease)));
        }
        if found.ends_with(0) {
            return Err(conflict(
                "the lock's key has no lease, so it never expires, and neither shedlock nor \
                 ShedLock wrote it",
            )
            .advise("check what wrote it, then delete it or unlock by force"));
        }
        let now = self.clock.system_time();
        check_slot(request, now, "this host's clock")?;
        let record = found.shown(&request.name, now);
        let latest = now + SLOT_SKEW;
        match refusal(request, &record, found.value().shedlock_at(), latest) {
            Some(skip) => Ok(Some(Attempt::Skipped(skip))),
            None if found.is_ended_by(&request.owner) => Err(Error::attempt_ended()),
            None => Ok(None),
        }
    }

    /// Requests a lease of the store to extend this one. Returns `None` if the store is full and this one is lost: its
    /// known state may be out of date.
    async fn grant_again(&self, lease: &Lease, lasts: Duration) -> Result<Option<Granted>> {
        match self.grant(lasts).await {
            Err(error) if is_full(&error) => {
                let found = self.find(lease.name()).await?;
                match found.held_by(lease.owner()) {
                    Some(_) => Err(error),
                    None => Ok(None),
                }
            }
            granted => granted.map(Some),
        }
    }

    fn won(&self, request: &AttemptRequest, found: Found, ends: Option<Moment>) -> Lease {
        let lease = found.lease(request);
        let since = self.clock.now();
        lease.with_state(Arc::new(LeaseState::new(found, since, ends)))
    }

    /// Returns the state that the lease carries, or reads it. It may be out of date: the store then makes no change,
    /// and its reply contains the current state.
    pub(crate) async fn known(&self, lease: &Lease) -> Result<Found> {
        match lease.state::<LeaseState>() {
            Some(held) => Ok(held.found.clone()),
            None => self.find(lease.name()).await,
        }
    }

    /// Returns the instant, by the local clock, until which the lease of the lock's own key lasts at least, and the
    /// longest time that this lease can have left. If the lock's lease carries the instant, the time left is given as
    /// zero. Otherwise both are derived from the store's report.
    async fn end_of(&self, held: Option<&LeaseState>, lease: i64) -> Result<(Moment, Duration)> {
        let known = held.filter(|held| held.found.ends_with(lease));
        if let Some(ends) = known.and_then(|held| held.ends) {
            return Ok((ends, Duration::ZERO));
        }
        let asked = self.clock.now();
        let left = self.left(lease).await?.unwrap_or_default();
        Ok((asked + left.saturating_sub(Duration::from_secs(1)), left))
    }
}

fn taken(request: &AttemptRequest, before: &Found, now: SystemTime, lease: Granted) -> Record {
    let mut record = acquired(request.owner.as_str(), before, now, lease);
    record.slots = record.slots.as_of(now + SLOT_SKEW).taken(request);
    record
}

/// The record of an acquisition by this owner, with the slots from before.
pub(crate) fn acquired(owner: &str, before: &Found, now: SystemTime, lease: Granted) -> Record {
    let at = whole_millis(now);
    let mut record = Record::until(at + lease.lasts);
    record.owner = owner.to_owned();
    record.locked_at = Some(at);
    record.slots = before.record().slots;
    record
}
