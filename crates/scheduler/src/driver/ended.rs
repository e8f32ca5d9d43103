//! The follow-up to the end of a run.

use tokio::task::{self, JoinError};

use super::Driver;
use super::due::Due;
use super::entry::Active;
use super::timers::JobId;
use crate::{MissedReason, Overlap, TickEnd};

/// The result of a run: the tick that ended, and how.
pub(super) type RunEnded = Result<(task::Id, Option<(Due, TickEnd)>), JoinError>;

impl Driver {
    /// Handles the end of a run, and starts what waited for it.
    pub(super) fn ended(&mut self, ended: RunEnded) {
        let Some((id, active, end)) = self.taken_off(ended) else {
            return;
        };
        self.isolated(id, |driver| match end {
            Some(end) => driver.follow(id, &active, &end),
            None => driver.go_on_later(id, &active),
        });
    }

    fn follow(&mut self, id: JobId, active: &Active, end: &TickEnd) {
        self.conclude(id, active, end);
        let entry = self.entry(id);
        let job = entry.job.clone();
        let paused = entry.paused;
        if job.schedule.delay().is_some() && !paused {
            self.plan_delay(id);
        }
        if active.run_now {
            self.run_now(id);
        }
        let Some(pending) = active.pending else {
            return;
        };
        let entry = self.entry(id);
        let is_over = pending.slot.is_some_and(|slot| entry.is_decided(slot));
        let skips = job.overlap == Overlap::Skip && !job.runs_in_order();
        if end.has_started() && skips && !is_over {
            let missed = TickEnd::Missed(MissedReason::Overlap);
            self.shared.tell(&job, &pending, &missed);
        } else {
            self.tick(id, pending);
        }
    }

    /// The tick of a job that runs in order has yielded between two slots.
    fn go_on_later(&mut self, id: JobId, active: &Active) {
        let due = active.pending.unwrap_or(active.due);
        self.run_now(id);
        let entry = self.entry(id);
        if entry.paused {
            let job = entry.job.clone();
            let paused = TickEnd::Missed(MissedReason::Paused);
            self.shared.tell(&job, &due, &paused);
        } else {
            self.tick(id, due);
        }
    }

    /// Removes a run that has ended from the table.
    pub(super) fn taken_off(
        &mut self,
        ended: RunEnded,
    ) -> Option<(JobId, Active, Option<TickEnd>)> {
        let (task, due, end) = match ended {
            Ok((task, Some((due, end)))) => (task, Some(due), Some(end)),
            Ok((task, None)) => (task, None, None),
            Err(error) if error.is_panic() => (error.id(), None, Some(TickEnd::Panicked)),
            Err(error) => (error.id(), None, Some(TickEnd::Cut { unlocked: false })),
        };
        let id = self.jobs_of_runs.remove(&task)?;
        let mut active = *self.entry(id).active.take()?;
        active.due = due.unwrap_or(active.due);
        Some((id, active, end))
    }

    /// Reports how a tick ended, and records what that shows about its slot.
    pub(super) fn conclude(&mut self, id: JobId, active: &Active, end: &TickEnd) {
        let shared = self.shared.clone();
        let entry = self.entry(id);
        if end.is_decided() {
            entry.decide(active.due.slot);
        }
        shared.tell(&entry.job, &active.due, end);
    }
}
