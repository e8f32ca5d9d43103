//! Faults of a running store.

use std::time::Duration;

use shedlock_conformance::wait::now;
use shedlock_conformance::{Verdict, granted};
use shedlock_core::Moment;

use super::tally::Tally;
use crate::worker_pool::WorkerPool;
use crate::{Arena, StoreFault};
use shedlock_proof::history::What;

/// How long a standby is away in a long run: longer than calls, leases and waits.
const STANDBY_AWAY: [Duration; 3] = [
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];

/// The faults that this store supports, one at a time.
pub(super) struct StoreFaults {
    known: Vec<StoreFault>,
    /// Whether there is time for faults that last.
    is_long: bool,
    ongoing: Option<(StoreFault, Moment)>,
}

impl StoreFaults {
    /// The faults that the harness can begin.
    pub(super) fn of(context: &Arena, is_long: bool) -> Self {
        let namespace = context.tortured();
        let can = |fault: &StoreFault| namespace.begin_fault(*fault).is_some();
        Self {
            known: StoreFault::ALL.into_iter().filter(can).collect(),
            is_long,
            ongoing: None,
        }
    }

    /// Whether the store supports any fault.
    pub(super) fn are_known(&self) -> bool {
        !self.known.is_empty()
    }

    /// Whether a fault is ongoing.
    pub(super) fn is_ongoing(&self) -> bool {
        self.ongoing.is_some()
    }

    /// Begins a fault, unless another one is ongoing.
    pub(super) async fn begin(
        &mut self,
        context: &Arena,
        worker_pool: &mut WorkerPool,
        at_most: Duration,
        tally: &mut Tally,
    ) -> Verdict {
        if self.is_ongoing() {
            return Ok(());
        }
        let fault = *worker_pool.rng.pick(&self.known);
        worker_pool.note_of_store(What::StoreTroubled)?;
        let action = context.tortured().begin_fault(fault);
        let what = format!("begin {fault:?}");
        granted(action, &what, "TortureNamespace::begin_fault").await?;
        let lasts = match fault {
            StoreFault::StandbyAway if self.is_long => *worker_pool.rng.pick(&STANDBY_AWAY),
            // Possibly for longer than a lease.
            _ => worker_pool.rng.up_to(2 * at_most),
        };
        self.ongoing = Some((fault, now() + lasts));
        tally.count(fault.word());
        Ok(())
    }

    /// Ends the fault if it is due; immediately if no instant is given.
    pub(super) async fn end(
        &mut self,
        context: &Arena,
        by: Option<Moment>,
        worker_pool: &mut WorkerPool,
    ) -> Verdict {
        let due = self
            .ongoing
            .take_if(|(_, until)| by.is_none_or(|by| *until <= by));
        if let Some((fault, _)) = due {
            let action = context.tortured().end_fault(fault);
            granted(
                action,
                &format!("end {fault:?}"),
                "TortureNamespace::end_fault",
            )
            .await?;
            worker_pool.note_of_store(What::StoreRecovered)?;
        }
        Ok(())
    }
}
