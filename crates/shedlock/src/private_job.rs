//! Functions that the expansion of `#[scheduled]` calls.

use std::error::Error as StdError;
use std::future::Future;
use std::time::Duration;

pub use crate::Retries;

use crate::scheduler::{IntoSchedule, Job, JobRun};
use crate::{Completion, LockConfig};

/// The error of a scheduled task.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Creates the job of an async function.
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

/// Creates the job of a blocking function.
pub fn of_closure(
    config: LockConfig,
    schedule: impl IntoSchedule,
    task: impl Fn(JobRun) -> Result<(), BoxError> + Send + Sync + 'static,
) -> Job {
    Job::blocking(config, schedule, task)
}

/// Turns on keep-alive if wanted.
pub fn keep_alive(config: LockConfig, wanted: bool) -> LockConfig {
    if wanted { config.keep_alive() } else { config }
}

/// Keeps slots open until they are done, if wanted.
pub fn must_not_be_lost(config: LockConfig, wanted: bool, retries: Retries) -> LockConfig {
    if wanted {
        config.completion(Completion::OnSuccess(retries))
    } else {
        config
    }
}

/// Returns retries with this backoff. Their maximum is ten minutes, or this backoff if it is longer.
pub fn backing_off(pause: Duration) -> Retries {
    const LONGEST: Duration = Duration::from_secs(600);
    let retries = Retries::new().backoff(pause);
    retries.max_backoff(pause.max(LONGEST))
}

/// Runs the job when its scheduler starts, if wanted.
pub fn run_at_start(job: Job, wanted: bool) -> Job {
    if wanted { job.run_at_start() } else { job }
}

/// The return types that a scheduled function may have.
#[diagnostic::on_unimplemented(
    message = "a `#[scheduled]` function cannot return `{Self}`",
    label = "no caller receives this value",
    note = "return `()` or `Result<(), E>`, where `E` is an error that can be sent between threads: \
            `E: Into<Box<dyn Error + Send + Sync>>`"
)]
pub trait Return {
    /// Converts the value into the result for the scheduler.
    ///
    /// # Errors
    /// The error that the function returned.
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
