//! Jobs of `tokio-cron-scheduler` that run once on many replicas.
//!
//! The scheduler stays as it is, and fires on each replica. What makes one of these runs the run of
//! its tick is two lines: the slot of now, and a lock that claims it.

use std::future::Future;
use std::sync::Arc;

use chrono_tz::Tz;
use shedlock::scheduler::Schedule;
use shedlock::{Error, Executor, LockConfig, Outcome};
use tokio_cron_scheduler::{Job, JobScheduler};

/// Adds a job that runs once for each tick of this cron expression, however many replicas have it.
///
/// Both schedulers read the expression, so it has six fields, and it must mean the same to both. They
/// differ in one thing: where both day fields say something, `tokio-cron-scheduler` fires on days that
/// fit both of them, and [`Schedule`] on days that fit either, as Vixie cron does; a `+` before the day
/// of week would tell `Schedule` to ask for both.
///
/// # Errors
/// An expression that one of the two schedulers cannot read; all replicas must be given the same.
pub async fn add_job<F>(
    scheduler: &JobScheduler,
    executor: &Executor,
    config: LockConfig,
    (cron, zone): (&str, Tz),
    task: impl Fn() -> F + Send + Sync + 'static,
) -> anyhow::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let schedule = Schedule::cron_in(cron, zone.name())?;
    let executor = executor.clone();
    let task = Arc::new(task);
    let job = Job::new_async_tz(cron, zone, move |_, _| {
        // First thing in the run: however long the store takes, the slot is that of this tick.
        let slot = schedule.slot_now();
        let (executor, config, task) = (executor.clone(), config.clone(), task.clone());
        Box::pin(async move {
            let run = async {
                let config = config.clone().slot(slot?);
                executor.execute(&config, async { task().await }).await
            };
            tell(config.name(), run.await);
        })
    })?;
    scheduler.add(job).await?;
    Ok(())
}

fn tell(name: &str, outcome: Result<Outcome<()>, Error>) {
    match outcome {
        Ok(Outcome::Executed { .. }) => tracing::info!("{name}: ran here"),
        Ok(Outcome::Skipped(skip)) => tracing::info!("{name}: ran elsewhere: {skip}"),
        Ok(Outcome::Lost { reason, .. }) => tracing::error!("{name}: stopped: {reason}"),
        Ok(_) => {}
        Err(error) => tracing::error!("{name}: not run: {error}"),
    }
}
