//! Metrics of jobs: what a store's journal and its locks say about them, for Prometheus.

mod exposition;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::states::{CurrentJob, all_jobs, current_jobs, next_slot, store_now, taken_locks};
use shedlock_core::{
    AuditRecord, AuditRequest, Clock, Error, ErrorKind, Executor, JobRecord, Journal, LockProvider,
    LockRecord, Recorder, SystemClock, within,
};

use crate::{JournalWriter, MissedSlots, missed_slots};
pub use text::JobMetricsText;

/// Returns the first slot of a job after an instant, if its schedule is known.
type NextSlot = dyn Fn(&JobRecord, SystemTime) -> Option<SystemTime> + Send + Sync;

/// Reads the state of all jobs of a store, as metrics for Prometheus.
///
/// Every replica reports the same values, because it reads them from the store: the journal of its
/// jobs, and its locks. So they are right although each run is made by another replica, and they
/// stay when all replicas restart. [`MetricsListener`](https://docs.rs/shedlock/latest/shedlock/struct.MetricsListener.html)
/// counts what happens in one process; export both.
///
/// | metric | |
/// |---|---|
/// | `shedlock_store_up` | 1 if the store could be read, otherwise 0, and nothing else is reported |
/// | `shedlock_journal_up` | 1 if the journal could be read, otherwise 0, and no job is reported; absent if there is no journal |
/// | `shedlock_locks{state}` | locks that cannot be taken now: `held`, `taken` (by ShedLock for Java), `paused` or `at-least` |
/// | `shedlock_read_timestamp_seconds` | when the jobs were read, by the clock of the store; on a standby that lags, when what it shows was written |
/// | `shedlock_job_deadline_timestamp_seconds{job_name}` | by when a run must have succeeded; only jobs with a schedule have one, from their registration on, while they are not paused |
/// | `shedlock_job_last_start_timestamp_seconds{job_name}` | when the latest run started |
/// | `shedlock_job_last_success_timestamp_seconds{job_name}` | when the latest successful run ended |
/// | `shedlock_job_last_failure_timestamp_seconds{job_name}` | when the latest failed run ended |
/// | `shedlock_job_last_duration_seconds{job_name}` | how long the latest successful run took |
/// | `shedlock_job_end_unknown{job_name}` | 1 if the latest run has no recorded end and its lease is over, otherwise 0 |
/// | `shedlock_job_lock_lost{job_name}` | 1 if the latest run lost its lock, or may have been overlapped by another, otherwise 0 |
/// | `shedlock_job_paused{job_name}` | 1 if an operator has paused the job, otherwise 0 |
/// | `shedlock_job_unverified_slots{job_name}` | how many slots ShedLock for Java took since the last outcome that is known ([`JobRecord::elsewhere`]) |
/// | `shedlock_job_watched_elsewhere{job_name}` | 1 if an operator has declared that Java watches its runs, otherwise 0 |
/// | `shedlock_job_missed_slots{job_name, reason}` | slots without a run in the last 24 hours ([`missed_slots`]): `paused`, `held` by an earlier run, taken `elsewhere`, by ShedLock for Java, or `not_started`, because no replica was up or none started it in time; only with [`schedules`](Self::schedules) |
/// | `shedlock_job_forgotten_timestamp_seconds{job_name}` | when an operator removed a job that the journal does not have any more (`shedlock jobs --forget`), for 24 hours |
/// | `shedlock_journal_dropped_total` | entries that this process could not write to the journal; only with [`writer`](Self::writer) |
///
/// `job_name` is the template of the locks' names
/// ([`LockConfig::job`](shedlock_core::LockConfig::job)), never a name that was computed. Every series of a job,
/// and the time of the reading, has also the label `store`: the identity of the journal
/// ([`Journal::identity`]). So the jobs of two stores are never confused, and a reader whose host
/// stopped is recognised by its time.
///
/// # Pauses
///
/// A job is paused if the lock of its name is. A job whose name is a template (`expire-{tenant}`)
/// is paused if the locks of all names are paused that its latest 100 runs had.
///
/// Slots that fall due during a pause do not run, and while it lasts no deadline is reported. After it,
/// until the next run starts, the deadline is that of the first slot after its end, if
/// [`schedules`](Self::schedules) can compute it. If that run fails, the job is overdue since its last
/// success. For a template the postponement ends with the pause.
///
/// ```
/// use shedlock::{Executor, JobMetrics, JournalWriter, LockConfig, MemoryJournal, MemoryProvider};
/// use std::sync::Arc;
/// use std::time::Duration;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let writer = JournalWriter::new(Arc::new(MemoryJournal::new()));
/// let executor = Executor::new(Arc::new(MemoryProvider::new())).journal(&writer);
/// let config = LockConfig::new("payroll").lock_at_most_for("10m");
/// executor.execute(&config, async {}).await?;
/// writer.flush(Duration::from_secs(2)).await;
///
/// let metrics = JobMetrics::of(&executor).read().await;
/// let success = "shedlock_job_last_success_timestamp_seconds{job_name=\"payroll\",store=\"";
/// assert!(metrics.as_str().contains(success));
/// # Ok::<(), shedlock::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
#[must_use]
pub struct JobMetrics {
    provider: Arc<dyn LockProvider>,
    journal: Option<Arc<dyn Journal>>,
    recorder: Option<Arc<dyn Recorder>>,
    next: Option<Arc<NextSlot>>,
    clock: Arc<dyn Clock>,
    limit: Duration,
}

