//! Fills a journal from the events of an executor.

mod background;
mod events;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use shedlock_core::{
    AuditRecord, JobRegistration, Journal, JournalEntry, LockProvider, Moment, Owner,
    ProviderIdentity, RunId, RunRecord, Slot, TaskEnd, within,
};
use shedlock_support::{Queue, redact};
use tokio::sync::Notify;

use crate::JournalSettings;

/// Records the runs of an executor in a journal. Pass it to
/// [`Executor::journal`](shedlock_core::Executor::journal).
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
    /// When it last looked for old runs, or first recorded the end of one.
    looked: Option<Moment>,
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
}

impl fmt::Debug for JournalWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalWriter")
            .field("journal", &self.0.journal)
            .field("waiting", &self.0.queue.left())
            .field("dropped", &self.dropped())
            .finish_non_exhaustive()
    }
}
