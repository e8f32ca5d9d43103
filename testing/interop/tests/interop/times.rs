//! When a lock ends.

use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use shedlock::{
    AttemptRequest, ErrorKind, Executor, Lease, LockConfig, LockName, Owner, extend_current,
};
use shedlock_interop::{Fleet, Run};
use shedlock_rig::Running;

use crate::holding::is_kept_out;
use crate::wait::{now, until, wait};
use crate::{LONG, SHORT};

pub(crate) async fn java_expires(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "java-expires";
    // Some stores remove the record when the lease ends.
    let lease = 3 * SHORT;
    let second = fleet.second_java().await?;
    let asked = now();
    let theirs = second.lock(name, lease).await?;
    theirs.context("the lock should be free: no one else uses this name")?;
    let record = fleet
        .record(name)
        .await?
        .context("the lock has no record")?;
    second.kill().await?;
    let ends = record.locked_until.context("the record has no end")?;
    if ends > asked + Duration::from_secs(600) {
        // Hours away, by a clock in another zone.
        return Ok(false);
    }
    let ours = until(|| fleet.lock(name, LONG)).await?;
    is_not_before(fleet, &ours, asked + lease).await
}

/// Whether a lease of ours began at or after this instant, by the clock that all processes share.
async fn is_not_before(fleet: &Fleet, ours: &Lease, instant: SystemTime) -> anyhow::Result<bool> {
    let began = match ours.acquired_at() {
        Some(began) => Some(began),
        // A statement that returns no rows does not return the time.
        None => fleet
            .record(ours.name().as_str())
            .await?
            .and_then(|record| record.locked_at),
    };
    let began = began.context("the record has no time of acquisition")?;
    // ShedLock and the stores truncate their times to milliseconds.
    Ok(began + Duration::from_millis(2) >= instant)
}

pub(crate) async fn rust_expires(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "rust-expires";
    let asked = now();
    let mut command = Command::new(std::env::current_exe()?);
    command.env(crate::HOLD, &fleet.url).stdout(Stdio::piped());
    let other = Running::start(&mut command)?;
    other.output.find(|line| (line == "held").then_some(()))?;
    drop(other);
    until(|| fleet.java.lock(name, LONG)).await?;
    Ok(now() >= asked + SHORT)
}

/// The main function of the process of ours that is killed.
#[expect(clippy::print_stdout, reason = "who kills it waits for this line")]
pub(crate) async fn hold_until_killed(url: &str) -> anyhow::Result<()> {
    let provider = shedlock::connect(url).await?;
    let name = LockName::new("rust-expires")?;
    let request = AttemptRequest::new(name, Owner::generate(), SHORT);
    let lease = provider.attempt(&request).await?.acquired();
    let _held = lease.context("the lock should be free: no one else uses this name")?;
    println!("held");
    std::future::pending().await
}

pub(crate) async fn java_at_least(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "java-at-least";
    let asked = now();
    let theirs = fleet.java.lock_for(name, LONG, SHORT).await?;
    fleet
        .java
        .unlock(theirs.context("the lock should be free: no one else uses this name")?)
        .await?;
    let ours = until(|| fleet.lock(name, LONG)).await?;
    is_not_before(fleet, &ours, asked + SHORT).await
}

pub(crate) async fn rust_at_least(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "rust-at-least";
    let asked = now();
    let ours = fleet.attempt_for(name, LONG, SHORT).await?.acquired();
    fleet
        .unlock(&ours.context("the lock should be free: no one else uses this name")?)
        .await?;
    until(|| fleet.java.lock(name, LONG)).await?;
    Ok(now() >= asked + SHORT)
}

pub(crate) async fn extensions(fleet: &Fleet) -> anyhow::Result<bool> {
    // Long enough for a slow machine to extend before the end.
    let first = Duration::from_secs(10);
    let theirs = fleet.java.lock("java-extends", first).await?;
    let ours = fleet.lock("rust-extends", first).await?;
    let theirs = theirs.context("the lock should be free: no one else uses this name")?;
    let ours = ours.context("the lock should be free: no one else uses this name")?;
    let theirs = fleet.java.extend(theirs, LONG).await?;
    let ours = fleet.extend(&ours, LONG).await?;
    theirs.context("ShedLock's own lock was lost")?;
    let _extended = ours.context("our own lock was lost")?;
    wait(first).await;
    let none_of_ours = fleet.lock("java-extends", LONG).await?.is_none();
    let none_of_theirs = fleet.java.lock("rust-extends", LONG).await?.is_none();
    Ok(none_of_ours && none_of_theirs)
}

