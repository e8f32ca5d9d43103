//! What the expansion of `#[scheduled]` calls.

use std::error::Error as StdError;
use std::future::Future;
use std::time::Duration;

pub use crate::Retries;

use crate::scheduler::{IntoSchedule, Job, JobRun};
use crate::{Completion, LockConfig};

/// What a task of the scheduler fails with.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The job of an async function.
pub fn of_future<F>(
    config: LockConfig,
    schedule: impl IntoSchedule,
    task: impl Fn(JobRun) -> F + Send + Sync + 'static,
) -> Job
where
    F: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    Job::new(config, schedule, task)
}

/// The job of a blocking function.
pub fn of_closure(
    config: LockConfig,
    schedule: impl IntoSchedule,
    task: impl Fn(JobRun) -> Result<(), BoxError> + Send + Sync + 'static,
) -> Job {
    Job::blocking(config, schedule, task)
}

/// The lock, kept alive while its task runs, or not.
pub fn keep_alive(config: LockConfig, wanted: bool) -> LockConfig {
    if wanted { config.keep_alive() } else { config }
}

/// The lock, its slots open until they are done, or not.
pub fn must_not_be_lost(config: LockConfig, wanted: bool, retries: Retries) -> LockConfig {
    if wanted {
        config.completion(Completion::OnSuccess(retries))
    } else {
        config
    }
}

/// Retries that begin with this pause, which is not cut to the longest one unless that is asked for.
pub fn backing_off(pause: Duration) -> Retries {
    const LONGEST: Duration = Duration::from_secs(600);
    let retries = Retries::new().backoff(pause);
    retries.max_backoff(pause.max(LONGEST))
}

/// The job, run when its scheduler starts, or not.
pub fn run_at_start(job: Job, wanted: bool) -> Job {
    if wanted { job.run_at_start() } else { job }
}

/// What a scheduled function may return.
#[diagnostic::on_unimplemented(
    message = "under `#[scheduled]` a function cannot return `{Self}`",
    label = "there is nobody to return this to",
    note = "return `()` or `Result<(), E>`, where `E` is an error that can be sent between threads: \
            `E: Into<Box<dyn Error + Send + Sync>>`"
)]
pub trait Return {
    /// What the scheduler is told.
    ///
    /// # Errors
    /// What the function failed with.
    fn into_result(self) -> Result<(), BoxError>;
}

impl Return for () {
    fn into_result(self) -> Result<(), BoxError> {
        Ok(())
    }
}

impl<E: Into<BoxError>> Return for Result<(), E> {
    fn into_result(self) -> Result<(), BoxError> {
        self.map_err(Into::into)
    }
}
