//! A task with its schedule and its lock.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use shedlock_core::{BoxFuture, Error, ErrorKind, LockConfig, LockDuration};

use crate::{IntoSchedule, JobRun, LatePolicy, Overlap, Schedule};

pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// What a job runs.
pub(crate) enum Task {
    Future(Box<dyn Fn(JobRun) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>),
    /// On a thread for blocking work.
    Blocking(Box<dyn Fn(JobRun) -> Result<(), BoxError> + Send + Sync>),
}

/// A task with its schedule and its lock. The lock's name is the job's name.
///
/// ```
/// use shedlock::LockConfig;
/// use shedlock::scheduler::{Job, LatePolicy, Overlap, Schedule};
/// use std::time::Duration;
/// let job = Job::new(
///     LockConfig::new("invoices").lock_at_most_for("30m"),
///     Schedule::cron_in("0 2 * * *", "Europe/Berlin")?,
///     |run| async move {
///         println!("invoices of {:?} under token {:?}", run.slot(), run.fencing_token());
///         std::fs::read("template")?;
///         Ok::<_, std::io::Error>(())
///     },
/// )
/// .jitter("30s")
/// .late(LatePolicy::Within(Duration::from_secs(4 * 3_600)))
/// .overlap(Overlap::Skip);
/// # Ok::<(), shedlock::Error>(())
/// ```
#[must_use]
pub struct Job {
    pub(crate) config: LockConfig,
    pub(crate) schedule: Schedule,
    /// The first value that could not be parsed: a duration, or the schedule, which is then
    /// replaced by one that never fires.
    unreadable: Option<Error>,
    pub(crate) task: Task,
    pub(crate) jitter: Duration,
    pub(crate) initial_delay: Option<Duration>,
    pub(crate) run_at_start: bool,
    pub(crate) late: LatePolicy,
    pub(crate) overlap: Overlap,
}

impl Job {
    /// Creates a job that runs by its schedule, late if necessary, one run at a time.
    ///
    /// The slot is set on the lock for each run. The task's future is dropped when its lease is
    /// lost or when the grace period of a shutdown has passed. If the task returns an error, the
    /// error is logged and reported to the [`Observer`](crate::Observer), and the slot stays used
    /// up. If the lock's [`completion`](LockConfig::completion) specifies that the slot must not be
    /// lost, it is tried again instead.
    ///
    /// An invalid schedule is refused when the scheduler starts, like any other error in a job.
    pub fn new<F, E>(
        config: LockConfig,
        schedule: impl IntoSchedule,
        task: impl Fn(JobRun) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let task = Task::Future(Box::new(move |run| {
            let future = task(run);
            Box::pin(async move { future.await.map_err(Into::into) })
        }));
        Self::of(config, schedule, task)
    }

    /// Creates a job for a closure that blocks. It runs on a thread for blocking work.
    ///
    /// A closure cannot be stopped. If its lease is lost, it can find out through
    /// [`CurrentLock::is_lost`](shedlock_core::CurrentLock::is_lost). When the grace period of a
    /// shutdown has passed, the shutdown continues without it. Its lock is given back when it ends,
    /// if the process lives that long.
    ///
    /// ```
    /// use shedlock::LockConfig;
    /// use shedlock::scheduler::{Job, Schedule};
    /// let job = Job::blocking(
    ///     LockConfig::new("clean").lock_at_most_for("10m"),
    ///     Schedule::every("1h"),
    ///     |_run| std::fs::remove_dir_all("/tmp/old-reports"),
    /// );
    /// assert_eq!(job.name(), "clean");
    /// ```
    pub fn blocking<E: Into<BoxError>>(
        config: LockConfig,
        schedule: impl IntoSchedule,
        task: impl Fn(JobRun) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        let task = Task::Blocking(Box::new(move |run| task(run).map_err(Into::into)));
        Self::of(config, schedule, task)
    }

    fn of(config: LockConfig, schedule: impl IntoSchedule, task: Task) -> Self {
        let (schedule, unreadable) = match schedule.into_schedule() {
            Ok(schedule) => (schedule, None),
            Err(error) => (Schedule::never(), Some(error)),
        };
        Self {
            config,
            schedule,
            unreadable,
            task,
            jitter: Duration::ZERO,
            initial_delay: None,
            run_at_start: false,
            late: LatePolicy::default(),
            overlap: Overlap::default(),
        }
    }

    /// Delays each run by a random time up to this much after its slot, so that many jobs do not
    /// start at once. The slot stays the same.
    ///
    /// A jitter that is not shorter than [`Schedule::shortest_gap`] is refused when the scheduler
    /// starts. No run is delayed into the last tenth of the time to its next slot, however long the
    /// jitter is.
    pub fn jitter(mut self, up_to: impl Into<LockDuration>) -> Self {
        self.jitter = self.read(up_to.into()).unwrap_or_default();
        self
    }

    /// Does not run the job until this long after the scheduler has started. Slots that pass in the
    /// meantime are handled afterwards like any missed slots. For a fixed delay it replaces the
    /// first delay.
    pub fn initial_delay(mut self, delay: impl Into<LockDuration>) -> Self {
        self.initial_delay = self.read(delay.into());
        self
    }

    /// Also runs the job when the scheduler starts (after the initial delay).
    ///
    /// If the schedule has slots, this run takes the newest one that is due, unless it is taken
    /// already. So replicas that start one after another run the job once, not once each.
    pub fn run_at_start(mut self) -> Self {
        self.run_at_start = true;
        self
    }

    /// Sets what happens to ticks that start late; [`LatePolicy::Once`] by default.
    pub fn late(mut self, policy: LatePolicy) -> Self {
        self.late = policy;
        self
    }

    /// Sets what happens to a tick while a run is in progress here; [`Overlap::Queue`] by default.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// Returns the job's name, which is the name of its lock.
    pub fn name(&self) -> &str {
        self.config.name()
    }

    /// Returns true if the slots of this job are open until they are done, and run in order.
    /// Returns how long after its slot a run may start before its job counts as late.
    pub(crate) fn longest_delay(&self) -> Duration {
        self.late.expected().saturating_add(self.jitter)
    }

    pub(crate) fn runs_in_order(&self) -> bool {
        self.config.get_completion().retries().is_some()
    }

    fn read(&mut self, duration: LockDuration) -> Option<Duration> {
        duration
            .get()
            .map_err(|error| self.unreadable.get_or_insert(error))
            .ok()
    }

    /// # Errors
    /// `InvalidInput`, with the job's name.
    pub(crate) fn validate(&mut self) -> Result<(), Error> {
        self.check()
            .map_err(|error| error.with_lock(self.name().to_owned()))?;
        if self.schedule.takes_either_day() {
            tracing::warn!(
                job = self.name(),
                "{} fires on days that match either day field, as in crond; for days that match \
                 both, as in Spring, write + before the day of the week",
                self.schedule
            );
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), Error> {
        if let Some(error) = self.unreadable.take() {
            return Err(error);
        }
        if self.runs_in_order() && self.schedule.delay().is_some() {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "a fixed delay has no slots that can be lost",
            )
            .advise("use a cron or `every` schedule, or remove the completion"));
        }
        let jitter = self.jitter;
        if self
            .schedule
            .shortest_gap()
            .is_some_and(|gap| jitter >= gap)
        {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("the jitter ({jitter:?}) reaches the next slot"),
            )
            .advise("make it shorter"));
        }
        Ok(())
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("name", &self.name())
            .field("schedule", &self.schedule)
            .field("late", &self.late)
            .field("overlap", &self.overlap)
            .finish_non_exhaustive()
    }
}
