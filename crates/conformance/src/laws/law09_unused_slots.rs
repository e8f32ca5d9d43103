//! Law 9: a slot is used up only if its task ran, and a given-up slot is reported as such.

use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{
    Attempt, AttemptRequest, Lease, Owner, ResetSlotRequest, SkipReason, SlotEnd, Unlock,
    UnlockRequest, admin,
};
use tokio::task::JoinSet;

use super::law09_open_slots::{attempt_is, done, failed, new, open, state_is, unlock_with};
use super::slots::Slots;
use crate::case::cases;
use crate::steps::{acquire, record, skipped_as, unlock, unlock_stale};
use crate::verdict::ensure;
use crate::{Provider, Stop, TestContext, Verdict};

cases!("law09_unused_slots" [Slots]:
    a_task_that_never_started_gives_its_slot_back [Smoke],
    a_slot_is_given_back_once,
    a_stale_lease_gives_nothing_back,
    a_task_that_never_started_gives_back_the_slot_of_an_expired_lease,
    a_slot_that_is_run_again_after_a_reset_is_given_back,
    a_slot_that_was_reset_meanwhile_is_not_given_back,
    an_attempt_that_never_started_does_not_count,
    a_run_that_a_shutdown_cut_does_not_count,
    a_cut_run_uses_up_a_slot_that_is_taken_at_most_once,
    a_slot_whose_attempts_are_used_up_is_given_up,
    contenders_run_a_slot_once_however_often_it_is_given_back,
);

/// A task that never started gives its slot back immediately, regardless of at-least; earlier slots
/// stay taken.
pub async fn a_task_that_never_started_gives_its_slot_back(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    let at_least = context.timing().long();
    for provider in [&case.first, &case.second, &case.first] {
        let request = case.request(1)?.with_lock_at_least_for(at_least);
        let lease = acquire(provider, &request).await?;
        unlock_with(provider, &lease, &not_started()).await?;
        given_back(&case, 1).await?;
        skipped_as(&case.second, &case.request(0)?, SkipReason::SlotTaken).await?;
    }
    let lease = acquire(&case.second, &case.request(1)?).await?;
    unlock(&case.second, &lease).await?;
    skipped_as(&case.first, &case.request(1)?, SkipReason::SlotTaken).await
}

/// A slot is given back once, even if the unlock is repeated because its reply was lost, and
/// repeated once more after another replica has run the slot.
pub async fn a_slot_is_given_back_once(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    let first = acquire(&case.first, &case.request(1)?).await?;
    for _ in 0..2 {
        unlock_with(&case.first, &first, &not_started()).await?;
        given_back(&case, 1).await?;
    }
    let second = acquire(&case.second, &case.request(1)?).await?;
    for _ in 0..2 {
        is_lost(&case.first, &first, &not_started()).await?;
        last_is(&case, 1).await?;
    }
    unlock(&case.second, &second).await?;
    is_lost(&case.first, &first, &not_started()).await?;
    skipped_as(&case.first, &case.request(1)?, SkipReason::SlotTaken).await
}

/// A stale lease gives nothing back once another replica has acquired the lock.
pub async fn a_stale_lease_gives_nothing_back(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let short = context.timing().short();
    let dying = |slot: u32| {
        let request = context.request_for(&case.job, short);
        Ok::<_, Stop>(request.with_slot(case.slot(slot)?))
    };
    let stale = acquire(&case.first, &open(dying(0)?, 9)).await?;
    context.pass(context.timing().past(short)).await;
    let lease = acquire(&case.second, &open(case.request(0)?, 9)).await?;
    for request in [
        not_started(),
        UnlockRequest::new().with_slot_end(SlotEnd::Cut),
    ] {
        is_lost(&case.first, &stale, &request).await?;
        state_is(&case, 0, None, Some(2)).await?;
    }
    done(&case.second, &lease).await?;

    let stale = acquire(&case.first, &dying(1)?).await?;
    context.pass(context.timing().past(short)).await;
    let lease = acquire(&case.second, &case.request(2)?).await?;
    is_lost(&case.first, &stale, &not_started()).await?;
    state_is(&case, 2, Some(0), None).await?;
    unlock(&case.second, &lease).await
}

