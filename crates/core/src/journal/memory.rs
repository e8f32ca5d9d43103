//! A journal in memory.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{
    AuditRecord, AuditRequest, JOURNAL_VERSION, JobRecord, JobsRequest, Journal, JournalEntry,
    Retention, RunId, RunOutcome, RunRecord, RunsRequest,
};
use crate::{BoxFuture, Clock, Error, Migration, MigrationStep, Slot, SystemClock};

/// A journal in this process's memory, for tests.
///
/// Clones share all state.
#[derive(Clone, Debug)]
pub struct MemoryJournal {
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    jobs: BTreeMap<String, JobRecord>,
    runs: BTreeMap<RunId, RunRecord>,
    audit: BTreeMap<RunId, AuditRecord>,
}

impl MemoryJournal {
    /// Creates an empty journal with the real clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// Creates an empty journal with this clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Arc::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, entry: &JournalEntry) {
        let mut state = self.state();
        match entry {
            JournalEntry::Job(change) => {
                let now = self.clock.system_time();
                let job = state.jobs.entry(change.job.clone());
                let job = job.or_insert_with(|| JobRecord::new(&change.job, now));
                if job.schedule != change.schedule || job.zone != change.zone {
                    (job.registered, job.next_slot, job.deadline) = (now, None, None);
                }
                job.schedule.clone_from(&change.schedule);
                job.zone.clone_from(&change.zone);
                job.lock_at_most_for = change.lock_at_most_for;
                move_forward(job, change.next);
            }
            JournalEntry::Run { run, next } => {
                let job = state.jobs.entry(run.job.clone());
                let job = job.or_insert_with(|| JobRecord::new(&run.job, run.started));
                job.last_started = job.last_started.max(Some(run.started));
                if let Some(end) = &run.end {
                    let ended = run.started + end.ran_for;
                    let is_latest = job.last_succeeded.max(job.last_failed) <= Some(ended);
                    if end.outcome == RunOutcome::Succeeded {
                        job.last_succeeded = job.last_succeeded.max(Some(ended));
                        move_forward(job, *next);
                    }
                    if is_latest {
                        job.last_outcome = Some(end.outcome);
                    }
                    if is_latest && end.outcome == RunOutcome::Succeeded {
                        job.last_duration = Some(end.ran_for);
                    }
                    if end.outcome.is_failure() {
                        job.last_failed = job.last_failed.max(Some(ended));
                    }
                    if is_latest && end.outcome.is_failure() {
                        let error = end.error.as_deref().and_then(|text| text.lines().next());
                        job.last_error = error.map(str::to_owned);
                    }
                }
                let known = state.runs.entry(run.id.clone());
                let known = known.or_insert_with(|| run.clone());
                let is_lost = |end: &super::RunEnd| end.outcome == RunOutcome::Lost;
                if known.end.is_none() || run.end.as_ref().is_some_and(is_lost) {
                    known.end.clone_from(&run.end);
                }
            }
            JournalEntry::Audit(record) => {
                state.audit.insert(record.id.clone(), record.clone());
            }
        }
    }
}

fn move_forward(job: &mut JobRecord, next: Option<(Slot, std::time::SystemTime)>) {
    if let Some((slot, deadline)) = next.filter(|(_, it)| job.deadline.is_none_or(|was| *it > was))
    {
        (job.next_slot, job.deadline) = (Some(slot), Some(deadline));
    }
}

impl Default for MemoryJournal {
    fn default() -> Self {
        Self::new()
    }
}

impl Journal for MemoryJournal {
    fn record<'a>(&'a self, entries: &'a [JournalEntry]) -> BoxFuture<'a, Result<(), Error>> {
        entries.iter().for_each(|entry| self.add(entry));
        Box::pin(ready(Ok(())))
    }

    fn job<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<Option<JobRecord>, Error>> {
        Box::pin(ready(Ok(self.state().jobs.get(job).cloned())))
    }

    fn jobs<'a>(
        &'a self,
        request: &'a JobsRequest,
    ) -> BoxFuture<'a, Result<Vec<JobRecord>, Error>> {
        let state = self.state();
        let page = state.jobs.values();
        let page = page.filter(|job| request.after().is_none_or(|after| &*job.job > after));
        Box::pin(ready(Ok(page.take(request.limit()).cloned().collect())))
    }

    fn runs<'a>(
        &'a self,
        request: &'a RunsRequest,
    ) -> BoxFuture<'a, Result<Vec<RunRecord>, Error>> {
        let is_wanted = |run: &&RunRecord| {
            let outcome = run.end.as_ref().map(|end| end.outcome);
            request.job().is_none_or(|job| run.job == job)
                && request.name().is_none_or(|name| run.name == name)
                && request.outcome().is_none_or(|it| outcome == Some(it))
                && (!request.is_open_only() || outcome.is_none())
                && request.since().is_none_or(|since| run.started >= since)
                && request.before().is_none_or(|id| run.id < *id)
        };
        let state = self.state();
        let page = state.runs.values().rev().filter(is_wanted);
        Box::pin(ready(Ok(page.take(request.limit()).cloned().collect())))
    }

    fn audit<'a>(
        &'a self,
        request: &'a AuditRequest,
    ) -> BoxFuture<'a, Result<Vec<AuditRecord>, Error>> {
        let is_wanted = |record: &&AuditRecord| {
            request.name().is_none_or(|name| record.name == name)
                && request.before().is_none_or(|id| record.id < *id)
        };
        let state = self.state();
        let page = state.audit.values().rev().filter(is_wanted);
        Box::pin(ready(Ok(page.take(request.limit()).cloned().collect())))
    }

    fn prune<'a>(
        &'a self,
        job: &'a str,
        retention: &'a Retention,
    ) -> BoxFuture<'a, Result<u64, Error>> {
        let now = self.clock.system_time();
        let mut state = self.state();
        let before = state.runs.len() + state.audit.len();
        let mut kept = 0;
        let latest = state.runs.values().rev();
        let old = |started| now.duration_since(started).unwrap_or_default();
        let excess: Vec<RunId> = latest
            .filter(|run| {
                kept += usize::from(run.job == job);
                let is_excess = run.job == job && kept > retention.runs_per_job;
                is_excess || old(run.started) > retention.max_age
            })
            .map(|run| run.id.clone())
            .collect();
        excess.iter().for_each(|id| drop(state.runs.remove(id)));
        let is_kept = |_: &RunId, it: &mut AuditRecord| old(it.at) <= retention.max_audit_age;
        state.audit.retain(is_kept);
        let removed = before - state.runs.len() - state.audit.len();
        Box::pin(ready(Ok(removed as u64)))
    }

    fn forget<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        let mut state = self.state();
        state.runs.retain(|_, run| run.job != job);
        Box::pin(ready(Ok(state.jobs.remove(job).is_some())))
    }

    fn version(&self) -> BoxFuture<'_, Result<Option<u32>, Error>> {
        Box::pin(ready(Ok(Some(JOURNAL_VERSION))))
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Migration, Error>> {
        Box::pin(ready(Ok(Migration::default())))
    }

    fn plan_migration(&self) -> BoxFuture<'_, Result<Vec<MigrationStep>, Error>> {
        Box::pin(ready(Ok(Vec::new())))
    }
}
