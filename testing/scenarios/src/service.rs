//! The lifetime of a replica.

use std::sync::Arc;
use std::time::Duration;

use shedlock::Executor;
use shedlock::scheduler::{Job, Scheduler, shutdown_signal};

use crate::args::{Args, Task};
use crate::clock::ReplicaClock;
use crate::{Database, log};

/// What the jobs of a replica share.
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) clock: Arc<ReplicaClock>,
    pub(crate) database: Database,
    pub(crate) executor: Executor,
}

/// Runs a replica until it receives SIGTERM.
///
/// # Errors
/// If it cannot start, or if the store fails while it starts.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let clock = args.clock();
    log::start(&args.name, &clock);
    let clock = Arc::new(clock);
    let provider = shedlock::connect(&args.database).await?;
    provider.migrate().await?;
    let service = Service {
        name: args.name,
        database: Database::connect(&args.database).await?,
        executor: Executor::new(provider).clock(clock.clone()),
        clock,
    };
    match args.task {
        Task::Subscriptions(task) => service.schedule(task.job(&service)?, args.grace).await,
        Task::Outbox(task) => service.schedule(task.job(&service)?, args.grace).await,
        Task::Report(task) if task.own_timer.is_some() => {
            tracing::info!(pid = std::process::id(), "ready");
            tokio::select! {
                told = shutdown_signal() => Ok(told?),
                ended = task.write_by_own_timer(&service) => ended,
            }
        }
        Task::Report(task) => service.schedule(task.job(&service)?, args.grace).await,
    }
}

impl Service {
    /// Runs a job by its schedule until the process receives SIGTERM, and logs the outcome of the
    /// run in progress at that time.
    async fn schedule(&self, job: Job, grace: Duration) -> anyhow::Result<()> {
        let scheduler = Scheduler::new(self.executor.clone()).clock(self.clock.clone());
        let handle = scheduler.job(job).start()?;
        tracing::info!(pid = std::process::id(), "ready");
        shutdown_signal().await?;
        tracing::info!("shutdown signal received");
        let report = handle.shutdown(grace).await?;
        for run in &report.finished {
            tracing::info!(job = run.job, unlocked = run.unlocked, "finished in time");
        }
        for run in &report.cut {
            tracing::warn!(job = run.job, unlocked = run.unlocked, "was cut");
        }
        Ok(())
    }
}
