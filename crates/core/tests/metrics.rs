//! Tests what the metrics listener counts.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{Fault, bench, config, secs};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use shedlock_core::{Clock, MetricsListener, Slot};

#[test]
fn everything_that_happens_is_counted_under_shedlocks_names() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let bench = bench();
            let executor = bench.executor.clone().listener(Arc::new(MetricsListener));
            let slot = Slot::at(bench.clock.system_time() - secs(3)).unwrap();
            let slotted = config("a").slot(slot);
            assert!(
                executor
                    .execute(&slotted, async {})
                    .await
                    .unwrap()
                    .is_executed()
            );
            assert!(
                executor
                    .execute(&slotted, async {})
                    .await
                    .unwrap()
                    .is_skipped()
            );
            let clock = bench.clock.clone();
            let late = async { clock.advance(secs(60)) };
            assert!(
                executor
                    .execute(&config("a"), late)
                    .await
                    .unwrap()
                    .is_lost()
            );
            bench.faulty.next([Fault::Unavailable]);
            executor.execute(&config("a"), async {}).await.unwrap_err();
        });
    });
    let meters: BTreeMap<String, DebugValue> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .map(|(key, _, _, value)| {
            let (_, key) = key.into_parts();
            let label = key.labels().next().expect("a label");
            assert_eq!((label.key(), label.value()), ("lock.name", "a"));
            (key.name().to_owned(), value)
        })
        .collect();
    let counter = |name: &str| match &meters[name] {
        DebugValue::Counter(count) => *count,
        other => panic!("{name} is {other:?}"),
    };
    assert_eq!(counter("shedlock.lock.attempts"), 4);
    assert_eq!(counter("shedlock.lock.acquired"), 2);
    assert_eq!(counter("shedlock.lock.not.acquired"), 1);
    assert_eq!(counter("shedlock.lock.slot.skipped"), 1);
    assert_eq!(counter("shedlock.lock.lost"), 1);
    assert_eq!(counter("shedlock.store.errors"), 1);
    assert!(meters.contains_key("shedlock.execution.ended"));
    assert_eq!(
        meters["shedlock.execution.active"],
        DebugValue::Gauge(0.0.into())
    );
    let lateness = DebugValue::Histogram(vec![3.0.into()]);
    assert_eq!(meters["shedlock.slot.lateness"], lateness);
    let durations = DebugValue::Histogram(vec![0.0.into(), 60.0.into()]);
    assert_eq!(meters["shedlock.execution.duration"], durations);
}