/// What was read.
#[derive(Debug, Default)]
struct Found {
    /// The locks that cannot be taken now.
    locks: Vec<LockRecord>,
    /// None if there is no journal.
    jobs: Option<Result<Jobs, Error>>,
}

/// What a journal has.
#[derive(Debug)]
struct Jobs {
    /// The identity of the journal.
    store: String,
    /// When it was read.
    at: SystemTime,
    jobs: Vec<FoundJob>,
    /// When jobs that it does not have any more were removed.
    forgotten: BTreeMap<String, SystemTime>,
}

#[derive(Debug)]
struct FoundJob {
    current: CurrentJob,
    missed: Option<MissedSlots>,
}

/// The time limit unless one is set. Prometheus waits for 10 s.
const LIMIT: Duration = Duration::from_secs(8);

/// How long a job that was removed is reported as such: as long as its alert could last.
const FORGOTTEN: Duration = Duration::from_secs(86_400);

/// Among how many of the latest actions of operators removals of jobs are looked for.
const ACTIONS: usize = 1_000;

impl JobMetrics {
    /// Reads the locks of this provider, and the journal that its store keeps beside them, if it
    /// has one.
    pub fn new(provider: Arc<dyn LockProvider>) -> Self {
        Self {
            journal: provider.journal(),
            provider,
            recorder: None,
            next: None,
            clock: Arc::new(SystemClock),
            limit: LIMIT,
        }
    }

    /// Reads the locks and the journal of this executor.
    pub fn of(executor: &Executor) -> Self {
        let metrics = Self::new(executor.provider().clone());
        match executor.get_journal() {
            Some(recorder) => metrics.recorder(recorder.clone()),
            None => metrics,
        }
    }

    /// Reads this journal instead of the one beside the locks.
    pub fn journal(mut self, journal: Arc<dyn Journal>) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Reads the journal of this writer, and reports how many entries it has dropped.
    pub fn writer(self, writer: &JournalWriter) -> Self {
        self.recorder(Arc::new(writer.clone()))
    }

