//! A server that is killed and started again, under load.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use shedlock::{Executor, LockConfig, Outcome};

use crate::Load;
use crate::part::{AT_MOST, Place, Samples, Workers, note, nothing_is_held};

const WORKERS: usize = 8;

/// Workers whose tasks outlive a restart.
const KEPT_ALIVE: usize = 8;

/// From one restart to the next.
const BETWEEN: Duration = Duration::from_secs(15);

pub(super) async fn run(place: &Place, load: Load) -> anyhow::Result<()> {
    let server = place.server.clone().context("this store has no server")?;
    let executor = Executor::new(place.provider().await?);
    let mut workers = Workers::default();
    for nth in 0..WORKERS + KEPT_ALIVE {
        let is_kept = nth >= WORKERS;
        let config = LockConfig::new(format!("restart-{nth}"));
        let (config, lasts) = match is_kept {
            true => (
                config
                    .lock_at_most_for(Duration::from_secs(10))
                    .keep_alive(),
                20_000,
            ),
            false => (config.lock_at_most_for(AT_MOST), 5),
        };
        let executor = executor.clone();
        workers.add(Duration::from_millis(50), move || {
            let (executor, config) = (executor.clone(), config.clone());
            async move {
                let task = tokio::time::sleep(Duration::from_millis(lasts));
                // Errors are what a restart brings.
                let _: Result<Outcome<()>, _> = executor.execute(&config, task).await;
                Ok(())
            }
        });
    }
    let (mut restarts, mut last) = (0, Instant::now());
    let mut samples = Samples::new(load);
    while samples.next().await {
        workers.check()?;
        samples.add_own()?;
        if last.elapsed() >= BETWEEN {
            let server = server.clone();
            let restarted = tokio::task::spawn_blocking(move || {
                server.kill().and_then(|()| server.start_again())
            });
            restarted.await?.map_err(anyhow::Error::from_boxed)?;
            (restarts, last) = (restarts + 1, Instant::now());
        }
    }
    let runs = workers.stop().await?;
    nothing_is_held(&executor).await?;
    note(&format!("{restarts} restarts, {runs} attempts"));
    Ok(())
}