/// A task that never started gives its slot back even after its lease expired: its process was
/// stopped between the acquisition and the task.
pub async fn a_task_that_never_started_gives_back_the_slot_of_an_expired_lease(
    context: &TestContext,
) -> Verdict {
    let case = Slots::new(context).await?;
    let short = context.timing().short();
    let request = context.request_for(&case.job, short);
    let expired = acquire(&case.first, &request.with_slot(case.slot(1)?)).await?;
    context.pass(context.timing().past(short)).await;
    for _ in 0..2 {
        unlock_with(&case.first, &expired, &not_started()).await?;
        given_back(&case, 1).await?;
    }
    let lease = acquire(&case.second, &case.request(1)?).await?;
    is_lost(&case.first, &expired, &not_started()).await?;
    last_is(&case, 1).await?;
    unlock(&case.second, &lease).await
}

/// A slot that an operator makes available again is given back like any other if its task never
/// started, although it was done before.
pub async fn a_slot_that_is_run_again_after_a_reset_is_given_back(
    context: &TestContext,
) -> Verdict {
    let case = new(context).await?;
    let lease = acquire(&case.first, &case.request(1)?).await?;
    done(&case.first, &lease).await?;
    reset(&case, 0).await?;
    let lease = acquire(&case.first, &case.request(1)?).await?;
    unlock_with(&case.first, &lease, &not_started()).await?;
    let lease = acquire(&case.second, &case.request(1)?).await?;
    done(&case.second, &lease).await?;
    state_is(&case, 1, Some(1), None).await
}

/// If an operator sets the last slot during a run, the slot of that run is not given back.
pub async fn a_slot_that_was_reset_meanwhile_is_not_given_back(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let lease = acquire(&case.first, &case.request(1)?).await?;
    done(&case.first, &lease).await?;
    for request in [case.request(2)?, open(case.request(2)?, 3)] {
        reset(&case, 1).await?;
        let lease = acquire(&case.first, &request).await?;
        reset(&case, 3).await?;
        unlock_with(&case.first, &lease, &not_started()).await?;
        state_is(&case, 3, Some(1), None).await?;
    }
    Ok(())
}

async fn reset(case: &Slots<'_>, slot: u32) -> Verdict {
    let request = ResetSlotRequest::new(case.job.clone()).with_slot(case.slot(slot)?);
    admin::reset_slot(&*case.second, &request).await?;
    Ok(())
}

/// An attempt that never started does not count, however often this happens.
pub async fn an_attempt_that_never_started_does_not_count(context: &TestContext) -> Verdict {
    does_not_count(context, not_started()).await
}

/// A run that a graceful shutdown cut does not count, however many shutdowns there are.
pub async fn a_run_that_a_shutdown_cut_does_not_count(context: &TestContext) -> Verdict {
    does_not_count(context, UnlockRequest::new().with_slot_end(SlotEnd::Cut)).await
}

async fn does_not_count(context: &TestContext, end: UnlockRequest) -> Verdict {
    let case = new(context).await?;
    for provider in [&case.first, &case.second, &case.first] {
        let lease = acquire(provider, &open(case.request(0)?, 1)).await?;
        attempt_is(&lease, 1)?;
        unlock_with(provider, &lease, &end).await?;
        state_is(&case, 0, None, Some(0)).await?;
        // The slot is open, so the next one waits.
        let later = open(case.request(1)?, 1);
        skipped_as(&case.second, &later, SkipReason::SlotPending).await?;
    }
    // Earlier failures still count.
    let lease = acquire(&case.first, &open(case.request(0)?, 2)).await?;
    failed(&case.first, &lease, Duration::ZERO).await?;
    let lease = acquire(&case.second, &open(case.request(0)?, 2)).await?;
    attempt_is(&lease, 2)?;
    unlock_with(&case.second, &lease, &end).await?;
    state_is(&case, 0, None, Some(1)).await?;
    let lease = acquire(&case.second, &open(case.request(0)?, 2)).await?;
    done(&case.second, &lease).await?;
    state_is(&case, 0, Some(0), None).await
}

