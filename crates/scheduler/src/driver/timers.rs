//! The timers of all jobs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock_core::Moment;

/// The index of a job in the table of jobs.
pub(super) type JobId = u32;

/// One heap for jobs that are due by the calendar, and one for jobs that are due by the running
/// clock.
///
/// Nothing is removed when a job is planned again. A timer that fires is compared with the job's
/// plan, and is stale if they differ.
#[derive(Debug, Default)]
pub(super) struct Timers {
    calendar: BinaryHeap<Reverse<(u64, JobId)>>,
    running: BinaryHeap<Reverse<(Moment, JobId)>>,
}

impl Timers {
    pub(super) fn set_calendar(&mut self, at: SystemTime, job: JobId) {
        self.calendar.push(Reverse((micros(at), job)));
    }

    pub(super) fn set_running(&mut self, at: Moment, job: JobId) {
        self.running.push(Reverse((at, job)));
    }

    pub(super) fn clear(&mut self) {
        self.calendar.clear();
        self.running.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.calendar.len() + self.running.len()
    }

    /// Removes and returns the next job that is due by the calendar, with the time it was set for.
    pub(super) fn pop_calendar(&mut self, now: SystemTime) -> Option<(SystemTime, JobId)> {
        let now = micros(now);
        let Reverse((at, job)) = *self.calendar.peek().filter(|next| next.0.0 <= now)?;
        self.calendar.pop();
        Some((UNIX_EPOCH + Duration::from_micros(at), job))
    }

    /// Removes and returns the next job that is due by the running clock, with the time it was set
    /// for.
    pub(super) fn pop_running(&mut self, now: Moment) -> Option<(Moment, JobId)> {
        let Reverse((at, job)) = *self.running.peek().filter(|next| next.0.0 <= now)?;
        self.running.pop();
        Some((at, job))
    }

    /// Returns when to check again: at the next timer, and every `clock_check` while anything waits
    /// for the calendar. Returns `None` if there are no timers.
    pub(super) fn next_wake(
        &self,
        now: Moment,
        calendar: SystemTime,
        clock_check: Duration,
    ) -> Option<Moment> {
        let by_calendar = self.calendar.peek().map(|Reverse((at, _))| {
            let at = UNIX_EPOCH + Duration::from_micros(*at);
            now + at
                .duration_since(calendar)
                .unwrap_or_default()
                .min(clock_check)
        });
        let by_running = self.running.peek().map(|Reverse((at, _))| *at);
        [by_calendar, by_running].into_iter().flatten().min()
    }
}

fn micros(instant: SystemTime) -> u64 {
    let since = instant.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
