//! The journal: tables of jobs, runs and audit records beside the lock table.
//!
//! All times are microseconds since 1970 (UTC) in 64-bit integers, on every database: no session's zone and no column's
//! precision can change them. The statements use only what all dialects share, so that each exists once. An empty text
//! and -1 stand for null in their values.

mod privileges;
mod prune;
mod rows;
mod schema;
mod statements;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use shedlock_core::{
    AuditRecord, AuditRequest, BoxFuture, Error, JobRecord, JobsRequest, Journal, JournalEntry,
    Migration, MigrationStep, Operation, Retention, RunId, RunRecord, RunsRequest,
};
use shedlock_journal::merge::{Batch, Known};
use shedlock_provider::{Result, configuration};

pub(crate) use self::privileges::needed;
use self::rows::{LIMITS, Words};
use self::schema::TABLES;
pub(crate) use self::schema::definitions;
use self::statements::Statements;
use crate::call::{Call, SqlStore};
use crate::driver::{Connections, Driver, Session, Wanted};
use crate::failure::{Class, Failure};
use crate::identifier::Table;
use crate::schema::Definition;
use crate::shape::Column;
use crate::statement::{Reply, Row, Statement, Values};
use crate::verdict::instant;

/// The journal beside a lock table.
///
/// It has a session of its own, or what a user's pool has to spare: a slow journal does not keep a lock waiting.
pub(crate) struct SqlJournal<B: Driver> {
    store: Arc<SqlStore<B>>,
    connections: Connections<B>,
    statements: Statements,
}

/// How often a batch is repeated after a conflict with another transaction.
const COLLISIONS: usize = 10;

impl<B: Driver> SqlJournal<B> {
    pub(crate) fn new(store: Arc<SqlStore<B>>) -> Self {
        let statements = Statements::new(B::DIALECT, &store.options);
        Self {
            connections: store.connections.second(),
            store,
            statements,
        }
    }

    fn explained(&self, failure: Failure, writes: bool) -> Error {
        let table = &self.store.options.table;
        match failure.class {
            Class::Shape => failure.causing(
                configuration(format!(
                    "there is no journal beside table {table}, or not all of it"
                ))
                .advise(("create it with", Operation::Migrate)),
            ),
            Class::Privilege => {
                let needed = needed().map(|(suffix, privileges)| {
                    format!("{} on {}", privileges.join(", "), table.with_suffix(suffix))
                });
                let needed = needed.collect::<Vec<_>>().join("; ");
                let error = configuration("the database user may not use the journal");
                failure.causing(
                    error
                        .advise(format!("grant it {needed}"))
                        .advise(("the statements are those of", Operation::Grants)),
                )
            }
            _ => self.store.explained(failure, writes),
        }
    }

    /// Sends one statement. Each can be repeated, also after a lost reply.
    async fn send(&self, statement: &Statement, words: &Words<'_>) -> Result<Reply, Failure> {
        let call = self.store.call();
        let values = Values {
            more: &words.0,
            ..Values::default()
        };
        let first = self.send_once(&call, statement, &values, Wanted::Any).await;
        let again = match &first {
            Err(failure) if failure.class.is_of_session() && failure.was_used => Wanted::New,
            Err(failure) if matches!(failure.class, Class::ReplyLost | Class::Contention) => {
                Wanted::Any
            }
            _ => return first.and_then(Reply::readable),
        };
        let second = self.send_once(&call, statement, &values, again).await;
        second.and_then(Reply::readable)
    }

    async fn send_once(
        &self,
        call: &Call<'_, B>,
        statement: &Statement,
        values: &Values<'_>,
        wanted: Wanted,
    ) -> Result<Reply, Failure> {
        let reply = call.send_over(&self.connections, statement, values, wanted);
        let reply = self.connections.unless_wanted_back(pin!(reply)).await;
        reply.unwrap_or_else(|| Err(Failure::silent()))
    }

