//! An operator removes the records of locks that are no longer used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use shedlock_core::{
    Error, ErrorKind, KeepReason, LockName, LockRecord, PauseRequest, Paused, PruneRequest, Pruned,
    ResumeRequest, SkipReason, Slot, admin,
};
use tokio::task::JoinSet;

use super::law09_open_slots::{done, new, open};
use super::slots::Slots;
use crate::case::cases;
use crate::context::name;
use crate::steps::{
    abandon, acquire, is_free, record, skipped_as, still_holds, try_take, unlock, unlock_contended,
};
use crate::verdict::ensure;
use crate::wait::sleep;
use crate::{JavaRecord, Provider, Stop, TestContext, Verdict};

cases!("prunes" [Operators]:
    an_idle_record_is_removed [Smoke, Record],
    the_record_of_a_crashed_holder_is_removed_when_it_is_old [Time],
    a_lock_that_was_never_taken_has_no_record_to_remove,
    an_idle_time_of_zero_is_refused,
    a_lock_that_was_used_recently_keeps_its_record [Time],
    a_held_lock_keeps_its_record [Smoke],
    at_least_keeps_the_record,
    a_paused_lock_keeps_its_record,
    a_recent_slot_keeps_the_record [Slots],
    an_open_slot_keeps_the_record [Slots],
    a_slot_that_may_still_be_asked_for_keeps_the_record [Slots],
    a_removed_record_forgets_its_slots [Slots],
    a_record_that_shedlock_may_remember_is_kept [Record],
    the_record_of_shedlock_is_removed [Record],
    a_record_that_is_taken_meanwhile_is_kept [Exclusion],
    attempts_and_removals_at_once_break_nothing [Exclusion],
);

/// A removal where no ShedLock runs, of a job whose slots are not asked for after the idle time.
fn request(lock: &LockName, idle_for: Duration) -> PruneRequest {
    PruneRequest::new(lock.clone(), idle_for)
        .with_slots_asked_for(idle_for)
        .without_shedlock()
}

async fn removal(
    provider: &Provider,
    lock: &LockName,
    idle_for: Duration,
) -> Result<LockRecord, Stop> {
    match admin::prune(&**provider, &request(lock, idle_for)).await? {
        Pruned::Removed(before) => Ok(before),
        answer => Err(Stop::failed(format!(
            "the record of {lock} should be removed, but the answer was {answer:?}"
        ))),
    }
}

async fn removed(provider: &Provider, lock: &LockName, idle_for: Duration) -> Verdict {
    removal(provider, lock, idle_for).await.map(drop)
}

async fn kept(
    provider: &Provider,
    lock: &LockName,
    idle_for: Duration,
    expected: KeepReason,
) -> Verdict {
    kept_from(provider, &request(lock, idle_for), expected).await
}

async fn kept_from(provider: &Provider, request: &PruneRequest, expected: KeepReason) -> Verdict {
    let lock = &request.name;
    let answer = admin::prune(&**provider, request).await?;
    ensure!(
        matches!(&answer, Pruned::Kept { reason, .. } if *reason == expected),
        "the record of {lock} should be kept ({expected:?}), but the answer was {answer:?}"
    );
    record(provider, lock).await.map(drop)
}

/// Lets time pass until a lock that is free now has been idle for the returned time.
async fn idle(context: &TestContext) -> Duration {
    let short = context.timing().short();
    context.pass(context.timing().past(short)).await;
    short
}

