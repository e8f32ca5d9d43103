//! A replica from its start to its end.

use std::sync::Arc;

use shedlock::scheduler::{Job as ScheduledJob, Schedule, Scheduler, shutdown_signal};
use shedlock::{Executor, LockConfig};

use crate::post::Post;
use crate::{Args, Database, Job, ReplicaClock, log, outbox, report, subscriptions};

/// Runs a replica until it is told to stop.
///
/// # Errors
/// Where it could not start, and where the store failed while it started.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let clock = Arc::new(ReplicaClock {
        behind: args.clock_behind,
        busy: args.busy_from.map(|from| (from.into(), args.busy_for)),
    });
    log::start(&args.name, &clock);
    let provider = shedlock::connect(&args.database).await?;
    provider.migrate().await?;
    let executor = Executor::new(provider);
    let database = Database::connect(&args.database).await?;

    let job = match args.job {
        Job::Subscriptions {
            cron,
            lock_at_most_for,
            smtp,
        } => {
            let post = Post::new(&smtp, &args.name, database.clone(), subscriptions::MARK)?;
            let config = LockConfig::new("subscriptions")
                .lock_at_most_for(lock_at_most_for)
                .keep_alive();
            ScheduledJob::new(config, Schedule::cron(&cron)?, move |_run| {
                let (database, post) = (database.clone(), post.clone());
                async move { subscriptions::remind(&database, &post).await }
            })
        }
        Job::Outbox {
            every,
            lock_at_most_for,
            smtp,
            chunk,
            in_background,
        } => {
            let post = Post::new(&smtp, &args.name, database.clone(), outbox::MARK)?;
            let config = LockConfig::new("outbox")
                .lock_at_most_for(lock_at_most_for)
                .keep_alive();
            ScheduledJob::new(config, Schedule::every(every)?, move |_run| {
                let (database, post) = (database.clone(), post.clone());
                async move {
                    if in_background {
                        outbox::send_behind(&database, &post, chunk).await
                    } else {
                        outbox::send_all(&database, &post, chunk).await
                    }
                }
            })
        }
        Job::Report {
            cron,
            takes,
            lock_at_most_for,
            lock_at_least_for,
            run_at_start,
            own_timer,
        } => {
            let schedule = Schedule::cron(&cron)?;
            let config = LockConfig::new("report")
                .lock_at_most_for(lock_at_most_for)
                .lock_at_least_for(lock_at_least_for);
            if let Some(own_timer) = own_timer {
                tracing::info!(pid = std::process::id(), "ready");
                return tokio::select! {
                    told = shutdown_signal() => Ok(told?),
                    ended = report::write_by_own_timer(
                        executor, clock, schedule, takes, config, own_timer,
                    ) => ended,
                };
            }
            let inside = clock.clone();
            let job = ScheduledJob::new(config, schedule, move |_run| {
                report::write(inside.clone(), takes)
            });
            if run_at_start {
                job.run_at_start()
            } else {
                job
            }
        }
    };

    let handle = Scheduler::new(executor)
        .with_clock(clock)
        .job(job)
        .start()?;
    tracing::info!(pid = std::process::id(), "ready");
    shutdown_signal().await?;
    tracing::info!("told to stop");
    let report = handle.shutdown(args.grace).await?;
    for run in &report.finished {
        tracing::info!(job = run.job, unlocked = run.unlocked, "finished in time");
    }
    for run in &report.cut {
        tracing::warn!(job = run.job, unlocked = run.unlocked, "was cut");
    }
    Ok(())
}
