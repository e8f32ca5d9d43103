//! A journal in memory.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shedlock_core::{
    AuditRecord, AuditRequest, BoxFuture, Clock, Error, JOURNAL_VERSION, JobRecord, JobsRequest,
    Journal, JournalEntry, Migration, MigrationStep, Owner, Retention, RunId, RunRecord,
    RunsRequest, SystemClock,
};

use crate::merge::{Batch, Known, Limits};

/// A journal in this process's memory, for tests.
///
/// Clones share all state.
#[derive(Clone, Debug)]
pub struct MemoryJournal {
    clock: Arc<dyn Clock>,
    identity: Owner,
    state: Arc<Mutex<State>>,
}

/// It keeps all of each text.
const LIMITS: Limits = Limits {
    name: usize::MAX,
    text: usize::MAX,
    line: usize::MAX,
    word: usize::MAX,
    cut: |text, _| text,
};

#[derive(Debug, Default)]
struct State {
    jobs: BTreeMap<String, JobRecord>,
    runs: BTreeMap<RunId, RunRecord>,
    /// The id with which each run was recorded first, by its identity.
    ids: BTreeMap<String, RunId>,
    audit: BTreeMap<RunId, AuditRecord>,
}

impl State {
    /// What is known of what this batch concerns.
    fn known(&self, batch: &Batch) -> Known {
        let job = |name: &str| Some((name.to_owned(), self.jobs.get(name)?.clone()));
        let run = |identity: &str| {
            let run = self.runs.get(self.ids.get(identity)?)?;
            Some((identity.to_owned(), run.clone()))
        };
        Known {
            jobs: batch.jobs().into_iter().filter_map(job).collect(),
            runs: batch.runs().into_iter().filter_map(run).collect(),
        }
    }

    /// Forgets the ids of runs that were removed.
    fn forget_ids(&mut self) {
        let runs = &self.runs;
        self.ids.retain(|_, id| runs.contains_key(id));
    }
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
            identity: Owner::generate(),
            state: Arc::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, batch: &Batch) {
        let mut state = self.state();
        let changes = batch.changes(&state.known(batch), self.clock.system_time());
        for job in changes.jobs {
            state.jobs.insert(job.job.clone(), job);
        }
        for run in changes.runs {
            let identity = run.id.identity().to_owned();
            state.ids.insert(identity, run.id.clone());
            state.runs.insert(run.id.clone(), run);
        }
        for record in batch.audit() {
            let known = state.audit.entry(record.id.clone());
            known.or_insert_with(|| record.clone());
        }
    }
}

impl Default for MemoryJournal {
    fn default() -> Self {
        Self::new()
    }
}

impl Journal for MemoryJournal {
    fn record<'a>(&'a self, entries: &'a [JournalEntry]) -> BoxFuture<'a, Result<(), Error>> {
        self.add(&Batch::new(entries, LIMITS));
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
        let page = page.filter(|job| {
            request
                .after
                .as_deref()
                .is_none_or(|after| &*job.job > after)
        });
        Box::pin(ready(Ok(page.take(request.limit()).cloned().collect())))
    }

    fn runs<'a>(
        &'a self,
        request: &'a RunsRequest,
    ) -> BoxFuture<'a, Result<Vec<RunRecord>, Error>> {
        let is_wanted = |run: &&RunRecord| {
            let outcome = run.end.as_ref().map(|end| end.outcome);
            request.job.as_deref().is_none_or(|job| run.job == job)
                && request.name.as_deref().is_none_or(|name| run.name == name)
                && request.outcome.is_none_or(|it| outcome == Some(it))
                && (!request.is_open_only || outcome.is_none())
                && request.since.is_none_or(|since| run.started >= since)
                && request.before.as_ref().is_none_or(|id| run.id < *id)
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
            request
                .name
                .as_deref()
                .is_none_or(|name| record.name == name)
                && request.before.as_ref().is_none_or(|id| record.id < *id)
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
        state.forget_ids();
        let is_kept = |_: &RunId, it: &mut AuditRecord| old(it.at) <= retention.max_audit_age;
        state.audit.retain(is_kept);
        let removed = before - state.runs.len() - state.audit.len();
        Box::pin(ready(Ok(removed as u64)))
    }

    fn forget<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        let mut state = self.state();
        state.runs.retain(|_, run| run.job != job);
        state.forget_ids();
        Box::pin(ready(Ok(state.jobs.remove(job).is_some())))
    }

    fn version(&self) -> BoxFuture<'_, Result<Option<u32>, Error>> {
        Box::pin(ready(Ok(Some(JOURNAL_VERSION))))
    }

    fn identity(&self) -> BoxFuture<'_, Result<Option<String>, Error>> {
        Box::pin(ready(Ok(Some(self.identity.as_str().to_owned()))))
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Migration, Error>> {
        Box::pin(ready(Ok(Migration::default())))
    }

    fn plan_migration(&self) -> BoxFuture<'_, Result<Vec<MigrationStep>, Error>> {
        Box::pin(ready(Ok(Vec::new())))
    }
}
