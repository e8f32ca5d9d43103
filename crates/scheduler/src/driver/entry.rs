//! An entry in the table of jobs. It is small, since most jobs are idle.

use std::sync::Arc;
use std::time::SystemTime;

use shedlock_core::{Moment, Slot};
use tokio::sync::watch;

use super::due::{Due, Phase};
use crate::{Job, JobStatus, MissedReason};

pub(super) struct Entry {
    pub(super) job: Arc<Job>,
    pub(super) plan: Plan,
    /// The newest slot that is known to be used up.
    pub(super) decided: Option<Slot>,
    pub(super) active: Option<Box<Active>>,
    pub(super) paused: bool,
}

/// What a job's timer is set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Nothing,
    /// The end of the initial delay. It is kept while the job is paused.
    Begin(Moment),
    /// The planning panicked, and is repeated at this moment.
    Again(Moment),
    Slot {
        slot: Slot,
        at: SystemTime,
    },
    Delay {
        at: Moment,
        /// The calendar time of that moment, as it was when the delay was planned.
        calendar: SystemTime,
    },
}

/// A tick that is being tried or run.
pub(super) struct Active {
    pub(super) due: Due,
    pub(super) phase: watch::Sender<Phase>,
    /// The newest tick that was due in the meantime.
    pub(super) pending: Option<Due>,
    /// A run was requested and starts as soon as this one has ended.
    pub(super) run_now: bool,
}

impl Entry {
    pub(super) fn new(job: Job) -> Self {
        Self {
            job: Arc::new(job),
            plan: Plan::Nothing,
            decided: None,
            active: None,
            paused: false,
        }
    }

    /// Records that a slot is used up.
    pub(super) fn decide(&mut self, slot: Option<Slot>) {
        self.decided = self.decided.max(slot);
    }

    /// Returns true if this slot is known to be used up.
    pub(super) fn is_decided(&self, slot: Slot) -> bool {
        self.decided >= Some(slot)
    }

    /// Makes a tick that still waits for its lock give up.
    pub(super) fn give_up(&self, reason: MissedReason) {
        if let Some(active) = &self.active {
            active.phase.send_if_modified(|phase| {
                let goes = matches!(phase, Phase::Go | Phase::MakeRoom);
                if goes {
                    *phase = Phase::GiveUp(reason);
                }
                goes
            });
        }
    }

    pub(super) fn status(&self) -> JobStatus {
        JobStatus {
            name: self.job.name().to_owned(),
            schedule: self.job.schedule.to_string(),
            paused: self.paused,
            active: self.active.is_some(),
            next: match self.plan {
                Plan::Slot { at, .. } => Some(at),
                Plan::Delay { calendar, .. } => Some(calendar),
                Plan::Nothing | Plan::Begin(_) | Plan::Again(_) => None,
            },
            last_slot: self.decided,
        }
    }
}
