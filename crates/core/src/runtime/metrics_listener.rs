//! Metrics under ShedLock's names.

use ::metrics::{
    Counter, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::contract::{Event, Listener, SkipReason};

/// Counts what happens to locks, through the `metrics` facade. Install the recorder of your choice
/// (Prometheus, statsd) and pass this listener to
/// [`Executor::listener`](crate::Executor::listener).
///
/// | meter | kind | counts |
/// |---|---|---|
/// | `shedlock.lock.attempts` | counter | attempts; not reentrant runs |
/// | `shedlock.lock.acquired` | counter | locks taken |
/// | `shedlock.lock.not.acquired` | counter | skips, for whatever reason, and attempts that are followed by another (`lock_wait`) |
/// | `shedlock.execution.duration` | histogram, seconds | run time of each task that ended, for whatever reason |
/// | `shedlock.execution.ended` | counter | tasks that ended, by `outcome`: `succeeded`, `failed`, `lost`, `panicked` or `cancelled` |
/// | `shedlock.execution.slow` | counter | runs that took more of their time limit than they should have ([`Executor::slow_run`](crate::Executor::slow_run)) |
/// | `shedlock.execution.active` | gauge | tasks that are running |
/// | `shedlock.lock.slot.skipped` | counter | skips because the slot was taken |
/// | `shedlock.slot.given.up` | counter | slots that must not be lost whose last attempt failed here, and skips because all attempts at the slot were made |
/// | `shedlock.slot.blocked` | counter | skips because the last slot taken is ahead of the store's clock or of this host's |
/// | `shedlock.lock.lost` | counter | leases that ended before their task |
/// | `shedlock.store.errors` | counter | calls to the store that failed; one attempt may count several |
/// | `shedlock.journal.dropped` | counter | entries that a `JournalWriter` dropped; without labels |
/// | `shedlock.slot.lateness` | histogram, seconds | from the slot's instant to the acquisition, by the store's clock |
///
/// The attempts, the two results of an attempt, `shedlock.execution.duration` and
/// `shedlock.execution.active` are ShedLock's. Durations are in seconds. Exporters convert the dots of names to
/// what their format allows (`shedlock_lock_attempts` in Prometheus). Micrometer, on Java's side, also appends `_total`
/// to counters and `_seconds` to durations, so a panel for both names both. Set buckets for the histograms in the
/// exporter (`PrometheusBuilder::set_buckets`): its default, quantiles, takes about a megabyte of memory per job, and
/// quantiles of several replicas cannot be added up. Each metric carries the lock's
/// name in the label `lock.name`. For names that are computed, it is the template of the name
/// ([`LockConfig::job`](crate::LockConfig::job)): otherwise each tenant or file would create time
/// series of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetricsListener;

impl MetricsListener {
    /// Registers the descriptions and units of the metrics with the recorder. Call it once, after
    /// the recorder was installed.
    pub fn describe() {
        let counters = [
            ("shedlock.lock.attempts", "Attempts to take a lock"),
            ("shedlock.lock.acquired", "Locks taken"),
            (
                "shedlock.lock.not.acquired",
                "Attempts that found the lock or its slot taken",
            ),
            (
                "shedlock.lock.slot.skipped",
                "Skips because the slot was taken",
            ),
            (
                "shedlock.slot.given.up",
                "Slots given up, although they must not be lost",
            ),
            (
                "shedlock.slot.blocked",
                "Skips because the last slot taken is ahead of the store's clock or of this host's",
            ),
            (
                "shedlock.lock.lost",
                "Leases that ended, or may have ended, before their task",
            ),
            (
                "shedlock.execution.ended",
                "Tasks under a lock that ended, by outcome",
            ),
            (
                "shedlock.execution.slow",
                "Runs that came close to their time limit",
            ),
            ("shedlock.store.errors", "Calls to the store that failed"),
            (
                "shedlock.journal.dropped",
                "Entries that could not be written to the journal",
            ),
        ];
        for (name, meaning) in counters {
            describe_counter!(name, Unit::Count, meaning);
        }
        describe_gauge!(
            "shedlock.execution.active",
            Unit::Count,
            "Tasks running under a lock"
        );
        describe_histogram!(
            "shedlock.execution.duration",
            Unit::Seconds,
            "Run time of tasks under a lock"
        );
        describe_histogram!(
            "shedlock.slot.lateness",
            Unit::Seconds,
            "Time from a slot's instant to its acquisition, by the store's clock"
        );
    }
}

impl Listener for MetricsListener {
    fn on_event(&self, event: &Event<'_>) {
        let job = event.job();
        let count = |meter: &'static str| {
            let counter: Counter = counter!(meter, "lock.name" => job.to_owned());
            counter.increment(1);
        };
        match event {
            Event::Attempt { .. } => count("shedlock.lock.attempts"),
            Event::Acquired { lease } => {
                count("shedlock.lock.acquired");
                if let (Some(slot), Some(acquired)) = (lease.slot(), lease.acquired_at()) {
                    let late = acquired.duration_since(slot.instant()).unwrap_or_default();
                    histogram!("shedlock.slot.lateness", "lock.name" => job.to_owned())
                        .record(late.as_secs_f64());
                }
            }
            Event::Skipped { skip, .. } => {
                count("shedlock.lock.not.acquired");
                match skip.reason {
                    SkipReason::SlotTaken => count("shedlock.lock.slot.skipped"),
                    SkipReason::LastSlotAhead | SkipReason::ClockBehind => {
                        count("shedlock.slot.blocked");
                    }
                    _ => {}
                }
            }
            Event::SlotGivenUp { .. } => count("shedlock.slot.given.up"),
            // One attempt of several. Each is counted.
            Event::Waiting { .. } => count("shedlock.lock.not.acquired"),
            Event::TaskStarted { .. } => {
                gauge!("shedlock.execution.active", "lock.name" => job.to_owned()).increment(1);
            }
            Event::TaskFinished { ran_for, end, .. } => {
                gauge!("shedlock.execution.active", "lock.name" => job.to_owned()).decrement(1);
                histogram!("shedlock.execution.duration", "lock.name" => job.to_owned())
                    .record(ran_for.as_secs_f64());
                let end = end.as_str();
                counter!("shedlock.execution.ended", "lock.name" => job.to_owned(), "outcome" => end)
                    .increment(1);
            }
            Event::SlowRun { .. } => count("shedlock.execution.slow"),
            Event::Lost { .. } => count("shedlock.lock.lost"),
            Event::StoreError { .. } => count("shedlock.store.errors"),
            _ => {}
        }
    }
}
