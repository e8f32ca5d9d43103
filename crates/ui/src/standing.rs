//! How a job stands: its state in a word, and the reason in a sentence.

use std::time::{Duration, SystemTime};

use shedlock_core::{JobRecord, LockRecord, LockState, RunOutcome};
use shedlock_journal::view::{
    CurrentJob, JobState, about, elsewhere_in_words, left, open_end, second, taken_in_words,
};

use crate::components::Badge;

/// A lease that ends this soon, or with this share left, is about to expire.
const SHORT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) badge: Badge,
    /// Empty if there is nothing to add.
    pub(crate) reason: String,
    pub(crate) needs_attention: bool,
}

impl Standing {
    pub(crate) fn of(current: &CurrentJob, now: SystemTime) -> Self {
        let (job, lock) = (&current.job, current.lock.as_ref());
        let state = current.state(now);
        let (class, reason, needs_attention) = match state {
            JobState::Paused => match (lock, current.paused_until) {
                (Some(lock), _) if lock.state == LockState::Paused => return Self::of_pause(lock),
                (_, until) => ("pause", until.map(|it| until_words(it, now)), true),
            },
            JobState::Overdue => ("bad", Some(overdue_words(job, now)), true),
            JobState::Running => {
                let lease = job.last_run.as_ref().and_then(|run| run.lock_at_most_for);
                let held = lock.map(|lock| Self::of_held(lock, lease));
                let class = held.as_ref().map_or("run", |held| held.badge.class);
                let attention = held.as_ref().is_some_and(|held| held.needs_attention);
                (class, held.map(|held| held.reason), attention)
            }
            JobState::Unverified => {
                let badge = if job.lacks_outcomes() {
                    "warn"
                } else {
                    "taken"
                };
                (badge, elsewhere_in_words(job), job.lacks_outcomes())
            }
            JobState::Taken => ("taken", lock.and_then(taken_in_words), false),
            JobState::WithoutLock => ("warn", start_words(job, now, "it may still run"), true),
            JobState::EndUnknown => {
                let why = "its process or host died, or could not reach the journal";
                ("warn", start_words(job, now, why), true)
            }
            JobState::Failed(outcome) => ("bad", Some(failure_words(job, outcome, now)), true),
            JobState::MaybeOverlapped => {
                let why = "another run may have overlapped it";
                ("warn", start_words(job, now, why), true)
            }
            JobState::Cancelled => (
                "idle",
                Some("the last run was interrupted".to_owned()),
                false,
            ),
            JobState::Ok => ("ok", None, false),
            JobState::NoRun => ("idle", None, false),
        };
        let reason = reason.unwrap_or_default();
        Self::new(class, state.as_str(), reason, needs_attention)
    }

    /// A lock that a run holds. `lease` is how long its lease lasts unless it is extended: without
    /// it, nothing follows from the time that is left.
    pub(crate) fn of_held(lock: &LockRecord, lease: Option<Duration>) -> Self {
        let age = shedlock_journal::view::age(lock);
        let left = left(lock);
        let is_short = left
            .zip(lease)
            .is_some_and(|(left, lease)| left < SHORT && left < lease / 5);
        let mut reason = age.map_or_else(String::new, |age| format!("for {}", about(age)));
        if let Some(left) = left {
            let gap = if reason.is_empty() { "" } else { "; " };
            reason.push_str(&format!("{gap}its lease ends in {}", about(left)));
        }
        match is_short {
            true => Self::new("warn", "held", reason + ", unless it is extended", true),
            false => Self::new("run", "held", reason, false),
        }
    }

    /// A lock that ShedLock for Java has.
    pub(crate) fn of_taken(lock: &LockRecord) -> Self {
        Self::new(
            "taken",
            "taken",
            taken_in_words(lock).unwrap_or_default(),
            false,
        )
    }

