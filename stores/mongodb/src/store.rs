//! A collection of locks, its settings, and one command for each call.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ErrorKind::Unavailable;
use futures_util::TryStreamExt as _;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::results::{CollectionSpecification, CollectionType};
use shedlock_core::admin::{Change, Changed, LeaseChange};
use shedlock_core::{
    Attempt, AttemptRequest, Budget, Capabilities, Clock, Error, ErrorKind, ExtendRequest,
    Extension, Failover, Finding, Journal, Lease, ListRequest, LockDefaults, LockName, LockRecord,
    Owner, SETTINGS, Schema, SkippedSlots, Slot, StoreClock, SystemClock,
};
use shedlock_provider::{
    End, Ended, FromClient, HUNDRED_YEARS, Part, ROUNDS, Result, Seen, Store, StoreProvider,
    TimeMode, Told, configuration, paged, told,
};

use crate::MongoProvider;
use crate::codec::{
    self, ATTEMPTS, BY, DONE, Look, RESOLUTION, SKIP_FROM, SKIP_UNTIL, SLOT, UNTIL, instant,
};
use crate::journal::{self, MongoJournal};
use crate::place::Place;
use crate::update::{Now, acquired, ended, ended_by_operator, extension, set};

pub(crate) const NAME: &str = "mongodb";

pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest name in bytes. MongoDB's documents could have longer ones.
pub(crate) const LONGEST_NAME: usize = 16 * 1_024;

/// The documents of one collection.
#[derive(Debug)]
pub struct MongoStore {
    pub(crate) place: Place,
    pub(crate) settings: Settings,
    /// The server's clock, as last reported in its replies.
    pub(crate) server: StoreClock,
}

/// Configures how a provider stores its locks. Created by `MongoProvider::builder`.
#[derive(Debug)]
#[must_use = "a builder does nothing before `build`"]
pub struct Builder {
    pub(crate) place: Place,
    pub(crate) settings: Settings,
}

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) time: TimeMode,
    pub(crate) response_timeout: Duration,
    pub(crate) server_skew: Duration,
    pub(crate) defaults: LockDefaults,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            time: TimeMode::Store,
            response_timeout: TIMEOUT,
            server_skew: Duration::ZERO,
            defaults: LockDefaults::new(),
            clock: Arc::new(SystemClock),
        }
    }
}

impl FromClient for MongoStore {
    type Client = Place;
    type Builder = Builder;

    fn builder(place: Place) -> Builder {
        let settings = Settings::default();
        Builder { place, settings }
    }
}

impl Builder {
    /// Selects another collection of the same database, whose writes a majority acknowledges.
    pub fn collection(mut self, name: impl AsRef<str>) -> Self {
        self.place = Place::durable(&self.place.database, name.as_ref());
        self
    }

    shedlock_provider::setters! { [settings]
        /// Sets whose clock judges leases. Default: the server's, which is the primary's. A new primary judges leases
        /// by its own clock. So keep the clocks of all members synchronized, and set [`server_skew`](Self::server_skew)
        /// to the remaining skew.
        time(time: TimeMode) = time;

        /// Sets how long a reply may take. Default: 5 s. A write whose reply does not arrive in time fails with
        /// `OutcomeUnknown`. The driver itself has no such limit.
        response_timeout(timeout: Duration) = timeout;

        /// Sets the maximum clock skew between servers that judge leases one after another. Default: zero. A server
        /// that takes over judges by its own clock, so the runtime stops relying on a lease this much before its end,
        /// and lock_at_most_for must be longer. Has no effect with [`TimeMode::Client`].
        server_skew(skew: Duration) = skew;
    }

    shedlock_provider::common_setters!(settings);

    /// Checks the settings and builds the provider. No I/O.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid name of the collection, a timeout of zero, and contradictory defaults.
    pub fn build(self) -> Result<MongoProvider> {
        let Self { place, settings } = self;
        settings.defaults.validate()?;
        if settings.response_timeout.is_zero() {
            return Err(invalid("response_timeout is zero").advise("set it to a few seconds"));
        }
        let name = place.collection.name();
        let is_system = name.starts_with("system.");
        let is_cut = name.is_empty() || name.starts_with('.') || name.ends_with('.');
        if is_system || is_cut || name.contains(['$', '\0']) {
            return Err(
                invalid(format!("invalid collection name {name:?}")).advise("choose another one")
            );
        }
        let defaults = settings.defaults.clone();
        let server = StoreClock::with_clock(Arc::clone(&settings.clock));
        let store = MongoStore {
            place,
            settings,
            server,
        };
        Ok(StoreProvider::of(store).with_defaults(defaults))
    }
}

