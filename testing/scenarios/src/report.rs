//! A report, which takes a while.

use std::sync::Arc;
use std::time::Duration;

use shedlock::scheduler::{Job, Schedule};
use shedlock::{Clock, Completion, LockConfig, Outcome, current_lock, parse_duration};

use crate::clock::ReplicaClock;
use crate::service::Service;

/// Writes a report, which takes a while.
#[derive(Debug, clap::Args)]
pub(crate) struct Report {
    /// When the report is due, as a cron expression.
    #[arg(long, default_value = "0 */10 * * * *")]
    cron: String,
    /// How long the report takes.
    #[arg(long, value_parser = parse_duration)]
    takes: Duration,
    /// The lock's lock-at-most-for.
    #[arg(long, default_value = "10m", value_parser = parse_duration)]
    lock_at_most_for: Duration,
    /// The lock's lock-at-least-for.
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    lock_at_least_for: Duration,
    /// Take over a run that fails, dies or is cut.
    #[arg(long)]
    must_not_be_lost: bool,
    /// Also run when the replica starts, if no replica has written the last report.
    #[arg(long)]
    run_at_start: bool,
    /// Use the program's own timer instead of the scheduler.
    #[arg(long, value_enum)]
    pub(crate) own_timer: Option<OwnTimer>,
}

/// What the program's own timer passes to the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OwnTimer {
    /// Nothing: only the lock coordinates the replicas.
    WithoutSlot,
    /// The slot that the run belongs to.
    WithSlot,
}

impl Report {
    /// Creates the job for the scheduler.
    pub(crate) fn job(self, service: &Service) -> anyhow::Result<Job> {
        let (clock, takes) = (service.clock.clone(), self.takes);
        let job = Job::new(self.lock(), Schedule::cron(&self.cron)?, move |_run| {
            write(clock.clone(), takes)
        });
        Ok(if self.run_at_start {
            job.run_at_start()
        } else {
            job
        })
    }

    /// Writes the report whenever the program's own timer fires and the lock is free, forever.
    pub(crate) async fn write_by_own_timer(self, service: &Service) -> anyhow::Result<()> {
        let clock = &service.clock;
        let schedule = Schedule::cron(&self.cron)?;
        let mut tick = clock.system_time();
        while let Some(next) = schedule.next_after(tick) {
            tick = next.instant();
            let left = tick.duration_since(clock.system_time()).unwrap_or_default();
            clock.sleep_until(clock.now() + left).await;

            let mut lock = self.lock();
            if self.own_timer == Some(OwnTimer::WithSlot) {
                // Determines the tick that is meant, however late the timer fires.
                let slot = schedule.slot_at(clock.system_time(), Duration::from_millis(500));
                lock = slot.map_or(lock.clone(), |slot| lock.slot(slot));
            }
            let task = write(clock.clone(), self.takes);
            match service.executor.execute(&lock, task).await? {
                Outcome::Executed { value, .. } => value?,
                Outcome::Skipped(skip) => tracing::info!("skipped: {skip}"),
                Outcome::Lost { reason, .. } => tracing::warn!("lost: {reason}"),
                _ => {}
            }
        }
        Ok(())
    }

    fn lock(&self) -> LockConfig {
        let lock = LockConfig::new("report")
            .lock_at_most_for(self.lock_at_most_for)
            .lock_at_least_for(self.lock_at_least_for);
        if self.must_not_be_lost {
            lock.completion(Completion::on_success())
        } else {
            lock
        }
    }
}

async fn write(clock: Arc<ReplicaClock>, takes: Duration) -> anyhow::Result<()> {
    let attempt = current_lock().and_then(|lock| lock.slot_attempt());
    tracing::info!(attempt, "the report begins");
    clock.sleep_until(clock.now() + takes).await;
    tracing::info!("the report is done");
    Ok(())
}
