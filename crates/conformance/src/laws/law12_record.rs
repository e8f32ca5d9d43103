//! Law 12: ShedLock for Java and shedlock use the same record.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock_core::{ErrorKind, LockName, LockState, MigrationStep, SkipReason};
use tokio::task::JoinSet;

use crate::case::cases;
use crate::context::name;
use crate::steps::{
    abandon, acquire, extend_is_lost, is_free, record, skip_as, skipped, still_holds, unlock,
    unlock_is_lost,
};
use crate::verdict::ensure;
use crate::{JavaRecord, Provider, Stop, TestContext, Verdict};

cases!("law12_record" [Record]:
    a_lock_of_shedlock_is_held [Smoke, Time],
    an_expired_record_of_shedlock_is_free [Time],
    stale_calls_leave_what_shedlock_took,
    shedlock_sees_our_lease [Smoke, Time],
    shedlock_sees_our_unlock [Time],
    shedlock_sees_at_least [Time],
    migrating_twice_is_harmless [Declared],
    migrating_makes_a_dropped_container [Declared],
);

/// A lock of ShedLock is held; the skip and the record contain its host and its end.
pub async fn a_lock_of_shedlock_is_held(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let java = java(context, &provider, 600).await?;
    context.write_as_shedlock(&job, &java).await?;
    let skip = skip_as(&provider, &context.request(&job), SkipReason::Held).await?;
    let found = record(&provider, &job).await?;
    ensure!(
        found.state == LockState::Taken,
        "ShedLock holds {job}, but its record shows {found:?}"
    );
    for (what, owner, until) in [
        ("skip", skip.owner, skip.until),
        ("record", found.owner, found.locked_until),
    ] {
        let known = owner.is_none() || owner.as_deref() == Some(&java.locked_by);
        ensure!(
            known,
            "{} holds {job}, but the {what} says {owner:?}",
            java.locked_by
        );
        let known = until.is_none_or(|until| same_instant(until, java.lock_until));
        ensure!(
            known,
            "{job} is held until {:?}, but the {what} says {until:?}",
            java.lock_until
        );
    }
    Ok(())
}

/// An expired record of ShedLock, written a day ago by "me", is free: it can be acquired, unlocked,
/// and acquired again.
pub async fn an_expired_record_of_shedlock_is_free(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let now = context.store_now(&provider).await?;
    let yesterday = now - Duration::from_secs(86_400);
    let old = JavaRecord {
        locked_by: "me".to_owned(),
        locked_at: yesterday,
        lock_until: yesterday,
    };
    context.write_as_shedlock(&job, &old).await?;
    is_free(&provider, &job).await?;
    for _ in 0..2 {
        let lease = acquire(&provider, &context.request(&job)).await?;
        still_holds(&provider, &lease).await?;
        skipped(&provider, &context.request(&job)).await?;
        unlock(&provider, &lease).await?;
    }
    Ok(())
}

/// If a lease of ours expired and ShedLock acquired the lock, a late unlock, extension or
/// withdrawal is lost.
pub async fn stale_calls_leave_what_shedlock_took(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let short = context.timing().short();
    let request = context.request_for(&job, short);
    let stale = acquire(&provider, &request).await?;
    context.pass(context.timing().past(short)).await;
    let java = java(context, &provider, 600).await?;
    context.write_as_shedlock(&job, &java).await?;
    unlock_is_lost(&provider, &stale).await?;
    extend_is_lost(&provider, &stale, context.timing().long()).await?;
    ensure!(
        !provider.withdraw(&request).await?,
        "our withdrawal reported that it freed a lock that ShedLock holds"
    );
    let skip = skip_as(&provider, &context.request(&job), SkipReason::Held).await?;
    ensure!(
        skip.until
            .is_none_or(|until| same_instant(until, java.lock_until)),
        "stale calls moved the end of ShedLock's lock from {:?} to {:?}",
        java.lock_until,
        skip.until
    );
    Ok(())
}

/// ShedLock sees our lease, with its owner and its end.
pub async fn shedlock_sees_our_lease(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let lease = acquire(&provider, &context.request(&name("job"))).await?;
    let java = seen(context, lease.name()).await?;
    ensure!(
        java.locked_by == lease.owner().as_str(),
        "ShedLock sees {:?} as the holder, but it is {}",
        java.locked_by,
        lease.owner()
    );
    for (what, ours, its) in [
        ("end", lease.locked_until(), java.lock_until),
        ("beginning", lease.acquired_at(), java.locked_at),
    ] {
        ensure!(
            ours.is_none_or(|ours| same_instant(ours, its)),
            "the {what} of our lease is {ours:?}, but ShedLock sees {its:?}"
        );
    }
    unlock(&provider, &lease).await
}

