//! The alerts, end to end: replicas with a scheduler over a store with a journal, and a real
//! Prometheus that scrapes them and evaluates the rules of `docs/alerts`.
//!
//! Nothing here depends on how fast the machine is: each step waits for what Prometheus reports.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod prometheus;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use shedlock::{Executor, LockName, LockProvider, PauseRequest, Paused};
use shedlock_rig::Running;
use shedlock_rig::wait::{PATIENCE, eventually};
use tempfile::TempDir;

use prometheus::Prometheus;

struct Replica {
    _process: Running,
    address: String,
}

impl Replica {
    fn start(store: &str, jobs: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_alerts-replica"));
        command.arg(store).args(jobs);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = Running::start(&mut command).unwrap();
        let address = process.output.next(PATIENCE).unwrap();
        Self {
            _process: process,
            address: address.expect("it did not start"),
        }
    }
}

/// The replicas of a service, and the file in which Prometheus finds them.
struct Service {
    store: String,
    targets: PathBuf,
    replicas: Vec<Replica>,
}

impl Service {
    /// Replaces all replicas by two new ones.
    fn deploy(&mut self, jobs: &[&str]) {
        self.replicas.clear();
        let replica = |_| Replica::start(&self.store, jobs);
        self.replicas = (0..2).map(replica).collect();
        let addresses = self.replicas.iter().map(|it| &*it.address);
        let targets: Vec<&str> = addresses.collect();
        let groups = serde_json::json!([{ "targets": targets }]);
        // In one step, because Prometheus watches the file.
        let new = self.targets.with_extension("new");
        fs::write(&new, groups.to_string()).unwrap();
        fs::rename(&new, &self.targets).unwrap();
    }
}

async fn store_with_journal(store: &str) -> Arc<dyn LockProvider> {
    let provider = shedlock::connect(store).await.unwrap();
    provider.migrate().await.unwrap();
    let journal = provider.journal().unwrap();
    journal.migrate().await.unwrap();
    provider
}

fn overdue(job: &str) -> String {
    format!("ALERTS{{alertname=\"ShedlockJobOverdue\",job_name=\"{job}\",alertstate=\"firing\"}}")
}

#[tokio::test]
async fn alerts_are_raised_for_jobs_that_do_not_succeed_and_for_no_others() {
    let folder = TempDir::new().unwrap();
    let store = format!("sqlite:{}", folder.path().join("locks.db").display());
    let provider = store_with_journal(&store).await;
    let mut service = Service {
        store,
        targets: folder.path().join("targets.json"),
        replicas: Vec::new(),
    };
    let good = [
        "steady=succeeds",
        "breaks=succeeds",
        "never=fails",
        "pausing=succeeds",
    ];
    service.deploy(&good);
    let prometheus = Prometheus::start(folder.path(), &service.targets);
    for job in ["steady", "breaks", "pausing"] {
        let success = format!("shedlock_job_last_success_timestamp_seconds{{job_name=\"{job}\"}}");
        eventually(&success, || prometheus.has(&success));
    }

    // A job that never succeeded since it was registered.
    eventually("never", || prometheus.has(&overdue("never")));
    let never = "shedlock_job_last_success_timestamp_seconds{job_name=\"never\"}";
    assert!(!prometheus.has(never));

    // A job that keeps failing while its replicas are replaced again and again.
    let bad = [
        "steady=succeeds",
        "breaks=fails",
        "never=fails",
        "pausing=succeeds",
    ];
    let mut deployments = 0;
    eventually("breaks", || {
        service.deploy(&bad);
        deployments += 1;
        // Until one of the new replicas has run it.
        let failures = "shedlock_job_last_failure_timestamp_seconds{job_name=\"breaks\"}";
        let instances = service.replicas.iter().map(|it| &*it.address);
        let instance = instances.collect::<Vec<_>>().join("|");
        let seen = format!("{failures} and on (instance) up{{instance=~\"{instance}\"}} == 1");
        eventually("a failure", || prometheus.has(&seen));
        deployments >= 3 && prometheus.has(&overdue("breaks"))
    });
    let failing =
        "ALERTS{alertname=\"ShedlockJobFailing\",job_name=\"breaks\",alertstate=\"firing\"}";
    eventually("failing", || prometheus.has(failing));
    // The others are in time, as soon as the new replicas have run them.
    for job in ["steady", "pausing"] {
        eventually(job, || !prometheus.has(&overdue(job)));
    }

    // Every replica is gone. Only the job that was paused before may stay silent.
    let pause = PauseRequest::new(LockName::new("pausing").unwrap(), "alice");
    let executor = Executor::new(provider);
    let paused = executor.pause(&pause, PATIENCE).await.unwrap();
    assert!(matches!(paused, Paused::Done { .. }), "{paused:?}");
    let paused = "store_job_name:shedlock_job_paused:newest{job_name=\"pausing\"} == 1";
    eventually("pausing", || {
        prometheus.has(paused) && !prometheus.has(&overdue("pausing"))
    });
    let since = prometheus.now();
    service.replicas.clear();
    eventually("steady", || prometheus.has(&overdue("steady")));
    let absent = "ALERTS{alertname=\"ShedlockMetricsAbsent\",alertstate=\"firing\"}";
    eventually("absent", || prometheus.has(absent));
    assert!(!prometheus.has(&overdue("pausing")));
    let range = (prometheus.now() - since).max(1.0).ceil();
    let raised = format!("count_over_time({}[{range}s])", overdue("pausing"));
    assert!(!prometheus.has(&raised));

    // And the alerts end once the jobs run again.
    service.deploy(&good);
    for job in ["steady", "breaks"] {
        eventually(job, || !prometheus.has(&overdue(job)));
    }
    eventually("present", || !prometheus.has(absent));
    assert!(!prometheus.has(&overdue("pausing")));
}