    async fn rows(&self, statement: &Statement, words: &Words<'_>) -> Result<Vec<Row>> {
        let reply = self.send(statement, words).await;
        let reply = reply.map_err(|failure| self.explained(failure, false))?;
        Ok(reply.rows)
    }

    async fn write(&self, statement: &Statement, words: &Words<'_>) -> Result<u64> {
        let reply = self.send(statement, words).await;
        let reply = reply.map_err(|failure| self.explained(failure, true))?;
        Ok(reply.affected)
    }

    /// Writes these entries in one transaction.
    async fn record_all(&self, entries: &[JournalEntry]) -> Result<()> {
        let batch = Batch::new(entries, LIMITS);
        let mut collisions = 0;
        loop {
            let call = self.store.call();
            match self.transaction(&call, &batch).await {
                Err(failure) if is_collision(&failure) && collisions < COLLISIONS => {
                    collisions += 1;
                }
                Err(failure) => return Err(self.explained(failure, true)),
                Ok(()) => return Ok(()),
            }
        }
    }

    async fn transaction(&self, call: &Call<'_, B>, batch: &Batch) -> Result<(), Failure> {
        let mut held = call.acquire_alone(&self.connections).await?;
        let written = {
            let session = &mut held.session();
            let mut all = pin!(self.merge(session, batch));
            let mut answer = pin!(call.deadline.answer(all.as_mut()));
            let written = self.connections.unless_wanted_back(answer.as_mut());
            written.await.flatten()
        };
        // A connection whose transaction is open is closed, which rolls it back.
        written.unwrap_or_else(|| Err(Failure::silent()))?;
        held.finished();
        Ok(())
    }

    /// Works out what changes, and writes it in a transaction.
    ///
    /// Which jobs are there is read before it: on MySQL, to lock a row that is not there locks the gap, so that inserts
    /// deadlock, and the transaction's first plain read settles what all later ones see. Two inserts of a job collide.
    async fn merge(&self, session: &mut Session<'_, B>, batch: &Batch) -> Result<(), Failure> {
        let statements = &self.statements;
        let (mut now, mut there) = (0, Vec::new());
        for job in batch.jobs() {
            let row = row::<B>(session, &statements.job_is_there, &Words::of_job(job)).await?;
            if let Some((clock, count)) = row.as_ref().and_then(rows::numbers) {
                now = clock;
                there.extend((count > 0).then_some(job));
            }
        }
        for statement in &statements.begin {
            run::<B>(session, statement, &Words::default()).await?;
        }
        let known = self.known(session, &there, batch).await?;
        let changes = batch.changes(&known, instant(now));
        for job in &changes.jobs {
            let statement = match known.jobs.contains_key(&job.job) {
                true => &statements.job_update,
                false => &statements.job_insert,
            };
            run::<B>(session, statement, &Words::of_job_row(job)).await?;
        }
        for record in &changes.runs {
            let statement = match known.runs.contains_key(record.id.identity()) {
                true => &statements.run_update,
                false => &statements.run_insert,
            };
            run::<B>(session, statement, &Words::of_run_row(record)).await?;
        }
        for record in batch.audit() {
            let words = Words::of_audit_row(record);
            run::<B>(session, &statements.audit_insert, &words).await?;
        }
        for statement in &statements.end {
            run::<B>(session, statement, &Words::default()).await?;
        }
        Ok(())
    }

    /// Locks the rows of these jobs and reads them, and then those of the runs. Who writes a run has locked its job, or
    /// inserts it.
    async fn known(
        &self,
        session: &mut Session<'_, B>,
        jobs: &[&str],
        batch: &Batch,
    ) -> Result<Known, Failure> {
        let (of_job, of_run) = (&self.statements.job_for_update, &self.statements.run);
        let foreign = |error| Failure::new(Class::Foreign, error);
        let mut known = Known::default();
        for job in jobs {
            if let Some(row) = row::<B>(session, of_job, &Words::of_job(job)).await? {
                let record = rows::job(row).map_err(foreign)?;
                known.jobs.insert((*job).to_owned(), record);
            }
        }
        for id in batch.runs() {
            let words = Words::default().text("id", id);
            if let Some(row) = row::<B>(session, of_run, &words).await? {
                let record = rows::run(row).map_err(foreign)?;
                known.runs.insert(id.to_owned(), record);
            }
        }
        Ok(known)
    }

