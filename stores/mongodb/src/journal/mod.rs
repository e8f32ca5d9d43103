//! The journal: collections of jobs, runs and audit records beside the locks.

mod record;
pub(crate) mod rows;

use std::fmt;
use std::sync::Arc;

use ErrorKind::{OutcomeUnknown, Unavailable};
use futures_util::TryStreamExt as _;
use mongodb::Collection;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};
use shedlock_core::{
    AuditRecord, AuditRequest, BoxFuture, Error, ErrorKind, JOURNAL_VERSION, JobRecord,
    JobsRequest, Journal, JournalEntry, Migration, MigrationStep, Operation, Retention, RunOutcome,
    RunRecord, RunsRequest,
};
use shedlock_provider::{Result, configuration};

use self::rows::{LIMITS, foreign};
use crate::command::primary;
use crate::explain::{is_forbidden, refused, unacknowledged};
use crate::store::MongoStore;

/// The journal beside a collection of locks.
pub(crate) struct MongoJournal {
    store: Arc<MongoStore>,
}

/// What the names of the journal's collections add to the name of the locks' collection.
const SUFFIXES: [&str; 4] = [JOURNAL, JOB, RUN, AUDIT];
const JOURNAL: &str = "_journal";
const JOB: &str = "_job";
const RUN: &str = "_run";
const AUDIT: &str = "_audit";

/// The indexes, each of these fields and then the id.
const INDEXES: [(&str, &[&[&str]]); 2] = [
    (
        RUN,
        &[
            &["job", STARTED],
            &["name", STARTED],
            &["outcome", STARTED],
            &[STARTED],
        ],
    ),
    (AUDIT, &[&["name"]]),
];

/// When a run started.
const STARTED: &str = "startedUs";

/// The journal's identity, in the document with the version.
const IDENTITY: &str = "identity";

/// The only document of the collection with the version.
const VERSION: &str = "version";

/// How many documents one prune removes for one reason.
const MOST_PRUNED: i64 = 1_000;

const DUPLICATE: i32 = 11_000;
const EXISTS: i32 = 48;

impl MongoJournal {
    pub(crate) fn new(store: Arc<MongoStore>) -> Self {
        Self { store }
    }

    fn name(&self, suffix: &str) -> String {
        [self.store.place.collection.name(), suffix].concat()
    }

    fn collection(&self, suffix: &str) -> Collection<Document> {
        self.store.place.database.collection(&self.name(suffix))
    }

    fn explained(&self, error: Error) -> Error {
        if !is_forbidden(&error) {
            return error;
        }
        configuration("the database user may not use the journal").advise(format!(
            "grant it find, insert, update and remove on the collections {} (role readWrite), and \
             createCollection and createIndex to create them",
            SUFFIXES.map(|suffix| self.name(suffix)).join(", ")
        ))
        .with_source(error)
    }

    /// Runs a command on the primary.
    async fn command(&self, command: Document, unanswered: ErrorKind) -> Result<Document> {
        let sent = self.store.place.database.run_command(command);
        let sent = sent.selection_criteria(primary());
        let answer = self.store.bounded(unanswered, async { sent.await }).await;
        answer.map_err(|error| self.explained(error))
    }

    /// Runs a command that writes; the code and the text of an error that concerns only one of its writes are the
    /// inner error.
    async fn write(&self, mut command: Document) -> Result<Result<Document, (i32, String)>> {
        if let Some(concern) = &self.store.place.concern {
            command.insert("writeConcern", concern.clone());
        }
        let answer = self.command(command, OutcomeUnknown).await?;
        if let Some(Bson::Document(why)) = answer.get("writeConcernError") {
            return Err(unacknowledged(why));
        }
        let errors = answer.get_array("writeErrors");
        if let Some(Bson::Document(first)) = errors.ok().and_then(|errors| errors.first()) {
            let said = first.get_str("errmsg").unwrap_or_default().to_owned();
            return Ok(Err((first.get_i32("code").unwrap_or_default(), said)));
        }
        Ok(Ok(answer))
    }

