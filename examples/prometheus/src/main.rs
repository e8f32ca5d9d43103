//! A service that exports metrics of its locks and jobs to Prometheus.
//!
//! ```sh
//! cargo run -p example-prometheus &
//! curl http://127.0.0.1:9464/metrics
//! ```
//!
//! You can use any other recorder of the crate `metrics` instead of this one.

#![allow(clippy::print_stdout, reason = "an example says what it does")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use shedlock::scheduler::{MetricsObserver, Scheduler, shutdown_signal};
use shedlock::{Executor, MetricsListener, scheduled, scheduler_lock};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[scheduled(every = "1s")]
#[scheduler_lock(name = "mails", lock_at_most_for = "30s")]
async fn send_mails() -> Result<(), Error> {
    println!("mails sent by {}", std::process::id());
    Ok(())
}

/// The buckets of durations: how long tasks run, and how late slots start.
const SECONDS: [f64; 7] = [0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0];

#[tokio::main]
async fn main() -> Result<(), Error> {
    let address: SocketAddr = match std::env::var("METRICS_ADDRESS") {
        Ok(address) => address.parse()?,
        Err(_) => ([127, 0, 0, 1], 9464).into(),
    };
    // Installs the recorder of the process, and serves its metrics at this address.
    PrometheusBuilder::new()
        .with_http_listener(address)
        // Without buckets the exporter keeps quantiles, which take about a megabyte per job and cannot be added up over
        // replicas.
        .set_buckets(&SECONDS)?
        .install()?;
    MetricsListener::describe();
    MetricsObserver::describe();

    let store = std::env::var("SHEDLOCK_STORE").unwrap_or_else(|_| "sqlite:locks.db".to_owned());
    let provider = shedlock::connect(&store).await?;
    provider.migrate().await?;
    // The listener records events of locks, the observer records how ticks end.
    let executor = Executor::new(provider).listener(Arc::new(MetricsListener));
    let scheduler = Scheduler::new(executor)
        .observer(Arc::new(MetricsObserver))
        .job(send_mails::job())
        .start()?;
    println!("metrics at http://{address}/metrics");
    shutdown_signal().await?;
    scheduler.shutdown(Duration::from_secs(10)).await?;
    Ok(())
}