/// A record that has been idle is removed, once. The lock is then like one that was never taken, and
/// its fencing tokens go on growing.
pub async fn an_idle_record_is_removed(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let (job, other) = (name("job"), name("other"));
    let before = acquire(&first, &context.request(&job)).await?;
    unlock(&first, &before).await?;
    abandon(&first, &context.request(&other)).await?;
    let idle = idle(context).await;
    let found = removal(&second, &job, idle).await?;
    ensure!(
        found.name == job && found.fencing_token == before.fencing_token(),
        "the removed record should be that of {before:?}: {found:?}"
    );
    for provider in [&first, &second] {
        let found = provider.inspect(&job).await?;
        ensure!(found.is_none(), "the record was removed: {found:?}");
    }
    let listed = first.list(&Default::default()).await?;
    let names: Vec<_> = listed.iter().map(|record| record.name.as_str()).collect();
    ensure!(
        names == ["other"],
        "only \"other\" should be listed, but {names:?} are"
    );
    let again = admin::prune(&*first, &request(&job, idle)).await?;
    ensure!(
        matches!(again, Pruned::NoRecord),
        "the record was removed before, but the answer was {again:?}"
    );
    let after = acquire(&first, &context.request(&job)).await?;
    ensure!(
        !context.capabilities().fencing || after.fencing_token() > before.fencing_token(),
        "the token of {after:?} should be larger than that of {before:?}, although its record was \
         removed"
    );
    skipped_as(&second, &context.request(&job), SkipReason::Held).await?;
    unlock(&first, &after).await
}

/// The record of a lease that ran to its end is removed too, when its end is old enough.
pub async fn the_record_of_a_crashed_holder_is_removed_when_it_is_old(
    context: &TestContext,
) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let short = context.timing().short();
    abandon(&first, &context.request_for(&job, short)).await?;
    context.pass(context.timing().past(short)).await;
    let idle = idle(context).await;
    removed(&second, &job, idle).await?;
    is_free(&first, &job).await
}

/// There is nothing to remove for a name that no one has locked.
pub async fn a_lock_that_was_never_taken_has_no_record_to_remove(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let short = context.timing().short();
    let answer = admin::prune(&*provider, &request(&name("never-locked"), short)).await?;
    ensure!(
        matches!(answer, Pruned::NoRecord),
        "no one took this lock, but the answer was {answer:?}"
    );
    Ok(())
}

/// Without an idle time, a removal could hit a lock that is in use.
pub async fn an_idle_time_of_zero_is_refused(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let zero = request(&name("job"), Duration::ZERO);
    let error = admin::prune(&*provider, &zero).await.err();
    ensure!(
        error.as_ref().map(Error::kind) == Some(ErrorKind::InvalidInput),
        "an idle time of zero should be refused as invalid, not as {error:?}"
    );
    Ok(())
}

/// The idle time counts from the last use of the lock.
pub async fn a_lock_that_was_used_recently_keeps_its_record(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let lease = acquire(&first, &context.request(&job)).await?;
    unlock(&first, &lease).await?;
    idle(context).await;
    let long = context.timing().long();
    kept(&second, &job, long, KeepReason::UsedRecently).await?;
    abandon(&first, &context.request(&job)).await
}

/// A lock that is held keeps its record, however short the idle time is.
pub async fn a_held_lock_keeps_its_record(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let lease = acquire(&first, &context.request(&job)).await?;
    let idle = idle(context).await;
    kept(&second, &job, idle, KeepReason::Taken).await?;
    still_holds(&second, &lease).await?;
    unlock(&first, &lease).await
}

/// A lock that is kept by `lock_at_least_for` keeps its record.
pub async fn at_least_keeps_the_record(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let long = context.timing().long();
    let request = context.request(&job).with_lock_at_least_for(long);
    let lease = acquire(&first, &request).await?;
    unlock(&first, &lease).await?;
    let idle = idle(context).await;
    kept(&second, &job, idle, KeepReason::Taken).await?;
    skipped_as(&first, &context.request(&job), SkipReason::AtLeast).await
}

/// A pause is not forgotten. Once it has ended, its end is the last use.
pub async fn a_paused_lock_keeps_its_record(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let answer = admin::pause(&*first, &PauseRequest::new(job.clone(), "alice")).await?;
    ensure!(
        matches!(answer, Paused::Done { .. }),
        "{job} should be paused, but the answer was {answer:?}"
    );
    let short = idle(context).await;
    kept(&second, &job, short, KeepReason::Taken).await?;
    admin::resume(&*first, &ResumeRequest::new(job.clone())).await?;
    let long = context.timing().long();
    kept(&second, &job, long, KeepReason::UsedRecently).await?;
    let short = idle(context).await;
    removed(&second, &job, short).await
}

