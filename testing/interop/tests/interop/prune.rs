//! A record is removed while a process of ShedLock lives that has asked for it.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use shedlock::{KeepReason, LockName, PruneRequest, Pruned, admin};
use shedlock_interop::Fleet;

use crate::LONG;
use crate::wait::{until, wait};

const IDLE: Duration = Duration::from_millis(100);

/// Lets Java take the lock and give it back, and removes its record once it is idle. Returns why it was kept, if it was.
async fn pruned(
    fleet: &Fleet,
    name: &str,
    with: impl Fn(PruneRequest) -> PruneRequest,
) -> anyhow::Result<Option<KeepReason>> {
    let theirs = fleet.java.lock(name, LONG).await?;
    let theirs = theirs.context("the lock should be free: no one else uses this name")?;
    fleet.java.unlock(theirs).await?;
    loop {
        let request = with(PruneRequest::new(LockName::new(name)?, IDLE));
        match admin::prune(&*fleet.rust, &request).await? {
            // The clocks that judge may differ a little.
            Pruned::Kept {
                reason: KeepReason::Taken | KeepReason::UsedRecently,
                ..
            } => wait(IDLE).await,
            Pruned::Kept { reason, .. } => return Ok(Some(reason)),
            // ShedLock leaves no record of an idle lock in Redis.
            Pruned::Removed(_) | Pruned::NoRecord => return Ok(None),
            other => bail!("an unknown answer: {other:?}"),
        }
    }
}

/// Whatever `prune` removes by default, Java does not miss.
pub(crate) async fn keeps_what_java_remembers(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "pruned-by-default";
    let kept = pruned(fleet, name, |request| request).await?;
    let remembers = fleet.rust.capabilities().remembered_by_shedlock;
    let expected = remembers.then_some(KeepReason::RememberedByShedLock);
    ensure!(kept == expected, "{kept:?} is not {expected:?}");
    Ok(fleet.java.lock(name, LONG).await?.is_some())
}

/// Whether Java creates the record again. If it does not, a new process does.
pub(crate) async fn is_recreated_by_java(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "removed-although-remembered";
    let kept = pruned(fleet, name, PruneRequest::without_shedlock).await?;
    ensure!(kept.is_none(), "it was kept: {kept:?}");
    for _ in 0..3 {
        if fleet.java.lock(name, LONG).await?.is_some() {
            return Ok(true);
        }
        wait(IDLE).await;
    }
    ensure!(
        fleet.record(name).await?.is_none(),
        "ShedLock created the record, and did not report that it has the lock"
    );
    let second = fleet.second_java().await?;
    until(|| second.lock(name, LONG)).await?;
    Ok(false)
}
