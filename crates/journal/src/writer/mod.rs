//! Fills a journal from the events of an executor.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;

use crate::{JournalSettings, lock_store::lock_store, registered};
use shedlock_core::{
    AuditRecord, JOURNAL_VERSION, JobRegistration, Journal, JournalEntry, Recorder, RunEnd, RunId,
    RunOutcome, RunRecord,
};
use shedlock_core::{
    Error, ErrorKind, Event, Lease, Listener, LockProvider, LostReason, Owner, ProviderIdentity,
    Slot, TaskEnd, within,
};
use shedlock_support::{Backoff, Queue, redact};

/// Records the runs of an executor in a journal. Pass it to
/// [`Executor::journal`](crate::Executor::journal).
///
/// It never delays a task and never fails one. Entries wait in a bounded queue, and a background
/// task of the tokio runtime writes them. While the journal is unavailable they are tried again;
/// entries that do not fit into the queue are dropped and [counted](Self::dropped).
///
/// Before the process exits, await [`flush`](Self::flush).
///
/// Clones share all state. Use one writer for each store of locks.
///
/// ```
/// use shedlock::{Executor, JournalWriter, LockConfig, MemoryJournal, MemoryProvider, RunsRequest};
/// use shedlock::Journal as _;
/// use std::sync::Arc;
/// use std::time::{Duration, SystemTime};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let journal = Arc::new(MemoryJournal::new());
/// let writer = JournalWriter::new(journal.clone());
/// let executor = Executor::new(Arc::new(MemoryProvider::new())).journal(&writer);
/// let config = LockConfig::new("payroll").lock_at_most_for("10m");
/// executor.execute(&config, async {}).await?;
///
/// writer.flush(Duration::from_secs(2)).await;
/// let runs = journal.runs(&RunsRequest::new().with_job("payroll")).await?;
/// println!("{} by {}: {:?}", runs[0].name, runs[0].owner, runs[0].end);
/// # Ok::<(), shedlock::Error>(()) }).unwrap();
/// ```
///
/// The journal need not be in the store of the locks. If theirs cannot keep one, or should not, take
/// it from a provider over another store, which need not have any locks:
///
/// ```
/// use shedlock::{Executor, JournalWriter, LockProvider};
/// use std::sync::Arc;
///
/// fn executor(locks: Arc<dyn LockProvider>, database: &dyn LockProvider) -> Option<Executor> {
///     let writer = JournalWriter::new(database.journal()?);
///     Some(Executor::new(locks).journal(&writer))
/// }
/// ```
#[derive(Clone)]
pub struct JournalWriter(Arc<Shared>);

struct Shared {
    journal: Arc<dyn Journal>,
    settings: JournalSettings,
    state: Mutex<State>,
    queue: Queue<Pending>,
    /// A flush is waiting: do not pause between tries.
    hurry: Notify,
}

#[derive(Default)]
struct State {
    jobs: BTreeMap<String, JobRegistration>,
    /// The jobs that are registered together with the first slot that ShedLock took.
    unregistered: BTreeSet<String>,
    /// The runs in progress, and those whose unlock is in progress, by owner.
    runs: HashMap<Owner, Tracked>,
    /// The identity of the journal, once it was reached.
    identity: Option<String>,
    locks: Locks,
    /// There is no journal, and none is required.
    is_off: bool,
    dropped: u64,
    /// Whether that was reported since the journal last kept up.
    is_dropping: bool,
}

/// The store of the locks whose runs are recorded.
#[derive(Default)]
enum Locks {
    #[default]
    None,
    /// It was not reached yet.
    Unread(Arc<dyn LockProvider>),
    /// With the store's identity, if it has one.
    Read(ProviderIdentity, Option<String>),
    /// Which of several a run belongs to is not known.
    Several,
}

impl Locks {
    fn identity(&self) -> Option<&str> {
        match self {
            Self::Read(_, identity) => identity.as_deref(),
            _ => None,
        }
    }
}

/// A run in progress.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct OpenRun {
    /// The run.
    pub run: RunRecord,
    /// The next slot and the deadline of its job, if it succeeds and they are known.
    pub next: Option<(Slot, SystemTime)>,
    /// The identity of the journal, if it was reached.
    pub journal: Option<String>,
}

/// A run from its start to its unlock.
struct Tracked {
    run: RunRecord,
    is_lost: bool,
    /// The task has succeeded. This waits for the unlock, which can still find that the lease had ended
    /// before the task.
    succeeded: Option<Success>,
}

