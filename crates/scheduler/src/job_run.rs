//! What a task can find out about its run.

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
    pub(crate) slot_attempt: Option<u32>,
}

impl JobRun {
    /// Creates a run without a scheduler, to test a task or to call it by hand.
    ///
    /// The run was due, and started, at this instant, and has no slot.
    ///
    /// ```
    /// use shedlock::Slot;
    /// use shedlock::scheduler::JobRun;
    /// use std::time::{Duration, UNIX_EPOCH};
    /// let midnight = UNIX_EPOCH + Duration::from_secs(1_800_057_600);
    /// let run = JobRun::at(midnight + Duration::from_secs(3), "report")
    ///     .with_slot(Slot::at(midnight)?)
    ///     .with_fencing_token(7);
    /// assert_eq!(run.lateness(), Duration::from_secs(3));
    /// # Ok::<(), shedlock::Error>(())
    /// ```
    pub fn at(instant: SystemTime, job: impl Into<String>) -> Self {
        Self {
            job: job.into(),
            slot: None,
            scheduled_at: instant,
            started_at: instant,
            trigger: Trigger::Now,
            slot_attempt: None,
            fencing_token: None,
        }
    }

    /// Sets the slot of the run, which was due at the slot's instant.
    #[must_use]
    pub fn with_slot(mut self, slot: Slot) -> Self {
        self.slot = Some(slot);
        self.scheduled_at = slot.instant();
        self.trigger = Trigger::Schedule;
        self
    }

    /// Sets the fencing token of the run.
    #[must_use]
    pub fn with_fencing_token(mut self, token: u64) -> Self {
        self.fencing_token = Some(token);
        self
    }

    /// Returns the job's name, which is the name of its lock.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// Returns the slot that this run has taken. No other run has it, on any replica. `None` for a
    /// fixed delay and for [`Trigger::Now`].
    pub fn slot(&self) -> Option<Slot> {
        self.slot
    }

    /// Returns the number of this attempt at its slot, counted from 1, for a job that must not be
    /// lost ([`Completion::OnSuccess`](shedlock_core::Completion::OnSuccess)); otherwise `None`.
    pub fn slot_attempt(&self) -> Option<u32> {
        self.slot_attempt
    }

    /// Returns when the run was due: the instant of its slot, or without a slot, the time its timer
    /// was set for.
    pub fn scheduled_at(&self) -> SystemTime {
        self.scheduled_at
    }

    /// Returns how long after [`scheduled_at`](Self::scheduled_at) the task started, with the lock
    /// held, by the calendar of this node. Zero if that calendar is behind.
    pub fn lateness(&self) -> Duration {
        self.started_at
            .duration_since(self.scheduled_at)
            .unwrap_or_default()
    }

    /// Returns why the job runs.
    pub fn trigger(&self) -> Trigger {
        self.trigger
    }

    /// Returns the fencing token of this run's lock, if the store keeps one. Pass it to every
    /// system that the task writes to. [`current_lock`](shedlock_core::current_lock) returns the
    /// rest of the lock.
    pub fn fencing_token(&self) -> Option<u64> {
        self.fencing_token
    }
}

/// Why a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Trigger {
    /// Its schedule was due.
    Schedule,
    /// The scheduler started, and the job runs at start.
    Start,
    /// The slot passed while no replica ran it.
    Missed,
    /// It was requested with [`Handle::run_now`](crate::Handle::run_now).
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
