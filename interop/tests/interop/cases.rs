//! What is shown on each store.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use shedlock::{
    Attempt, AttemptRequest, Executor, LockConfig, LockName, LockState, Owner, SkipReason, Slot,
};
use shedlock_interop::{Cell, Fleet};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::mixed;
use crate::wait::{now, until, wait};

/// One of them. `shows` tells whether it holds; an error is neither.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// For the document.
    pub(crate) says: &'static str,
    pub(crate) cells: [Cell; 8],
    pub(crate) shows: for<'a> fn(&'a Fleet) -> Shown<'a>,
}

type Shown<'a> = Pin<Box<dyn Future<Output = anyhow::Result<bool>> + Send + 'a>>;

/// Where the JVM's own zone is written, only what shows the fault is tried.
const ALL: [Cell; 8] = {
    let mut cells = [Cell::Holds; 8];
    cells[2] = Cell::NotTried;
    cells
};
const ZONE_FAULT: [Cell; 8] = {
    let mut cells = ALL;
    cells[2] = Cell::Fault(1);
    cells
};

/// ShedLock's provider for MongoDB unlocks whoever holds the lock.
const UNLOCK_FAULT: [Cell; 8] = {
    let mut cells = ALL;
    cells[7] = Cell::Fault(2);
    cells
};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "java_first",
        says: "the first record is ShedLock's, held while `migrate()` adds our columns: ours skips",
        cells: ALL,
        shows: |fleet| Box::pin(async { Ok(fleet.saw_the_early_lock()) }),
    },
    Case {
        name: "java_holds",
        says: "ShedLock holds: ours skips and names its host; ShedLock unlocks: ours takes it",
        cells: ALL,
        shows: |fleet| Box::pin(java_holds(fleet)),
    },
    Case {
        name: "rust_holds",
        says: "ours holds, on a record of ours: ShedLock skips; ours unlocks: ShedLock takes it",
        cells: ZONE_FAULT,
        shows: |fleet| Box::pin(rust_holds(fleet)),
    },
    Case {
        name: "executors",
        says: "a task of ShedLock's executor and one of ours exclude each other",
        cells: ALL,
        shows: |fleet| Box::pin(executors(fleet)),
    },
    Case {
        name: "java_expires",
        says: "ShedLock is killed with the lock: ours takes it when at-most is over, not before",
        cells: ZONE_FAULT,
        shows: |fleet| Box::pin(java_expires(fleet)),
    },
    Case {
        name: "rust_expires",
        says: "ours is killed with the lock: ShedLock takes it when at-most is over, not before",
        cells: ALL,
        shows: |fleet| Box::pin(rust_expires(fleet)),
    },
    Case {
        name: "java_at_least",
        says: "ShedLock unlocks before at-least is over: ours waits for its end",
        cells: ALL,
        shows: |fleet| Box::pin(java_at_least(fleet)),
    },
    Case {
        name: "rust_at_least",
        says: "ours unlocks before at-least is over: ShedLock waits for its end",
        cells: ALL,
        shows: |fleet| Box::pin(rust_at_least(fleet)),
    },
    Case {
        name: "extensions",
        says: "each extends its own lock, and the other one waits for the new end",
        cells: ALL,
        shows: |fleet| Box::pin(extensions(fleet)),
    },
    Case {
        name: "java_unlocks_late",
        says: "ShedLock overruns, ours takes over: ShedLock's late unlock frees nothing of ours",
        cells: UNLOCK_FAULT,
        shows: |fleet| Box::pin(java_unlocks_late(fleet)),
    },
    Case {
        name: "rust_unlocks_late",
        says: "ours overruns, ShedLock takes over: our late unlock frees nothing of ShedLock's",
        cells: ALL,
        shows: |fleet| Box::pin(rust_unlocks_late(fleet)),
    },
    Case {
        name: "java_extends_late",
        says: "ShedLock overruns, ours takes over: ShedLock's late extend is refused",
        cells: ALL,
        shows: |fleet| Box::pin(java_extends_late(fleet)),
    },
    Case {
        name: "rust_extends_late",
        says: "ours overruns, ShedLock takes over: our late extend is refused",
        cells: ALL,
        shows: |fleet| Box::pin(rust_extends_late(fleet)),
    },
    Case {
        name: "longest_name",
        says: "each skips while the other holds, with a name of 64 characters",
        cells: ALL,
        shows: |fleet| Box::pin(longest_name(fleet)),
    },
    Case {
        name: "slots",
        says: "a slot at or before an acquisition of ShedLock's is refused to ours, a later one is not",
        cells: ALL,
        shows: |fleet| Box::pin(slots(fleet)),
    },
    Case {
        name: "mixed_fleet",
        says: "two nodes of each, Spring's scheduler and ours, one job: one run a tick",
        cells: ALL,
        shows: |fleet| Box::pin(mixed::one_run_a_tick(fleet)),
    },
];

