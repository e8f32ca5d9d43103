//! What a job and its latest run are now. Every reader shows this: the commands, the pages, the API and
//! the metrics. Nothing of it is recorded.

mod lost;
mod paused;

use std::collections::BTreeSet;
use std::time::SystemTime;

pub use lost::{LostPause, LostSlot, LostState};
use paused::Pauses;
use shedlock_core::{
    Error, JobRecord, JobsRequest, Journal, ListRequest, LockName, LockProvider, LockRecord,
    LockState, RunOutcome, RunRecord, RunState,
};

const PAGE: usize = 1_000;

/// More locks are read as a list of those that are taken.
const FEW: usize = 8;

/// A job as it is now.
#[derive(Debug)]
pub struct CurrentJob {
    /// The job, with the deadline that its pauses have left it.
    pub job: JobRecord,
    /// When its pause ends, if it is paused.
    pub paused_until: Option<SystemTime>,
    /// What is known about the run that started last.
    pub last_run: Option<RunState>,
    /// The record of the job's own lock, or of the lock of its last run, if it cannot be taken.
    pub lock: Option<LockRecord>,
}

/// The state of a job. Where several apply it is the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// An operator has paused it.
    Paused,
    /// A success is overdue.
    Overdue,
    /// A run holds its lock.
    Running,
    /// ShedLock for Java took its latest slot, and the outcome is not known.
    Unverified,
    /// ShedLock for Java has its lock ([`LockState::Taken`]).
    Taken,
    /// The latest run does not hold its lock any more, and may still run.
    WithoutLock,
    /// It is not known how the latest run ended.
    EndUnknown,
    /// The latest run ended like this, which is a failure.
    Failed(RunOutcome),
    /// The task of the latest run succeeded, but its run may have been overlapped.
    MaybeOverlapped,
    /// The latest run was interrupted.
    Cancelled,
    /// The latest run succeeded.
    Ok,
    /// No run is known.
    NoRun,
}

impl JobState {
    /// One word for the state, or a few.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Overdue => "overdue",
            Self::Running => "running",
            Self::Unverified => "unverified",
            Self::Taken => "taken",
            Self::WithoutLock => RunState::WithoutLock.as_str(),
            Self::EndUnknown => RunState::EndUnknown.as_str(),
            Self::Failed(_) => "failed",
            Self::MaybeOverlapped => RunOutcome::MaybeOverlapped.as_str(),
            Self::Cancelled => "cancelled",
            Self::Ok => "ok",
            Self::NoRun => "no run yet",
        }
    }
}

impl CurrentJob {
    /// The job as its journal and these locks show it at this instant.
    fn of(
        job: JobRecord,
        locks: &[LockRecord],
        paused_until: Option<SystemTime>,
        now: SystemTime,
    ) -> Self {
        let last = job.last_run.as_ref();
        let of_run = last.and_then(|run| taken(locks, &run.name));
        let own = taken(locks, &job.job);
        Self {
            last_run: last.map(|run| run.state(of_run, now)),
            lock: own.or(of_run).cloned(),
            job,
            paused_until,
        }
    }

    /// The state of the job.
    pub fn state(&self, now: SystemTime) -> JobState {
        let lock = self.lock.as_ref().map(|lock| lock.state);
        match self.last_run {
            _ if self.paused_until.is_some() => JobState::Paused,
            _ if self.job.is_overdue(now) => JobState::Overdue,
            // The holder may be a process without a journal.
            _ if lock == Some(LockState::Held) => JobState::Running,
            Some(RunState::Running) => JobState::Running,
            _ if self.is_unverified() => JobState::Unverified,
            _ if lock == Some(LockState::Taken) => JobState::Taken,
            Some(RunState::WithoutLock) => JobState::WithoutLock,
            Some(RunState::EndUnknown) => JobState::EndUnknown,
            Some(RunState::Ended(outcome)) if outcome.is_failure() => JobState::Failed(outcome),
            Some(RunState::Ended(RunOutcome::MaybeOverlapped)) => JobState::MaybeOverlapped,
            Some(RunState::Ended(RunOutcome::Cancelled)) => JobState::Cancelled,
            Some(RunState::Ended(RunOutcome::Elsewhere)) => JobState::Unverified,
            Some(RunState::Ended(_)) => JobState::Ok,
            _ => JobState::NoRun,
        }
    }

    /// Whether ShedLock took a slot after the latest run of ours.
    fn is_unverified(&self) -> bool {
        let last = self.job.last_run.as_ref().map(|run| run.started);
        let taken = self.job.elsewhere.as_ref();
        taken.is_some_and(|it| last.is_none_or(|last| last <= it.at))
    }

    /// Whether it is overdue, by its journal, and not paused.
    fn is_overdue(&self, now: SystemTime) -> bool {
        self.paused_until.is_none() && self.job.is_overdue(now)
    }
}

/// The record of a lock among those that cannot be taken, which are in the byte order of their names.
pub fn taken<'a>(locks: &'a [LockRecord], name: &str) -> Option<&'a LockRecord> {
    let at = locks.binary_search_by(|lock| lock.name.as_str().cmp(name));
    at.ok().map(|at| &locks[at])
}

