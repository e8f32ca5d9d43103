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
    pub(crate) slot_attempt: Option<u32>,
}

impl JobRun {
    /// A run that no scheduler made: for tests of a task, and for calling one by hand.
    ///
    /// It was due, and started, at this instant, without a slot.
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

    /// The same run for a slot, at whose instant it was due.
    #[must_use]
    pub fn with_slot(mut self, slot: Slot) -> Self {
        self.slot = Some(slot);
        self.scheduled_at = slot.instant();
        self.trigger = Trigger::Schedule;
        self
    }

    /// The same run with a fencing token.
    #[must_use]
    pub fn with_fencing_token(mut self, token: u64) -> Self {
        self.fencing_token = Some(token);
        self
    }

    /// The job, which is the name of its lock.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// The slot that this run has taken: no other run has it, on any replica. `None` for a fixed
    /// delay and for [`Trigger::Now`].
    pub fn slot(&self) -> Option<Slot> {
        self.slot
    }

    /// Which attempt at its slot this is, from 1, for a job that must not be lost
    /// ([`Completion::OnSuccess`](shedlock_core::Completion::OnSuccess)); none otherwise.
    pub fn slot_attempt(&self) -> Option<u32> {
        self.slot_attempt
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
