//! Which jobs are paused, and what that does to their deadlines.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use crate::{
    Error, JobRecord, Journal, LockName, LockProvider, LockRecord, LockState, RunsRequest,
};

/// How many of a template's runs show which names it has.
const RUNS: usize = 100;

/// The paused locks of a store.
pub(super) struct Pauses<'a> {
    /// When each pause ends.
    ends: BTreeMap<&'a str, SystemTime>,
    /// The paused locks that no job is named after, so that they can belong to a template.
    others: Vec<&'a str>,
}

impl<'a> Pauses<'a> {
    pub(super) fn of(locks: &'a [LockRecord], jobs: &[JobRecord]) -> Self {
        let paused = locks.iter().filter(|lock| lock.state == LockState::Paused);
        let end = |lock: &LockRecord| lock.locked_until.unwrap_or(SystemTime::UNIX_EPOCH);
        let ends: BTreeMap<_, _> = paused.map(|lock| (lock.name.as_str(), end(lock))).collect();
        let jobs: BTreeSet<&str> = jobs.iter().map(|job| &*job.job).collect();
        let others = ends.keys().copied();
        let others = others.filter(|name| !jobs.contains(name)).collect();
        Self { ends, others }
    }

    /// When the pause of this job ends, if it is paused.
    pub(super) async fn end(
        &self,
        job: &str,
        journal: &dyn Journal,
    ) -> Result<Option<SystemTime>, Error> {
        if let Some(end) = self.ends.get(job) {
            return Ok(Some(*end));
        }
        if !self.others.iter().any(|name| is_of_template(name, job)) {
            return Ok(None);
        }
        let runs = RunsRequest::new().with_job(job).with_limit(RUNS);
        let runs = journal.runs(&runs).await?;
        let ends: Option<Vec<SystemTime>> = runs
            .iter()
            .map(|run| self.ends.get(&*run.name).copied())
            .collect();
        Ok(ends.and_then(|ends| ends.into_iter().min()))
    }
}

/// When the last pause of this job's lock ended, or the last slot that is done.
pub(super) async fn last_end(
    provider: &dyn LockProvider,
    job: &str,
) -> Result<Option<SystemTime>, Error> {
    let Ok(name) = LockName::new(job) else {
        return Ok(None);
    };
    let lock = provider.inspect(&name).await?;
    Ok(lock.and_then(|lock| Some(lock.last_slot_done?.instant())))
}

/// Moves the deadline to that of the first slot after this instant, unless it is later.
pub(super) fn postpone(
    job: &mut JobRecord,
    end: Option<SystemTime>,
    next: impl Fn(&JobRecord, SystemTime) -> Option<SystemTime>,
) {
    let (Some(end), Some(slot), Some(deadline)) = (end, job.next_slot, job.deadline) else {
        return;
    };
    if end < slot.instant() {
        return;
    }
    let allowance = deadline.duration_since(slot.instant()).unwrap_or_default();
    let later = next(job, end).and_then(|next| next.checked_add(allowance));
    job.deadline = job.deadline.max(later);
}

/// Whether a name can come from a template, like `expire-acme` from `expire-{tenant}`.
fn is_of_template(name: &str, template: &str) -> bool {
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
            assert_eq!(is_of_template(name, template), is_one, "{name} {template}");
        }
    }
}
