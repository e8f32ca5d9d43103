//! Clock faults: wall clocks that are wrong by hours, or by as much as the store tolerates between
//! clients, and that are changed while the processes run.

use std::time::Duration;

use shedlock_conformance::wait::{PATIENCE, now, sleep};
use shedlock_conformance::{Stop, Verdict};

use super::tally::Tally;
use crate::Arena;
use crate::wall_clock::{self, WallClock};
use crate::worker_pool::WorkerPool;

/// The workers with wrong clocks: one that connects to the store directly, and one that does not.
const WRONG: [usize; 2] = [1, 5];

/// Sets one clock ahead by far more than the clients' clocks may differ. Not applicable without
/// libfaketime.
pub(super) fn apart(worker_pool: &mut WorkerPool, context: &Arena) -> Verdict {
    let library = WallClock::library().map_err(Stop::not_applicable)?;
    let reach = WallClock::reach(context).map_err(Stop::not_applicable)?;
    let at_most = i64::try_from(context.timing().short().as_millis()).unwrap_or(i64::MAX / 2);
    worker_pool.give_clock(WRONG[0], library)?;
    worker_pool.set_clock(WRONG[0], at_most + 4 * reach)
}

/// Gives each worker a wall clock of its own. Not applicable without libfaketime.
pub(super) fn of_all(worker_pool: &mut WorkerPool, context: &Arena, workers: usize) -> Verdict {
    let library = WallClock::library().map_err(Stop::not_applicable)?;
    WallClock::reach(context).map_err(Stop::not_applicable)?;
    for number in 0..workers {
        worker_pool.give_clock(number, library.clone())?;
    }
    Ok(())
}

/// Sets one worker's clock forward by this much, as after a pause of its machine. A clock that would
/// be ahead by more than the store tolerates is set back first.
pub(super) fn forward(
    worker_pool: &mut WorkerPool,
    context: &Arena,
    workers: usize,
    by: Duration,
) -> Verdict {
    let reach = WallClock::reach(context).map_err(Stop::not_applicable)?;
    let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX).min(reach);
    let number = worker_pool.rng.below(workers as u64);
    let number = usize::try_from(number).unwrap_or(0);
    let ahead = worker_pool.clock(number) + by;
    worker_pool.set_clock(number, if ahead > reach { -reach } else { ahead })
}

/// The workers' wall clocks.
#[derive(Debug)]
pub(super) struct Clocks {
    /// How far ahead or behind they may be, in milliseconds. Zero if none is wrong.
    reach: i64,
}

impl Clocks {
    /// Sets up the clocks before the workers start.
    pub(super) fn before(
        worker_pool: &mut WorkerPool,
        context: &Arena,
        tally: &mut Tally,
    ) -> Result<Self, Stop> {
        let possible = WallClock::library().and_then(|library| {
            let reach = WallClock::reach(context)?;
            Ok((library, reach))
        });
        let (library, reach) = match possible {
            Ok(possible) => possible,
            Err(why) => {
                tally.not_done.push(format!("no wrong clocks ({why})"));
                return Ok(Self { reach: 0 });
            }
        };
        tally.clocks_wrong_by_millis = reach;
        let clocks = Self { reach };
        for number in WRONG {
            worker_pool.give_clock(number, library.clone())?;
            clocks.set(worker_pool, number)?;
        }
        Ok(clocks)
    }

    /// Whether any clock can be wrong.
    pub(super) fn are_wrong(&self) -> bool {
        self.reach > 0
    }

    /// Sets one of the clocks.
    pub(super) fn jump(&self, worker_pool: &mut WorkerPool, tally: &mut Tally) -> Verdict {
        let number = *worker_pool.rng.pick(&WRONG);
        self.set(worker_pool, number)?;
        tally.count("clocks set");
        Ok(())
    }

    /// How much the clocks move the ends of leases, if the clients' clocks judge.
    pub(super) fn apart(&self, context: &Arena) -> Duration {
        let apart = Duration::from_millis(2 * self.reach.unsigned_abs());
        let tolerated = wall_clock::tolerated(context.capabilities().clock);
        tolerated.map_or(Duration::ZERO, |_| apart)
    }

    fn set(&self, worker_pool: &mut WorkerPool, number: usize) -> Verdict {
        let reach = self.reach.unsigned_abs();
        let ahead = worker_pool.rng.number() % (2 * reach + 1);
        worker_pool.set_clock(number, i64::try_from(ahead).unwrap_or(0) - self.reach)
    }

    /// Waits until each clock was observed to be as wrong as it was set: a fault without any effect
    /// proves nothing.
    pub(super) async fn took_effect(&self, worker_pool: &mut WorkerPool) -> Verdict {
        let started = now();
        while let Some(still_right) = worker_pool.clock_without_effect() {
            if now().saturating_since(started) > PATIENCE {
                return Err(Stop::failed(still_right));
            }
            sleep(Duration::from_millis(20)).await;
            worker_pool.read_logs()?;
            worker_pool.all_run().await?;
        }
        Ok(())
    }
}
