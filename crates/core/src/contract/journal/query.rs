//! Questions to a journal.

use std::time::SystemTime;

use super::{RunId, RunOutcome};

/// Requests a page of jobs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[must_use]
pub struct JobsRequest {
    /// The job after which the page starts.
    pub after: Option<String>,
    limit: Option<usize>,
}

/// Requests a page of runs, the latest first.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[must_use]
pub struct RunsRequest {
    /// Only runs of this job.
    pub job: Option<String>,
    /// Only runs under the lock of this name.
    pub name: Option<String>,
    /// Only runs that ended like this.
    pub outcome: Option<RunOutcome>,
    /// Whether runs with an end are left out.
    pub is_open_only: bool,
    /// The earliest start.
    pub since: Option<SystemTime>,
    /// The run before which the page starts.
    pub before: Option<RunId>,
    limit: Option<usize>,
}

/// Requests a page of audit records, the latest first.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[must_use]
pub struct AuditRequest {
    /// Only records of this lock.
    pub name: Option<String>,
    /// The record before which the page starts.
    pub before: Option<RunId>,
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
        self.is_open_only = true;
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

    limit!();
}
