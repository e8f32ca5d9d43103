//! Once all is well, all goes on.

use std::time::Duration;

use crate::Stop;
use crate::troop::Troop;
use crate::wait::{PATIENCE, now, sleep};

/// Waits until every worker was answered and every lock was taken anew; how long that took.
pub(super) async fn goes_on(troop: &mut Troop, names: &[&str]) -> Result<Duration, Stop> {
    troop.read_logs()?;
    let answers = troop.answers();
    let taken = troop.heard.by_name.clone();
    let started = now();
    loop {
        let silent: Vec<usize> = (0..answers.len())
            // A process of ShedLock's that was just replaced is still starting, with a limit of its own.
            .filter(|number| troop.has_begun(*number))
            .filter(|number| troop.answers()[*number] == answers[*number])
            .collect();
        let kept: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| troop.heard.by_name.get(*name) == taken.get(*name))
            .collect();
        let after = now().saturating_since(started);
        if silent.is_empty() && kept.is_empty() {
            return Ok(after);
        }
        if after > PATIENCE {
            troop.keep_logs();
            return Err(Stop::failed(format!(
                "the store is up, the network is whole and no process is stopped, but in {PATIENCE:?} \
                 workers {silent:?} had no answer and locks {kept:?} were not taken; logs in {} ({})",
                troop.logs().display(),
                troop.seed
            )));
        }
        sleep(Duration::from_millis(20)).await;
        troop.read_logs()?;
        troop.all_run().await?;
    }
}
