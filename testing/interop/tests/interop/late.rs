//! Calls that arrive after their lease has ended.

use anyhow::Context as _;
use shedlock::{Lease, LockState};
use shedlock_interop::{Fleet, Java};

use crate::wait::until;
use crate::{LONG, SHORT};

pub(crate) async fn java_unlocks_late(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "java-unlocks-late";
    let theirs = fleet.java.lock(name, SHORT).await?;
    let theirs = theirs.context("the lock should be free: no one else uses this name")?;
    let ours = until(|| fleet.lock(name, LONG)).await?;
    fleet.java.unlock(theirs).await?;
    still_ours(fleet, &ours).await
}

pub(crate) async fn java_extends_late(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "java-extends-late";
    let theirs = fleet.java.lock(name, SHORT).await?;
    let theirs = theirs.context("the lock should be free: no one else uses this name")?;
    let ours = until(|| fleet.lock(name, LONG)).await?;
    let extended = fleet.java.extend(theirs, LONG).await?;
    Ok(extended.is_none() && still_ours(fleet, &ours).await?)
}

pub(crate) async fn rust_unlocks_late(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "rust-unlocks-late";
    let ours = fleet
        .lock(name, SHORT)
        .await?
        .context("the lock should be free: no one else uses this name")?;
    until(|| fleet.java.lock(name, LONG)).await?;
    let unlocked = fleet.unlock(&ours).await?;
    Ok(!unlocked && fleet.lock(name, LONG).await?.is_none())
}

pub(crate) async fn rust_extends_late(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "rust-extends-late";
    let ours = fleet
        .lock(name, SHORT)
        .await?
        .context("the lock should be free: no one else uses this name")?;
    let theirs = until(|| fleet.java.lock(name, LONG)).await?;
    let extended = fleet.extend(&ours, LONG).await?;
    fleet.java.unlock(theirs).await?;
    if extended.is_some() {
        return Ok(false);
    }
    let _freed = until(|| fleet.lock(name, LONG)).await?;
    Ok(true)
}

/// Whether our side can find out, after a late unlock and a late extension by ShedLock, if it still
/// holds its own lock.
pub(crate) async fn detects_late_calls(fleet: &Fleet) -> anyhow::Result<bool> {
    let theirs = fleet.java.lock("late-unlock-seen", SHORT).await?;
    let ours = until(|| fleet.lock("late-unlock-seen", LONG)).await?;
    fleet
        .java
        .unlock(theirs.context("the lock should be free: no one else uses this name")?)
        .await?;
    if !knows(fleet, &ours).await? {
        return Ok(false);
    }

    let theirs = fleet.java.lock("late-extension-seen", SHORT).await?;
    let ours = until(|| fleet.lock("late-extension-seen", LONG)).await?;
    let extended = fleet
        .java
        .extend(
            theirs.context("the lock should be free: no one else uses this name")?,
            LONG,
        )
        .await;
    match extended {
        Err(error) if !Java::lacks(&error) => return Err(error),
        _ => {}
    }
    knows(fleet, &ours).await
}

async fn knows(fleet: &Fleet, ours: &Lease) -> anyhow::Result<bool> {
    let is_ours = names(fleet, ours).await?;
    let extended = fleet.extend(ours, LONG).await?;
    let unlocked = fleet.unlock(extended.as_ref().unwrap_or(ours)).await?;
    Ok(extended.is_some() == is_ours && unlocked == is_ours)
}

async fn still_ours(fleet: &Fleet, ours: &Lease) -> anyhow::Result<bool> {
    Ok(names(fleet, ours).await? && fleet.unlock(ours).await?)
}

/// Whether the store's record shows this lease of ours as running.
async fn names(fleet: &Fleet, ours: &Lease) -> anyhow::Result<bool> {
    let record = fleet.record(ours.name().as_str()).await?;
    Ok(record.is_some_and(|record| {
        record.owner.as_deref() == Some(ours.owner().as_str()) && record.state == LockState::Held
    }))
}
