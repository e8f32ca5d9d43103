//! Collects jobs and starts a scheduler.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{Clock, Error, ErrorKind, Executor, SystemClock, check_runtime};
use shedlock_support::spawn;
use tokio::sync::mpsc;

use crate::driver::{Driver, Failing, Shared};
use crate::handle::Fate;
use crate::{Handle, Job, Observer};

/// Collects jobs and starts them. See the top of this crate for an example.
#[derive(Debug)]
#[must_use = "jobs run only after the scheduler is started"]
pub struct Scheduler {
    executor: Executor,
    clock: Arc<dyn Clock>,
    clock_check: Duration,
    observer: Option<Arc<dyn Observer>>,
    seed: u64,
    jobs: Vec<Job>,
}

impl Scheduler {
    /// Creates a scheduler whose jobs run under locks of this executor, on the real clock.
    ///
    /// Inside its jobs, this executor also applies to code that names none, as with
    /// [`with_executor`](shedlock_core::with_executor).
    pub fn new(executor: Executor) -> Self {
        Self {
            executor,
            clock: Arc::new(SystemClock),
            clock_check: Duration::from_secs(1),
            observer: None,
            seed: RandomState::new().hash_one("jitter"),
            jobs: Vec::new(),
        }
    }

    /// Adds a job.
    pub fn job(mut self, job: Job) -> Self {
        self.jobs.push(job);
        self
    }

    /// Adds jobs.
    pub fn jobs(mut self, jobs: impl IntoIterator<Item = Job>) -> Self {
        self.jobs.extend(jobs);
        self
    }

    /// Replaces the clock, both of the schedules and of the executor.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.executor = self.executor.clock(clock.clone());
        self.clock = clock;
        self
    }

    /// Sets how often the scheduler reads the calendar while it waits for a job that is due by it;
    /// every second by default.
    ///
    /// A timer does not notice that the calendar was set or that the machine was suspended. This
    /// interval is how long it takes to notice. It causes one wake-up for the whole scheduler,
    /// however many jobs wait.
    pub fn clock_check(mut self, every: Duration) -> Self {
        self.clock_check = every;
        self
    }

    /// Sets the observer that is notified of the end of each tick.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Replaces the random seed of the jitter. The same seed gives the same jitter.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Starts the jobs on the current tokio runtime.
    ///
    /// They run until [`Handle::shutdown`], even if the handle is dropped, or until the runtime
    /// shuts down, which gives no lock back.
    ///
    /// # Errors
    /// `InvalidInput` for a job that cannot run and for two jobs with the same name; `WrongContext`
    /// outside a tokio runtime, and on one without timers.
    pub fn start(mut self) -> Result<Handle, Error> {
        self.check()?;
        let runtime = tokio::runtime::Handle::try_current().map_err(|error| {
            Error::new(ErrorKind::WrongContext, "a scheduler needs a tokio runtime")
                .with_source(error)
        })?;
        if self.clock.is_system() {
            check_runtime()?;
        }
        self.register();
        let (sender, commands) = mpsc::unbounded_channel();
        let fate = Arc::new(Fate::default());
        let shared = Shared {
            executor: self.executor,
            clock: self.clock,
            clock_check: self.clock_check,
            observer: self.observer,
            seed: self.seed,
            fate: fate.clone(),
            failing: Failing::default(),
        };
        let driver = Driver::new(shared, self.jobs, commands)?;
        spawn(&runtime, driver.run());
        Ok(Handle::new(sender, fate))
    }

    /// Registers the jobs that have slots in the executor's journal, so that a job that never
    /// succeeds becomes overdue.
    fn register(&self) {
        let Some(journal) = self.executor.get_journal() else {
            return;
        };
        for job in self
            .jobs
            .iter()
            .filter(|job| job.schedule.delay().is_none())
        {
            let mut registration = job.schedule.registration(job.config.get_job());
            let mut longest = job.config.get_max_run_time().unwrap_or_default();
            let request = job.config.resolve(&[&self.executor.provider().defaults()]);
            if let Ok(request) = request {
                longest = longest.max(request.lock_at_most_for);
                registration = registration.lock_at_most_for(request.lock_at_most_for);
            }
            journal.register(registration.allowance(longest + job.longest_delay()));
        }
    }

    fn check(&mut self) -> Result<(), Error> {
        if self.clock_check.is_zero() {
            let zero = "the interval of the clock check is zero";
            return Err(Error::new(ErrorKind::InvalidInput, zero).advise("set a longer one"));
        }
        let mut names = BTreeSet::new();
        for job in &mut self.jobs {
            job.validate()?;
            self.executor.check(&job.config)?;
            // The driver retries ticks. An attempt that waited by itself would notice neither a
            // shutdown nor a newer slot.
            job.config = job.config.clone().lock_wait(Duration::ZERO);
            let job = &*job;
            if !names.insert(job.name()) {
                let twice = "two jobs have this name and would share slots";
                return Err(Error::new(ErrorKind::InvalidInput, twice)
                    .advise("rename one")
                    .with_lock(job.name()));
            }
        }
        Ok(())
    }
}