/// What is known about each of these runs.
///
/// # Errors
/// Those of the store.
pub async fn run_states(
    provider: &dyn LockProvider,
    runs: Vec<RunRecord>,
    now: SystemTime,
) -> Result<Vec<(RunRecord, RunState)>, Error> {
    let open = runs.iter().filter(|run| run.end.is_none());
    let names: BTreeSet<&str> = open.map(|run| &*run.name).collect();
    let locks = match names.len() {
        0 => Vec::new(),
        1..=FEW => {
            let mut locks = Vec::new();
            for name in names {
                let name = LockName::new(name);
                if let Ok(name) = name {
                    locks.extend(provider.inspect(&name).await?);
                }
            }
            locks
        }
        _ => taken_locks(provider).await?,
    };
    let of = |run: RunRecord| {
        let state = run.state(taken(&locks, &run.name), now);
        (run, state)
    };
    Ok(runs.into_iter().map(of).collect())
}

/// The first slot of a job after an instant. `next` computes those of a schedule.
pub fn next_slot(
    job: &JobRecord,
    after: SystemTime,
    next: impl Fn(&JobRecord, SystemTime) -> Option<SystemTime>,
) -> Option<SystemTime> {
    match job.expected_period() {
        Some(period) => after.checked_add(period),
        None => next(job, after),
    }
}

/// The time by which deadlines and ends of leases are judged: the store's, or that of this host if the
/// store does not report its time.
///
/// # Errors
/// Those of the store.
pub async fn store_now(provider: &dyn LockProvider, here: SystemTime) -> Result<SystemTime, Error> {
    Ok(provider.store_time().await?.unwrap_or(here))
}

/// All locks that cannot be taken now.
///
/// # Errors
/// Those of the store.
pub async fn taken_locks(provider: &dyn LockProvider) -> Result<Vec<LockRecord>, Error> {
    locks(provider, ListRequest::new().held_only()).await
}

/// All locks.
async fn all_locks(provider: &dyn LockProvider) -> Result<Vec<LockRecord>, Error> {
    locks(provider, ListRequest::new()).await
}

async fn locks(
    provider: &dyn LockProvider,
    request: ListRequest,
) -> Result<Vec<LockRecord>, Error> {
    let list = |request: ListRequest| async move { provider.list(&request).await };
    let next = |request: ListRequest, last: &LockRecord| request.with_after(last.name.clone());
    pages(request.with_limit(PAGE), list, next).await
}

/// All jobs of a journal.
///
/// # Errors
/// Those of the journal.
pub async fn all_jobs(journal: &dyn Journal) -> Result<Vec<JobRecord>, Error> {
    let jobs = |request: JobsRequest| async move { journal.jobs(&request).await };
    let next = |request: JobsRequest, last: &JobRecord| request.with_after(&*last.job);
    pages(JobsRequest::new().with_limit(PAGE), jobs, next).await
}

/// Reads pages of [`PAGE`] items, the next one after the last item of the one before.
async fn pages<R: Clone, T, F>(
    mut request: R,
    read: impl Fn(R) -> F,
    next: impl Fn(R, &T) -> R,
) -> Result<Vec<T>, Error>
where
    F: Future<Output = Result<Vec<T>, Error>>,
{
    let mut all: Vec<T> = Vec::new();
    loop {
        let page = read(request.clone()).await?;
        let is_last = page.len() < PAGE;
        all.extend(page);
        match all.last() {
            Some(last) if !is_last => request = next(request, last),
            _ => return Ok(all),
        }
    }
}

/// These jobs as they are now. `locks` are those that cannot be taken, and `next` is [`next_slot`].
///
/// # Errors
/// Those of the store and the journal.
pub async fn current_jobs(
    provider: &dyn LockProvider,
    journal: &dyn Journal,
    jobs: Vec<JobRecord>,
    locks: &[LockRecord],
    now: SystemTime,
    next: impl Fn(&JobRecord, SystemTime) -> Option<SystemTime>,
) -> Result<Vec<CurrentJob>, Error> {
    let pauses = Pauses::of(locks, &jobs);
    let mut current = Vec::with_capacity(jobs.len());
    for job in jobs {
        let paused_until = pauses.end(&job.job, journal).await?;
        current.push(CurrentJob::of(job, locks, paused_until, now));
    }
    // A lock that was just given back is not among those that are taken, and the end of its run is recorded a moment later.
    let lost = current.iter_mut();
    let lost = lost.filter(|it| it.last_run == Some(RunState::WithoutLock) && it.lock.is_none());
    for it in lost.take(FEW) {
        let Some(last) = &it.job.last_run else {
            continue;
        };
        if let Ok(name) = LockName::new(&last.name) {
            let lock = provider.inspect(&name).await?;
            it.last_run = Some(last.state(lock.as_ref(), now));
        }
    }
    let overdue = current.iter().filter(|it| it.is_overdue(now));
    let overdue = overdue.map(|it| &*it.job.job).collect();
    let ends = paused::last_ends(provider, overdue).await?;
    for it in &mut current {
        let end = match it.is_overdue(now) {
            true => ends.get(&*it.job.job).copied(),
            false => it.paused_until,
        };
        paused::postpone(&mut it.job, end, &next);
    }
    Ok(current)
}
