//! An operator pauses a job that both sides run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use shedlock::{
    Executor, LockName, LockState, PauseRequest, Paused, ResumeRequest, Resumed, admin,
};
use shedlock_interop::{Fleet, Scheduled};

use crate::LONG;
use crate::mixed::{AT_MOST, PERIOD, TAKES, millis, node};
use crate::wait::{now, until, wait};

/// Our side cannot replace ShedLock's at-least, and on ZooKeeper judges it a second later.
const AT_LEAST: Duration = Duration::from_millis(500);

fn request(name: &str) -> anyhow::Result<PauseRequest> {
    let request = PauseRequest::new(LockName::new(name)?, "alice");
    Ok(request.with_reason("maintenance"))
}

async fn pause(fleet: &Fleet, request: &PauseRequest) -> anyhow::Result<()> {
    let executor = Executor::new(fleet.rust.clone());
    match executor.pause(request, 2 * PERIOD).await? {
        Paused::Done { .. } => Ok(()),
        answer => bail!("not paused: {answer:?}"),
    }
}

async fn resume(fleet: &Fleet, name: &str) -> anyhow::Result<bool> {
    let request = ResumeRequest::new(LockName::new(name)?);
    let resumed = admin::resume(&*fleet.rust, &request).await?;
    Ok(matches!(resumed, Resumed::Resumed(_)))
}

/// Java skips while the lock is paused, and acquires it when it was resumed.
pub(crate) async fn java_obeys(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "java-obeys-a-pause";
    pause(fleet, &request(name)?).await?;
    if fleet.java.lock(name, LONG).await?.is_some() {
        return Ok(false);
    }
    ensure!(resume(fleet, name).await?, "the pause was lost");
    let _taken = until(|| fleet.java.lock(name, LONG)).await?;
    Ok(true)
}

/// A pause that takes the lock from a task of Java outlives the end of that task.
pub(crate) async fn outlives_javas_task(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "a-pause-takes-javas-lock";
    let theirs = fleet.java.lock(name, LONG).await?;
    let theirs = theirs.context("the lock should be free: no one else uses this name")?;
    pause(fleet, &request(name)?.replacing_holder()).await?;
    // ShedLock reports a failure on stores that compare the owner.
    let _ = fleet.java.unlock(theirs).await;
    let record = fleet.rust.inspect(&LockName::new(name)?).await?;
    let is_paused = record.is_some_and(|record| record.state == LockState::Paused);
    resume(fleet, name).await?;
    Ok(is_paused)
}

/// A job on two nodes of ours and one of Java does not run while it is paused, and runs again at the
/// next tick.
pub(crate) async fn fleet_obeys(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "paused-fleet";
    let ours = Arc::new(Mutex::new(Vec::new()));
    let providers = [fleet.rust.clone(), shedlock::connect(&fleet.url).await?];
    let nodes: Vec<_> = providers
        .into_iter()
        .map(|provider| node(provider, name, AT_LEAST, &ours))
        .collect::<Result<_, _>>()?;
    let theirs = fleet.java.schedule(Scheduled {
        name,
        cron: "*/3 * * * * *",
        at_most: AT_MOST,
        at_least: AT_LEAST,
        takes: TAKES,
        during: 11 * PERIOD,
        is_around_scheduler: false,
    });
    let operator = async {
        wait(3 * PERIOD).await;
        pause(fleet, &request(name)?).await?;
        let paused = now();
        wait(4 * PERIOD).await;
        let resumed = now();
        ensure!(resume(fleet, name).await?, "the pause was lost");
        Ok((paused, resumed))
    };
    let (theirs, (paused, resumed)) = tokio::try_join!(theirs, operator)?;
    for node in nodes {
        node.shutdown(Duration::from_secs(10)).await?;
    }
    let ours = ours.lock().unwrap_or_else(PoisonError::into_inner);
    let runs = [theirs.begun, ours.clone()].concat();
    let between = |from: SystemTime, to: SystemTime| {
        let at =
            |instant: SystemTime| millis(instant.duration_since(UNIX_EPOCH).unwrap_or_default());
        runs.iter()
            .filter(|run| (at(from)..at(to)).contains(run))
            .count()
    };
    let begun = paused - 3 * PERIOD;
    let (before, during) = (between(begun, paused), between(paused, resumed));
    let after = between(resumed, resumed + 2 * PERIOD);
    ensure!(
        before > 0 && after > 0,
        "the job ran {before} times before the pause, and {after} times after it"
    );
    Ok(during == 0)
}