#[derive(Clone, Copy)]
struct Success {
    ran_for: Duration,
    is_recorded: bool,
}

#[derive(Clone)]
enum Pending {
    Registration(String),
    Entry(Box<JournalEntry>),
}

impl Pending {
    fn is_of(&self, id: &RunId) -> bool {
        match self {
            Self::Entry(entry) => match &**entry {
                JournalEntry::Run { run, .. } => run.id.identity() == id.identity(),
                _ => false,
            },
            Self::Registration(_) => false,
        }
    }
}

/// How many entries are written at once.
const BATCH: usize = 64;

/// How long one write may take.
const PATIENCE: Duration = Duration::from_secs(10);

const FIRST_PAUSE: Duration = Duration::from_millis(250);

const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How often entries that the journal refuses, although it can be reached, are tried.
const TRIES: u32 = 3;

impl JournalWriter {
    /// Creates a writer with the default settings.
    pub fn new(journal: Arc<dyn Journal>) -> Self {
        Self::with_settings(journal, JournalSettings::default())
    }

    /// Creates a writer with these settings.
    pub fn with_settings(journal: Arc<dyn Journal>, settings: JournalSettings) -> Self {
        Self(Arc::new(Shared {
            journal,
            settings,
            state: Mutex::default(),
            queue: Queue::new(),
            hurry: Notify::new(),
        }))
    }

    /// Returns the journal.
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.0.journal
    }

    /// Registers a job, or changes its schedule. Its deadline exists from now on, also if the job
    /// never runs. The scheduler calls it for its jobs.
    pub fn register(&self, registration: JobRegistration) {
        let job = registration.job.clone();
        let mut state = self.0.state();
        state.unregistered.remove(&job);
        state.jobs.insert(job.clone(), registration);
        drop(state);
        self.0.push_registration(&job);
    }

    /// Returns how many entries were dropped because the queue was full or the journal refused
    /// them.
    pub fn dropped(&self) -> u64 {
        self.0.state().dropped
    }

    /// Registers a job if a slot of it is found taken by ShedLock for Java: an attempt that is skipped
    /// for another reason records nothing.
    #[doc(hidden)]
    pub fn register_if_elsewhere(&self, registration: JobRegistration) {
        let mut state = self.0.state();
        state.unregistered.insert(registration.job.clone());
        state.jobs.insert(registration.job.clone(), registration);
    }

    /// Sets the store of the locks, whose identity was read already.
    #[doc(hidden)]
    pub fn of_known_locks(&self, provider: &dyn LockProvider, identity: Option<String>) {
        self.0.state().locks = Locks::Read(provider.identity(), identity);
    }

    /// Records what an operator did. Passwords of URLs in its texts are hidden.
    pub fn audit(&self, mut record: AuditRecord) {
        record.detail = redact(&record.detail).into_owned();
        record.reason = record.reason.map(|reason| redact(&reason).into_owned());
        self.0.push(JournalEntry::Audit(record));
    }

    /// Waits until everything is written, for at most this long. Returns how many entries are not.
    /// Cancellation safe. The background task continues.
    ///
    /// A run whose task has succeeded is recorded as such even if its unlock is still in progress: the
    /// process may exit before that ends.
    pub async fn flush(&self, limit: Duration) -> usize {
        self.0.confirm_all();
        let clock = self.0.settings.clock.clone();
        self.0.hurry.notify_one();
        let emptied = self.0.queue.emptied(|| self.0.wake());
        let _ = within(&*clock, limit, emptied).await;
        self.0.queue.left()
    }

    /// Returns the ends of runs that are not written, and stops trying to write them. For a process that
    /// is about to exit, and can keep them elsewhere. `None` if the journal was never reached: they
    /// belong to this journal alone, and its identity is not known.
    #[doc(hidden)]
    pub fn take_unwritten(&self) -> Option<(String, Vec<JournalEntry>)> {
        self.0.confirm_all();
        let mut state = self.0.state();
        let identity = state.identity.clone()?;
        state.is_off = true;
        let entries = self.0.queue.clear();
        let locks = state.locks.identity();
        let ends = entries.filter_map(|pending| match pending {
            Pending::Entry(entry) => match *entry {
                JournalEntry::Run { mut run, next } if run.end.is_some() => {
                    run.lock_store = locks.map(str::to_owned);
                    Some(JournalEntry::Run { run, next })
                }
                _ => None,
            },
            Pending::Registration(_) => None,
        });
        let ends = ends.collect();
        Some((identity, ends))
    }

    /// Returns the run of this owner as it was recorded when it started, the next slot and the deadline
    /// of its job if it succeeds, and the identity of the journal if that was reached. For another
    /// process that records its end if this one cannot.
    #[doc(hidden)]
    pub fn open_run(&self, owner: &Owner) -> Option<OpenRun> {
        let state = self.0.state();
        let mut run = state.runs.get(owner)?.run.clone();
        run.lock_store = state.locks.identity().map(str::to_owned);
        Some(OpenRun {
            next: state.next_after(&run),
            run,
            journal: state.identity.clone(),
        })
    }
}

