//! Which side holds a lock, and which is excluded.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use shedlock::{Attempt, Executor, LockConfig};
use shedlock_interop::{Fleet, Run};

use crate::wait::{now, until, wait};
use crate::{LONG, SHORT};

pub(crate) async fn java_holds(fleet: &Fleet) -> anyhow::Result<bool> {
    exclude_from_java("java-holds", fleet).await
}

pub(crate) async fn exclude_from_java(name: &str, fleet: &Fleet) -> anyhow::Result<bool> {
    let theirs = fleet.java.lock(name, LONG).await?;
    let theirs = theirs.context("the lock should be free: no one else uses this name")?;
    if fleet.lock(name, LONG).await?.is_some() {
        return Ok(false);
    }
    fleet.java.unlock(theirs).await?;
    let _taken = until(|| fleet.lock(name, LONG)).await?;
    Ok(true)
}

pub(crate) async fn names_host(fleet: &Fleet) -> anyhow::Result<bool> {
    let name = "names-host";
    let theirs = fleet.java.lock(name, LONG).await?;
    theirs.context("the lock should be free: no one else uses this name")?;
    let Attempt::Skipped(skip) = fleet.attempt(name, LONG).await? else {
        bail!("the lock was taken from ShedLock");
    };
    let Some(host) = skip.owner else {
        return Ok(false);
    };
    ensure!(
        !host.is_empty() && !host.contains('/'),
        "not a host of ShedLock: {host}"
    );
    Ok(true)
}

pub(crate) async fn rust_holds(fleet: &Fleet) -> anyhow::Result<bool> {
    exclude_from_rust("rust-holds", fleet).await
}

pub(crate) async fn exclude_from_rust(name: &str, fleet: &Fleet) -> anyhow::Result<bool> {
    let ours = fleet.lock(name, LONG).await?;
    let ours = ours.context("the lock should be free: no one else uses this name")?;
    if fleet.java.lock(name, LONG).await?.is_some() {
        return Ok(false);
    }
    ensure!(fleet.unlock(&ours).await?, "our own lock was lost");
    Ok(fleet.java.lock(name, LONG).await?.is_some())
}

/// Whether our lock excludes ShedLock in a place that our provider created before ShedLock ran.
pub(crate) async fn rust_first(fleet: &Fleet) -> anyhow::Result<bool> {
    let place = fleet.ours_first().await?;
    let theirs = || fleet.java.lock_at(place.theirs, "rust-first", LONG);
    if !place.kept_out_the_first || theirs().await?.is_none() {
        return Ok(false);
    }
    let ours = fleet.attempt_at(&place.ours, "rust-first", LONG).await?;
    Ok(ours.acquired().is_none())
}

pub(crate) async fn executors(fleet: &Fleet) -> anyhow::Result<bool> {
    let run = Run {
        at_most: LONG,
        takes: SHORT,
        ..Run::default()
    };
    let executor = Executor::new(fleet.rust.clone());
    let config = LockConfig::new("executors").lock_at_most_for(LONG);
    let theirs_while_ours = executor
        .execute(&config, fleet.java.run("executors", run))
        .await?
        .value()
        .context("ours did not run on a free lock")??;
    Ok(theirs_while_ours.is_none() && is_kept_out(fleet, "executors", run, Duration::ZERO).await?)
}

/// A nested task under the same name.
pub(crate) async fn nested(fleet: &Fleet) -> anyhow::Result<bool> {
    let executor = Executor::new(fleet.rust.clone());
    let config = LockConfig::new("rust-nests").lock_at_most_for(LONG);
    let theirs = executor
        .execute(&config, async {
            let inner = executor.execute(&config, async {}).await?;
            ensure!(
                inner.is_executed(),
                "ours is skipped because of its own lock"
            );
            fleet.java.lock("rust-nests", LONG).await
        })
        .await?
        .value()
        .context("ours did not run on a free lock")??;
    let run = Run {
        at_most: LONG,
        takes: 2 * SHORT,
        nested: true,
        ..Run::default()
    };
    let second = Duration::from_secs(1);
    Ok(theirs.is_none() && is_kept_out(fleet, "java-nests", run, second).await?)
}

/// Whether our side skips, this long after a task of ShedLock has begun and before it ends.
pub(crate) async fn is_kept_out(
    fleet: &Fleet,
    name: &str,
    run: Run,
    after: Duration,
) -> anyhow::Result<bool> {
    let executor = Executor::new(fleet.rust.clone());
    for telling in 0..5 {
        let name = format!("{name}-{telling}");
        let config = LockConfig::new(&*name).lock_at_most_for(LONG);
        let theirs = fleet.java.run(&name, run);
        let ours = async {
            let _held = until(|| async {
                let record = fleet.record(&name).await?;
                Ok(record.filter(|record| record.state.may_run()))
            })
            .await?;
            wait(after).await;
            anyhow::Ok(executor.execute(&config, async { now() }).await?.value())
        };
        let (theirs, ours) = tokio::try_join!(theirs, ours)?;
        let ended = theirs.context("ShedLock did not run on a free lock")?;
        match ours {
            None => return Ok(true),
            Some(began) if began < ended => return Ok(false),
            // The machine is slow: ShedLock's task had already ended.
            Some(_) => {}
        }
    }
    bail!("the machine is too slow: each time ShedLock's task ended before our attempt")
}
