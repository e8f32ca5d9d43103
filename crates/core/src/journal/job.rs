//! Jobs, as a journal keeps them.

use std::time::{Duration, SystemTime};

use super::RunOutcome;
use crate::Slot;

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
    /// When the latest run started.
    pub last_started: Option<SystemTime>,
    /// When the latest successful run ended.
    pub last_succeeded: Option<SystemTime>,
    /// When the latest failed run ended.
    pub last_failed: Option<SystemTime>,
    /// The first line of the latest failure's error.
    pub last_error: Option<String>,
    /// How the latest run that ended did.
    pub last_outcome: Option<RunOutcome>,
    /// How long the latest successful run took.
    pub last_duration: Option<Duration>,
    /// The next slot after the latest success, or after the registration.
    pub next_slot: Option<Slot>,
    /// By when a run must have succeeded.
    pub deadline: Option<SystemTime>,
}

impl JobRecord {
    /// Creates a job without a schedule that has not run yet, for journals.
    pub fn new(job: impl Into<String>, registered: SystemTime) -> Self {
        Self {
            job: job.into(),
            schedule: None,
            zone: None,
            lock_at_most_for: None,
            registered,
            last_started: None,
            last_succeeded: None,
            last_failed: None,
            last_error: None,
            last_outcome: None,
            last_duration: None,
            next_slot: None,
            deadline: None,
        }
    }

    /// Returns whether a lock of this name can belong to the job: the name of the job itself, or one from
    /// its template, like `expire-acme` from `expire-{tenant}`.
    pub fn may_have(&self, name: &str) -> bool {
        is_of_template(name, &self.job)
    }

    /// Returns whether a success is overdue at this instant.
    pub fn is_overdue(&self, now: SystemTime) -> bool {
        self.deadline.is_some_and(|deadline| now > deadline)
    }
}

/// Whether a name can come from a template, like `expire-acme` from `expire-{tenant}`.
pub(crate) fn is_of_template(name: &str, template: &str) -> bool {
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