/// The last slot must be as old as the idle time, whenever the lock was free.
pub async fn a_recent_slot_keeps_the_record(context: &TestContext) -> Verdict {
    context.needs_slots()?;
    let (first, second) = context.two().await?;
    let job = name("job");
    let hour = Duration::from_secs(3_600);
    let slot = Slot::at(context.store_now(&first).await? + hour)?;
    let request = context.request(&job).with_slot(slot);
    let lease = acquire(&first, &request.with_slot_tolerance(2 * hour)).await?;
    unlock(&first, &lease).await?;
    let idle = idle(context).await;
    kept(&second, &job, idle, KeepReason::UsedRecently).await?;
    let earlier = Slot::at(slot.instant() - 2 * hour)?;
    let earlier = context.request(&job).with_slot(earlier);
    skipped_as(&first, &earlier, SkipReason::SlotTaken).await
}

/// A slot that must not be lost keeps the record until it is done.
pub async fn an_open_slot_keeps_the_record(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let lease = acquire(&case.first, &open(case.request(0)?, 3)).await?;
    unlock(&case.first, &lease).await?;
    let short = idle(context).await;
    kept(&case.second, &case.job, short, KeepReason::SlotOpen).await?;
    let lease = acquire(&case.first, &open(case.request(0)?, 3)).await?;
    ensure!(
        lease.slot_attempt() == Some(2),
        "the record was kept, so this is the second attempt: {lease:?}"
    );
    done(&case.first, &lease).await?;
    let short = idle(context).await;
    removed(&case.second, &case.job, short).await
}

/// A job that runs once a month has a record that has been idle for weeks, and a late start asks for its
/// last slot. Unless the schedule is known, that may be a year later.
pub async fn a_slot_that_may_still_be_asked_for_keeps_the_record(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    let lease = acquire(&case.first, &case.request(5)?).await?;
    unlock(&case.first, &lease).await?;
    let short = idle(context).await;
    let unknown = PruneRequest::new(case.job.clone(), short).without_shedlock();
    kept_from(&case.second, &unknown, KeepReason::SlotAskedFor).await?;
    skipped_as(&case.first, &case.request(5)?, SkipReason::SlotTaken).await?;
    removed(&case.second, &case.job, short).await
}

/// Nothing of the record is left, wherever the store keeps its parts: not even the last slot.
pub async fn a_removed_record_forgets_its_slots(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    let lease = acquire(&case.first, &case.request(5)?).await?;
    unlock(&case.first, &lease).await?;
    let short = idle(context).await;
    skipped_as(&case.first, &case.request(4)?, SkipReason::SlotTaken).await?;
    removed(&case.second, &case.job, short).await?;
    let lease = acquire(&case.first, &case.request(4)?).await?;
    unlock(&case.first, &lease).await?;
    skipped_as(&case.second, &case.request(4)?, SkipReason::SlotTaken).await?;
    let lease = acquire(&case.second, &case.request(5)?).await?;
    unlock(&case.second, &lease).await
}

/// On a store where ShedLock remembers names, no record is removed until someone states that no ShedLock
/// runs: a JVM also remembers names that this process took last.
pub async fn a_record_that_shedlock_may_remember_is_kept(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let lease = acquire(&first, &context.request(&job)).await?;
    unlock(&first, &lease).await?;
    let short = idle(context).await;
    let careful = PruneRequest::new(job.clone(), short);
    if context.capabilities().remembered_by_shedlock {
        kept_from(&second, &careful, KeepReason::RememberedByShedLock).await?;
        return removed(&second, &job, short).await;
    }
    let answer = admin::prune(&*second, &careful).await?;
    ensure!(
        matches!(answer, Pruned::Removed(_)),
        "ShedLock does not remember names of this store, but the answer was {answer:?}"
    );
    Ok(())
}

