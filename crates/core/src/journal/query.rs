//! Questions to a journal.

use std::time::SystemTime;

use super::{RunId, RunOutcome};

/// Requests a page of jobs.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct JobsRequest {
    after: Option<String>,
    limit: Option<usize>,
}

/// Requests a page of runs, the latest first.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct RunsRequest {
    job: Option<String>,
    name: Option<String>,
    outcome: Option<RunOutcome>,
    is_open: bool,
    since: Option<SystemTime>,
    before: Option<RunId>,
    limit: Option<usize>,
}

/// Requests a page of audit records, the latest first.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct AuditRequest {
    name: Option<String>,
    before: Option<RunId>,
    limit: Option<usize>,
}

/// The size of a page unless one is set.
const LIMIT: usize = 100;

/// The largest page.
const LARGEST: usize = 10_000;

macro_rules! limit {
    () => {
        /// Limits the page to this many rows, from 1 to 10,000. Default: 100.
        pub fn with_limit(mut self, limit: usize) -> Self {
            self.limit = Some(limit.clamp(1, LARGEST));
            self
        }

        /// Returns the size of the page.
        pub fn limit(&self) -> usize {
            self.limit.unwrap_or(LIMIT)
        }
    };
}

impl JobsRequest {
    /// Requests the first page.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns only jobs that sort (byte by byte) after this one: the last of the previous page.
    pub fn with_after(mut self, job: impl Into<String>) -> Self {
        self.after = Some(job.into());
        self
    }

    /// Returns the job after which the page starts.
    pub fn after(&self) -> Option<&str> {
        self.after.as_deref()
    }

    limit!();
}

impl RunsRequest {
    /// Requests the latest runs of all jobs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns only runs of this job.
    pub fn with_job(mut self, job: impl Into<String>) -> Self {
        self.job = Some(job.into());
        self
    }

    /// Returns only runs under the lock of this name.
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns only runs that ended like this.
    pub fn with_outcome(mut self, outcome: RunOutcome) -> Self {
        self.outcome = Some(outcome);
        self
    }

    /// Returns only runs whose end is not recorded.
    pub fn open_only(mut self) -> Self {
        self.is_open = true;
        self
    }

    /// Returns only runs that started at or after this instant.
    pub fn with_since(mut self, instant: SystemTime) -> Self {
        self.since = Some(instant);
        self
    }

    /// Returns only runs before this one: the last of the previous page.
    pub fn with_before(mut self, id: RunId) -> Self {
        self.before = Some(id);
        self
    }

    /// Returns the job.
    pub fn job(&self) -> Option<&str> {
        self.job.as_deref()
    }

    /// Returns the lock's name.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the outcome.
    pub fn outcome(&self) -> Option<RunOutcome> {
        self.outcome
    }

    /// Returns whether runs with an end are left out.
    pub fn is_open_only(&self) -> bool {
        self.is_open
    }

    /// Returns the earliest start.
    pub fn since(&self) -> Option<SystemTime> {
        self.since
    }

    /// Returns the run before which the page starts.
    pub fn before(&self) -> Option<&RunId> {
        self.before.as_ref()
    }

    limit!();
}

impl AuditRequest {
    /// Requests the latest records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns only records of this lock.
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns only records before this one: the last of the previous page.
    pub fn with_before(mut self, id: RunId) -> Self {
        self.before = Some(id);
        self
    }

    /// Returns the lock's name.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the record before which the page starts.
    pub fn before(&self) -> Option<&RunId> {
        self.before.as_ref()
    }

    limit!();
}
