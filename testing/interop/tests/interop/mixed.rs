//! Scenario 7: a mixed fleet with one job.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use shedlock::scheduler::{Handle, Job, Schedule, Scheduler};
use shedlock::{Executor, LockConfig, LockProvider};
use shedlock_interop::{Fleet, Java, Runs, Scheduled};

use crate::wait::{now, wait};

pub(crate) const PERIOD: Duration = Duration::from_secs(3);
/// Above the largest lateness and below the period, as ShedLock needs because it has no slots.
const AT_LEAST: Duration = Duration::from_millis(2_400);
pub(crate) const AT_MOST: Duration = Duration::from_millis(2_900);
pub(crate) const TAKES: Duration = Duration::from_millis(100);

/// Runs two Spring nodes, one for each of ShedLock's two kinds of proxy, and two nodes of ours for
/// a number of ticks. Returns whether each tick ran once.
///
/// The result shows nothing about the locks if the machine is so slow that a node arrives after
/// at-least has passed, that ShedLock's task outlives its at-most, or that ShedLock reads the clock in
/// one tick and takes the lock in the next, since its at-least counts from that reading: ShedLock gives
/// no guarantees then. The scenario is then repeated, and fails if every repetition is too slow.
pub(crate) async fn one_run_a_tick(fleet: &Fleet) -> anyhow::Result<bool> {
    let ticks = std::env::var("SHEDLOCK_INTEROP_TICKS").map_or(Ok(6), |ticks| ticks.parse())?;
    let other = fleet.second_java().await?;
    for telling in 0..3 {
        let name = format!("mixed-fleet-{telling}");
        let Some((runs, begun, during)) = tell(fleet, &other, &name, ticks).await? else {
            continue;
        };
        let lateness = runs.iter().map(|run| run % millis(PERIOD));
        if lateness
            .max()
            .is_some_and(|latest| latest >= millis(AT_LEAST))
        {
            continue;
        }
        let counts = per_tick(&runs, begun, during);
        if let Some(most) = counts.iter().max().filter(|most| **most > 1) {
            bail!(
                "a tick ran {most} times; runs in each tick: {counts:?}; all runs began at {runs:?}"
            );
        }
        if counts.len() >= ticks as usize && counts.iter().all(|count| *count == 1) {
            return Ok(true);
        }
    }
    bail!(
        "the machine is too slow, or locks are not given back: each time some tick did not run, some \
         node came later than {AT_LEAST:?}, or ShedLock held the lock for longer than {AT_MOST:?} or took \
         it for an earlier tick"
    )
}

/// Returns when all runs began, in milliseconds since 1970, and the time in which all nodes were
/// up; `None` if a task of ShedLock outlived its lock, or had one of an earlier tick.
async fn tell(
    fleet: &Fleet,
    other: &Java,
    name: &str,
    ticks: u32,
) -> anyhow::Result<Option<(Vec<u64>, SystemTime, Duration)>> {
    let ours = Arc::new(Mutex::new(Vec::new()));
    let providers = [fleet.rust.clone(), shedlock::connect(&fleet.url).await?];
    let nodes: Vec<_> = providers
        .into_iter()
        .map(|provider| node(provider, name, AT_LEAST, &ours))
        .collect::<Result<_, _>>()?;

    let during = PERIOD * (ticks + 2);
    let begun = now();
    let job = Scheduled {
        name,
        cron: "*/3 * * * * *",
        at_most: AT_MOST,
        at_least: AT_LEAST,
        takes: TAKES,
        during,
        is_around_scheduler: false,
    };
    let older = Scheduled {
        is_around_scheduler: true,
        ..job
    };
    let theirs = tokio::try_join!(fleet.java.schedule(job), other.schedule(older))?;
    for node in nodes {
        node.shutdown(Duration::from_secs(10)).await?;
    }

    let ours = ours.lock().unwrap_or_else(PoisonError::into_inner);
    let (first, second) = theirs;
    if [&first, &second]
        .into_iter()
        .any(|node| node.overruns > 0 || is_of_an_earlier_tick(node))
    {
        return Ok(None);
    }
    let runs = [first.begun, second.begun, ours.clone()].concat();
    Ok(Some((runs, begun, during)))
}

fn is_of_an_earlier_tick(node: &Runs) -> bool {
    let mut runs = node.since.iter().zip(&node.begun);
    runs.any(|(since, begun)| since / millis(PERIOD) != begun / millis(PERIOD))
}

/// Counts the runs of each tick in the time when every node was up.
fn per_tick(runs: &[u64], begun: SystemTime, during: Duration) -> Vec<usize> {
    let begun = millis(begun.duration_since(UNIX_EPOCH).unwrap_or_default());
    let period = millis(PERIOD);
    // The first whole period, and the last one.
    let ticks = begun / period + 1..(begun + millis(during)) / period;
    let runs_at = |tick: u64| runs.iter().filter(|run| **run / period == tick).count();
    ticks.map(runs_at).collect()
}

pub(crate) fn node(
    provider: Arc<dyn LockProvider>,
    name: &str,
    at_least: Duration,
    runs: &Arc<Mutex<Vec<u64>>>,
) -> anyhow::Result<Handle> {
    let runs = Arc::clone(runs);
    let config = LockConfig::new(name)
        .lock_at_most_for(AT_MOST)
        .lock_at_least_for(at_least);
    let job = Job::new(config, Schedule::cron("*/3 * * * * *")?, move |_| {
        let runs = Arc::clone(&runs);
        async move {
            let at = now().duration_since(UNIX_EPOCH).unwrap_or_default();
            runs.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(millis(at));
            wait(TAKES).await;
            Ok::<(), std::io::Error>(())
        }
    });
    Ok(Scheduler::new(Executor::new(provider)).job(job).start()?)
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
