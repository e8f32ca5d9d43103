//! How a job stands: its state in a word, and the reason in a sentence.

use std::time::{Duration, SystemTime};

use shedlock_core::shown::{CurrentJob, about, left, open_end, second};
use shedlock_core::{LockRecord, LockState, RunOutcome};

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
    /// `lock` is the record of the job's lock, if it cannot be taken.
    pub(crate) fn of(current: &CurrentJob, lock: Option<&LockRecord>, now: SystemTime) -> Self {
        let job = &current.job;
        let since = |then: SystemTime| about(now.duration_since(then).unwrap_or_default());
        if let Some(until) = current.paused_until {
            if let Some(lock) = lock {
                return Self::of_pause(lock);
            }
            let until = open_end(until, Some(now)).map_or_else(|| second(until), str::to_owned);
            let reason = format!("until {until}");
            return Self::new("pause", "paused", reason, true);
        }
        if job.is_overdue(now) {
            let deadline = job.deadline.map_or_else(String::new, since);
            let last = match job.last_succeeded {
                Some(then) => format!("it last succeeded {} ago", since(then)),
                None => "it has never succeeded".to_owned(),
            };
            let reason = format!("for {deadline}; {last}");
            return Self::new("bad", "overdue", reason, true);
        }
        if let Some(lock) = lock.filter(|lock| lock.state == LockState::Held) {
            let standing = Self::of_held(lock);
            return Self {
                badge: Badge {
                    word: "running",
                    ..standing.badge
                },
                ..standing
            };
        }
        if job.last_outcome.is_some_and(RunOutcome::is_failure) {
            // The badge says that it failed.
            let outcome = job.last_outcome.filter(|it| *it != RunOutcome::Failed);
            let outcome = outcome.map(|it| it.as_str().to_owned());
            let when = job.last_failed.map(|then| format!("{} ago", since(then)));
            let what: Vec<_> = outcome.into_iter().chain(when).collect();
            let error = job.last_error.as_deref().unwrap_or("no error was recorded");
            let gap = if what.is_empty() { "" } else { ": " };
            let reason = format!("{}{gap}{error}", what.join(" "));
            return Self::new("bad", "failed", reason, true);
        }
        match job.last_outcome {
            None => Self::new("idle", "no run yet", String::new(), false),
            Some(RunOutcome::Cancelled) => {
                let reason = "the last run was interrupted".to_owned();
                Self::new("idle", "cancelled", reason, false)
            }
            Some(_) => Self::new("ok", "ok", String::new(), false),
        }
    }

    /// A lock that a run holds.
    pub(crate) fn of_held(lock: &LockRecord) -> Self {
        let age = shedlock_core::shown::age(lock);
        let left = left(lock);
        let whole = age.zip(left).map(|(age, left)| age + left);
        let is_short = left
            .zip(whole)
            .is_some_and(|(left, whole)| left < SHORT && left < whole / 5);
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

    /// A lock that an operator has paused.
    pub(crate) fn of_pause(lock: &LockRecord) -> Self {
        let pause = lock.pause();
        let by = pause.map_or_else(String::new, |pause| format!("{pause} "));
        let until = lock.locked_until.map_or_else(String::new, |until| {
            let until = open_end(until, lock.read_at).map_or_else(|| second(until), str::to_owned);
            format!("until {until}")
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

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use shedlock_core::{JobRecord, LockName};

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn standing(
        change: impl FnOnce(&mut CurrentJob),
        lock: Option<&LockRecord>,
    ) -> (String, String) {
        let mut current = CurrentJob {
            job: JobRecord::new("payroll", at(0)),
            paused_until: None,
        };
        change(&mut current);
        let standing = Standing::of(&current, lock, at(1_000));
        (standing.badge.word.to_owned(), standing.reason)
    }

    fn pair(word: &str, reason: &str) -> (String, String) {
        (word.to_owned(), reason.to_owned())
    }

    #[test]
    fn the_reason_says_what_happened_and_when() {
        assert_eq!(standing(|_| {}, None), pair("no run yet", ""));
        let fails = |it: &mut CurrentJob| {
            it.job.last_outcome = Some(RunOutcome::Failed);
            it.job.last_failed = Some(at(940));
            it.job.last_error = Some("exit code 3".to_owned());
        };
        assert_eq!(standing(fails, None), pair("failed", "1m ago: exit code 3"));
        let panics = |it: &mut CurrentJob| {
            fails(it);
            it.job.last_outcome = Some(RunOutcome::Panicked);
        };
        let reason = "panicked 1m ago: exit code 3";
        assert_eq!(standing(panics, None), pair("failed", reason));
        let overdue = |it: &mut CurrentJob| {
            fails(it);
            it.job.deadline = Some(at(900));
            it.job.last_succeeded = Some(at(400));
        };
        let reason = "for 1m40s; it last succeeded 10m ago";
        assert_eq!(standing(overdue, None), pair("overdue", reason));
        let paused = |it: &mut CurrentJob| {
            overdue(it);
            it.paused_until = Some(at(4_600));
        };
        let reason = "until 1970-01-01T01:16:40Z";
        assert_eq!(standing(paused, None), pair("paused", reason));
    }

    #[test]
    fn a_lease_that_is_about_to_end_needs_attention() {
        let mut lock = LockRecord::new(LockName::new("payroll").unwrap(), LockState::Held);
        lock.locked_at = Some(at(900));
        lock.read_at = Some(at(1_000));
        lock.locked_until = Some(at(1_600));
        let reason = "for 1m40s; its lease ends in 10m";
        assert_eq!(standing(|_| {}, Some(&lock)), pair("running", reason));
        assert!(!Standing::of_held(&lock).needs_attention);
        lock.locked_until = Some(at(1_010));
        assert!(Standing::of_held(&lock).needs_attention);
    }
}