    /// A lock that an operator has paused.
    pub(crate) fn of_pause(lock: &LockRecord) -> Self {
        let pause = lock.pause();
        let by = pause.map_or_else(String::new, |pause| format!("{pause} "));
        let until = lock.locked_until.map_or_else(String::new, |until| {
            until_words(until, lock.read_at.unwrap_or(until))
        });
        Self::new("pause", "paused", format!("{by}{until}"), true)
    }

    fn new(class: &'static str, word: &'static str, reason: String, needs_attention: bool) -> Self {
        Self {
            badge: Badge { class, word },
            reason,
            needs_attention,
        }
    }
}

/// How long ago that was.
fn since(then: SystemTime, now: SystemTime) -> String {
    about(now.duration_since(then).unwrap_or_default())
}

/// For how long the job is overdue, and when it last succeeded.
fn overdue_words(job: &JobRecord, now: SystemTime) -> String {
    let deadline = job
        .deadline
        .map_or_else(String::new, |then| since(then, now));
    let last = match job.last_succeeded {
        Some(then) => format!("it last succeeded {} ago", since(then, now)),
        None => "it has never succeeded".to_owned(),
    };
    format!("for {deadline}; {last}")
}

/// The start of the last run, and what is to be known about its end.
fn start_words(job: &JobRecord, now: SystemTime, end: &str) -> Option<String> {
    let run = job.last_run.as_ref()?;
    let (when, owner) = (since(run.started, now), &run.owner);
    Some(format!("started {when} ago by {owner}; {end}"))
}

/// When the last run failed, and why.
fn failure_words(job: &JobRecord, outcome: RunOutcome, now: SystemTime) -> String {
    // The badge says that it failed.
    let outcome = (outcome != RunOutcome::Failed).then(|| outcome.as_str().to_owned());
    let when = job
        .last_failed
        .map(|then| format!("{} ago", since(then, now)));
    let what: Vec<_> = outcome.into_iter().chain(when).collect();
    let error = job.last_error.as_deref().unwrap_or("no error was recorded");
    let gap = if what.is_empty() { "" } else { ": " };
    format!("{}{gap}{error}", what.join(" "))
}