    fn refused(&self, (code, said): (i32, String)) -> Error {
        let error = refused(code).unwrap_or_else(|| {
            configuration(format!("the server refused a write: code {code}, {said}"))
        });
        self.explained(error)
    }

    /// Updates documents in this order, and creates those that are missing. Returns false if one is not as its update
    /// expects, because another process was faster.
    async fn update(&self, suffix: &str, updates: Vec<Document>) -> Result<bool> {
        if updates.is_empty() {
            return Ok(true);
        }
        let expected = updates.len() as u64;
        let command = doc! { "update": self.name(suffix), "updates": updates, "ordered": true };
        match self.write(command).await? {
            Ok(answer) => Ok(count(&answer) == expected),
            Err((DUPLICATE, _)) => Ok(false),
            Err(error) => Err(self.refused(error)),
        }
    }

    async fn delete(&self, suffix: &str, query: Document, limit: i32) -> Result<u64> {
        let delete = doc! { "q": query, "limit": limit };
        let command = doc! { "delete": self.name(suffix), "deletes": [delete] };
        let answer = self.write(command).await?;
        answer
            .map(|it| count(&it))
            .map_err(|error| self.refused(error))
    }

    async fn find(
        &self,
        suffix: &str,
        query: Document,
        order: i32,
        (skip, limit): (u64, i64),
    ) -> Result<Vec<Document>> {
        let collection = self.collection(suffix);
        let order = match suffix {
            RUN => doc! { STARTED: order, "_id": order },
            _ => doc! { "_id": order },
        };
        let found = collection
            .find(query)
            .sort(order)
            .skip(skip)
            .limit(limit)
            .selection_criteria(primary());
        let found = async { found.await?.try_collect().await };
        let found = self.store.bounded(Unavailable, Box::pin(found)).await;
        found.map_err(|error| self.explained(error))
    }

    /// Refuses to write into collections that `migrate` has not created: an update would create them.
    async fn exists(&self) -> Result<()> {
        if self.found_version().await?.is_some() {
            return Ok(());
        }
        Err(configuration(format!(
            "there is no journal beside collection {}",
            self.store.place.collection.name()
        ))
        .advise(("create it with", Operation::Migrate)))
    }

    async fn runs_of(&self, request: &RunsRequest) -> Result<Vec<RunRecord>> {
        self.exists().await?;
        let mut query = doc! {};
        let texts = [
            ("job", request.job.as_deref().map(|job| LIMITS.name(job))),
            (
                "name",
                request.name.as_deref().map(|name| LIMITS.name(name)),
            ),
            ("outcome", request.outcome.map(RunOutcome::as_str)),
        ];
        for (field, text) in texts {
            query.extend(text.map(|text| (field.to_owned(), text.into())));
        }
        if request.is_open_only {
            match request.outcome {
                // Null matches a missing field.
                None => query.insert("outcome", Bson::Null),
                Some(_) => return Ok(Vec::new()),
            };
        }
        if let Some(since) = request.since {
            query.insert(STARTED, doc! { "$gte": rows::at(since) });
        }
        if let Some(id) = request.before.as_ref() {
            let (started, identity) = (rows::at(id.started()), id.identity());
            query.insert("$or", up_to(started, "$lt", identity.into()));
        }
        let found = self.find(RUN, query, -1, page(request.limit())).await?;
        found.iter().map(rows::run).collect()
    }

    /// Removes the first documents that match. Returns their number.
    async fn remove_first(&self, suffix: &str, query: Document) -> Result<u64> {
        let found = self.find(suffix, query, 1, (0, MOST_PRUNED)).await?;
        let ids: Vec<_> = found.iter().filter_map(|it| it.get("_id")).collect();
        match ids.is_empty() {
            true => Ok(0),
            false => self.delete(suffix, doc! { "_id": { "$in": ids } }, 0).await,
        }
    }