    async fn found_version(&self) -> Result<Option<u32>> {
        match self.send(&self.statements.version, &Words::default()).await {
            Ok(reply) => {
                let version = reply.row().and_then(rows::only_number);
                Ok(version.and_then(|version| u32::try_from(version).ok()))
            }
            Err(failure) if failure.class == Class::Shape => Ok(None),
            Err(failure) => Err(self.explained(failure, false)),
        }
    }

    /// What is missing. The version is written last, and a reader relies on everything that was created before it.
    async fn lacks(&self) -> Result<Vec<Definition>> {
        let (dialect, options) = (B::DIALECT, &self.store.options);
        schema::check_names(dialect, options)?;
        let mut lacks = Vec::new();
        let mut has_version = false;
        for table in TABLES {
            let columns = self.columns(table.name(options)).await?;
            if columns.is_empty() {
                self.store.call().check_schema().await?;
                lacks.push(table.creation(dialect, options));
            }
            for (index, definition) in table.indexes(dialect, options) {
                if columns.is_empty() || !self.has_index(&index).await? {
                    lacks.push(definition);
                }
            }
            if !columns.is_empty() {
                lacks.extend(table.additions(dialect, options, &columns));
                if table.suffix == TABLES[0].suffix {
                    has_version = self.found_version().await?.is_some();
                }
            }
        }
        if !has_version {
            lacks.push(schema::version_record(dialect, options));
        }
        Ok(lacks)
    }

    /// The columns of this table; empty if there is none.
    async fn columns(&self, table: Table) -> Result<Vec<Column>> {
        let mut options = self.store.options.clone();
        options.table = table;
        let probe = B::DIALECT.probing(&options);
        let rows = self.rows(&probe, &Words::default()).await?;
        Ok(rows.into_iter().filter_map(|row| row.column).collect())
    }

    async fn has_index(&self, index: &Table) -> Result<bool> {
        let condition = (B::DIALECT.journal.has_index)(index);
        let condition = B::DIALECT.condition(&self.store.options, &condition);
        let rows = self.rows(&condition, &Words::default()).await?;
        Ok(rows.first().is_some_and(Row::is_true))
    }

    async fn create(&self) -> Result<Migration> {
        let mut changes = Vec::new();
        let lacks = self.lacks().await?;
        for (at, definition) in lacks.iter().enumerate() {
            let (statement, next) = (&definition.statement, &lacks[at + 1..]);
            if !definition.is_record() {
                if self.store.call().define(statement, next).await? {
                    changes.extend(definition.done());
                }
                continue;
            }
            match self.send(statement, &Words::default()).await {
                // Another process has migrated at the same time.
                Err(failure) if is_collision(&failure) => {}
                Err(failure) => return Err(self.explained(failure, true)),
                Ok(_) => {}
            }
        }
        Ok(Migration::with_changes(changes))
    }
}

/// Whether another transaction wrote the same row at the same time. The tables' only constraints are their keys.
fn is_collision(failure: &Failure) -> bool {
    matches!(
        failure.class,
        Class::Contention | Class::Duplicate | Class::Constraint(_)
    )
}

async fn run<B: Driver>(
    session: &mut Session<'_, B>,
    statement: &Statement,
    words: &Words<'_>,
) -> Result<Reply, Failure> {
    let values = Values {
        more: &words.0,
        ..Values::default()
    };
    session.run(statement, &values).await
}

async fn row<B: Driver>(
    session: &mut Session<'_, B>,
    statement: &Statement,
    words: &Words<'_>,
) -> Result<Option<Row>, Failure> {
    let reply = run::<B>(session, statement, words).await?;
    Ok(reply.readable()?.rows.into_iter().next())
}

