//! Features that ShedLock does not have: slots and fencing tokens.

use std::time::Duration;

use anyhow::Context as _;
use shedlock::{Attempt, AttemptRequest, Lease, LockName, Owner, SkipReason, Slot};
use shedlock_interop::{Fleet, Java};

use crate::LONG;
use crate::wait::{now, until, wait};

/// A slot before an acquisition of ShedLock, and one after it.
pub(crate) async fn after_java(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "slots";
    let before = Slot::at(now())?;
    // Not within the millisecond of ShedLock's acquisition: ShedLock truncates its clock to
    // milliseconds.
    let millisecond = Duration::from_millis(20);
    wait(millisecond).await;
    let theirs = fleet.java.lock(name, LONG).await?;
    fleet
        .java
        .unlock(theirs.context("the lock should be free: no one else uses this name")?)
        .await?;
    wait(millisecond).await;
    let after = Slot::at(now())?;
    if claim(fleet, name, before).await?.is_some() {
        return Ok(false);
    }
    Ok(claim(fleet, name, after).await?.is_some())
}

/// Our tokens and slots, before and after acquisitions of ShedLock.
pub(crate) async fn tokens(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "tokens";
    let used = Slot::at(now())?;
    let first = claim(fleet, name, used).await?;
    let first = first.context("the lock should be free: no one else uses this name")?;
    fleet.unlock(&first).await?;
    let theirs = until(|| fleet.java.lock(name, LONG)).await?;
    let theirs = match fleet.java.extend(theirs, LONG).await {
        Ok(extended) => extended.context("ShedLock's own lock was lost")?,
        Err(error) if Java::lacks(&error) => theirs,
        Err(error) => return Err(error),
    };
    fleet.java.unlock(theirs).await?;
    wait(Duration::from_millis(20)).await;
    if claim(fleet, name, used).await?.is_some() {
        return Ok(false);
    }
    let second = claim(fleet, name, Slot::at(now())?).await?;
    let second = second.context("a slot that no one has used was refused")?;
    let (first, second) = (first.fencing_token(), second.fencing_token());
    Ok(first.context("no token")? < second.context("no token")?)
}

/// Acquires the lock with the slot once the lock is free; `None` if the slot is used up.
async fn claim(fleet: &Fleet, name: &str, slot: Slot) -> anyhow::Result<Option<Lease>> {
    until(|| async {
        let request = AttemptRequest::new(LockName::new(name)?, Owner::generate(), LONG);
        Ok(match fleet.rust.attempt(&request.with_slot(slot)).await? {
            Attempt::Acquired(lease) => Some(Some(lease)),
            Attempt::Skipped(skip) if skip.reason == SkipReason::SlotTaken => Some(None),
            // If clocks may differ, our provider waits briefly after ShedLock unlocks.
            _ => None,
        })
    })
    .await
}
