//! The journal: which jobs there are, which runs they had, and what operators did.
//!
//! A lock's record knows neither a schedule nor a past. A journal keeps both, beside the locks, and
//! nothing about a lock depends on it.

mod audit;
mod entry;
mod job;
mod query;
mod recorder;
mod registration;
mod retention;
mod run;

use std::fmt;

pub use audit::{Actor, AuditRecord};
pub use entry::{JobChange, JournalEntry};
pub use job::{JobRecord, LastRun, ReplacedRegistration, TakenElsewhere};
pub use query::{AuditRequest, JobsRequest, RunsRequest};
pub use recorder::Recorder;
pub use registration::JobRegistration;
pub use retention::Retention;
pub use run::{RunEnd, RunId, RunOutcome, RunRecord, RunState};

use crate::BoxFuture;
use crate::contract::{Error, Migration, MigrationStep};

/// A store of jobs, runs and audit records. Store authors implement it; a [`Recorder`] fills it.
///
/// # Rules for implementations
///
/// - **Repeating is harmless.** A reply can be lost, and an end may be delivered days later, so every
///   entry may be recorded twice and after later ones. Runs are identified by [`RunId::identity`],
///   audit records by [`AuditRecord::id`].
/// - **Bounded.** Every call returns within the store's time limit.
/// - **Pages.** No query returns more rows than its limit.
/// - **Opt-in.** Nothing is created except by [`migrate`](Self::migrate).
pub trait Journal: fmt::Debug + Send + Sync + 'static {
    /// Records these entries, in their order. If it fails, any part of them may have been recorded.
    fn record<'a>(&'a self, entries: &'a [JournalEntry]) -> BoxFuture<'a, Result<(), Error>>;

    /// Returns one job.
    fn job<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<Option<JobRecord>, Error>>;

    /// Returns a page of jobs in the byte order of their names.
    fn jobs<'a>(&'a self, request: &'a JobsRequest)
    -> BoxFuture<'a, Result<Vec<JobRecord>, Error>>;

    /// Returns a page of runs, the latest first.
    fn runs<'a>(&'a self, request: &'a RunsRequest)
    -> BoxFuture<'a, Result<Vec<RunRecord>, Error>>;

    /// Returns a page of audit records, the latest first.
    fn audit<'a>(
        &'a self,
        request: &'a AuditRequest,
    ) -> BoxFuture<'a, Result<Vec<AuditRecord>, Error>>;

    /// Removes runs of a job, and audit records, that exceed what is kept. Ages are judged by the
    /// journal's own clock. Removes a limited number of rows in one call, and returns that number.
    fn prune<'a>(
        &'a self,
        job: &'a str,
        retention: &'a Retention,
    ) -> BoxFuture<'a, Result<u64, Error>>;

    /// Removes a job and its runs: it does not exist any more. Returns false if there is no such
    /// job.
    fn forget<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<bool, Error>>;

    /// Returns the version of the journal's schema, or `None` if there is no journal.
    fn version(&self) -> BoxFuture<'_, Result<Option<u32>, Error>>;

    /// Returns the identity of this journal, which [`migrate`](Self::migrate) gave to it, or `None` if
    /// there is no journal. No other journal has it, so that what was recorded for one is never
    /// delivered to another.
    fn identity(&self) -> BoxFuture<'_, Result<Option<String>, Error>>;

    /// Returns the privileges that this user lacks for the journal, such as `INSERT on shedlock_run`, or
    /// to create it if there is none. Changes nothing. The default returns none: an implementation that
    /// cannot find out reports a missing privilege when it is needed.
    fn missing_privileges(&self) -> BoxFuture<'_, Result<Vec<String>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Creates the journal, or upgrades its schema to [`JOURNAL_VERSION`]. Repeating it is harmless.
    fn migrate(&self) -> BoxFuture<'_, Result<Migration, Error>>;

    /// Returns what [`migrate`](Self::migrate) would change now, and changes nothing.
    fn plan_migration(&self) -> BoxFuture<'_, Result<Vec<MigrationStep>, Error>>;
}

/// The version of the journal's schema that this release reads and writes.
pub const JOURNAL_VERSION: u32 = 1;
