//! Jobs with a schedule, as their scheduler registers them.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{JobChange, JobRecord, ReplacedRegistration};
use crate::owner::host;
use crate::{Slot, parse_duration, text};

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
pub struct JobRegistration {
    pub(super) job: String,
    schedule: String,
    zone: Option<String>,
    lock_at_most_for: Option<Duration>,
    allowance: Duration,
    done: Option<Slot>,
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
    pub fn expected_every(job: impl Into<String>, period: Duration) -> Self {
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

    /// Returns the next slot after this instant, and the time by which it must have succeeded.
    pub(super) fn next_after(&self, instant: SystemTime) -> Option<(Slot, SystemTime)> {
        let next = (self.next)(instant)?;
        Some((Slot::at(next).ok()?, next + self.allowance))
    }

    /// Returns what is recorded for this job if `known` is what the journal knows about it.
    pub(super) fn change(&self, known: Option<&JobRecord>, now: SystemTime) -> JobChange {
        let same = known.filter(|known| {
            known.schedule.as_deref() == Some(&*self.schedule) && known.zone == self.zone
        });
        // Deploying a job that fails again and again must not move its deadline.
        let registered = same.map_or(now, |known| known.registered);
        let succeeded = same.and_then(|known| known.last_succeeded);
        let done = self.done.map(Slot::instant);
        let base = done.max(succeeded).unwrap_or(registered);
        JobChange {
            job: self.job.clone(),
            schedule: Some(self.schedule.clone()),
            zone: self.zone.clone(),
            lock_at_most_for: self.lock_at_most_for,
            by: Some(host().to_owned()),
            replaced: known.and_then(|known| self.replaced(known, now)),
            next: self.next_after(base),
        }
    }

    /// Returns whether this is what the journal knows about the job.
    fn is_known_as(&self, known: &JobRecord) -> bool {
        known.schedule.as_deref() == Some(&*self.schedule)
            && known.zone == self.zone
            && known.lock_at_most_for == self.lock_at_most_for
    }

    /// Warns if the journal has another schedule, zone or lease: replicas that differ run a job at the slots of each.
    pub(super) fn warn_of_drift(&self, known: &JobRecord) {
        if known.schedule.is_none() || self.is_known_as(known) {
            return;
        }
        let theirs = registered(
            known.schedule.as_deref(),
            known.zone.as_deref(),
            known.lock_at_most_for,
        );
        let ours = registered(
            Some(&self.schedule),
            self.zone.as_deref(),
            self.lock_at_most_for,
        );
        let by = known.registered_by.as_deref().unwrap_or("another replica");
        tracing::warn!(
            "{}: {by} has registered {theirs}, and {} registers {ours}: unless it was changed on purpose, give all \
             replicas the same schedule, zone and lease",
            self.job,
            host()
        );
    }

    /// Returns what another host has registered, if that differs from this registration. A host that changes its own
    /// registration has been given a new one, and no longer has the old one.
    fn replaced(&self, known: &JobRecord, now: SystemTime) -> Option<ReplacedRegistration> {
        let by = known.registered_by.as_deref()?;
        if self.is_known_as(known) || by == host() {
            let earlier = known.replaced.clone();
            return earlier.filter(|earlier| earlier.by != host());
        }
        Some(ReplacedRegistration {
            schedule: known.schedule.clone(),
            zone: known.zone.clone(),
            lock_at_most_for: known.lock_at_most_for,
            ..ReplacedRegistration::new(by, now)
        })
    }
}

/// Returns what was registered, in words.
pub(crate) fn registered(
    schedule: Option<&str>,
    zone: Option<&str>,
    at_most: Option<Duration>,
) -> String {
    let schedule = schedule.map_or_else(|| "no schedule".to_owned(), |it| format!("{it:?}"));
    let zone = zone.map_or_else(String::new, |zone| format!(" {zone}"));
    let at_most = at_most.map(text::duration);
    let at_most = at_most.map_or_else(String::new, |it| format!(" with a lease of {it}"));
    format!("{schedule}{zone}{at_most}")
}

/// Returns the period of a job that was registered with
/// [`expected_every`](JobRegistration::expected_every).
pub(crate) fn expected_period(job: &JobRecord) -> Option<Duration> {
    let schedule = job.schedule.as_deref()?;
    parse_duration(schedule.strip_prefix(EXPECTED)?).ok()
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