    async fn prune_all(&self, job: &str, retention: &Retention) -> Result<u64> {
        self.exists().await?;
        let mut removed = 0;
        let of_job = doc! { "job": LIMITS.name(job) };
        let kept = u64::try_from(retention.runs_per_job).unwrap_or(u64::MAX);
        let excess = self.find(RUN, of_job.clone(), -1, (kept, 1)).await?;
        if let Some(first) = excess.first() {
            let mut query = of_job;
            let started = first.get_i64(STARTED).map_err(|_| foreign())?;
            let id = first.get("_id").cloned().unwrap_or(Bson::Null);
            query.insert("$or", up_to(started, "$lte", id));
            removed += self.remove_first(RUN, query).await?;
        }
        let now = rows::at(self.store.judging_time().await?);
        let ages = [(RUN, retention.max_age), (AUDIT, retention.max_audit_age)];
        for (suffix, age) in ages {
            let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
            let oldest = now.saturating_sub(age).max(0);
            let query = match suffix {
                RUN => doc! { STARTED: { "$lt": oldest } },
                // Ids start with the time.
                _ => doc! { "_id": { "$lt": format!("{oldest:014x}") } },
            };
            removed += self.remove_first(suffix, query).await?;
        }
        Ok(removed)
    }

    async fn version_document(&self) -> Result<Option<Document>> {
        let found = self.find(JOURNAL, doc! { "_id": VERSION }, 1, (0, 1));
        Ok(found.await?.pop())
    }

    async fn found_version(&self) -> Result<Option<u32>> {
        let Some(found) = self.version_document().await? else {
            return Ok(None);
        };
        let version = found.get(VERSION).and_then(|version| match version {
            Bson::Int32(version) => u32::try_from(*version).ok(),
            Bson::Int64(version) => u32::try_from(*version).ok(),
            _ => None,
        });
        version.map(Some).ok_or_else(foreign)
    }

    async fn create(&self) -> Result<Migration> {
        let mut changes = Vec::new();
        if self.found_version().await?.is_some() {
            return Ok(Migration::with_changes(changes));
        }
        for suffix in SUFFIXES {
            let name = self.name(suffix);
            let created = self.command(doc! { "create": &name }, OutcomeUnknown).await;
            match created {
                // Another process has migrated at the same time.
                Err(error) if has_code(&error, EXISTS) => {}
                Err(error) => return Err(error),
                Ok(_) => changes.push(format!("created collection {name}")),
            }
        }
        for (suffix, fields) in INDEXES {
            let indexes: Vec<_> = fields
                .iter()
                .map(|fields| doc! { "key": key(fields), "name": fields[0] })
                .collect();
            let command = doc! { "createIndexes": self.name(suffix), "indexes": indexes };
            self.command(command, OutcomeUnknown).await?;
        }
        let document = doc! {
            VERSION: i64::from(JOURNAL_VERSION),
            IDENTITY: ObjectId::new().to_hex(),
        };
        let update = doc! { "$setOnInsert": document };
        let update = doc! { "q": { "_id": VERSION }, "u": update, "upsert": true };
        // Another process may have written it.
        let _ = self.update(JOURNAL, vec![update]).await?;
        Ok(Migration::with_changes(changes))
    }
}

/// The key of an index.
fn key(fields: &[&str]) -> Document {
    let fields = fields.iter().chain([&"_id"]);
    fields
        .map(|field| ((*field).to_owned(), Bson::from(1)))
        .collect()
}

/// Matches the runs before this one in the order of their starts, or up to it.
fn up_to(started: i64, than: &str, id: Bson) -> Vec<Document> {
    vec![
        doc! { STARTED: { "$lt": started } },
        doc! { STARTED: started, "_id": { than: id } },
    ]
}

/// What creates the journal beside this collection of locks.
pub(crate) fn steps(locks: &str) -> Vec<MigrationStep> {
    let collections = SUFFIXES.map(|suffix| format!("create collection {locks}{suffix}"));
    let indexes = INDEXES.iter().flat_map(|(suffix, fields)| {
        let of = move |fields: &&[&str]| {
            let first = fields.iter().map(|field| format!("{field}: 1, "));
            let first: String = first.collect();
            format!("create index {{{first}_id: 1}} on {locks}{suffix}")
        };
        fields.iter().map(of)
    });
    let version =
        format!("insert the version {JOURNAL_VERSION} and a random identity into {locks}{JOURNAL}");
    let all = collections.into_iter().chain(indexes).chain([version]);
    all.map(MigrationStep::new).collect()
}