    fn recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.journal = Some(recorder.journal().clone());
        self.recorder = Some(recorder);
        self
    }

    /// Sets how to compute the slots of a job: `next` returns the first slot after an instant. The
    /// scheduler has such a function: `shedlock::scheduler::next_slot`.
    pub fn schedules(
        mut self,
        next: impl Fn(&JobRecord, SystemTime) -> Option<SystemTime> + Send + Sync + 'static,
    ) -> Self {
        self.next = Some(Arc::new(next));
        self
    }

    /// Sets the clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets how long reading may take; after that the store counts as down. Default: 8 s, because
    /// Prometheus waits for 10 s by default.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Reads the metrics. It never fails: a store that cannot be read is what it reports. Cancellation
    /// safe.
    pub async fn read(&self) -> JobMetricsText {
        self.read_within(self.limit).await
    }

    /// The same for a scrape: `timeout` is the value of its header
    /// [`SCRAPE_TIMEOUT`](JobMetricsText::SCRAPE_TIMEOUT), in seconds. A store that hangs is reported half a second
    /// before Prometheus gives up: otherwise it would miss the whole reply, and not know that the store is down.
    pub async fn read_for_scrape(&self, timeout: Option<&str>) -> JobMetricsText {
        const REPLY: Duration = Duration::from_millis(500);
        let timeout = timeout.and_then(|it| it.trim().parse().ok());
        let timeout = timeout.and_then(|it| Duration::try_from_secs_f64(it).ok());
        let longest = timeout.map_or(self.limit, |it| it.saturating_sub(REPLY).max(it / 2));
        self.read_within(longest.min(self.limit)).await
    }

    async fn read_within(&self, limit: Duration) -> JobMetricsText {
        let found = within(&*self.clock, limit, self.find()).await;
        let late = || Error::new(ErrorKind::Unavailable, "the store did not reply in time");
        let found = found.unwrap_or_else(|| Err(late()));
        text::write(found, self.recorder.as_deref())
    }

    async fn find(&self) -> Result<Found, Error> {
        // Before all else: what is read later is not older.
        let at = store_now(&*self.provider, self.clock.system_time()).await?;
        let mut found = Found {
            locks: taken_locks(&*self.provider).await?,
            jobs: None,
        };
        if let Some(journal) = &self.journal {
            found.jobs = self.jobs(&**journal, &found.locks, at).await.transpose();
        }
        Ok(found)
    }

    fn next_slot(&self, job: &JobRecord, after: SystemTime) -> Option<SystemTime> {
        next_slot(job, after, |job, after| (self.next.as_ref()?)(job, after))
    }

    /// All jobs, with their current deadlines. `None` if there is no journal.
    async fn jobs(
        &self,
        journal: &dyn Journal,
        locks: &[LockRecord],
        now: SystemTime,
    ) -> Result<Option<Jobs>, Error> {
        let Some(store) = journal.identity().await? else {
            return Ok(None);
        };
        let jobs = all_jobs(journal).await?;
        let forgotten = forgotten(journal, &jobs, now).await?;
        let next = |job: &JobRecord, after| self.next_slot(job, after);
        let current = current_jobs(&*self.provider, journal, jobs, locks, now, next).await?;
        let mut jobs = Vec::with_capacity(current.len());
        for current in current {
            let missed = match self.next {
                Some(_) => missed_slots(journal, &current.job, now, next).await?,
                None => None,
            };
            jobs.push(FoundJob { current, missed });
        }
        let written = self.provider.written_until().await?;
        Ok(Some(Jobs {
            store,
            at: written.map_or(now, |written| written.min(now)),
            jobs,
            forgotten,
        }))
    }
}

/// When jobs were removed that the journal does not have any more.
async fn forgotten(
    journal: &dyn Journal,
    jobs: &[JobRecord],
    now: SystemTime,
) -> Result<BTreeMap<String, SystemTime>, Error> {
    let request = AuditRequest::new().with_limit(ACTIONS);
    let actions = journal.audit(&request).await?.into_iter();
    let is_known = |name: &str| jobs.binary_search_by(|job| (*job.job).cmp(name)).is_ok();
    let forgotten = actions.filter(|action| {
        action.action == AuditRecord::FORGET
            && now.duration_since(action.at).unwrap_or_default() < FORGOTTEN
            && !is_known(&action.name)
    });
    // The latest action comes first.
    let mut at = BTreeMap::new();
    for action in forgotten {
        at.entry(action.name).or_insert(action.at);
    }
    Ok(at)
}

impl fmt::Debug for JobMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobMetrics")
            .field("provider", &self.provider)
            .field("journal", &self.journal)
            .finish_non_exhaustive()
    }
}
