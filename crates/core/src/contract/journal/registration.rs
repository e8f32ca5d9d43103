//! Jobs with a schedule, as their scheduler registers them.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_support::text;

use super::JobRecord;
use crate::contract::{Slot, parse_duration};

/// Returns the first slot after an instant; none if the schedule has ended.
type NextSlot = dyn Fn(SystemTime) -> Option<SystemTime> + Send + Sync;

/// The schedule of a job that a foreign scheduler starts.
const EXPECTED: &str = "expected every ";

/// A job with a schedule, for a journal: when it must have succeeded next.
///
/// ```
/// use shedlock::JobRegistration;
/// use std::time::Duration;
/// // Every hour, counted from 1970. A run may start 5 minutes late, and take 10 minutes.
/// let hour = Duration::from_secs(3_600);
/// let registration = JobRegistration::new("report", "every 1h", move |after| {
///     let since = after.duration_since(std::time::UNIX_EPOCH).ok()?;
///     let next = since.as_secs() / hour.as_secs() * hour.as_secs() + hour.as_secs();
///     Some(std::time::UNIX_EPOCH + Duration::from_secs(next))
/// })
/// .allowance(Duration::from_secs(15 * 60));
/// # let _ = registration;
/// ```
#[derive(Clone)]
#[must_use]
#[non_exhaustive]
pub struct JobRegistration {
    /// The job.
    pub job: String,
    /// The schedule as text.
    pub schedule: String,
    /// The time zone of the schedule.
    pub zone: Option<String>,
    /// How long a run may hold its lock without an extension.
    pub lock_at_most_for: Option<Duration>,
    /// How long after its slot a run may end.
    pub allowance: Duration,
    /// The last slot that is done according to the store.
    pub done: Option<Slot>,
    next: Arc<NextSlot>,
}

impl JobRegistration {
    /// Registers a job with this schedule. `next` returns the first slot after an instant.
    pub fn new(
        job: impl Into<String>,
        schedule: impl Into<String>,
        next: impl Fn(SystemTime) -> Option<SystemTime> + Send + Sync + 'static,
    ) -> Self {
        Self {
            job: job.into(),
            schedule: schedule.into(),
            zone: None,
            lock_at_most_for: None,
            allowance: Duration::ZERO,
            done: None,
            next: Arc::new(next),
        }
    }

    /// Registers a job that a foreign scheduler starts: it must succeed again within this period
    /// after the start of its latest success.
    pub(crate) fn expected_every(job: impl Into<String>, period: Duration) -> Self {
        let schedule = format!("{EXPECTED}{}", text::duration(period));
        Self::new(job, schedule, move |after| after.checked_add(period))
    }

    /// Sets the time zone of the schedule, for display.
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = Some(zone.into());
        self
    }

    /// Sets how long a run may hold its lock without an extension, for display.
    pub fn lock_at_most_for(mut self, at_most: Duration) -> Self {
        self.lock_at_most_for = Some(at_most);
        self
    }

    /// Sets how long after its slot a run may end: the time for which it may start late, and the
    /// time for which it may run. Default: zero.
    pub fn allowance(mut self, allowance: Duration) -> Self {
        self.allowance = allowance;
        self
    }

    /// Sets the last slot that is done according to the store.
    pub fn done(mut self, slot: Option<Slot>) -> Self {
        self.done = slot;
        self
    }

    /// Returns the next slot after this instant, and the time by which it must have succeeded. `None` if
    /// the schedule has ended.
    pub fn next_after(&self, instant: SystemTime) -> Option<(Slot, SystemTime)> {
        let next = (self.next)(instant)?;
        Some((Slot::at(next).ok()?, next + self.allowance))
    }
}

impl JobRecord {
    /// Returns the period of a job that was registered for
    /// [`LockConfig::expect_every`](crate::LockConfig::expect_every).
    pub fn expected_period(&self) -> Option<Duration> {
        let schedule = self.schedule.as_deref()?;
        parse_duration(schedule.strip_prefix(EXPECTED)?).ok()
    }
}

impl fmt::Debug for JobRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobRegistration")
            .field("job", &self.job)
            .field("schedule", &self.schedule)
            .field("zone", &self.zone)
            .field("allowance", &self.allowance)
            .finish_non_exhaustive()
    }
}
