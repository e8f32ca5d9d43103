//! Jobs, as a journal keeps them.

use std::time::{Duration, SystemTime};

use super::run::state_of;
use super::{RunOutcome, RunState};
use crate::contract::{LockRecord, Slot};

/// A job: what is known about its schedule, and how its last runs ended.
///
/// It stays when the runs it describes are pruned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct JobRecord {
    /// The job: the template of its locks' names, or the name itself.
    pub job: String,
    /// The schedule as it was configured, if the job was registered with one.
    pub schedule: Option<String>,
    /// The time zone of the schedule.
    pub zone: Option<String>,
    /// How long a run may hold its lock without an extension.
    pub lock_at_most_for: Option<Duration>,
    /// When the job was registered with its current schedule, or first ran, by the journal's clock.
    pub registered: SystemTime,
    /// The host that registered it last.
    pub registered_by: Option<String>,
    /// What another host had registered before, if that differs.
    pub replaced: Option<ReplacedRegistration>,
    /// The run that started last.
    pub last_run: Option<LastRun>,
    /// When the latest successful run ended.
    pub last_succeeded: Option<SystemTime>,
    /// When the latest failed run ended.
    pub last_failed: Option<SystemTime>,
    /// The first line of the latest failure's error.
    pub last_error: Option<String>,
    /// How long the latest successful run took.
    pub last_duration: Option<Duration>,
    /// The next slot after the latest success, or after the registration.
    pub next_slot: Option<Slot>,
    /// By when a run must have succeeded.
    pub deadline: Option<SystemTime>,
    /// The latest slot that ShedLock for Java took, unless a later run of ours has a known outcome.
    pub elsewhere: Option<TakenElsewhere>,
    /// Whether an operator has declared that Java watches the outcome of its runs.
    pub is_watched_elsewhere: bool,
}

/// The latest slot of a job that an attempt found taken by ShedLock for Java. What became of its task is
/// not known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TakenElsewhere {
    /// The slot.
    pub slot: Slot,
    /// The host that took it; not all stores record it.
    pub by: Option<String>,
    /// When that host acquired the lock.
    pub at: SystemTime,
    /// How many slots it took since the last outcome that is known.
    pub slots: u32,
}

impl TakenElsewhere {
    /// Creates one, for journals.
    pub fn new(slot: Slot, at: SystemTime, slots: u32) -> Self {
        Self {
            slot,
            by: None,
            at,
            slots,
        }
    }
}

/// The run of a job that started last.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastRun {
    /// The lock's name.
    pub name: String,
    /// The owner of the lease.
    pub owner: String,
    /// When the lock was acquired.
    pub started: SystemTime,
    /// How long the lease lasts unless it is extended.
    pub lock_at_most_for: Option<Duration>,
    /// The slot, if the run belongs to one.
    pub slot: Option<Slot>,
    /// The identity of the store of its lock, if it has one.
    pub lock_store: Option<String>,
    /// How it ended, if that was recorded.
    pub outcome: Option<RunOutcome>,
}

/// What a host had registered for a job until another host registered something else.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct ReplacedRegistration {
    /// The host.
    pub by: String,
    /// When the other host replaced it, by the clock of that host.
    pub at: SystemTime,
    /// The schedule.
    pub schedule: Option<String>,
    /// The time zone of the schedule.
    pub zone: Option<String>,
    /// How long a run may hold its lock without an extension.
    pub lock_at_most_for: Option<Duration>,
}

impl ReplacedRegistration {
    /// Creates one without a schedule, for journals.
    pub fn new(by: impl Into<String>, at: SystemTime) -> Self {
        Self {
            by: by.into(),
            at,
            schedule: None,
            zone: None,
            lock_at_most_for: None,
        }
    }
}

impl LastRun {
    /// Creates a run without an end, for journals.
    pub fn new(name: impl Into<String>, owner: impl Into<String>, started: SystemTime) -> Self {
        Self {
            name: name.into(),
            owner: owner.into(),
            started,
            lock_at_most_for: None,
            slot: None,
            lock_store: None,
            outcome: None,
        }
    }

    /// Returns what is known about the run at this instant, as [`RunRecord::state`](super::RunRecord::state) does.
    pub fn state(&self, lock: Option<&LockRecord>, now: SystemTime) -> RunState {
        let lease = (self.started, self.lock_at_most_for);
        state_of(self.outcome, &self.owner, lease, lock, now)
    }
}

impl JobRecord {
    /// How many slots in a row without a known outcome are worth a warning.
    const MOST_UNVERIFIED: u32 = 3;

    /// Creates a job without a schedule that has not run yet, for journals.
    pub fn new(job: impl Into<String>, registered: SystemTime) -> Self {
        Self {
            job: job.into(),
            schedule: None,
            zone: None,
            lock_at_most_for: None,
            registered,
            registered_by: None,
            replaced: None,
            last_run: None,
            last_succeeded: None,
            last_failed: None,
            last_error: None,
            last_duration: None,
            next_slot: None,
            deadline: None,
            elsewhere: None,
            is_watched_elsewhere: false,
        }
    }

    /// Returns whether a lock of this name can belong to the job: the name of the job itself, or one from
    /// its template, like `expire-acme` from `expire-{tenant}`.
    pub fn may_have(&self, name: &str) -> bool {
        Self::is_named_by(&self.job, name)
    }

    /// Returns whether so many slots in a row have no known outcome that someone should look: ShedLock
    /// for Java took them, and no operator has declared that Java watches them.
    pub fn lacks_outcomes(&self) -> bool {
        let slots = self.elsewhere.as_ref().map_or(0, |it| it.slots);
        slots >= Self::MOST_UNVERIFIED && !self.is_watched_elsewhere
    }

    /// Returns whether a success is overdue at this instant.
    pub fn is_overdue(&self, now: SystemTime) -> bool {
        self.deadline.is_some_and(|deadline| now > deadline)
    }

    /// Returns whether a lock's name can come from this template, like `expire-acme` from `expire-{tenant}`.
    pub fn is_named_by(template: &str, name: &str) -> bool {
        let mut literals = Vec::new();
        let mut rest = template;
        while let Some((literal, after)) = rest.split_once('{') {
            let Some((_, after)) = after.split_once('}') else {
                break;
            };
            literals.push(literal);
            rest = after;
        }
        let Some((first, middle)) = literals.split_first() else {
            return name == template;
        };
        let Some(inner) = name.strip_prefix(first) else {
            return false;
        };
        let Some(mut inner) = inner.strip_suffix(rest) else {
            return false;
        };
        middle
            .iter()
            .all(|literal| match inner.split_once(literal) {
                Some((_, after)) => {
                    inner = after;
                    true
                }
                None => false,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_matched_by_the_literal_parts_of_its_template() {
        for (name, template, is_one) in [
            ("expire-acme", "expire-{tenant}", true),
            ("expire-", "expire-{tenant}", true),
            ("expire", "expire-{tenant}", false),
            ("a-x-b-y-c", "a-{x}-b-{y}-c", true),
            ("a-x-y-c", "a-{x}-b-{y}-c", false),
            ("a", "a", true),
            ("ab", "a", false),
            ("a{b", "a{b", true),
            ("x", "{x}", true),
        ] {
            assert_eq!(
                JobRecord::is_named_by(template, name),
                is_one,
                "{name} {template}"
            );
        }
    }
}
