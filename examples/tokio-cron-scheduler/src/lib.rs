//! Jobs of `tokio-cron-scheduler` that run once on many replicas.
//!
//! The scheduler is unchanged and fires on each replica. Two lines make one of these runs the only run
//! of its tick: one computes the current slot, the other takes a lock that claims it.

use std::future::Future;
use std::sync::Arc;

use chrono_tz::Tz;
use shedlock::scheduler::Schedule;
use shedlock::{Error, Executor, LockConfig, Outcome};
use tokio_cron_scheduler::{Job, JobScheduler};

/// Adds a job that runs once for each tick of this cron expression, however many replicas have it.
///
/// Both schedulers parse the expression, so it has six fields and must have the same meaning in both. They
/// differ in one case: if both day fields are restricted, `tokio-cron-scheduler` fires on days that
/// match both of them, and [`Schedule`] on days that match either, as Vixie cron does. A `+` before the
/// day of week makes `Schedule` require both. All replicas must use the same expression.
///
/// # Errors
/// Returns an error if one of the two schedulers cannot parse the expression.
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
        // Computed first, so that it is the slot of this tick however long the store takes.
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