pub(crate) fn invalid(what: impl Into<Cow<'static, str>>) -> Error {
    shedlock_provider::invalid(what).with_store(NAME)
}

/// Nothing has to be created for locks in this collection.
pub(crate) fn schema(locks: &str) -> Schema {
    let note = "the first attempt on a lock creates the collection and the document; a lock's name is its `_id`, so no \
                index is needed";
    Schema::default().journal(journal::steps(locks)).note(note)
}

impl Store for MongoStore {
    /// The owner as it is stored.
    type Version = String;

    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        let settings = &self.settings;
        let mut capabilities = Capabilities::new(settings.time.source());
        capabilities.granularity = RESOLUTION;
        if !settings.time.is_client() {
            capabilities.server_skew = settings.server_skew;
        }
        capabilities.longest_lock_at_most_for = HUNDRED_YEARS;
        capabilities.longest_name = LONGEST_NAME;
        // In each round an update, the server's time, and a creation or a read; and the test of an idle connection.
        capabilities.most_requests = 3 * ROUNDS + 1;
        let concern = self.place.collection.write_concern();
        capabilities.failover = match concern {
            Some(_) if self.place.is_weak() => Failover::MayForget,
            Some(_) => Failover::Majority,
            // The server's default applies.
            None => Failover::Unspecified,
        };
        // Independent of the replica set's configuration.
        let is_journaled = concern.is_some_and(|concern| concern.journal == Some(true));
        capabilities.durable = is_journaled && !self.place.is_weak();
        capabilities
    }

    /// The time for one command that gets no reply, and for the query that follows it.
    fn longest_call(&self) -> Duration {
        self.settings.response_timeout.saturating_mul(2)
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.settings.clock
    }

    async fn attempt(&self, request: &AttemptRequest, budget: &Budget) -> Result<Attempt> {
        self.judge(request, budget).await
    }

    /// Before the lease is ended, the end of a free lock is moved up to now. A copy of the attempt that waits in the
    /// server, or that carries this client's time, judges by an earlier instant, and so finds the lock taken.
    async fn withdraw(&self, request: &AttemptRequest) -> Result<bool> {
        let now = self.now();
        let free = doc! { "_id": request.name.as_str(), "$expr": now.is_end("$lt") };
        self.update(free, set(doc! { UNTIL: now.date() })).await?;
        self.give_back(&End::withdrawn(request)).await
    }

    async fn extend(&self, lease: &Lease, request: &ExtendRequest) -> Result<Extension> {
        let now = self.now();
        let query = running(lease.name(), lease.owner().as_str(), now);
        let extension = extension(now, request.lock_at_most_for);
        let Some(document) = self.update(query, extension).await? else {
            return Ok(Extension::Lost);
        };
        let until = codec::record(&document)?.locked_until;
        let extended = lease.extended(request).with_locked_until(until);
        Ok(Extension::Extended(extended))
    }

    async fn end(&self, end: &End<'_>) -> Result<Ended> {
        if self.give_back(end).await? {
            return Ok(Ended::ByThisCall);
        }
        // Repeated after a lost reply: the lock has not been taken meanwhile.
        match self.read(end.name).await? {
            Some(look) if look.record.owner == end.owner.released() => Ok(Ended::ByAnEarlierCall),
            _ => Ok(Ended::Lost),
        }
    }

    async fn look(&self, name: &LockName) -> Result<Option<Seen<String>>> {
        let look = self.read(name).await?;
        Ok(look.map(|look| Seen {
            record: look.shown(name),
            version: look.record.owner,
        }))
    }

    async fn change(
        &self,
        name: &LockName,
        seen: &Seen<String>,
        change: &Change,
    ) -> Result<Changed> {
        let now = self.now();
        let owner = &*seen.version;
        let (mut query, mut fields) = match &change.lease {
            LeaseChange::Keep => (doc! { "_id": name.as_str() }, doc! {}),
            LeaseChange::End { owner: by, kept } => {
                let mut same = running(name, owner, now);
                // ShedLock's owner is the same for each of its leases.
                if !Owner::is_ours(owner) {
                    same.insert(UNTIL, seen_until(seen));
                }
                (same, ended_by_operator(now, by, *kept))
            }
            LeaseChange::Take {
                owner: by,
                until: end,
            } => {
                let mut same = owned(name, owner);
                same.insert(UNTIL, seen_until(seen));
                let mut fields = acquired(now, by, Duration::ZERO);
                fields.insert(UNTIL, DateTime::from_system_time(*end));
                (same, fields)
            }
        };
        if let Some(slots) = change.slots {
            let micros = |slot: Option<Slot>| slot.map(Slot::as_micros);
            query.insert(SLOT, micros(seen.record.last_slot));
            let skipped = |it: Option<SkippedSlots>| {
                [it.map(|it| it.from), it.map(|it| it.until)].map(micros)
            };
            if change.lease == LeaseChange::Keep {
                let [_, skip_until] = skipped(seen.record.skipped_slots);
                query.insert(ATTEMPTS, seen.record.slot_attempts.map(i64::from));
                query.insert(SKIP_UNTIL, skip_until);
            }
            let [skip_from, skip_until] = skipped(slots.skipped);
            fields.extend(doc! {
                SLOT: micros(slots.last),
                DONE: micros(slots.done),
                ATTEMPTS: slots.attempts.map(i64::from),
                SKIP_FROM: skip_from,
                SKIP_UNTIL: skip_until,
            });
        }
        let written = self.update(query, set(fields)).await?;
        Ok(Changed::done(written.is_some()))
    }

    async fn remove(&self, name: &LockName, seen: &Seen<String>) -> Result<Changed> {
        let record = &seen.record;
        let mut same = owned(name, &seen.version);
        same.extend(doc! {
            UNTIL: record.locked_until.map(DateTime::from_system_time),
            SLOT: record.last_slot.map(Slot::as_micros),
            "$expr": self.now().is_end("$lte"),
        });
        Ok(Changed::done(self.delete(same).await?))
    }

    /// Returns a page of records in the byte order of the names, or in the order of the collection's own collation.
    /// Documents that are not locks are left out, with a warning.
    async fn list(&self, request: &ListRequest) -> Result<Vec<LockRecord>> {
        let read = |after: Option<String>, want: usize| async move {
            let mut filter =
                doc! { "_id": { "$type": "string", "$gt": after.unwrap_or_default() } };
            if request.held_only {
                filter.insert("$expr", self.now().is_end("$gt"));
            }
            let pipeline = vec![
                doc! { "$match": filter },
                doc! { "$sort": { "_id": 1 } },
                doc! { "$limit": i64::try_from(want).unwrap_or(i64::MAX) },
            ];
            let answers = self.ask(pipeline, None).await?;
            let found = answers.iter().map_while(|answer| {
                let document = answer.get_document("record").ok()?;
                let id = document.get_str("_id").ok()?;
                let record =
                    LockName::new(id).and_then(|name| Ok(Some(Look::read(answer)?.shown(&name))));
                Some((id.to_owned(), record))
            });
            let found: Vec<_> = found.collect();
            // Documents that were left out leave room, so reading continues after the last one found.
            let last = found.last().filter(|_| found.len() == want);
            let next = last.map(|(id, _)| id.clone());
            Ok(Part { found, next })
        };
        let after = request.after.as_ref().map(LockName::to_string);
        paged(NAME, request, after, read).await
    }

    fn schema(&self) -> Schema {
        schema(self.place.collection.name())
    }

    /// Logs warnings about settings that work, but not as their users may expect. Returns `Configuration` if this is
    /// not a regular collection, or if the user may not read it.
    async fn check(&self) -> Result<()> {
        self.ask(vec![doc! { "$limit": 1 }], None).await?;
        let name = self.place.collection.name();
        if self.place.is_weak() {
            tracing::warn!(target: SETTINGS, collection = name, "{WEAK}");
        }
        let Some(described) = self.described().await else {
            return Ok(());
        };
        if described.collection_type != CollectionType::Collection {
            let what = format!("{name}: a view or a time series cannot store locks");
            return Err(configuration(what).advise("use another collection"));
        }
        if has_collation(&described) {
            tracing::warn!(target: SETTINGS, collection = name, "{COLLATED}");
        }
        Ok(())
    }

    async fn diagnose(&self) -> Result<Vec<Finding>> {
        let hello = self.run(doc! { "hello": 1 }).await?;
        let build = self.run(doc! { "buildInfo": 1 }).await;
        let version = build.as_ref().map(|build| build.get_str("version"));
        let version = version
            .ok()
            .and_then(Result::ok)
            .unwrap_or("of unknown version");
        let members = hello.get_array("hosts").map_or(0, Vec::len);
        let checked = |check, is_wrong: bool, wrong: Told, well: &str| match is_wrong {
            true => wrong.warning(check, &[]),
            false => Finding::ok(check, well),
        };
        let described = self.described().await;
        Ok(vec![
            Finding::ok("version", format!("mongodb {version}")),
            Finding::ok(
                "replicas",
                match members {
                    0 => "the server is not a member of a replica set".to_owned(),
                    many => format!("members of the replica set: {many}"),
                },
            ),
            checked(
                "durability",
                self.place.is_weak(),
                WEAK,
                "no write concern is set that is weaker than a journaled majority",
            ),
            checked(
                "collation",
                described.as_ref().is_some_and(has_collation),
                COLLATED,
                "names are compared byte for byte",
            ),
            self.privileges().await,
        ])
    }

    fn journal(self: Arc<Self>) -> Option<Arc<dyn Journal>> {
        Some(Arc::new(MongoJournal::new(self)))
    }

    async fn server_time(&self) -> Result<Option<SystemTime>> {
        let sent = self.clock().now();
        let hello = self.run(doc! { "hello": 1 }).await?;
        let time = hello.get_datetime("localTime").ok();
        let time = time.map(|time| instant(*time));
        if let Some(time) = time {
            self.server.observe_reply(time, sent);
        }
        Ok(time)
    }
}

