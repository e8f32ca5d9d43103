//! Schedules in a journal: how a job is registered, and read back.

use std::time::{Duration, SystemTime};

use shedlock_core::{JobRecord, JobRegistration, Slot, parse_duration};

use super::{EVERY, Kind, Schedule, parsed};

impl Schedule {
    /// Registers a job that has this schedule, for a journal.
    ///
    /// ```
    /// use shedlock::scheduler::Schedule;
    /// use std::time::Duration;
    /// let schedule = Schedule::cron_in("30 2 * * *", "Europe/Berlin")?;
    /// // A run may start 5 minutes late, and take 10 minutes.
    /// let registration = schedule.registration("report").allowance(Duration::from_secs(15 * 60));
    /// # let _ = registration;
    /// # Ok::<(), shedlock::Error>(())
    /// ```
    pub fn registration(&self, job: impl Into<String>) -> JobRegistration {
        let schedule = self.clone();
        let next = move |after| schedule.next_after(after).map(Slot::instant);
        match &self.0 {
            Kind::Cron(cron) => {
                JobRegistration::new(job, cron.expression(), next).zone(cron.zone())
            }
            Kind::Grid(_) | Kind::FixedDelay(_) => {
                JobRegistration::new(job, self.to_string(), next)
            }
        }
    }
}

impl Schedule {
    /// Returns the cron expression, if it is one.
    pub(crate) fn cron_expression(&self) -> Option<&str> {
        match &self.0 {
            Kind::Cron(cron) => Some(cron.expression()),
            Kind::Grid(_) | Kind::FixedDelay(_) => None,
        }
    }
}

/// Returns the first slot of a job after an instant, by the schedule that its journal keeps. Returns
/// `None` if there is none, or if the schedule was not registered by this scheduler or the command.
/// For `JobMetrics::schedules`.
///
/// ```
/// use shedlock::{JobMetrics, MemoryProvider, scheduler};
/// use std::sync::Arc;
/// let provider = Arc::new(MemoryProvider::new());
/// let metrics = JobMetrics::new(provider).schedules(scheduler::next_slot);
/// # let _ = metrics;
/// ```
pub fn next_slot(job: &JobRecord, after: SystemTime) -> Option<SystemTime> {
    let text = job.schedule.as_deref()?;
    if let Some(zone) = &job.zone {
        let schedule = parsed::cron(text, zone)?;
        return schedule.next_after(after).map(Slot::instant);
    }
    let period = parse_duration(text.strip_prefix(EVERY)?).ok()?;
    // Any of its slots shows where its grid is anchored.
    let anchor = job.next_slot?.instant();
    on_grid(period, anchor, after)
}

/// Returns the schedule of a job in words, like `at 03:00`, by what its journal keeps. Returns `None` if there is no
/// schedule, or if it is not a cron expression: other schedules are words already.
///
/// ```
/// use shedlock::{JobRecord, scheduler};
/// use std::time::SystemTime;
/// let mut job = JobRecord::new("backup", SystemTime::now());
/// job.schedule = Some("0 3 * * *".to_owned());
/// job.zone = Some("Europe/Berlin".to_owned());
/// assert_eq!(scheduler::schedule_in_words(&job).as_deref(), Some("at 03:00"));
/// ```
pub fn schedule_in_words(job: &JobRecord) -> Option<String> {
    let (text, zone) = (job.schedule.as_deref()?, job.zone.as_deref()?);
    let schedule = parsed::cron(text, zone)?;
    let Kind::Cron(cron) = &schedule.0 else {
        return None;
    };
    cron.in_words()
}

fn on_grid(period: Duration, anchor: SystemTime, after: SystemTime) -> Option<SystemTime> {
    let schedule = Schedule::every(period).ok()?.anchored_at(anchor);
    schedule.next_after(after).map(Slot::instant)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::UNIX_EPOCH;

    use shedlock_core::{Clock, Journal as _, ManualClock};

    use shedlock_journal::{JournalWriter, MemoryJournal};

    use super::*;

    #[test]
    fn words_of_a_schedule_read_as_a_sentence() {
        let mut job = JobRecord::new("report", UNIX_EPOCH);
        job.zone = Some("UTC".to_owned());
        for (schedule, words) in [
            ("*/15 * * * *", "every 15 minutes"),
            ("30 2 * * *", "at 02:30"),
        ] {
            job.schedule = Some(schedule.to_owned());
            assert_eq!(schedule_in_words(&job).as_deref(), Some(words));
        }
    }

    #[tokio::test]
    async fn a_registered_schedule_is_read_back() {
        let clock = Arc::new(ManualClock::new());
        let now = clock.system_time();
        let odd = UNIX_EPOCH + Duration::from_secs(7);
        for schedule in [
            Schedule::cron_in("30 2 * * *", "Europe/Berlin"),
            Schedule::cron("*/10 * * * * *"),
            Schedule::every("1h 30m"),
            Schedule::every("10m").map(|it| it.anchored_at(odd)),
        ] {
            let schedule = schedule.unwrap();
            let journal = Arc::new(MemoryJournal::with_clock(clock.clone()));
            let writer = JournalWriter::new(journal.clone());
            writer.register(schedule.registration("job"));
            writer.flush(Duration::from_secs(60)).await;
            let job = journal.job("job").await.unwrap().unwrap();
            let later = now + Duration::from_secs(100_000);
            for after in [later, job.next_slot.unwrap().instant()] {
                let expected = schedule.next_after(after).map(Slot::instant);
                assert_eq!(next_slot(&job, after), expected, "{schedule}");
            }
        }
    }

    #[test]
    fn other_schedules_are_not_guessed() {
        let mut job = JobRecord::new("job", UNIX_EPOCH);
        assert_eq!(next_slot(&job, UNIX_EPOCH), None);
        job.next_slot = Slot::at(UNIX_EPOCH).ok();
        for (schedule, zone) in [("every day", None), ("x", None), ("x", Some("UTC"))] {
            job.schedule = Some(schedule.to_owned());
            job.zone = zone.map(str::to_owned);
            assert_eq!(next_slot(&job, UNIX_EPOCH), None, "{schedule}");
        }
    }
}
