//! One replica. Start several of them on the same database:
//!
//! ```sh
//! cargo run -p example-tokio-cron-scheduler -- postgres://app@localhost/app
//! ```

use chrono_tz::Tz;
use example_tokio_cron_scheduler::add_job;
use shedlock::{Executor, LockConfig};
use tokio_cron_scheduler::JobScheduler;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().init();
    let url = std::env::args().nth(1);
    let url =
        url.ok_or_else(|| anyhow::anyhow!("give the URL of a store that all replicas share"))?;
    let provider = shedlock::connect(&url).await?;
    provider.migrate().await?;

    let mut scheduler = JobScheduler::new().await?;
    add_job(
        &scheduler,
        &Executor::new(provider),
        // If the previous tick's run takes a little longer, this one waits for it.
        LockConfig::new("mails")
            .lock_at_most_for("1m")
            .lock_wait("5s"),
        ("*/10 * * * * *", Tz::Asia__Seoul),
        || async { tracing::info!("sending mails") },
    )
    .await?;
    scheduler.start().await?;
    tokio::signal::ctrl_c().await?;
    scheduler.shutdown().await?;
    Ok(())
}