/// The end of a pause.
fn until_words(until: SystemTime, now: SystemTime) -> String {
    let until = open_end(until, Some(now)).map_or_else(|| second(until), str::to_owned);
    format!("until {until}")
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use shedlock_core::{LastRun, LockName, RunState, TakenElsewhere};

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn failed_as(outcome: RunOutcome) -> CurrentJob {
        let mut job = JobRecord::new("payroll", at(0));
        job.last_failed = Some(at(940));
        job.last_error = Some("exit code 3".to_owned());
        CurrentJob {
            last_run: Some(RunState::Ended(outcome)),
            ..current(job)
        }
    }

    fn current(job: JobRecord) -> CurrentJob {
        CurrentJob {
            job,
            paused_until: None,
            last_run: None,
            lock: None,
        }
    }

    fn standing(current: &CurrentJob) -> (String, String) {
        let standing = Standing::of(current, at(1_000));
        (standing.badge.word.to_owned(), standing.reason)
    }

    fn pair(word: &str, reason: &str) -> (String, String) {
        (word.to_owned(), reason.to_owned())
    }

    #[test]
    fn the_reason_says_what_happened_and_when() {
        let new = current(JobRecord::new("payroll", at(0)));
        assert_eq!(standing(&new), pair("no run yet", ""));
        let mut job = failed_as(RunOutcome::Failed);
        assert_eq!(standing(&job), pair("failed", "1m ago: exit code 3"));
        let panicked = failed_as(RunOutcome::Panicked);
        let reason = "panicked 1m ago: exit code 3";
        assert_eq!(standing(&panicked), pair("failed", reason));
        job.job.deadline = Some(at(900));
        job.job.last_succeeded = Some(at(400));
        let reason = "for 1m40s; it last succeeded 10m ago";
        assert_eq!(standing(&job), pair("overdue", reason));
        job.paused_until = Some(at(4_600));
        let reason = "until 1970-01-01T01:16:40Z";
        assert_eq!(standing(&job), pair("paused", reason));
    }

    #[test]
    fn a_run_without_an_end_is_neither_a_success_nor_a_failure() {
        let run = LastRun::new("payroll", "web-1/7/ff", at(940));
        let mut job = failed_as(RunOutcome::Failed);
        job.job.last_run = Some(run);
        job.last_run = Some(RunState::EndUnknown);
        let reason = "started 1m ago by web-1/7/ff; its process or host died, or could not reach the \
                      journal";
        assert_eq!(standing(&job), pair("end unknown", reason));
        job.last_run = Some(RunState::WithoutLock);
        let reason = "started 1m ago by web-1/7/ff; it may still run";
        assert_eq!(standing(&job), pair("without its lock", reason));
    }

    #[test]
    fn a_lock_of_shedlock_raises_no_alarm_about_its_end() {
        let name = LockName::new("payroll").unwrap();
        let mut lock = LockRecord::from_stored(name, "web-2", true);
        lock.locked_at = Some(at(100));
        lock.read_at = Some(at(1_000));
        lock.locked_until = Some(at(1_001));
        let mut job = current(JobRecord::new("payroll", at(0)));
        let mut run = LastRun::new("payroll", "web-1/7/ff", at(10));
        run.lock_at_most_for = Some(Duration::from_secs(900));
        job.job.last_run = Some(run);
        job.lock = Some(lock.clone());
        let reason = "taken by ShedLock on web-2 until 1970-01-01T00:16:41Z: its task runs, or has ended and \
                      lockAtLeastFor keeps it";
        assert_eq!(standing(&job), pair("taken", reason));
        assert!(!Standing::of(&job, at(1_000)).needs_attention);
        assert!(!Standing::of_taken(&lock).needs_attention);
    }

    #[test]
    fn a_job_whose_slots_shedlock_takes_is_unverified_and_worth_a_look_after_three() {
        let mut job = failed_as(RunOutcome::Failed);
        let slot = shedlock_core::Slot::at(at(960)).unwrap();
        let taken = |slots| {
            let mut taken = TakenElsewhere::new(slot, at(961), slots);
            taken.by = Some("web-2".to_owned());
            Some(taken)
        };
        job.job.elsewhere = taken(2);
        let reason = "slot 1970-01-01T00:16:00Z was taken by ShedLock on web-2 at 1970-01-01T00:16:01Z; how its \
                      task ended is not known (2 slots in a row)";
        assert_eq!(standing(&job), pair("unverified", reason));
        assert!(!Standing::of(&job, at(1_000)).needs_attention);
        job.job.elsewhere = taken(3);
        assert!(Standing::of(&job, at(1_000)).needs_attention);
        job.job.is_watched_elsewhere = true;
        assert!(!Standing::of(&job, at(1_000)).needs_attention);
        assert_eq!(standing(&job).0, "unverified");
        job.job.deadline = Some(at(990));
        assert_eq!(standing(&job).0, "overdue");
    }

    #[test]
    fn a_lease_that_is_about_to_end_needs_attention_unless_it_is_extended() {
        let mut lock = LockRecord::new(LockName::new("payroll").unwrap(), LockState::Held);
        lock.locked_at = Some(at(900));
        lock.read_at = Some(at(1_000));
        lock.locked_until = Some(at(1_600));
        let mut job = current(JobRecord::new("payroll", at(0)));
        job.lock = Some(lock.clone());
        let reason = "for 1m40s; its lease ends in 10m";
        assert_eq!(standing(&job), pair("running", reason));
        let needs_attention = |lock: &LockRecord, lease: u64| {
            Standing::of_held(lock, Some(Duration::from_secs(lease))).needs_attention
        };
        assert!(!needs_attention(&lock, 700));
        lock.locked_until = Some(at(1_010));
        assert!(needs_attention(&lock, 110));
        // Extended at a third of its lease, for as long as it runs.
        assert!(!needs_attention(&lock, 15));
        assert!(!Standing::of_held(&lock, None).needs_attention);
    }
}
