//! The meters.

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use metrics_util::debugging::DebuggingRecorder;
use shedlock::pings::Healthchecks;
use shedlock::{Executor, LockConfig, MemoryProvider};
use support::{Answer, KEY, PingServer};

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn failures_and_drops_are_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    recorder.install().unwrap();
    let server = PingServer::start();
    server.answer(Answer::Status(404, "not found"));
    let pings = Healthchecks::new()
        .unwrap()
        .checks(&server.checks())
        .unwrap();
    let executor = Executor::new(Arc::new(MemoryProvider::new())).listener(Arc::new(pings.clone()));
    let config = LockConfig::new("report").lock_at_most_for("1m");
    // No ping is sent before the test awaits something else.
    for _ in 0..100 {
        let _ = executor.execute(&config, async {}).await.unwrap();
    }
    pings.flush(LIMIT).await;
    let counted = snapshots.snapshot().into_vec();
    let keys = counted.iter().map(|(key, ..)| format!("{}", key.key()));
    let keys: Vec<String> = keys.collect();
    for meter in ["shedlock.pings.failed", "shedlock.pings.dropped"] {
        assert!(keys.iter().any(|key| key.contains(meter)), "{keys:?}");
    }
    assert!(!keys.iter().any(|key| key.contains(KEY)), "{keys:?}");
}
