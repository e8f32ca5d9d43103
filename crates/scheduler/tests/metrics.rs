//! Tests what the observer of ticks counts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use common::{Node, alone, block_on, every, lock, millis, secs};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use shedlock_scheduler::{Job, LatePolicy, MetricsObserver};

/// The value of each metric, by its name and outcome.
fn meters(recorder: &DebuggingRecorder) -> BTreeMap<(String, String), DebugValue> {
    let snapshot = recorder.snapshotter().snapshot().into_vec();
    let named = snapshot.into_iter().map(|(key, _, _, value)| {
        let (_, key) = key.into_parts();
        let label = |name| {
            let found = key.labels().find(|label| label.key() == name);
            found.map_or(String::new(), |label| label.value().to_owned())
        };
        assert_eq!(label("job.name"), "job");
        ((key.name().to_owned(), label("outcome")), value)
    });
    named.collect()
}

#[test]
fn every_end_of_a_tick_is_counted_and_runs_report_how_late_they_were() {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        block_on(async {
            MetricsObserver::describe();
            let (world, log, first) = alone();
            let second = Node::new(&world, 1, &log);
            // Its timers are late, so the other node takes every slot.
            second.clock.set_timer_lateness(|_| millis(50));
            let tries = AtomicU32::new(0);
            let job = Job::new(lock("10m"), every(10), move |_run| {
                let number = tries.fetch_add(1, Ordering::Relaxed);
                async move {
                    match number {
                        0 => Ok(()),
                        1 => Err("no paper"),
                        _ => panic!("on purpose"),
                    }
                }
            });
            let others = second.job(lock("10m"), every(10), secs(1));
            for (node, job) in [(&first, job), (&second, others.late(LatePolicy::Skip))] {
                let scheduler = node.scheduler([job]);
                let scheduler = scheduler.observer(Arc::new(MetricsObserver));
                scheduler.start().unwrap();
            }
            world.run_until(secs(25)).await;
        });
    });
    let meters = meters(&recorder);
    let ticks = |outcome: &str| &meters[&("shedlock.scheduler.ticks".into(), outcome.into())];
    // Six slots: from half a minute before midnight, when both started, to 00:00:20.
    assert_eq!(ticks("taken"), &DebugValue::Counter(6));
    assert_eq!(ticks("ran"), &DebugValue::Counter(1));
    assert_eq!(ticks("failed"), &DebugValue::Counter(1));
    assert_eq!(ticks("panicked"), &DebugValue::Counter(4));
    let lateness = &meters[&("shedlock.scheduler.lateness".into(), String::new())];
    assert_eq!(
        lateness,
        &DebugValue::Histogram(vec![0.0.into(), 0.0.into()])
    );
}
