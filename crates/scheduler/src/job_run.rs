//! What a task is told about its run.

use std::fmt;
use std::time::{Duration, SystemTime};

use shedlock_core::Slot;

/// One run of a job, as its task sees it.
#[derive(Clone, Debug)]
pub struct JobRun {
    pub(crate) job: String,
    pub(crate) slot: Option<Slot>,
    pub(crate) scheduled_at: SystemTime,
    pub(crate) started_at: SystemTime,
    pub(crate) trigger: Trigger,
    pub(crate) fencing_token: Option<u64>,
}

impl JobRun {
    /// The job, which is the name of its lock.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// The slot that this run has taken: no other run has it, on any replica. `None` for a fixed
    /// delay and for [`Trigger::Now`].
    pub fn slot(&self) -> Option<Slot> {
        self.slot
    }

    /// When the run was due: its slot's instant; without a slot, when its timer was set for.
    pub fn scheduled_at(&self) -> SystemTime {
        self.scheduled_at
    }

    /// How long after [`scheduled_at`](Self::scheduled_at) the task started, with the lock held, by
    /// the calendar of this node. Zero where that calendar is behind.
    pub fn lateness(&self) -> Duration {
        self.started_at
            .duration_since(self.scheduled_at)
            .unwrap_or_default()
    }

    /// Why it runs.
    pub fn trigger(&self) -> Trigger {
        self.trigger
    }

    /// The fencing token of this run's lock, where the store keeps one: hand it to whatever the
    /// task writes to. The rest of the lock is at
    /// [`current_lock`](shedlock_core::current_lock).
    pub fn fencing_token(&self) -> Option<u64> {
        self.fencing_token
    }
}

/// Why a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Trigger {
    /// Its schedule said so.
    Schedule,
    /// The scheduler started, and the job runs at start.
    Start,
    /// The slot passed while no replica ran it.
    Missed,
    /// Somebody asked for it: [`Handle::run_now`](crate::Handle::run_now).
    Now,
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Schedule => "schedule",
            Self::Start => "start",
            Self::Missed => "missed",
            Self::Now => "now",
        })
    }
}
