//! Which jobs are paused, and what that does to their deadlines.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use shedlock_core::{
    Error, JobRecord, Journal, ListRequest, LockName, LockProvider, LockRecord, LockState,
    RunsRequest,
};

/// How many of a template's runs show which names it has.
const RUNS: usize = 100;

/// Fewer locks are read one by one.
const FEW: usize = 200;

/// A page is worth reading if one in this many of its locks is wanted.
const WORTH: usize = 20;

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
        if !self
            .others
            .iter()
            .any(|name| JobRecord::is_named_by(job, name))
        {
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

/// When the last pause of each of these jobs' locks ended, or the last slot that is done. Jobs
/// without either are left out.
///
/// A few locks are read one by one, and many in pages: after an outage all jobs of a fleet are
/// overdue. To find a page, a store may have to sort all of its locks, so it has to be worth it.
pub(super) async fn last_ends(
    provider: &dyn LockProvider,
    mut jobs: Vec<&str>,
) -> Result<BTreeMap<String, SystemTime>, Error> {
    jobs.sort_unstable();
    let mut ends = BTreeMap::new();
    let mut left = &jobs[..];
    let mut reads_pages = true;
    while let Some((job, others)) = left.split_first() {
        left = others;
        let Ok(name) = LockName::new(*job) else {
            continue;
        };
        ends.extend(provider.inspect(&name).await?.as_ref().and_then(last_end));
        if !reads_pages || left.len() < FEW {
            continue;
        }
        let request = ListRequest::new().with_after(name).with_limit(super::PAGE);
        let page = provider.list(&request).await?;
        let read = match page.last() {
            Some(last) if page.len() == super::PAGE => {
                left.partition_point(|job| *job <= last.name.as_str())
            }
            _ => left.len(),
        };
        // Otherwise most locks are not those of such jobs.
        reads_pages = read > page.len() / WORTH;
        left = &left[read..];
        ends.extend(page.iter().filter_map(last_end));
    }
    Ok(ends)
}

fn last_end(lock: &LockRecord) -> Option<(String, SystemTime)> {
    let skipped = lock.skipped_slots.map(|skipped| skipped.until);
    let end = lock.last_slot_done.max(skipped)?;
    Some((lock.name.as_str().to_owned(), end.instant()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use shedlock_core::{BoxFuture, Slot};
    use shedlock_provider::MemoryProvider;

    /// Shows these locks, in the order of their names.
    #[derive(Debug)]
    struct Shown {
        inner: MemoryProvider,
        locks: Vec<LockRecord>,
    }

    impl LockProvider for Shown {
        fn inspect<'a>(
            &'a self,
            name: &'a LockName,
        ) -> BoxFuture<'a, Result<Option<LockRecord>, Error>> {
            let found = self.locks.iter().find(|lock| lock.name == *name).cloned();
            Box::pin(async { Ok(found) })
        }

        fn list<'a>(
            &'a self,
            request: &'a ListRequest,
        ) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
            let is_ahead =
                |lock: &&LockRecord| request.after.as_ref().is_none_or(|at| lock.name > *at);
            let page = self.locks.iter().filter(is_ahead).take(request.limit());
            let page = page.cloned().collect();
            Box::pin(async { Ok(page) })
        }

        shedlock_core::delegate!(inner except inspect, list);
    }

    #[tokio::test]
    async fn the_locks_of_many_jobs_are_read_in_pages() {
        let names = (0..5_000).map(|at| format!("job-{at:04}"));
        let names: Vec<String> = names.collect();
        let lock = |name: &String| {
            let mut lock = LockRecord::new(LockName::new(name).unwrap(), LockState::Free);
            lock.last_slot_done = Some(Slot::from_micros(1).unwrap());
            lock
        };
        let provider = Shown {
            inner: MemoryProvider::new(),
            locks: names.iter().map(lock).collect(),
        };
        for step in [1, 7, 24, 2_000] {
            let jobs: Vec<&str> = names.iter().step_by(step).map(String::as_str).collect();
            let ends = last_ends(&provider, [&jobs[..], &["other"]].concat())
                .await
                .unwrap();
            assert!(jobs.iter().all(|job| ends.contains_key(*job)), "{step}");
            assert!(!ends.contains_key("other"));
        }
    }
}