/// A cut run uses up a slot that is taken at most once, because the task did run.
pub async fn a_cut_run_uses_up_a_slot_that_is_taken_at_most_once(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let lease = acquire(&case.first, &case.request(0)?).await?;
    unlock_with(
        &case.first,
        &lease,
        &UnlockRequest::new().with_slot_end(SlotEnd::Cut),
    )
    .await?;
    state_is(&case, 0, None, None).await?;
    skipped_as(&case.second, &case.request(0)?, SkipReason::SlotTaken).await
}

/// A slot whose attempts are used up is reported as given up: not while the last attempt runs, but
/// from then on, even while an at-least or a pause keeps the lock.
pub async fn a_slot_whose_attempts_are_used_up_is_given_up(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let request = || Ok::<_, Stop>(open(case.request(0)?, 1));
    let lease = acquire(&case.first, &request()?).await?;
    skipped_as(&case.second, &request()?, SkipReason::Held).await?;
    failed(&case.first, &lease, context.timing().long()).await?;
    skipped_as(&case.second, &request()?, SkipReason::SlotGivenUp).await?;
    // A request with more attempts does not treat it as given up: it waits for the pause.
    let patient = open(case.request(0)?, 2);
    skipped_as(&case.second, &patient, SkipReason::BackingOff).await?;
    skipped_as(&case.second, &case.request(0)?, SkipReason::SlotTaken).await
}

/// Contenders run a slot once, although most winners give it back without running the task.
pub async fn contenders_run_a_slot_once_however_often_it_is_given_back(
    context: &TestContext,
) -> Verdict {
    let case = Slots::new(context).await?;
    let providers = context.providers(4).await?;
    let mut contenders = JoinSet::new();
    for i in 0..16 {
        let provider = Arc::clone(&providers[i % providers.len()]);
        let (job, slot) = (case.job.clone(), case.slot(1)?);
        let at_most = case.request(1)?.lock_at_most_for;
        contenders.spawn(async move {
            let mut wins = i;
            loop {
                let owner = Owner::generate();
                let request = AttemptRequest::new(job.clone(), owner, at_most).with_slot(slot);
                match provider.attempt(&request).await? {
                    Attempt::Acquired(lease) if wins.is_multiple_of(3) => {
                        unlock(&provider, &lease).await?;
                        return Ok::<_, Stop>(1);
                    }
                    Attempt::Acquired(lease) => {
                        wins += 1;
                        unlock_with(&provider, &lease, &not_started()).await?;
                    }
                    Attempt::Skipped(skip) if skip.reason == SkipReason::SlotTaken => return Ok(0),
                    _ => tokio::task::yield_now().await,
                }
            }
        });
    }
    let mut ran = 0;
    while let Some(joined) = contenders.join_next().await {
        ran += joined??;
    }
    ensure!(
        ran == 1,
        "a slot that was given back again and again was run {ran} times"
    );
    last_is(&case, 1).await
}

fn not_started() -> UnlockRequest {
    UnlockRequest::new().with_slot_end(SlotEnd::NotStarted)
}

/// Checks that the slot can be taken again and that the lock is free.
async fn given_back(case: &Slots<'_>, slot: u32) -> Verdict {
    let found = record(&case.first, &case.job).await?;
    let before = case.slot(slot)?.just_before();
    ensure!(
        found.last_slot == Some(before),
        "slot {} was given back, so the last slot should be {before}, but the record shows \
         {found:?}",
        case.slot(slot)?
    );
    Ok(())
}

async fn last_is(case: &Slots<'_>, slot: u32) -> Verdict {
    let found = record(&case.first, &case.job).await?;
    ensure!(
        found.last_slot == Some(case.slot(slot)?),
        "the last slot should be {}, but the record shows {found:?}",
        case.slot(slot)?
    );
    Ok(())
}

async fn is_lost(provider: &Provider, lease: &Lease, request: &UnlockRequest) -> Verdict {
    let answer = unlock_stale(provider, lease, request).await?;
    ensure!(
        answer == Unlock::Lost,
        "{request:?} of a lease that is over should return Lost, but returned {answer:?}"
    );
    Ok(())
}
