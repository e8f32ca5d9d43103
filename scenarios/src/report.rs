//! A report, which takes a while.

use std::sync::Arc;
use std::time::Duration;

use shedlock::scheduler::Schedule;
use shedlock::{Clock, Executor, LockConfig, Outcome};

use crate::{OwnTimer, ReplicaClock};

/// Writes the report.
pub(crate) async fn write(clock: Arc<ReplicaClock>, takes: Duration) -> anyhow::Result<()> {
    tracing::info!("the report begins");
    clock.sleep_until(clock.now() + takes).await;
    tracing::info!("the report is done");
    Ok(())
}

/// Writes it whenever a timer of our own says so, if the lock is free: for ever.
pub(crate) async fn write_by_own_timer(
    executor: Executor,
    clock: Arc<ReplicaClock>,
    schedule: Schedule,
    takes: Duration,
    config: LockConfig,
    own_timer: OwnTimer,
) -> anyhow::Result<()> {
    let executor = executor.with_clock(clock.clone());
    let mut tick = clock.system_time();
    while let Some(next) = schedule.next_after(tick) {
        tick = next.instant();
        let left = tick.duration_since(clock.system_time()).unwrap_or_default();
        clock.sleep_until(clock.now() + left).await;
        let now = clock.system_time();
        let config = match own_timer {
            OwnTimer::WithoutSlot => config.clone(),
            // Whatever woke us, and however late: this names the tick that is meant.
            OwnTimer::WithSlot => match schedule.slot_at(now, Duration::from_millis(500)) {
                Some(slot) => config.clone().slot(slot),
                None => config.clone(),
            },
        };
        match executor
            .execute(&config, write(clock.clone(), takes))
            .await?
        {
            Outcome::Executed { value, .. } => value?,
            Outcome::Skipped(skip) => tracing::info!("skipped: {skip}"),
            Outcome::Lost { reason, .. } => tracing::warn!("lost: {reason}"),
            _ => {}
        }
    }
    Ok(())
}