impl Recorder for JournalWriter {
    fn journal(&self) -> &Arc<dyn Journal> {
        Self::journal(self)
    }

    fn note_locks(&self, provider: &Arc<dyn LockProvider>) {
        let locks = &mut self.0.state().locks;
        let other = match locks {
            Locks::None => {
                *locks = Locks::Unread(provider.clone());
                return;
            }
            Locks::Unread(known) => known.identity() != provider.identity(),
            Locks::Read(known, _) => *known != provider.identity(),
            Locks::Several => return,
        };
        if other {
            *locks = Locks::Several;
        }
    }

    fn has_job(&self, job: &str) -> bool {
        self.0.state().jobs.contains_key(job)
    }

    fn register(&self, registration: JobRegistration) {
        Self::register(self, registration);
    }

    fn dropped(&self) -> u64 {
        Self::dropped(self)
    }
}

impl Listener for JournalWriter {
    fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::TaskStarted {
                lease,
                is_reentrant: false,
                ..
            } => {
                let now = self.0.settings.clock.system_time();
                let run = RunRecord::started(lease, now);
                let tracked = Tracked {
                    run: run.clone(),
                    is_lost: false,
                    succeeded: None,
                };
                let owner = lease.owner().clone();
                self.0.state().runs.insert(owner, tracked);
                self.0.push_run(run);
            }
            Event::TaskFinished {
                lease,
                is_reentrant: false,
                ran_for,
                end,
                ..
            } => self.0.finished(lease, *ran_for, *end),
            Event::Skipped { request, skip, .. } => {
                let now = self.0.settings.clock.system_time();
                let slot = request.slot;
                let at = slot.and_then(|slot| skip.taken_elsewhere(slot, now));
                if let (Some(slot), Some(at)) = (slot, at) {
                    if self.0.state().unregistered.remove(request.job()) {
                        self.0.push_registration(request.job());
                    }
                    self.0
                        .push_run(RunRecord::elsewhere(request, slot, skip, at));
                }
            }
            Event::Unlocked { lease, .. } | Event::UnlockFailed { lease, .. } => {
                let known = self.0.state().runs.remove(lease.owner());
                let Some(Tracked { run, succeeded, .. }) = known else {
                    return;
                };
                if let Some(success) = succeeded.filter(|it| !it.is_recorded) {
                    self.0.push_end(run, success.ran_for, TaskEnd::Succeeded);
                }
            }
            Event::Lost { lease, reason, .. } => self.0.lost(lease, *reason),
            _ => {}
        }
    }
}

impl Shared {
    /// The end of a run that succeeded is recorded with its unlock, which may find that its lease was lost.
    fn finished(self: &Arc<Self>, lease: &Lease, ran_for: Duration, end: TaskEnd<'_>) {
        let owner = lease.owner();
        let mut state = self.state();
        let known = state.runs.get_mut(owner);
        let known = known.filter(|known| !known.is_lost);
        if let (TaskEnd::Succeeded, Some(known)) = (end, known) {
            known.succeeded = Some(Success {
                ran_for,
                is_recorded: false,
            });
            return;
        }
        let known = state.runs.remove(owner).map(|known| known.run);
        drop(state);
        let now = self.settings.clock.system_time();
        let run = known.unwrap_or_else(|| RunRecord::started(lease, now));
        self.push_end(run, ran_for, end);
    }

    fn lost(self: &Arc<Self>, lease: &Lease, reason: LostReason) {
        let owner = lease.owner();
        let mut state = self.state();
        let Some(known) = state.runs.get_mut(owner) else {
            return;
        };
        known.is_lost = true;
        let Some(success) = known.succeeded else {
            // Its end follows.
            return;
        };
        let run = known.run.clone();
        state.runs.remove(owner);
        drop(state);
        self.push_end(run, success.ran_for, reason.into());
    }
}

