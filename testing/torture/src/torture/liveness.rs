//! Checks that all workers make progress once there are no faults.

use std::time::Duration;

use shedlock_conformance::Stop;
use shedlock_conformance::wait::{PATIENCE, now, sleep};

use crate::worker_pool::WorkerPool;

/// Waits until every worker got a reply and every lock was acquired again; returns how long that
/// took.
pub(super) async fn goes_on(
    worker_pool: &mut WorkerPool,
    names: &[&str],
) -> Result<Duration, Stop> {
    worker_pool.read_logs()?;
    let answers = worker_pool.answers();
    let taken = worker_pool.heard.by_name.clone();
    let started = now();
    loop {
        let silent: Vec<usize> = (0..answers.len())
            // A process of ShedLock that was just replaced is still starting, with its own time
            // limit.
            .filter(|number| worker_pool.has_begun(*number))
            .filter(|number| worker_pool.answers()[*number] == answers[*number])
            .collect();
        let kept: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| worker_pool.heard.by_name.get(*name) == taken.get(*name))
            .collect();
        let after = now().saturating_since(started);
        if silent.is_empty() && kept.is_empty() {
            return Ok(after);
        }
        if after > PATIENCE {
            worker_pool.keep_logs();
            return Err(Stop::failed(format!(
                "the store is up, the network works and no process is stopped, but for \
                 {PATIENCE:?} workers {silent:?} got no reply and locks {kept:?} were not taken; \
                 logs in {} ({})",
                worker_pool.logs().display(),
                worker_pool.seed
            )));
        }
        sleep(Duration::from_millis(20)).await;
        worker_pool.read_logs()?;
        worker_pool.all_run().await?;
    }
}
