//! A service with two scheduled jobs. Start as many replicas as you like: each tick runs once.
//!
//! ```sh
//! cargo run -p example-scheduler                                   # locks in ./locks.db
//! SHEDLOCK_STORE=postgres://app@db/app cargo run -p example-scheduler
//! ```
//!
//! Ctrl-c or SIGTERM ends it. Running jobs have ten seconds to finish.

#![allow(clippy::print_stdout, reason = "an example says what it does")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shedlock::scheduler::{JobRun, Scheduler, shutdown_signal};
use shedlock::{Executor, scheduled, scheduler_lock};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Stands for what a real service would have: a pool, a client.
#[derive(Default)]
struct Mailer {
    sent: AtomicU64,
}

/// Runs every second, on one of the replicas.
#[scheduled(cron = "* * * * * *", zone = "Asia/Seoul", late = "30s")]
#[scheduler_lock(name = "mails", lock_at_most_for = "30s")]
async fn send_mails(mailer: Arc<Mailer>, run: JobRun) -> Result<(), Error> {
    let slot = run.slot().ok_or("cron gives every run a slot")?;
    let sent = mailer.sent.fetch_add(1, Ordering::Relaxed) + 1;
    println!("mails of {slot}: {sent} sent by {}", std::process::id());
    Ok(())
}

/// Blocking code, which runs on a thread for blocking tasks.
#[scheduled(every = "1h", jitter = "5m", run_at_start)]
#[scheduler_lock(name = "clean", lock_at_most_for = "50m")]
fn clean_up() -> Result<(), Error> {
    println!("cleaned up by {}", std::process::id());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let store = std::env::var("SHEDLOCK_STORE").unwrap_or_else(|_| "sqlite:locks.db".to_owned());
    let provider = shedlock::connect(&store).await?;
    provider.migrate().await?;

    let scheduler = Scheduler::new(Executor::new(provider))
        .job(send_mails::job(Arc::default()))
        .job(clean_up::job())
        .start()?;
    println!("up: {}", std::process::id());
    shutdown_signal().await?;
    let report = scheduler.shutdown(Duration::from_secs(10)).await?;
    println!("cut short: {}", report.cut.len());
    Ok(())
}
