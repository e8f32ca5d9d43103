//! What is written into a journal.

use std::time::{Duration, SystemTime};

use super::{AuditRecord, ReplacedRegistration, RunRecord};
use crate::contract::Slot;

/// One thing that is recorded in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JournalEntry {
    /// A job and its schedule.
    ///
    /// The journal creates the job, or replaces what the change contains. If the schedule is the
    /// same as before, the time of registration stays, and the deadline and next slot only move
    /// forward.
    Job(JobChange),
    /// A run that started, or one that ended.
    ///
    /// The journal creates the run, or adds its end. An end that [corrects a
    /// success](super::RunOutcome::corrects_success) replaces one; otherwise the first end stays. The run's job is created if
    /// it does not exist.
    ///
    /// One with the end [`Elsewhere`](super::RunOutcome::Elsewhere) is no run of ours. Of its job, only
    /// the next slot and the deadline move, and [`JobRecord::elsewhere`](super::JobRecord::elsewhere) if
    /// the slot is later than the known one, and if it was taken after the start of the latest run. A
    /// later end that is a success or a failure clears that field, if its run started after the slot was
    /// taken.
    Run {
        /// The run.
        run: RunRecord,
        /// The next slot and the deadline of its job, if the run succeeded, or ShedLock took its slot, and
        /// they are known.
        next: Option<(Slot, SystemTime)>,
    },
    /// What an operator did.
    Audit(AuditRecord),
    /// Whether Java watches the outcome of its runs of this job, as an operator declared. A job that
    /// is not known stays unknown.
    Watched {
        /// The job.
        job: String,
        /// Whether it does.
        elsewhere: bool,
    },
}

/// A job with its schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobChange {
    /// The job.
    pub job: String,
    /// The schedule as text.
    pub schedule: Option<String>,
    /// The time zone of the schedule.
    pub zone: Option<String>,
    /// How long a run may hold its lock without an extension.
    pub lock_at_most_for: Option<Duration>,
    /// The host that registers it.
    pub by: Option<String>,
    /// What another host had registered before, if that differs.
    pub replaced: Option<ReplacedRegistration>,
    /// The next slot after the latest success, or after the registration, and the instant by which
    /// a run must have succeeded.
    pub next: Option<(Slot, SystemTime)>,
}

impl JournalEntry {
    /// Creates the entry of a run. `next` is the next slot and the deadline of its job, if the run
    /// succeeded and they are known.
    pub fn run(run: RunRecord, next: Option<(Slot, SystemTime)>) -> Self {
        Self::Run { run, next }
    }
}

impl JobChange {
    /// Creates a job without a schedule.
    pub fn new(job: impl Into<String>) -> Self {
        Self {
            job: job.into(),
            schedule: None,
            zone: None,
            lock_at_most_for: None,
            by: None,
            replaced: None,
            next: None,
        }
    }
}