const LONG: Duration = Duration::from_secs(120);
const SHORT: Duration = Duration::from_secs(2);

async fn java_holds(fleet: &Fleet) -> anyhow::Result<bool> {
    exclude_from_java("java-holds", fleet).await
}

async fn exclude_from_java(name: &str, fleet: &Fleet) -> anyhow::Result<bool> {
    let theirs = fleet.java.lock(name, LONG, Duration::ZERO).await?;
    let theirs = theirs.context("nobody else knows this lock")?;
    let Attempt::Skipped(skip) = fleet.attempt(name, LONG, Duration::ZERO).await? else {
        return Ok(false);
    };
    let host = skip.owner.context("the holder has no name")?;
    ensure!(
        !host.is_empty() && !host.contains('/'),
        "no host of ShedLock's: {host}"
    );
    fleet.java.unlock(theirs).await?;
    Ok(fleet.lock(name, LONG).await?.is_some())
}

async fn rust_holds(fleet: &Fleet) -> anyhow::Result<bool> {
    exclude_from_rust("rust-holds", fleet).await
}

async fn exclude_from_rust(name: &str, fleet: &Fleet) -> anyhow::Result<bool> {
    let ours = fleet.lock(name, LONG).await?;
    let ours = ours.context("nobody else knows this lock")?;
    if fleet.java.lock(name, LONG, Duration::ZERO).await?.is_some() {
        return Ok(false);
    }
    ensure!(fleet.unlock(&ours).await?, "our own lock was lost");
    Ok(fleet.java.lock(name, LONG, Duration::ZERO).await?.is_some())
}

async fn executors(fleet: &Fleet) -> anyhow::Result<bool> {
    let executor = Executor::new(fleet.rust.clone());
    let config = LockConfig::new("executors").lock_at_most_for(LONG);
    let theirs_while_ours = executor
        .execute(&config, fleet.java.run("executors", LONG, Duration::ZERO))
        .await?
        .value()
        .context("ours did not run on a free lock")??;
    let theirs = fleet.java.run("executors", LONG, SHORT);
    let ours_while_theirs = until(|| async {
        let held = fleet.record("executors").await?.state == LockState::Held;
        Ok(held.then_some(()))
    });
    let ours = async {
        ours_while_theirs.await?;
        anyhow::Ok(executor.execute(&config, async {}).await?.is_skipped())
    };
    let (theirs_ran, ours_skipped) = tokio::try_join!(theirs, ours)?;
    Ok(!theirs_while_ours && theirs_ran && ours_skipped)
}

async fn java_expires(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "java-expires";
    let other = fleet.another_java().await?;
    let asked = now();
    let theirs = other.lock(name, SHORT, Duration::ZERO).await?;
    theirs.context("nobody else knows this lock")?;
    other.kill().await?;
    let record = fleet.record(name).await?;
    let ends = record.locked_until.context("a record without its end")?;
    if ends > asked + Duration::from_secs(600) {
        // Hours away, by a clock in another zone.
        return Ok(false);
    }
    let ours = until(|| fleet.lock(name, LONG)).await?;
    Ok(is_not_before(&ours, asked + SHORT))
}

/// Whether a lease of ours began at or after this instant, by the clock that all of them share.
fn is_not_before(lease: &shedlock::Lease, instant: std::time::SystemTime) -> bool {
    // ShedLock and the stores cut their times to milliseconds.
    lease
        .acquired_at()
        .is_none_or(|at| at + Duration::from_millis(2) >= instant)
}

async fn rust_expires(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "rust-expires";
    let asked = now();
    let mut other = tokio::process::Command::new(std::env::current_exe()?)
        .env(crate::HOLD, &fleet.url)
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let lines = other.stdout.take().context("no pipe from our process")?;
    BufReader::new(lines)
        .lines()
        .next_line()
        .await?
        .context("our process does not hold it")?;
    other.kill().await?;
    until(|| fleet.java.lock(name, LONG, Duration::ZERO)).await?;
    Ok(now() >= asked + SHORT)
}

/// What the process of ours does that is killed.
#[expect(clippy::print_stdout, reason = "who kills it waits for this line")]
pub(crate) async fn hold_until_killed(url: &str) -> anyhow::Result<()> {
    let provider = shedlock::connect(url).await?;
    let name = LockName::new("rust-expires")?;
    let request = AttemptRequest::new(name, Owner::generate(), SHORT);
    let lease = provider.attempt(&request).await?.acquired();
    let _held = lease.context("nobody else knows this lock")?;
    println!("held");
    std::future::pending().await
}

