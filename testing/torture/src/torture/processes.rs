//! Process faults: killed, and stopped for longer than their leases.

use std::time::Duration;

use shedlock_conformance::wait::now;
use shedlock_conformance::{Stop, Verdict};
use shedlock_core::Moment;

use super::tally::Tally;
use crate::worker_pool::WorkerPool;

/// The stopped processes, and when to resume them.
#[derive(Debug, Default)]
pub(super) struct Processes {
    stopped: Vec<(usize, Moment)>,
}

impl Processes {
    /// Kills a holder, if there is one, and replaces it.
    pub(super) async fn kill(
        &mut self,
        worker_pool: &mut WorkerPool,
        tally: &mut Tally,
    ) -> Verdict {
        if let Some(number) = worker_pool.kill_a_holder().await? {
            tally.count(match worker_pool.is_shedlock(number) {
                true => "kills of ShedLock",
                false if worker_pool.is_operator(number) => "kills of the operator",
                false => "kills",
            });
        }
        Ok(())
    }

    /// Stops a running process for longer than its lease; a holder, if a log shows one.
    pub(super) fn stop(
        &mut self,
        worker_pool: &mut WorkerPool,
        at_most: Duration,
        tally: &mut Tally,
    ) -> Verdict {
        let runs = |number: &usize| self.stopped.iter().all(|(other, _)| other != number);
        let holders: Vec<_> = worker_pool.holders().into_iter().filter(runs).collect();
        let all: Vec<_> = (0..worker_pool.answers().len()).filter(runs).collect();
        let from = if holders.is_empty() { all } else { holders };
        if from.is_empty() {
            return Ok(());
        }
        let number = *worker_pool.rng.pick(&from);
        worker_pool.stop_process(number)?;
        self.stopped.push((number, now() + at_most + at_most / 2));
        tally.count(match worker_pool.is_shedlock(number) {
            true => "stops of ShedLock",
            false if worker_pool.is_operator(number) => "stops of the operator",
            false => "stops",
        });
        Ok(())
    }

    /// Resumes the processes that are due; all of them if no instant is given.
    pub(super) fn go_on(
        &mut self,
        worker_pool: &mut WorkerPool,
        by: Option<Moment>,
    ) -> Result<(), Stop> {
        let due = self
            .stopped
            .extract_if(.., |(_, until)| by.is_none_or(|by| *until <= by));
        for (number, _) in due {
            // A killed process has been replaced in the meantime; the signal does not affect the
            // replacement.
            worker_pool.let_go_on(number)?;
        }
        Ok(())
    }
}