// What is wrong, and what to do.
const WEAK: Told = told(
    "the collection's write concern is weaker than a journaled majority: a new primary may lack a \
     held lock, and another process can take it",
)
.advise("set w=majority and journal=true");
const COLLATED: Told = told(
    "the collection has a collation: names that it treats as equal cannot both be locks, and \
     finding a lock may be slower",
)
.advise("use a collection without one");

fn has_collation(described: &CollectionSpecification) -> bool {
    let collation = described.options.collation.as_ref();
    collation.is_some_and(|collation| collation.locale != "simple")
}

impl MongoStore {
    /// The properties of the collection; none if there is no collection. A user of a collection may lack the permission
    /// to list its properties.
    async fn described(&self) -> Option<CollectionSpecification> {
        let described = self.place.database.list_collections();
        let described = described.filter(doc! { "name": self.place.collection.name() });
        let described = async { described.await?.try_collect::<Vec<_>>().await };
        let described = self.bounded(Unavailable, Box::pin(described)).await;
        described.unwrap_or_default().pop()
    }

    /// Sends a write that no document matches.
    async fn privileges(&self) -> Finding {
        const CHECK: &str = "privileges";
        let query = doc! { "_id": "check", UNTIL: { "$lt": 0, "$gt": 0 } };
        let same = vec![doc! { "$set": { UNTIL: format!("${UNTIL}") } }];
        match self.update(query, same).await {
            Ok(_) => Finding::ok(CHECK, "this user may read and update locks"),
            Err(error) => Finding::failed(CHECK, &error),
        }
    }

    /// Returns whether it has ended a running lease.
    async fn give_back(&self, end: &End<'_>) -> Result<bool> {
        let now = self.now();
        let owner = end.owner.as_str();
        let query = match end.includes_expired() {
            true => owned(end.name, owner),
            false => running(end.name, owner, now),
        };
        Ok(self.update(query, ended(now, end)).await?.is_some())
    }
}

/// Matches a running lease of this owner.
fn running(name: &LockName, owner: &str, now: Now) -> Document {
    let mut query = owned(name, owner);
    query.insert("$expr", now.is_end("$gt"));
    query
}

fn seen_until(seen: &Seen<String>) -> Option<DateTime> {
    let until = seen.record.locked_until;
    until.map(DateTime::from_system_time)
}

/// Matches a lease of this owner, running or expired; for an empty owner, a lease whose document contains none.
fn owned(name: &LockName, owner: &str) -> Document {
    let owner = if owner.is_empty() {
        // Null also matches a missing field.
        doc! { "$in": [Bson::Null, ""] }.into()
    } else {
        Bson::from(owner)
    };
    doc! { "_id": name.as_str(), BY: owner }
}
