//! From jobs to a running scheduler.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{Clock, Error, ErrorKind, Executor, SystemClock};
use tokio::sync::mpsc;

use crate::driver::{Driver, Shared};
use crate::handle::Fate;
use crate::{Handle, Job, Observer};

/// Collects jobs and starts them. Its example is at the top of this crate.
#[derive(Debug)]
#[must_use = "jobs run once the scheduler is started"]
pub struct Scheduler {
    executor: Executor,
    clock: Arc<dyn Clock>,
    clock_check: Duration,
    observer: Option<Arc<dyn Observer>>,
    seed: u64,
    jobs: Vec<Job>,
}

impl Scheduler {
    /// A scheduler whose jobs run under locks of this executor, on the real clock.
    ///
    /// Inside its jobs it is the executor of code that names none, as with
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

    /// Replaces the clock: of the schedules and of the executor.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.executor = self.executor.clock(clock.clone());
        self.clock = clock;
        self
    }

    /// How often the calendar is looked at while the scheduler waits for a job that is due by it;
    /// every second unless set.
    ///
    /// A timer does not hear of a calendar that is set, nor of a machine that was suspended: this is
    /// how late they are noticed. It is one wake-up for the whole scheduler, however many jobs wait.
    pub fn clock_check(mut self, every: Duration) -> Self {
        self.clock_check = every;
        self
    }

    /// Tells this observer what became of each tick.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Replaces the chance that jitter is drawn from: the same seed draws the same.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Starts the jobs, on the tokio runtime that this is called in.
    ///
    /// They run until [`Handle::shutdown`], also when the handle is dropped; or until the runtime
    /// shuts down, which gives no lock back.
    ///
    /// # Errors
    /// `InvalidInput` for a job that cannot run and for two jobs of one name; `WrongContext`
    /// outside a runtime.
    pub fn start(mut self) -> Result<Handle, Error> {
        self.check()?;
        let runtime = tokio::runtime::Handle::try_current().map_err(|error| {
            Error::new(ErrorKind::WrongContext, "a scheduler needs a tokio runtime")
                .with_source(error)
        })?;
        let (sender, commands) = mpsc::unbounded_channel();
        let fate = Arc::new(Fate::default());
        let shared = Shared {
            executor: self.executor,
            clock: self.clock,
            clock_check: self.clock_check,
            observer: self.observer,
            seed: self.seed,
        };
        let driver = Driver::new(shared, self.jobs, commands, fate.clone())?;
        runtime.spawn(driver.run());
        Ok(Handle::new(sender, fate))
    }

    fn check(&mut self) -> Result<(), Error> {
        if self.clock_check.is_zero() {
            let zero = "the clock cannot be looked at without a pause: set a longer check";
            return Err(Error::new(ErrorKind::InvalidInput, zero));
        }
        let mut names = BTreeSet::new();
        for job in &mut self.jobs {
            job.validate()?;
            self.executor.check(&job.config)?;
            // Ticks are tried again by the driver. An attempt that waited by itself would neither
            // hear of a shutdown nor of a newer slot.
            job.config = job.config.clone().lock_wait(Duration::ZERO);
            let job = &*job;
            if !names.insert(job.name()) {
                let twice = "two jobs have this name: their slots would be mixed up";
                return Err(Error::new(ErrorKind::InvalidInput, twice).with_lock(job.name()));
            }
        }
        Ok(())
    }
}