/// How many documents a write matched or created, or removed.
fn count(answer: &Document) -> u64 {
    match answer.get("n") {
        Some(Bson::Int32(count)) => u64::try_from(*count).unwrap_or_default(),
        Some(Bson::Int64(count)) => u64::try_from(*count).unwrap_or_default(),
        _ => 0,
    }
}

/// A page of this size.
fn page(limit: usize) -> (u64, i64) {
    (0, i64::try_from(limit).unwrap_or(i64::MAX))
}

/// Whether the server refused a command with this code.
fn has_code(error: &Error, code: i32) -> bool {
    let source = std::error::Error::source(error);
    let refused = source.and_then(|source| source.downcast_ref::<mongodb::error::Error>());
    let kind = refused.map(|refused| &*refused.kind);
    matches!(kind, Some(mongodb::error::ErrorKind::Command(refusal)) if refusal.code == code)
}

impl Journal for MongoJournal {
    fn record<'a>(&'a self, entries: &'a [JournalEntry]) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.record_all(entries))
    }

    fn job<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<Option<JobRecord>>> {
        Box::pin(async move {
            self.exists().await?;
            let found = self
                .find(JOB, doc! { "_id": LIMITS.name(job) }, 1, (0, 1))
                .await?;
            found.first().map(rows::job).transpose()
        })
    }

    fn jobs<'a>(&'a self, request: &'a JobsRequest) -> BoxFuture<'a, Result<Vec<JobRecord>>> {
        Box::pin(async move {
            self.exists().await?;
            let query = match request.after.as_deref() {
                Some(after) => doc! { "_id": { "$gt": LIMITS.name(after) } },
                None => doc! {},
            };
            let found = self.find(JOB, query, 1, page(request.limit())).await?;
            found.iter().map(rows::job).collect()
        })
    }

    fn runs<'a>(&'a self, request: &'a RunsRequest) -> BoxFuture<'a, Result<Vec<RunRecord>>> {
        Box::pin(self.runs_of(request))
    }

    fn audit<'a>(&'a self, request: &'a AuditRequest) -> BoxFuture<'a, Result<Vec<AuditRecord>>> {
        Box::pin(async move {
            self.exists().await?;
            let mut query = doc! {};
            if let Some(name) = request.name.as_deref() {
                query.insert("name", LIMITS.name(name));
            }
            if let Some(id) = request.before.as_ref() {
                query.insert("_id", doc! { "$lt": id.as_str() });
            }
            let found = self.find(AUDIT, query, -1, page(request.limit())).await?;
            found.iter().map(rows::audit).collect()
        })
    }

    fn prune<'a>(&'a self, job: &'a str, retention: &'a Retention) -> BoxFuture<'a, Result<u64>> {
        Box::pin(self.prune_all(job, retention))
    }

    fn forget<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            self.exists().await?;
            self.delete(RUN, doc! { "job": LIMITS.name(job) }, 0)
                .await?;
            let removed = self
                .delete(JOB, doc! { "_id": LIMITS.name(job) }, 1)
                .await?;
            Ok(removed > 0)
        })
    }

    fn version(&self) -> BoxFuture<'_, Result<Option<u32>>> {
        Box::pin(self.found_version())
    }

    fn identity(&self) -> BoxFuture<'_, Result<Option<String>>> {
        Box::pin(async {
            let found = self.version_document().await?;
            Ok(found.and_then(|it| it.get_str(IDENTITY).ok().map(str::to_owned)))
        })
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Migration>> {
        Box::pin(self.create())
    }

    fn plan_migration(&self) -> BoxFuture<'_, Result<Vec<MigrationStep>>> {
        Box::pin(async {
            let found = self.found_version().await?;
            let locks = self.store.place.collection.name();
            Ok(if found.is_some() {
                Vec::new()
            } else {
                steps(locks)
            })
        })
    }
}

impl fmt::Debug for MongoJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.store.place;
        f.debug_tuple("MongoJournal").field(place).finish()
    }
}
