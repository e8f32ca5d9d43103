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
    /// When, as a cron expression.
    #[arg(long, default_value = "0 */10 * * * *")]
    cron: String,
    /// How long the report takes.
    #[arg(long, value_parser = parse_duration)]
    takes: Duration,
    /// The lock's longest life.
    #[arg(long, default_value = "10m", value_parser = parse_duration)]
    lock_at_most_for: Duration,
    /// The lock's shortest life.
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    lock_at_least_for: Duration,
    /// A run that fails, dies or is cut is taken over.
    #[arg(long)]
    must_not_be_lost: bool,
    /// Also when the replica starts, if nobody has written the last one.
    #[arg(long)]
    run_at_start: bool,
    /// Fired by a timer of the program's own instead of the scheduler.
    #[arg(long, value_enum)]
    pub(crate) own_timer: Option<OwnTimer>,
}

/// What a timer of the program's own tells the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OwnTimer {
    /// Nothing: there is only the lock between the replicas.
    WithoutSlot,
    /// The slot that the run belongs to.
    WithSlot,
}

impl Report {
    /// For the scheduler.
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

    /// Whenever a timer of our own says so, if the lock is free: for ever.
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
                // Whatever woke us, and however late: this names the tick that is meant.
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