/// Each side extends from within its task.
pub(crate) async fn extends_itself(fleet: &Fleet) -> anyhow::Result<bool> {
    // Long enough for a slow machine to extend before the end.
    let first = Duration::from_secs(10);
    let after = first + Duration::from_secs(1);
    let run = Run {
        at_most: first,
        takes: after + Duration::from_secs(4),
        extend: Some(LONG),
        ..Run::default()
    };
    let executor = Executor::new(fleet.rust.clone());
    let config = LockConfig::new("rust-extends-itself").lock_at_most_for(first);
    let ours = async {
        let outcome = executor.execute(&config, async {
            extend_current(LONG).await?;
            wait(after).await;
            fleet.java.lock("rust-extends-itself", LONG).await
        });
        let theirs = outcome.await?.value().context("our own lock was lost")??;
        anyhow::Ok(theirs.is_none())
    };
    let theirs = is_kept_out(fleet, "java-extends-itself", run, after);
    let (ours, theirs) = tokio::try_join!(ours, theirs)?;
    Ok(ours && theirs)
}

/// `KeepAliveLockProvider`, which extends every 15 seconds: its minimum.
pub(crate) async fn java_keeps_alive(fleet: &Fleet) -> anyhow::Result<bool> {
    let at_most = Duration::from_secs(30);
    for telling in 0..3 {
        let name = format!("java-keeps-alive-{telling}");
        let asked = now();
        let theirs = fleet.java.lock_kept_alive(&name, at_most, at_most).await?;
        let theirs = theirs.context("the lock should be free: no one else uses this name")?;
        let end = async || {
            let record = fleet
                .record(&name)
                .await?
                .context("the lock has no record")?;
            record.locked_until.context("the record has no end")
        };
        let first = end().await?;
        until(|| async {
            // If the store counts down, the end that it returns may vary slightly.
            let is_extended = end().await? > first + Duration::from_secs(5);
            Ok(is_extended.then_some(()))
        })
        .await?;
        fleet.java.unlock(theirs).await?;
        let is_within = now() < asked + at_most;
        let ours = until(|| fleet.lock(&name, LONG)).await?;
        if is_within {
            return is_not_before(fleet, &ours, asked + at_most).await;
        }
    }
    bail!("the machine is too slow: each time at-least was over before ShedLock unlocked")
}

pub(crate) async fn rust_keeps_alive(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "rust-keeps-alive";
    let at_most = Duration::from_secs(15);
    let executor = Executor::new(fleet.rust.clone());
    let config = LockConfig::new(name).lock_at_most_for(at_most).keep_alive();
    let outcome = executor.execute(&config, async {
        wait(at_most + Duration::from_secs(1)).await;
        fleet.java.lock(name, LONG).await
    });
    let theirs = outcome.await?.value().context("our own lock was lost")??;
    Ok(theirs.is_none() && fleet.java.lock(name, LONG).await?.is_some())
}

/// Past 2038, where MySQL's and MariaDB's timestamps end: held, or refused.
pub(crate) async fn years(fleet: &Fleet) -> anyhow::Result<bool> {
    const TWENTY: Duration = Duration::from_secs(20 * 366 * 86_400);
    let ours = match fleet.lock("rust-years", TWENTY).await {
        Ok(lease) => Some(lease.context("the lock should be free: no one else uses this name")?),
        Err(error) if is_invalid(&error) => None,
        Err(error) => return Err(error),
    };
    if ours.is_some() && fleet.java.lock("rust-years", LONG).await?.is_some() {
        bail!("ShedLock took a lock of ours");
    }
    match fleet.java.lock("java-years", TWENTY).await {
        Ok(Some(_)) => Ok(fleet.lock("java-years", LONG).await?.is_none()),
        Ok(None) => bail!("ShedLock did not get a free lock"),
        // Refused: an exception means that there is no lock.
        Err(_) => Ok(true),
    }
}

/// Whether our provider refused the request as invalid.
pub(crate) fn is_invalid(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<shedlock::Error>()
        .is_some_and(|error| error.kind() == ErrorKind::InvalidInput)
}