async fn java_at_least(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "java-at-least";
    let asked = now();
    let theirs = fleet.java.lock(name, LONG, SHORT).await?;
    fleet
        .java
        .unlock(theirs.context("nobody else knows this lock")?)
        .await?;
    let ours = until(|| fleet.lock(name, LONG)).await?;
    Ok(is_not_before(&ours, asked + SHORT))
}

async fn rust_at_least(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "rust-at-least";
    let asked = now();
    let ours = fleet.attempt(name, LONG, SHORT).await?.acquired();
    fleet
        .unlock(&ours.context("nobody else knows this lock")?)
        .await?;
    until(|| fleet.java.lock(name, LONG, Duration::ZERO)).await?;
    Ok(now() >= asked + SHORT)
}

async fn extensions(fleet: &Fleet) -> anyhow::Result<bool> {
    // Long enough for a slow machine to extend before the end.
    let first = Duration::from_secs(10);
    let theirs = fleet
        .java
        .lock("java-extends", first, Duration::ZERO)
        .await?;
    let ours = fleet.lock("rust-extends", first).await?;
    let theirs = theirs.context("nobody else knows this lock")?;
    let ours = ours.context("nobody else knows this lock")?;
    let theirs = fleet.java.extend(theirs, LONG).await?;
    let ours = fleet.extend(&ours, LONG).await?;
    theirs.context("ShedLock's own lock was lost")?;
    let _extended = ours.context("our own lock was lost")?;
    wait(first).await;
    let none_of_ours = fleet.lock("java-extends", LONG).await?.is_none();
    let none_of_theirs = fleet
        .java
        .lock("rust-extends", LONG, Duration::ZERO)
        .await?
        .is_none();
    Ok(none_of_ours && none_of_theirs)
}

async fn java_unlocks_late(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "java-unlocks-late";
    let theirs = fleet.java.lock(name, SHORT, Duration::ZERO).await?;
    let theirs = theirs.context("nobody else knows this lock")?;
    let ours = until(|| fleet.lock(name, LONG)).await?;
    fleet.java.unlock(theirs).await?;
    still_ours(fleet, &ours).await
}

async fn java_extends_late(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "java-extends-late";
    let theirs = fleet.java.lock(name, SHORT, Duration::ZERO).await?;
    let theirs = theirs.context("nobody else knows this lock")?;
    let ours = until(|| fleet.lock(name, LONG)).await?;
    let extended = fleet.java.extend(theirs, LONG).await?;
    Ok(extended.is_none() && still_ours(fleet, &ours).await?)
}

async fn still_ours(fleet: &Fleet, ours: &shedlock::Lease) -> anyhow::Result<bool> {
    let record = fleet.record(ours.name().as_str()).await?;
    let is_named = record.owner.as_deref() == Some(ours.owner().as_str());
    Ok(is_named && record.state == LockState::Held && fleet.unlock(ours).await?)
}

async fn rust_unlocks_late(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "rust-unlocks-late";
    let ours = fleet
        .lock(name, SHORT)
        .await?
        .context("nobody else knows this lock")?;
    until(|| fleet.java.lock(name, LONG, Duration::ZERO)).await?;
    let unlocked = fleet.unlock(&ours).await?;
    Ok(!unlocked && fleet.lock(name, LONG).await?.is_none())
}

async fn rust_extends_late(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "rust-extends-late";
    let ours = fleet
        .lock(name, SHORT)
        .await?
        .context("nobody else knows this lock")?;
    let theirs = until(|| fleet.java.lock(name, LONG, Duration::ZERO)).await?;
    let extended = fleet.extend(&ours, LONG).await?;
    fleet.java.unlock(theirs).await?;
    Ok(extended.is_none() && fleet.lock(name, LONG).await?.is_some())
}

async fn longest_name(fleet: &Fleet) -> anyhow::Result<bool> {
    let of_java = format!("{:x<64}", "java-");
    let of_rust = format!("{:x<64}", "rust-");
    Ok(exclude_from_java(&of_java, fleet).await? && exclude_from_rust(&of_rust, fleet).await?)
}

async fn slots(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "slots";
    let before = Slot::at(now())?;
    let theirs = fleet.java.lock(name, LONG, Duration::ZERO).await?;
    fleet
        .java
        .unlock(theirs.context("nobody else knows this lock")?)
        .await?;
    // Not within the millisecond of ShedLock's acquisition.
    wait(Duration::from_millis(20)).await;
    let after = Slot::at(now())?;
    let request = |slot| {
        let name = LockName::new(name)?;
        anyhow::Ok(AttemptRequest::new(name, Owner::generate(), LONG).with_slot(slot))
    };
    let Attempt::Skipped(skip) = fleet.rust.attempt(&request(before)?).await? else {
        return Ok(false);
    };
    let later = fleet.rust.attempt(&request(after)?).await?.acquired();
    Ok(skip.reason == SkipReason::SlotTaken && later.is_some())
}
