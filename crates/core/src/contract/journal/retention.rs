//! How much a journal keeps.

use std::time::Duration;

/// How much a journal keeps. What exceeds it is removed after a later run: the runs of a job after about one of 32 of its
/// own, and what is too old after an hour at the latest in a process that goes on recording runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// How many runs of one job are kept, at most. Default: 1,000.
    pub runs_per_job: usize,
    /// How long a run is kept. Default: 30 days.
    pub max_age: Duration,
    /// How long an audit record is kept. Default: 365 days.
    pub max_audit_age: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(86_400);
        Self {
            runs_per_job: 1_000,
            max_age: 30 * DAY,
            max_audit_age: 365 * DAY,
        }
    }
}
