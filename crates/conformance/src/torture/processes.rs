//! Faults of processes: killed, and stopped for longer than their leases.

use std::time::Duration;

use shedlock_core::Moment;

use super::tally::Tally;
use crate::troop::Troop;
use crate::wait::now;
use crate::{Stop, Verdict};

/// The processes that are stopped, and until when.
#[derive(Debug, Default)]
pub(super) struct Processes {
    stopped: Vec<(usize, Moment)>,
}

impl Processes {
    /// Kills a holder, if there is one, and replaces it.
    pub(super) async fn kill(&mut self, troop: &mut Troop, tally: &mut Tally) -> Verdict {
        if let Some(number) = troop.kill_a_holder().await? {
            let theirs = troop.is_shedlock(number);
            tally.count(if theirs { "kills of ShedLock" } else { "kills" });
        }
        Ok(())
    }

    /// Stops one that is not stopped, a holder if a log says so, for longer than its lease.
    pub(super) fn stop(
        &mut self,
        troop: &mut Troop,
        at_most: Duration,
        tally: &mut Tally,
    ) -> Verdict {
        let runs = |number: &usize| self.stopped.iter().all(|(other, _)| other != number);
        let holders: Vec<_> = troop.holders().into_iter().filter(runs).collect();
        let all: Vec<_> = (0..troop.answers().len()).filter(runs).collect();
        let from = if holders.is_empty() { all } else { holders };
        if from.is_empty() {
            return Ok(());
        }
        let number = *troop.chance.pick(&from);
        troop.stop_process(number)?;
        self.stopped.push((number, now() + at_most + at_most / 2));
        let theirs = troop.is_shedlock(number);
        tally.count(if theirs { "stops of ShedLock" } else { "stops" });
        Ok(())
    }

    /// Lets those go on whose time has come; all of them where no instant is given.
    pub(super) fn go_on(&mut self, troop: &mut Troop, by: Option<Moment>) -> Result<(), Stop> {
        let due = self
            .stopped
            .extract_if(.., |(_, until)| by.is_none_or(|by| *until <= by));
        for (number, _) in due {
            // One that was killed meanwhile is another process by now, which this does not hurt.
            troop.let_go_on(number)?;
        }
        Ok(())
    }
}