impl<B: Driver> Journal for SqlJournal<B> {
    fn record<'a>(&'a self, entries: &'a [JournalEntry]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match entries.is_empty() {
                true => Ok(()),
                false => self.record_all(entries).await,
            }
        })
    }

    fn job<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<Option<JobRecord>>> {
        Box::pin(async move {
            let words = Words::of_job(job);
            let rows = self.rows(&self.statements.job, &words).await?;
            rows.into_iter().next().map(rows::job).transpose()
        })
    }

    fn jobs<'a>(&'a self, request: &'a JobsRequest) -> BoxFuture<'a, Result<Vec<JobRecord>>> {
        Box::pin(async move {
            let words =
                Words::default().text("after", request.after.as_deref().unwrap_or_default());
            let words = words.limit(request.limit());
            let rows = self.rows(&self.statements.jobs, &words).await?;
            rows.into_iter().map(rows::job).collect()
        })
    }

    fn runs<'a>(&'a self, request: &'a RunsRequest) -> BoxFuture<'a, Result<Vec<RunRecord>>> {
        Box::pin(async move {
            let statement = statements::runs(B::DIALECT, &self.store.options, request);
            let before = request.before.as_ref();
            let outcome = request.outcome.map_or("", |outcome| outcome.as_str());
            let words = Words::of_job(request.job.as_deref().unwrap_or_default())
                .text(
                    "name",
                    LIMITS.name(request.name.as_deref().unwrap_or_default()),
                )
                .text("outcome", outcome)
                .time("since", request.since)
                .text("id", before.map_or("", RunId::identity))
                .time("started", before.map(RunId::started))
                .limit(request.limit());
            let rows = self.rows(&statement, &words).await?;
            rows.into_iter().map(rows::run).collect()
        })
    }

    fn audit<'a>(&'a self, request: &'a AuditRequest) -> BoxFuture<'a, Result<Vec<AuditRecord>>> {
        Box::pin(async move {
            let statement = statements::audit(B::DIALECT, &self.store.options, request);
            let words = Words::default()
                .text(
                    "name",
                    LIMITS.name(request.name.as_deref().unwrap_or_default()),
                )
                .text("id", request.before.as_ref().map_or("", RunId::as_str))
                .limit(request.limit());
            let rows = self.rows(&statement, &words).await?;
            rows.into_iter().map(rows::audit).collect()
        })
    }

    fn prune<'a>(&'a self, job: &'a str, retention: &'a Retention) -> BoxFuture<'a, Result<u64>> {
        Box::pin(self.prune_all(job, retention))
    }

    fn forget<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let words = Words::of_job(job);
            let known = self.rows(&self.statements.job, &words).await?;
            self.write(&self.statements.forget_runs, &words).await?;
            self.write(&self.statements.forget_job, &words).await?;
            Ok(!known.is_empty())
        })
    }

    fn version(&self) -> BoxFuture<'_, Result<Option<u32>>> {
        Box::pin(self.found_version())
    }

    fn identity(&self) -> BoxFuture<'_, Result<Option<String>>> {
        Box::pin(async {
            if self.found_version().await?.is_none() {
                return Ok(None);
            }
            let rows = self
                .rows(&self.statements.identity, &Words::default())
                .await?;
            Ok(rows.first().and_then(rows::only_text).map(str::to_owned))
        })
    }

    fn missing_privileges(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(self.lacking())
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Migration>> {
        Box::pin(self.create())
    }

    fn plan_migration(&self) -> BoxFuture<'_, Result<Vec<MigrationStep>>> {
        Box::pin(async {
            let lacks = self.lacks().await?;
            Ok(lacks.iter().map(Definition::step).collect())
        })
    }
}

impl<B: Driver> fmt::Debug for SqlJournal<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqlJournal").field(&self.store).finish()
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use self::tests::listed;
