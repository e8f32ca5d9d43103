//! Metrics of ticks.

use ::metrics::{Unit, counter, describe_counter, describe_histogram, histogram};

use crate::{MissedReason, Observer, Tick, TickEnd};

/// Counts how ticks end, through the `metrics` facade. Pass it to
/// [`Scheduler::observer`](crate::Scheduler::observer). Events of locks are counted by
/// `MetricsListener`, which you set on the executor.
///
/// | meter | kind | counts |
/// |---|---|---|
/// | `shedlock.scheduler.ticks` | counter | ticks that ended on this node, by `outcome` |
/// | `shedlock.scheduler.lateness` | histogram, seconds | time from when a run was due to its start, for runs that reached their end, by this node's calendar |
/// | `shedlock.scheduler.panics` | counter | panics of the scheduler itself, or of code that it called; never of a task |
///
/// The first two carry the job in the label `job.name`. The `outcome` is one of
/// - `ran`, `failed` (with an error), `lost` (its lease), `panicked`, `cut` (by a shutdown): it
///   started here;
/// - `taken` (another replica has the slot): the normal outcome on all replicas but one;
/// - `given_up` (all attempts at the slot were made, or the last slot taken is ahead of the store's clock:
///   an operator has to act);
/// - `busy` (the lock stayed taken), `store_failed` (until the slot was too late, or the next one due; not for a job that
///   must not be lost, which waits on);
/// - `too_late`, `superseded`, `overlap`, `set_back`, `paused`, `shutdown`: the [`MissedReason`].
///
/// ```
/// use shedlock::{Executor, MemoryProvider, MetricsListener};
/// use shedlock::scheduler::{MetricsObserver, Scheduler};
/// use std::sync::Arc;
/// let executor = Executor::new(Arc::new(MemoryProvider::new()))
///     .listener(Arc::new(MetricsListener));
/// let scheduler = Scheduler::new(executor).observer(Arc::new(MetricsObserver));
/// # drop(scheduler);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct MetricsObserver;

impl MetricsObserver {
    /// Registers the descriptions and units of the metrics with the recorder. Call it once, after
    /// the recorder was installed.
    pub fn describe() {
        describe_counter!(
            "shedlock.scheduler.ticks",
            Unit::Count,
            "Ticks that ended on this node"
        );
        describe_histogram!(
            "shedlock.scheduler.lateness",
            Unit::Seconds,
            "Time from when a run was due to its start"
        );
        describe_counter!(
            "shedlock.scheduler.panics",
            Unit::Count,
            "Panics of the scheduler itself"
        );
    }
}

impl Observer for MetricsObserver {
    fn on_tick(&self, tick: &Tick<'_>) {
        let job = tick.job.to_owned();
        if let TickEnd::Ran { lateness, .. } = tick.end {
            histogram!("shedlock.scheduler.lateness", "job.name" => job.clone())
                .record(lateness.as_secs_f64());
        }
        let outcome = outcome(tick.end);
        counter!("shedlock.scheduler.ticks", "job.name" => job, "outcome" => outcome).increment(1);
    }

    fn on_panic(&self, _: Option<&str>, _: &str) {
        counter!("shedlock.scheduler.panics").increment(1);
    }
}

fn outcome(end: &TickEnd) -> &'static str {
    match end {
        TickEnd::Ran { result: Ok(()), .. } => "ran",
        TickEnd::Ran { .. } => "failed",
        TickEnd::Lost { .. } => "lost",
        TickEnd::Panicked => "panicked",
        TickEnd::Cut { .. } => "cut",
        TickEnd::Taken => "taken",
        TickEnd::GivenUp(_) => "given_up",
        TickEnd::Busy(_) => "busy",
        TickEnd::Failed(_) => "store_failed",
        TickEnd::Missed(MissedReason::TooLate) => "too_late",
        TickEnd::Missed(MissedReason::Superseded) => "superseded",
        TickEnd::Missed(MissedReason::Overlap) => "overlap",
        TickEnd::Missed(MissedReason::SetBack) => "set_back",
        TickEnd::Missed(MissedReason::Paused) => "paused",
        TickEnd::Missed(MissedReason::Shutdown) => "shutdown",
    }
}
