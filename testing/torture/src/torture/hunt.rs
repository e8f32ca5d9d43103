//! Checks that the judge detects wrong protocols: a judge that never convicts proves nothing.

use std::time::Duration;

use shedlock_conformance::wait::{now, sleep};
use shedlock_conformance::{Stop, Verdict};
use shedlock_core::Capabilities;
use shedlock_proof::Mistake;
use shedlock_proof::history::Findings;

use super::network::{Kind, Network};
use super::processes::Processes;
use super::tally::Tally;
use super::{Options, clocks, jobs};
use crate::Arena;
use crate::wall_clock;
use crate::worker_pool::{WorkerPool, patience};

const WORKERS: usize = 5;

/// If ShedLock's processes are the ones that are wrong, only this many workers are ours.
const WORKERS_BESIDE_SHEDLOCKS: usize = 2;

/// The time within which each mistake must be detected.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// How long after its bound a withdrawal may be sent. The withdrawals of one name take turns, and the
/// call before it may go unanswered. The rest is for a busy machine.
pub(super) fn withdrawal(at_most: Duration) -> Duration {
    2 * patience(at_most) + Duration::from_secs(3)
}

/// The interval between two checks of the logs.
const LOOK: Duration = Duration::from_millis(500);

/// Lets workers make this mistake, while they are killed and stopped, until their history shows it.
pub(crate) async fn find_out(context: &Arena, wrong: Mistake) -> Verdict {
    applies(wrong, context.capabilities())?;
    let shedlocks = match wrong {
        Mistake::ShedlocksOfOneHost => Options::from_environment()?.java,
        _ => 0,
    };
    if wrong == Mistake::ShedlocksOfOneHost && shedlocks < 2 {
        let lacks = "this needs several processes of ShedLock (`cargo xtask torture --java 3`)";
        return Err(Stop::not_applicable(lacks));
    }
    let mut worker_pool = WorkerPool::without_workers(context, &jobs(context)).await?;
    worker_pool.go_wrong(wrong);
    if wrong == Mistake::ClocksApart {
        clocks::apart(&mut worker_pool, context)?;
    }
    let mut network = match wrong.needs_network() {
        true => Some(Network::before(&mut worker_pool, WORKERS, false, context).await?),
        false => None,
    };
    if network.as_ref().is_some_and(|network| !network.is_there()) {
        let lacks = "the store cannot be reached through a proxy";
        return Err(Stop::not_applicable(lacks));
    }
    let jumps = wrong == Mistake::WaitCountsJumps;
    if jumps {
        clocks::of_all(&mut worker_pool, context, WORKERS)?;
    }
    if shedlocks > 0 {
        worker_pool.add_shedlocks(shedlocks)?;
        worker_pool.add(WORKERS_BESIDE_SHEDLOCKS)?;
    } else {
        worker_pool.add(WORKERS)?;
    }
    if wrong.needs_operator() {
        worker_pool.add_operator()?;
    }
    let at_most = context.timing().short();
    let mut rules = worker_pool.rules();
    rules.withdrawal = jumps.then(|| withdrawal(at_most));
    let (mut processes, mut tally) = (Processes::default(), Tally::default());
    let started = now();
    let mut next_look = started + LOOK;
    let mut seen = Findings::default();
    while now().saturating_since(started) < LIMIT {
        worker_pool.read_logs()?;
        worker_pool.all_run().await?;
        processes.go_on(&mut worker_pool, Some(now()))?;
        // A mistake that shows only after a pause needs more pauses.
        let stops = if wrong == Mistake::NoLookAfterPause {
            5
        } else {
            2
        };
        if let Some(network) = &mut network {
            let kinds = [Kind::LateAfterCut];
            network
                .repair(Some(now()), &mut worker_pool, &mut tally)
                .await?;
            network
                .disturb(&kinds, &mut worker_pool, at_most, &mut tally)
                .await?;
        }
        match worker_pool.rng.number() % 6 {
            // A process that was stopped may withdraw late.
            _ if jumps => clocks::forward(&mut worker_pool, context, WORKERS, patience(at_most))?,
            0 => processes.kill(&mut worker_pool, &mut tally).await?,
            deed if deed <= stops => processes.stop(&mut worker_pool, at_most, &mut tally)?,
            _ => {}
        }
        sleep(worker_pool.rng.up_to(at_most / 2)).await;
        if now() < next_look {
            continue;
        }
        seen = worker_pool.history()?.judge(&rules);
        if let Some(law) = wrong.convicted(&seen) {
            let after = now().saturating_since(started);
            tell(context, wrong, after, &seen, law);
            return Ok(());
        }
        next_look = now() + LOOK;
    }
    worker_pool.keep_logs();
    Err(Stop::failed(format!(
        "{} was not detected in {LIMIT:?} and {} acquisitions: none of {:?} is among {:?}; logs \
         in {} ({})",
        wrong.name(),
        seen.acquisitions,
        wrong.violates(),
        seen.violations,
        worker_pool.logs().display(),
        worker_pool.seed
    )))
}

/// Not applicable to a provider that does not declare what the mistake is about.
fn applies(wrong: Mistake, capabilities: &Capabilities) -> Verdict {
    if wrong == Mistake::ClocksApart && wall_clock::tolerated(capabilities.clock).is_none() {
        return Err(Stop::not_applicable("no client's clock judges"));
    }
    let lacking = wrong.lacks(capabilities);
    lacking.map_or(Ok(()), |lacking| Err(Stop::undeclared(lacking)))
}

#[expect(
    clippy::print_stderr,
    reason = "what was found, and after how long, is what a reader of the run wants to see"
)]
fn tell(context: &Arena, wrong: Mistake, after: Duration, seen: &Findings, law: &str) {
    eprintln!(
        "{}: {:22} detected after {:4.1} s and {:5} acquisitions: {law}",
        context.harness().name(),
        wrong.name(),
        after.as_secs_f64(),
        seen.acquisitions,
    );
}
