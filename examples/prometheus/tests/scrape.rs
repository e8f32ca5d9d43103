//! Checks what Prometheus scrapes: every metric, with the expected name and value.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, PrometheusBuilder};
use shedlock::scheduler::{Job, MetricsObserver, Schedule, Scheduler};
use shedlock::{
    Attempt, AttemptRequest, BoxFuture, Clock, Error, ErrorKind, Executor, LockConfig,
    LockProvider, ManualClock, MemoryProvider, MetricsListener, Slot, delegate,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Starts the exporter on a free port.
fn export() -> SocketAddr {
    loop {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has ports");
        let address = free.local_addr().expect("it is bound");
        drop(free);
        match PrometheusBuilder::new()
            .with_http_listener(address)
            .install()
        {
            Ok(()) => return address,
            // Another process took the port first.
            Err(BuildError::FailedToCreateHTTPListener(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Returns the response, and the value of each metric by its name and labels.
async fn scrape(address: SocketAddr) -> (String, BTreeMap<String, f64>) {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream
        .write_all(request.as_bytes())
        .await
        .expect("it listens");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .await
        .expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let values = answer
        .lines()
        .filter(|line| line.starts_with("shedlock_"))
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, value)| (name.to_owned(), value.parse().expect("a number")));
    let values = values.collect();
    (answer, values)
}

/// A store that is unavailable.
#[derive(Debug)]
struct Away {
    inner: MemoryProvider,
}

impl LockProvider for Away {
    fn attempt<'a>(&'a self, _: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(async { Err(Error::new(ErrorKind::Unavailable, "the store is away")) })
    }

    delegate!(inner except attempt);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn prometheus_reads_all_meters() {
    let address = export();
    MetricsListener::describe();
    MetricsObserver::describe();
    let clock = ManualClock::new();
    let provider = MemoryProvider::with_clock(Arc::new(clock.clone()));
    let executor = Executor::new(Arc::new(provider))
        .clock(Arc::new(clock.clone()))
        .listener(Arc::new(MetricsListener));
    let report = LockConfig::new("report").lock_at_most_for("10m");

    // A run of 90 s that starts three seconds after its slot, and a second attempt for the same slot.
    let slot = Slot::at(clock.system_time()).expect("it is in the calendar");
    clock.advance(Duration::from_secs(3));
    let slotted = report.clone().slot(slot);
    let run = executor.execute(&slotted, async { clock.advance(Duration::from_secs(90)) });
    assert!(run.await.expect("memory answers").is_executed());
    let again = executor.execute(&slotted, async {}).await;
    assert!(again.expect("memory answers").is_skipped());

    // A lock that is held, and a task that runs longer than its lease.
    let held = executor.lock(&report).await.expect("memory answers");
    let skipped = executor.execute(&report, async {}).await;
    assert!(skipped.expect("memory answers").is_skipped());
    drop(held);
    let long = LockConfig::new("long").lock_at_most_for("10m");
    let lost = executor.execute(&long, async { clock.advance(Duration::from_secs(601)) });
    assert!(lost.await.expect("memory answers").is_lost());

    // A store that cannot be reached.
    let inner = MemoryProvider::new();
    let away = Executor::new(Arc::new(Away { inner }));
    let away = away.listener(Arc::new(MetricsListener));
    let config = LockConfig::new("away").lock_at_most_for("1m");
    let refused = away.execute(&config, async {}).await;
    refused.expect_err("there is no store");

    // A job that runs once, and fails.
    let config = LockConfig::new("job").lock_at_most_for("10m");
    let job = Job::new(config, Schedule::every("1h"), |_run| async {
        Err("no paper")
    });
    let scheduler = Scheduler::new(executor)
        .clock(Arc::new(clock))
        .observer(Arc::new(MetricsObserver))
        .job(job)
        .start()
        .expect("the job is right");
    scheduler.run_now("job").await.expect("it is there");
    let failed = "shedlock_scheduler_ticks{job_name=\"job\",outcome=\"failed\"}";
    let (text, values) = loop {
        let (text, values) = scrape(address).await;
        if values.contains_key(failed) {
            break (text, values);
        }
    };

    let lock = |meter: &str, lock: &str| {
        let name = format!("shedlock_{meter}{{lock_name=\"{lock}\"}}");
        *values
            .get(&name)
            .unwrap_or_else(|| panic!("no {name} in\n{text}"))
    };
    // ShedLock's five meters.
    assert_eq!(lock("lock_attempts", "report"), 4.0);
    assert_eq!(lock("lock_acquired", "report"), 2.0);
    assert_eq!(lock("lock_not_acquired", "report"), 2.0);
    // A lock that is held from its acquisition to its release counts as a task.
    assert_eq!(lock("execution_duration_count", "report"), 2.0);
    assert_eq!(lock("execution_duration_sum", "report"), 90.0);
    assert_eq!(lock("execution_active", "report"), 0.0);
    // Our own meters.
    let ended = |lock: &str, outcome: &str| {
        let name =
            format!("shedlock_execution_ended{{lock_name=\"{lock}\",outcome=\"{outcome}\"}}");
        *values
            .get(&name)
            .unwrap_or_else(|| panic!("no {name} in\n{text}"))
    };
    assert_eq!(ended("report", "succeeded"), 1.0);
    assert_eq!(ended("report", "cancelled"), 1.0);
    assert_eq!(ended("long", "lost"), 1.0);
    assert_eq!(ended("job", "failed"), 1.0);
    assert_eq!(lock("lock_slot_skipped", "report"), 1.0);
    assert_eq!(lock("slot_lateness_sum", "report"), 3.0);
    assert_eq!(lock("lock_lost", "long"), 1.0);
    assert_eq!(lock("execution_duration_sum", "long"), 601.0);
    assert_eq!(lock("store_errors", "away"), 1.0);
    assert_eq!(values[failed], 1.0);
    let lateness = "shedlock_scheduler_lateness_count{job_name=\"job\"}";
    assert_eq!(values[lateness], 1.0);
    for described in [
        "# HELP shedlock_lock_attempts Attempts to take a lock",
        "# TYPE shedlock_lock_attempts counter",
        "# TYPE shedlock_execution_active gauge",
        "# HELP shedlock_scheduler_ticks Ticks that ended on this node",
    ] {
        assert!(text.contains(described), "no {described:?} in\n{text}");
    }
}