/// Records that ShedLock left, whose owner is only a host, are removed by the same rules.
pub async fn the_record_of_shedlock_is_removed(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let now = context.store_now(&first).await?;
    let java = |lock_until| JavaRecord {
        locked_by: "java-host".to_owned(),
        locked_at: now - Duration::from_secs(7_200),
        lock_until,
    };
    let held = java(now + Duration::from_secs(3_600));
    context.write_as_shedlock(&job, &held).await?;
    let short = context.timing().short();
    kept(&second, &job, short, KeepReason::Taken).await?;
    let free = java(now - Duration::from_secs(3_600));
    context.write_as_shedlock(&job, &free).await?;
    if context.read_as_shedlock(&job).await?.is_none() {
        return Err(Stop::not_applicable(
            "a lock that ShedLock no longer holds leaves no record in this store",
        ));
    }
    let short = idle(context).await;
    removed(&second, &job, short).await?;
    let found = context.read_as_shedlock(&job).await?;
    ensure!(found.is_none(), "the record was removed: {found:?}");
    abandon(&first, &context.request(&job)).await
}

/// A removal that loses its race against an attempt leaves the new lease alone.
pub async fn a_record_that_is_taken_meanwhile_is_kept(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let jobs: Vec<LockName> = (0..20).map(|i| name(&format!("job-{i}"))).collect();
    for job in &jobs {
        let lease = acquire(&first, &context.request(job)).await?;
        unlock(&first, &lease).await?;
    }
    let idle = idle(context).await;
    for (i, job) in jobs.iter().enumerate() {
        let (attempt, prune) = (context.request(job), request(job, idle));
        let (attempt, prune) = (try_take(&first, &attempt), admin::prune(&*second, &prune));
        // Each of them is sent first half of the times.
        let (attempt, pruned) = if i % 2 == 0 {
            tokio::join!(attempt, prune)
        } else {
            let (pruned, attempt) = tokio::join!(prune, attempt);
            (attempt, pruned)
        };
        pruned?;
        let Ok(taken) = attempt? else {
            // Both lost every round.
            continue;
        };
        still_holds(&second, &taken.lease).await?;
        skipped_as(&second, &context.request(job), SkipReason::Held).await?;
        unlock(&first, &taken.lease).await?;
    }
    Ok(())
}

/// Workers take a lock again and again, and its record is removed whenever it was free for a moment:
/// there is one holder at a time.
pub async fn attempts_and_removals_at_once_break_nothing(context: &TestContext) -> Verdict {
    const TURNS: u64 = 60;
    let job = name("job");
    let (is_held, is_over) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let turns = Arc::new(AtomicU64::new(0));
    let mut workers = JoinSet::new();
    for provider in context.providers(4).await? {
        let (context, job) = (context.clone(), job.clone());
        let (is_held, is_over) = (Arc::clone(&is_held), Arc::clone(&is_over));
        let turns = Arc::clone(&turns);
        workers.spawn(async move {
            while !is_over.load(Ordering::SeqCst) {
                let Ok(taken) = try_take(&provider, &context.request(&job)).await? else {
                    context.pass(Duration::from_millis(2)).await;
                    continue;
                };
                ensure!(
                    !is_held.swap(true, Ordering::SeqCst),
                    "{} was granted the lock while another owner held it",
                    taken.lease.owner()
                );
                sleep(Duration::from_millis(5)).await;
                is_held.store(false, Ordering::SeqCst);
                unlock_contended(&provider, &taken.lease).await?;
                let turn = turns.fetch_add(1, Ordering::SeqCst);
                if turn >= TURNS {
                    is_over.store(true, Ordering::SeqCst);
                }
                // Now and then there is time for a removal.
                context.pass(Duration::from_millis(10 * (turn % 4))).await;
            }
            Ok::<(), Stop>(())
        });
    }
    let (remover, is_done) = (context.provider().await?, Arc::clone(&is_over));
    workers.spawn(async move {
        let request = request(&job, Duration::from_millis(5));
        while !is_done.load(Ordering::SeqCst) {
            match admin::prune(&*remover, &request).await {
                // All rounds were lost against the workers.
                Err(error) if error.is_retryable() => {}
                answer => drop(answer?),
            }
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    });
    let mut result = Ok(());
    while let Some(joined) = workers.join_next().await {
        if let Err(stop) = joined? {
            is_over.store(true, Ordering::SeqCst);
            result = result.and(Err(stop));
        }
    }
    result
}
