//! What pages and the API read from stores.

use std::time::{Duration, SystemTime};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use shedlock_core::{
    AuditRecord, AuditRequest, Clock as _, Error, ErrorKind, Finding, JobRecord, JobsRequest,
    Journal, ListRequest, LockName, LockProvider, LockRecord, RunRecord, RunState, RunsRequest,
    SystemClock, within,
};
use shedlock_journal::view::{
    CurrentJob, current_jobs, journal_findings, run_states, store_now, taken_locks,
};

use shedlock_journal::{MissedSlots, missed_slots};

use crate::slots::{self, SHOWN};
use crate::store::{Place, Store};

/// How many questions about single jobs a page asks at a time.
const AT_ONCE: usize = 8;

/// The time of the store, by which its jobs and locks are judged.
pub(crate) async fn now_of(store: &Store) -> Result<SystemTime, Error> {
    store_now(&*store.provider, SystemClock.system_time()).await
}

/// These jobs as they are now.
pub(crate) async fn current(
    store: &Store,
    journal: &dyn Journal,
    jobs: Vec<JobRecord>,
    taken: &[LockRecord],
    now: SystemTime,
) -> Result<Vec<CurrentJob>, Error> {
    let provider = &*store.provider;
    current_jobs(provider, journal, jobs, taken, now, slots::next).await
}

/// So many jobs after this name, as they are now.
pub(crate) async fn jobs(
    store: &Store,
    journal: &dyn Journal,
    (after, limit): (Option<&str>, usize),
    now: SystemTime,
) -> Result<Vec<CurrentJob>, Error> {
    let mut request = JobsRequest::new().with_limit(limit);
    if let Some(after) = after {
        request = request.with_after(after);
    }
    let jobs = journal.jobs(&request).await?;
    let taken = taken_locks(&*store.provider).await?;
    current(store, journal, jobs, &taken, now).await
}

/// These runs, and what is known about each. `None` if there is no journal.
pub(crate) async fn runs(
    store: &Store,
    request: &RunsRequest,
) -> Result<Option<Vec<(RunRecord, RunState)>>, Error> {
    let Some(journal) = store.existing_journal().await? else {
        return Ok(None);
    };
    let runs = journal.runs(request).await?;
    let now = now_of(store).await?;
    run_states(&*store.provider, runs, now).await.map(Some)
}

/// These actions of operators. `None` if there is no journal.
pub(crate) async fn actions(
    store: &Store,
    request: &AuditRequest,
) -> Result<Option<Vec<AuditRecord>>, Error> {
    match store.existing_journal().await? {
        Some(journal) => journal.audit(request).await.map(Some),
        None => Ok(None),
    }
}

/// The latest runs of each of these jobs.
pub(crate) async fn latest_runs(
    journal: &dyn Journal,
    jobs: &[CurrentJob],
) -> Result<Vec<Vec<RunRecord>>, Error> {
    let requests: Vec<_> = jobs.iter().map(|current| runs_of(&current.job)).collect();
    let reads: Vec<_> = requests
        .iter()
        .map(|request| journal.runs(request))
        .collect();
    stream::iter(reads).buffered(AT_ONCE).try_collect().await
}

/// How many slots of each of these jobs were missed.
pub(crate) async fn missed(
    journal: &dyn Journal,
    jobs: &[CurrentJob],
    now: SystemTime,
) -> Result<Vec<Option<MissedSlots>>, Error> {
    let reads: Vec<_> = jobs
        .iter()
        .map(|current| missed_slots(journal, &current.job, now, slots::next))
        .collect();
    stream::iter(reads).buffered(AT_ONCE).try_collect().await
}

fn runs_of(job: &JobRecord) -> RunsRequest {
    RunsRequest::new().with_job(&job.job).with_limit(SHOWN)
}

/// A page of all locks.
pub(crate) async fn locks(
    provider: &dyn LockProvider,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<LockRecord>, Error> {
    let mut request = ListRequest::new().with_limit(limit);
    if let Some(after) = after {
        request = request.with_after(LockName::new(after)?);
    }
    provider.list(&request).await
}

/// How long the checks of a store that replies may take: they read all of its locks.
const LONGEST: Duration = Duration::from_secs(8);

/// What was found out about a store.
pub(crate) struct Health {
    /// `None` if it has never been reached.
    pub(crate) kind: Option<String>,
    pub(crate) findings: Vec<Finding>,
    /// How long a read of one lock takes.
    pub(crate) round_trip: Option<Duration>,
}

/// A lock that need not exist.
const PROBE: &str = "shedlock-ui-round-trip";

impl Health {
    fn unreached(kind: Option<String>, error: &Error) -> Self {
        Self {
            kind,
            findings: vec![Finding::from_error("setup", error)],
            round_trip: None,
        }
    }
}

pub(crate) async fn health(place: &Place) -> Health {
    let store = match place.store().await {
        Ok(store) => store,
        Err(error) => return Health::unreached(None, &error),
    };
    let provider = &*store.provider;
    let kind = Some(provider.store().to_owned());
    // The rest would wait for it too.
    if let Err(error) = store.read_or_error(provider.check()).await
        && error.is_retryable()
    {
        return Health::unreached(kind, &error);
    }
    let mut findings = checked("setup", provider.diagnose()).await;
    if let Some(journal) = &store.journal {
        let (now, is_elsewhere) = (SystemClock.system_time(), store.has_own_journal);
        let found = journal_findings(provider, &**journal, is_elsewhere, false, now);
        findings.extend(checked("journal", async { Ok(found.await) }).await);
    }
    Health {
        kind,
        findings,
        round_trip: store.read_or_error(round_trip(store)).await.ok(),
    }
}

/// What checks found, or why they found nothing.
async fn checked(
    check: &'static str,
    checks: impl Future<Output = Result<Vec<Finding>, Error>>,
) -> Vec<Finding> {
    let found = within(&SystemClock, LONGEST, checks).await;
    let found = found.unwrap_or_else(|| {
        let message = format!(
            "the store replies, but reading all of it took longer than {}s",
            LONGEST.as_secs()
        );
        let error = Error::new(ErrorKind::Unavailable, message);
        Err(error.advise("run `shedlock doctor`, which waits"))
    });
    found.unwrap_or_else(|error| vec![Finding::from_error(check, &error)])
}

/// The median of three reads.
async fn round_trip(store: &Store) -> Result<Duration, Error> {
    let name = LockName::new(PROBE)?;
    let mut lasted = Vec::new();
    for _ in 0..3 {
        let start = SystemClock.now();
        store.provider.inspect(&name).await?;
        lasted.push(SystemClock.now().saturating_since(start));
    }
    lasted.sort();
    Ok(lasted[1])
}
