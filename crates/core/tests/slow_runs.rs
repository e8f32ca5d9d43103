//! Tests that runs which come close to their time limit are reported.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{bench, config, secs};
use shedlock_core::{Event, Executor, Listener, LockConfig, ManualClock, extend_current};

/// The slow runs.
#[derive(Clone, Debug, Default)]
struct Slow(Arc<Mutex<Vec<Duration>>>);

impl Listener for Slow {
    fn on_event(&self, event: &Event<'_>) {
        if let Event::SlowRun { ran_for, lease, .. } = event {
            assert_eq!((lease.name().as_str(), event.job()), ("a", "a"));
            self.0.lock().unwrap().push(*ran_for);
        }
    }
}

impl Slow {
    fn take(&self) -> Vec<Duration> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

async fn run(executor: &Executor, config: &LockConfig, clock: &ManualClock, lasts: u64) {
    let task = async { clock.advance(secs(lasts)) };
    let outcome = executor.execute(config, task).await.unwrap();
    assert!(!outcome.is_skipped());
}

#[tokio::test]
async fn a_run_that_takes_three_quarters_of_its_limit_is_slow() {
    let bench = bench();
    let slow = Slow::default();
    let executor = bench.executor.clone().listener(Arc::new(slow.clone()));
    let config = config("a").lock_at_most_for("100s");
    let clock = &bench.clock;
    run(&executor, &config, clock, 74).await;
    assert_eq!(slow.take(), []);
    run(&executor, &config, clock, 75).await;
    assert_eq!(slow.take(), [secs(75)]);
    // A lost run is reported as lost.
    run(&executor, &config, clock, 101).await;
    assert_eq!(slow.take(), []);

    let patient = executor.clone().slow_run(0.9);
    run(&patient, &config, clock, 89).await;
    assert_eq!(slow.take(), []);
    run(&patient, &config, clock, 90).await;
    assert_eq!(slow.take(), [secs(90)]);
    run(&executor.clone().slow_run(1.0), &config, clock, 98).await;
    assert_eq!(slow.take(), []);

    // A lease that the task extends itself.
    let extended = executor.execute(&config, async {
        clock.advance(secs(60));
        extend_current("100s").await.unwrap();
        clock.advance(secs(60));
    });
    assert!(extended.await.unwrap().is_executed());
    assert_eq!(slow.take(), []);

    // The shorter limit counts.
    let bounded = config.clone().max_run_time("40s");
    run(&executor, &bounded, clock, 30).await;
    assert_eq!(slow.take(), [secs(30)]);
}

#[tokio::test]
async fn a_lease_that_is_kept_alive_is_no_limit() {
    let bench = bench();
    let slow = Slow::default();
    let executor = bench.executor.clone().listener(Arc::new(slow.clone()));
    let kept = config("a").lock_at_most_for("100s").keep_alive();
    run(&executor, &kept, &bench.clock, 90).await;
    assert_eq!(slow.take(), []);
    let bounded = kept.max_run_time("1h");
    run(&executor, &bounded, &bench.clock, 90).await;
    assert_eq!(slow.take(), []);
}