impl State {
    /// The next slot and the deadline of a run's job, if it succeeds.
    fn next_after(&self, run: &RunRecord) -> Option<(Slot, SystemTime)> {
        let after = run.slot.map_or(run.started, Slot::instant);
        self.jobs.get(&run.job)?.next_after(after)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn confirm_all(self: &Arc<Self>) {
        let mut confirmed = Vec::new();
        for known in self.state().runs.values_mut() {
            if let Some(success) = known.succeeded.as_mut().filter(|it| !it.is_recorded) {
                success.is_recorded = true;
                confirmed.push((known.run.clone(), success.ran_for));
            }
        }
        for (run, ran_for) in confirmed {
            self.push_end(run, ran_for, TaskEnd::Succeeded);
        }
    }

    fn push_end(self: &Arc<Self>, mut run: RunRecord, ran_for: Duration, end: TaskEnd<'_>) {
        let error = self.settings.errors.of(end);
        run.end = Some(RunEnd::new(ran_for, end.into(), error));
        self.push_run(run);
    }

    /// Adds a run. One that still waits to be written is replaced, so that a short run is written
    /// once.
    fn push_run(self: &Arc<Self>, run: RunRecord) {
        let state = self.state();
        let outcome = run.end.as_ref().map(|end| end.outcome);
        let moves = matches!(outcome, Some(RunOutcome::Succeeded | RunOutcome::Elsewhere));
        let next = state.next_after(&run).filter(|_| moves);
        drop(state);
        let id = run.id.clone();
        let entry = JournalEntry::Run { run, next };
        let mut queue = self.queue.state();
        let mut waiting = queue.waiting.iter_mut().rev();
        match waiting.find(|pending| pending.is_of(&id)) {
            Some(waiting) => *waiting = Pending::Entry(Box::new(entry)),
            None => {
                drop(queue);
                return self.push(entry);
            }
        }
        drop(queue);
        self.wake();
    }

    fn push_registration(self: &Arc<Self>, job: &str) {
        if self.state().is_off {
            return;
        }
        let registration = Pending::Registration(job.to_owned());
        self.queue.state().waiting.push_back(registration);
        self.wake();
    }

    fn push(self: &Arc<Self>, entry: JournalEntry) {
        let mut state = self.state();
        if state.is_off {
            return;
        }
        // Each job may wait with its registration and a run: all of them start at once, or go on after an outage.
        let most = self.settings.queue + 2 * state.jobs.len();
        let mut queue = self.queue.state();
        if queue.waiting.len() < most {
            queue.waiting.push_back(Pending::Entry(Box::new(entry)));
            drop((queue, state));
            return self.wake();
        }
        if !state.is_dropping {
            tracing::warn!(
                dropped = state.dropped,
                "the journal does not keep up: entries are dropped, so the history is incomplete"
            );
        }
        state.is_dropping = true;
        state.dropped += 1;
        count_dropped(1);
    }

    /// Starts the background task unless it runs.
    fn wake(self: &Arc<Self>) {
        self.queue.wake(|| {
            let shared = self.clone();
            async move { shared.write().await }
        });
    }

    /// Writes until nothing is left.
    async fn write(&self) {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut refusals = 0;
        while let Some(batch) = self.queue.take(BATCH) {
            let error = match self.write_batch(&batch).await {
                Ok(()) => {
                    if !backoff.is_fresh() {
                        tracing::info!("the journal is available again");
                    }
                    backoff.reset();
                    refusals = 0;
                    let (_, is_more) = self.queue.done();
                    self.state().is_dropping &= is_more;
                    continue;
                }
                Err(error) => error,
            };
            if backoff.is_fresh() {
                tracing::warn!(error = %format_args!("{:#}", error.cause("")),
                    "cannot write to the journal, retrying");
            }
            // An entry that the journal refuses must not keep all later ones waiting.
            let may_pass = matches!(
                error.kind(),
                ErrorKind::Unavailable | ErrorKind::OutcomeUnknown | ErrorKind::Configuration
            );
            refusals += u32::from(!may_pass);
            if refusals >= TRIES {
                let count = self.queue.done().0 as u64;
                self.state().dropped += count;
                count_dropped(count);
                refusals = 0;
                continue;
            }
            let clock = &self.settings.clock;
            let until = clock.now() + backoff.take();
            tokio::select! {
                () = clock.sleep_until(until) => {}
                () = self.hurry.notified() => {}
            }
        }
    }

    async fn write_batch(&self, batch: &[Pending]) -> Result<(), Error> {
        let written = within(&*self.settings.clock, PATIENCE, self.write_all(batch)).await;
        let late = || Error::new(ErrorKind::Unavailable, "the journal did not reply in time");
        written.unwrap_or_else(|| Err(late()))
    }

    async fn write_all(&self, batch: &[Pending]) -> Result<(), Error> {
        if !self.check().await? {
            return Ok(());
        }
        let lock_store = self.lock_store().await;
        let mut entries = Vec::with_capacity(batch.len());
        let mut jobs = Vec::new();
        for pending in batch {
            match pending {
                Pending::Entry(entry) => {
                    let mut entry = (**entry).clone();
                    match &mut entry {
                        JournalEntry::Run { run, .. } => {
                            if is_followed_by_prune(run, self.settings.retention.runs_per_job) {
                                jobs.push(run.job.clone());
                            }
                            run.lock_store.clone_from(&lock_store);
                        }
                        JournalEntry::Audit(record) => record.lock_store.clone_from(&lock_store),
                        _ => {}
                    }
                    entries.push(entry);
                }
                Pending::Registration(job) => {
                    let known = self.journal.job(job).await?;
                    let registration = self.state().jobs.get(job).cloned();
                    if let (Some(known), Some(registration)) = (&known, &registration) {
                        registered::warn_of_drift(registration, known);
                    }
                    let now = self.settings.clock.system_time();
                    let change =
                        registration.map(|it| registered::change(&it, known.as_ref(), now));
                    entries.extend(change.map(JournalEntry::Job));
                }
            }
        }
        self.journal.record(&entries).await?;
        jobs.sort_unstable();
        jobs.dedup();
        for job in jobs {
            // What is not removed now is removed after a later run.
            if let Err(error) = self.journal.prune(&job, &self.settings.retention).await {
                tracing::debug!(job, %error, "cannot remove old runs from the journal");
            }
        }
        Ok(())
    }

    /// Returns the identity of the locks' store, which is read once.
    async fn lock_store(&self) -> Option<String> {
        let provider = match &self.state().locks {
            Locks::Read(_, identity) => return identity.clone(),
            Locks::Unread(provider) => provider.clone(),
            Locks::None | Locks::Several => return None,
        };
        // It is tried again with the next entries.
        let identity = lock_store(&*provider, &*self.settings.clock).await?;
        let mut state = self.state();
        if matches!(state.locks, Locks::Unread(_)) {
            state.locks = Locks::Read(provider.identity(), identity.clone());
        }
        identity
    }

    /// Checks once that there is a journal. Returns false if there is none and none is required.
    async fn check(&self) -> Result<bool, Error> {
        if self.state().identity.is_some() {
            return Ok(true);
        }
        let found = match self.journal.version().await {
            Err(error) if self.settings.is_optional => {
                let kind = error.kind();
                let error = format!("{error:#}");
                match kind {
                    // It may be there, and is meant to be used.
                    ErrorKind::Configuration => tracing::warn!(%error, "runs are not recorded"),
                    _ => tracing::debug!(%error, "cannot look for a journal"),
                }
                None
            }
            found => found?,
        };
        if let Some(newer) = found.filter(|version| *version > JOURNAL_VERSION) {
            return Err(Error::new(
                ErrorKind::Configuration,
                format!(
                    "the journal has version {newer}, and this release writes version {JOURNAL_VERSION}"
                ),
            )
            .advise("upgrade this program"));
        }
        if found.is_some() {
            let identity = self.journal.identity().await?;
            self.state().identity = Some(identity.unwrap_or_default());
            return Ok(true);
        }
        if self.settings.is_optional {
            self.state().is_off = true;
            drop(self.queue.clear());
            return Ok(false);
        }
        Err(Error::new(
            ErrorKind::Configuration,
            self.settings.absent.clone(),
        ))
    }
}

/// Whether old runs of the job are removed after this one: after one of 32, chosen by its id, if so many are kept that a few
/// more do not matter. Looking for them costs as much as writing a run.
fn is_followed_by_prune(run: &RunRecord, kept: usize) -> bool {
    let last = run.id.identity().get(30..).unwrap_or_default();
    let number = usize::from_str_radix(last, 16).unwrap_or_default();
    run.end.is_some() && number % (kept / 32).clamp(1, 32) == 0
}

#[cfg(feature = "metrics")]
fn count_dropped(count: u64) {
    ::metrics::counter!("shedlock.journal.dropped").increment(count);
}

#[cfg(not(feature = "metrics"))]
fn count_dropped(_: u64) {}

impl fmt::Debug for JournalWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalWriter")
            .field("journal", &self.0.journal)
            .field("waiting", &self.0.queue.left())
            .field("dropped", &self.dropped())
            .finish_non_exhaustive()
    }
}