/// ShedLock sees our unlock: it could acquire the lock now.
pub async fn shedlock_sees_our_unlock(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let lease = acquire(&provider, &context.request(&name("job"))).await?;
    unlock(&provider, &lease).await?;
    let Some(java) = context.read_as_shedlock(lease.name()).await? else {
        return Ok(());
    };
    let now = context.store_now(&provider).await? + Duration::from_millis(1);
    ensure!(
        java.lock_until <= now,
        "we had unlocked by {now:?}, but ShedLock sees a lock until {:?}",
        java.lock_until
    );
    Ok(())
}

/// ShedLock sees at-least and waits for its end.
pub async fn shedlock_sees_at_least(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let long = context.timing().long();
    let request = context.request(&name("job")).with_lock_at_least_for(long);
    let lease = acquire(&provider, &request).await?;
    let held = seen(context, lease.name()).await?;
    unlock(&provider, &lease).await?;
    let kept = seen(context, lease.name()).await?;
    let lasts = kept
        .lock_until
        .duration_since(held.locked_at)
        .unwrap_or_default();
    ensure!(
        lasts + Duration::from_millis(1) >= long,
        "at-least keeps the lock for {long:?}, but ShedLock sees {lasts:?}"
    );
    Ok(())
}

/// Migrating again, also four times concurrently, keeps existing records.
pub async fn migrating_twice_is_harmless(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let lease = acquire(&provider, &context.request(&name("job"))).await?;
    let planned = planned(&provider).await?;
    let again = self::planned(&provider).await?;
    ensure!(
        planned == again,
        "planning a migration changed something: first {planned:?}, then {again:?}"
    );
    let changes = migrate(&provider).await?;
    ensure!(
        planned.is_empty() || !changes.is_empty(),
        "a migration changed nothing, but was to change {planned:?}"
    );
    is_complete(&provider).await?;
    let mut migrations = JoinSet::new();
    for provider in context.providers(4).await? {
        migrations.spawn(async move { migrate(&provider).await });
    }
    while let Some(joined) = migrations.join_next().await {
        let changes = joined??;
        ensure!(
            changes.is_empty(),
            "a migration of a store that is already migrated changed {changes:?}"
        );
    }
    still_holds(&provider, &lease).await?;
    unlock(&provider, &lease).await
}

/// Four concurrent migrations recreate a dropped container, and the lock works.
pub async fn migrating_makes_a_dropped_container(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    abandon(&provider, &context.request(&name("before"))).await?;
    context.drop_container().await?;
    let mut migrations = JoinSet::new();
    for provider in context.providers(4).await? {
        migrations.spawn(async move { migrate(&provider).await });
    }
    while let Some(joined) = migrations.join_next().await {
        joined??;
    }
    provider.check().await?;
    is_complete(&provider).await?;
    let lease = acquire(&provider, &context.request(&name("job"))).await?;
    still_holds(&provider, &lease).await?;
    unlock(&provider, &lease).await
}

/// What a migration would change; empty if the provider cannot plan one.
async fn planned(provider: &Provider) -> Result<Vec<MigrationStep>, Stop> {
    match provider.plan_migration().await {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(Vec::new()),
        planned => Ok(planned?),
    }
}

async fn is_complete(provider: &Provider) -> Verdict {
    let planned = planned(provider).await?;
    ensure!(
        planned.is_empty(),
        "after a migration, another one would change {planned:?}"
    );
    Ok(())
}

async fn migrate(provider: &Provider) -> Result<Vec<String>, Stop> {
    match provider.migrate().await {
        Ok(migration) => Ok(migration.changes),
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            Err(Stop::not_applicable("the provider has nothing to migrate"))
        }
        Err(error) => Err(error.into()),
    }
}

/// What ShedLock would write now for a lock of this many seconds.
async fn java(
    context: &TestContext,
    provider: &Provider,
    seconds: u64,
) -> Result<JavaRecord, Stop> {
    let now = in_millis(context.store_now(provider).await?);
    Ok(JavaRecord {
        locked_by: "java-host.example".to_owned(),
        locked_at: now,
        lock_until: now + Duration::from_secs(seconds),
    })
}

async fn seen(context: &TestContext, name: &LockName) -> Result<JavaRecord, Stop> {
    let seen = context.read_as_shedlock(name).await?;
    seen.ok_or_else(|| Stop::failed(format!("ShedLock sees no record of {name}")))
}

/// ShedLock's records store times in milliseconds in most stores, in seconds in some.
fn same_instant(a: SystemTime, b: SystemTime) -> bool {
    let apart = a.duration_since(b).unwrap_or_else(|error| error.duration());
    apart <= Duration::from_secs(1)
}

fn in_millis(instant: SystemTime) -> SystemTime {
    let since = instant.duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH
        + Duration::from_secs(since.as_secs())
        + Duration::from_millis(u64::from(since.subsec_millis()))
}
