//! Law 9: slots that must not be lost stay open until they are done, are taken over, and run in
//! order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shedlock_core::{
    Attempt, AttemptRequest, Completion, ErrorKind, Lease, Owner, Retries, SkipReason, SlotEnd,
    Unlock, UnlockRequest,
};
use tokio::task::JoinSet;

use super::slots::Slots;
use crate::case::cases;
use crate::context::name;
use crate::steps::{
    abandon, acquire, attempt_error_as, is_free, not_earlier, record, skip_as, skipped_as, take,
    unlock,
};
use crate::verdict::ensure;
use crate::{Provider, Stop, TestContext, Verdict};

cases!("law09_open_slots" [Slots]:
    open_slots_are_refused_unless_declared [Smoke],
    no_attempts_at_all_are_refused,
    a_done_slot_is_not_taken_again [Smoke],
    a_slot_that_is_used_up_when_taken_shows_when_it_is_done,
    a_failed_slot_is_taken_over_after_its_pause [Time],
    a_slot_of_a_dead_runner_is_taken_over,
    a_slot_that_was_left_is_taken_over_at_once,
    an_attempt_asked_again_counts_once,
    a_later_slot_waits_for_the_open_one,
    no_slot_is_left_out,
    attempts_are_bounded,
    a_stale_runner_does_not_end_the_slot,
    contenders_for_an_open_slot_make_as_many_attempts_as_it_has,
    contenders_do_each_of_many_slots_in_order,
    slots_of_both_kinds_pass_each_other,
    acquisitions_without_slot_leave_the_open_slot,
    an_acquisition_of_shedlock_does_the_open_slot [Record],
);

/// A provider without take-over must not run a task whose slots must not be lost.
pub async fn open_slots_are_refused_unless_declared(context: &TestContext) -> Verdict {
    context.needs_slots()?;
    let provider = context.provider().await?;
    let job = name("job");
    let slot = context
        .slot_before_now(&provider, Duration::from_secs(60))
        .await?;
    let request = open(context.request(&job).with_slot(slot), 3);
    if context.capabilities().completion {
        let lease = acquire(&provider, &request).await?;
        return attempt_is(&lease, 1);
    }
    attempt_error_as(&provider, &request, &[ErrorKind::Unsupported]).await?;
    is_free(&provider, &job).await
}

/// A request with zero attempts for a slot is refused before anything is sent.
pub async fn no_attempts_at_all_are_refused(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let request = open(case.request(0)?, 0);
    attempt_error_as(&case.first, &request, &[ErrorKind::InvalidInput]).await?;
    is_free(&case.first, &case.job).await
}

/// A done slot is shown as done in the record and not taken again, and the next slot is available.
pub async fn a_done_slot_is_not_taken_again(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    for slot in 0..3 {
        let lease = acquire(&case.first, &open(case.request(slot)?, 3)).await?;
        attempt_is(&lease, 1)?;
        state_is(&case, slot, slot.checked_sub(1), Some(1)).await?;
        done(&case.first, &lease).await?;
        state_is(&case, slot, Some(slot), None).await?;
        for request in [case.request(slot)?, open(case.request(slot)?, 3)] {
            skipped_as(&case.second, &request, SkipReason::SlotTaken).await?;
        }
    }
    Ok(())
}

/// The record shows when a slot that is used up when taken is done, for operators who read the list
/// of locks.
pub async fn a_slot_that_is_used_up_when_taken_shows_when_it_is_done(
    context: &TestContext,
) -> Verdict {
    let case = new(context).await?;
    let lease = acquire(&case.first, &case.request(0)?).await?;
    ensure!(
        lease.slot_attempt().is_none(),
        "a slot that is used up when it is taken has no attempts, but the lease shows {lease:?}"
    );
    state_is(&case, 0, None, None).await?;
    let request = UnlockRequest::new().with_slot_end(SlotEnd::done(false));
    unlock_with(&case.first, &lease, &request).await?;
    state_is(&case, 0, Some(0), None).await?;
    let lease = acquire(&case.second, &case.request(1)?).await?;
    unlock(&case.second, &lease).await?;
    state_is(&case, 1, Some(0), None).await
}

/// A failed slot is taken over after its pause. During the pause the lock is kept, and a skip gives
/// the reason.
pub async fn a_failed_slot_is_taken_over_after_its_pause(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let request = || Ok::<_, Stop>(open(case.request(0)?, 3));
    let pause = context.timing().medium();
    let first = take(&case.first, &request()?).await?;
    failed(&case.first, &first.lease, pause).await?;
    // On a loaded machine the pause may have passed; then it is correct to grant the slot.
    if let Attempt::Skipped(skip) = case.second.attempt(&request()?).await? {
        ensure!(
            skip.reason == SkipReason::BackingOff && skip.last_slot == Some(case.slot(0)?),
            "a slot failed and its pause runs, but the skip reports {skip:?}"
        );
        context.pass(context.timing().past(pause)).await;
        let second = take(&case.second, &request()?).await?;
        attempt_is(&second.lease, 2)?;
        not_earlier(&first, pause, &second)?;
        done(&case.second, &second.lease).await?;
        state_is(&case, 0, Some(0), None).await?;
    }
    Ok(())
}

/// The slot of a dead runner is taken over by the first replica that attempts it after the lease
/// has expired.
pub async fn a_slot_of_a_dead_runner_is_taken_over(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let short = context.timing().short();
    let request = context.request_for(&case.job, short);
    let dies = acquire(&case.first, &open(request.with_slot(case.slot(0)?), 3)).await?;
    context.pass(context.timing().past(short)).await;
    let lease = acquire(&case.second, &open(case.request(0)?, 3)).await?;
    attempt_is(&lease, 2)?;
    ensure!(
        lease.fencing_token() > dies.fencing_token() || !context.capabilities().fencing,
        "the takeover has the fencing token {:?}, but the dead runner had {:?}",
        lease.fencing_token(),
        dies.fencing_token()
    );
    done(&case.second, &lease).await?;
    state_is(&case, 0, Some(0), None).await
}

/// A runner that shuts down in the middle of its run lets other replicas take over immediately.
pub async fn a_slot_that_was_left_is_taken_over_at_once(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    for attempt in 1..=3 {
        let provider = [&case.first, &case.second][attempt as usize % 2];
        let lease = acquire(provider, &open(case.request(0)?, 9)).await?;
        attempt_is(&lease, attempt)?;
        unlock(provider, &lease).await?;
        state_is(&case, 0, None, Some(attempt)).await?;
    }
    Ok(())
}

/// A repeated attempt whose first reply was lost counts once.
pub async fn an_attempt_asked_again_counts_once(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let request = open(case.request(0)?, 3);
    for provider in [&case.first, &case.first, &case.second] {
        let lease = acquire(provider, &request).await?;
        attempt_is(&lease, 1)?;
    }
    state_is(&case, 0, None, Some(1)).await
}

/// A later slot waits for the open one: while that runs, the lock is held; when the lock is free,
/// the open slot has to run first.
pub async fn a_later_slot_waits_for_the_open_one(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let later = || Ok::<_, Stop>(open(case.request(3)?, 3));
    let lease = acquire(&case.first, &open(case.request(2)?, 3)).await?;
    skipped_as(&case.second, &later()?, SkipReason::Held).await?;
    unlock(&case.first, &lease).await?;
    let skip = skip_as(&case.second, &later()?, SkipReason::SlotPending).await?;
    ensure!(
        skip.last_slot == Some(case.slot(2)?),
        "slot {} is open, but the skip reports {:?}",
        case.slot(2)?,
        skip.last_slot
    );
    state_is(&case, 2, None, Some(1)).await?;
    // An older slot has been passed.
    let older = open(case.request(1)?, 3);
    skipped_as(&case.second, &older, SkipReason::SlotTaken).await?;
    let lease = acquire(&case.second, &open(case.request(2)?, 3)).await?;
    done(&case.second, &lease).await?;
    abandon(&case.first, &later()?).await
}

/// No slot is passed over if the request names the previous slot.
pub async fn no_slot_is_left_out(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let after = |slot: u32| {
        let previous = case.slot(slot - 1)?;
        Ok::<_, Stop>(open(case.request(slot)?, 3).with_previous_slot(previous))
    };
    // A job that never ran has missed no slot.
    let lease = acquire(&case.first, &after(1)?).await?;
    done(&case.first, &lease).await?;
    for gap in [3, 9] {
        let skip = skip_as(&case.second, &after(gap)?, SkipReason::SlotPending).await?;
        ensure!(
            skip.last_slot == Some(case.slot(1)?),
            "the last slot is {}, but the skip reports {:?}",
            case.slot(1)?,
            skip.last_slot
        );
    }
    for slot in [2, 3] {
        let lease = acquire(&case.second, &after(slot)?).await?;
        done(&case.second, &lease).await?;
    }
    Ok(())
}

/// After the last allowed attempt the slot is given up, and later slots proceed.
pub async fn attempts_are_bounded(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    for attempt in 1..=2 {
        let lease = acquire(&case.first, &open(case.request(0)?, 2)).await?;
        attempt_is(&lease, attempt)?;
        failed(&case.first, &lease, Duration::ZERO).await?;
    }
    let given_up = open(case.request(0)?, 2);
    skipped_as(&case.second, &given_up, SkipReason::SlotGivenUp).await?;
    state_is(&case, 0, None, Some(2)).await?;
    let lease = acquire(&case.second, &open(case.request(1)?, 2)).await?;
    attempt_is(&lease, 1)?;
    done(&case.second, &lease).await?;
    state_is(&case, 1, Some(1), None).await
}

/// A stale runner cannot end a slot that another replica has taken over.
pub async fn a_stale_runner_does_not_end_the_slot(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let short = context.timing().short();
    let request = context.request_for(&case.job, short);
    let stale = acquire(&case.first, &open(request.with_slot(case.slot(0)?), 9)).await?;
    context.pass(context.timing().past(short)).await;
    let lease = acquire(&case.second, &open(case.request(0)?, 9)).await?;
    for request in [
        UnlockRequest::new().with_slot_end(SlotEnd::done(true)),
        UnlockRequest::new().with_slot_end(SlotEnd::Failed {
            retry_after: context.timing().long(),
        }),
    ] {
        let answer = case.first.unlock(&stale, &request).await?;
        ensure!(
            answer == Unlock::Lost,
            "a stale runner sent {request:?}, which returned {answer:?}"
        );
        state_is(&case, 0, None, Some(2)).await?;
    }
    done(&case.second, &lease).await
}

/// Contenders make exactly the allowed number of attempts, however many replicas there are and
/// however quickly they fail.
pub async fn contenders_for_an_open_slot_make_as_many_attempts_as_it_has(
    context: &TestContext,
) -> Verdict {
    const ATTEMPTS: u32 = 6;
    let case = new(context).await?;
    let providers = context.providers(4).await?;
    let mut contenders = JoinSet::new();
    for i in 0..16 {
        let provider = Arc::clone(&providers[i % providers.len()]);
        let (job, slot) = (case.job.clone(), case.slot(0)?);
        let at_most = case.request(0)?.lock_at_most_for;
        contenders.spawn(async move {
            let mut made = Vec::new();
            loop {
                let owner = Owner::generate();
                let request = AttemptRequest::new(job.clone(), owner, at_most);
                let request = open(request.with_slot(slot), ATTEMPTS);
                match provider.attempt(&request).await? {
                    Attempt::Acquired(lease) => {
                        made.extend(lease.slot_attempt());
                        failed(&provider, &lease, Duration::ZERO).await?;
                    }
                    Attempt::Skipped(skip) if skip.reason == SkipReason::SlotGivenUp => {
                        return Ok::<_, Stop>(made);
                    }
                    _ => tokio::task::yield_now().await,
                }
            }
        });
    }
    let mut made = Vec::new();
    while let Some(joined) = contenders.join_next().await {
        made.extend(joined??);
    }
    made.sort_unstable();
    let expected: Vec<u32> = (1..=ATTEMPTS).collect();
    ensure!(
        made == expected,
        "a slot with {ATTEMPTS} attempts had the attempts {made:?}"
    );
    Ok(())
}

/// Contenders do each slot, in order, although each goes at its own speed and sometimes fails.
pub async fn contenders_do_each_of_many_slots_in_order(context: &TestContext) -> Verdict {
    const SLOTS: u32 = 12;
    let case = new(context).await?;
    let providers = context.providers(4).await?;
    let finished = Arc::new(Mutex::new(Vec::new()));
    let mut replicas = JoinSet::new();
    for (replica, provider) in providers.into_iter().enumerate() {
        let slots = (0..SLOTS)
            .map(|slot| case.slot(slot))
            .collect::<Result<Vec<_>, _>>()?;
        let (job, at_most) = (case.job.clone(), case.request(0)?.lock_at_most_for);
        let finished = Arc::clone(&finished);
        replicas.spawn(async move {
            let mut at = 0;
            let mut turns = replica;
            while let Some(slot) = slots.get(at) {
                let owner = Owner::generate();
                let request = AttemptRequest::new(job.clone(), owner, at_most).with_slot(*slot);
                let mut request = open(request, u32::MAX);
                if at > 0 {
                    request = request.with_previous_slot(slots[at - 1]);
                }
                turns += 1;
                match provider.attempt(&request).await? {
                    Attempt::Acquired(lease) if turns.is_multiple_of(3) => {
                        failed(&provider, &lease, Duration::ZERO).await?;
                    }
                    Attempt::Acquired(lease) => {
                        lock(&finished).push(*slot);
                        done(&provider, &lease).await?;
                    }
                    Attempt::Skipped(skip) if skip.reason == SkipReason::SlotTaken => at += 1,
                    _ => tokio::task::yield_now().await,
                }
            }
            Ok::<_, Stop>(())
        });
    }
    while let Some(joined) = replicas.join_next().await {
        joined??;
    }
    let expected = (0..SLOTS)
        .map(|slot| case.slot(slot))
        .collect::<Result<Vec<_>, _>>()?;
    let finished = lock(&finished).clone();
    ensure!(
        finished == expected,
        "{SLOTS} slots should each be done once, in order, but were done as {finished:?}"
    );
    Ok(())
}

/// Both kinds of slots pass each other: a job may switch between them from release to release.
pub async fn slots_of_both_kinds_pass_each_other(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    // Used up when it is taken: no take-over.
    let lease = acquire(&case.first, &case.request(0)?).await?;
    unlock(&case.first, &lease).await?;
    let same = open(case.request(0)?, 3);
    skipped_as(&case.second, &same, SkipReason::SlotTaken).await?;
    // Open: replicas that run at most once do not take it again, and it does not block them.
    let lease = acquire(&case.first, &open(case.request(1)?, 3)).await?;
    unlock(&case.first, &lease).await?;
    skipped_as(&case.second, &case.request(1)?, SkipReason::SlotTaken).await?;
    let lease = acquire(&case.second, &case.request(2)?).await?;
    unlock(&case.second, &lease).await?;
    state_is(&case, 2, None, None).await?;
    abandon(&case.first, &open(case.request(3)?, 3)).await
}

/// Acquisitions without a slot leave the open slot open.
pub async fn acquisitions_without_slot_leave_the_open_slot(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let lease = acquire(&case.first, &open(case.request(0)?, 3)).await?;
    unlock(&case.first, &lease).await?;
    let lease = acquire(&case.second, &context.request(&case.job)).await?;
    done(&case.second, &lease).await?;
    state_is(&case, 0, None, Some(1)).await?;
    let lease = acquire(&case.first, &open(case.request(0)?, 3)).await?;
    attempt_is(&lease, 2)
}

/// Any run of ShedLock at or after the slot's instant counts as that slot.
pub async fn an_acquisition_of_shedlock_does_the_open_slot(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let lease = acquire(&case.first, &open(case.request(0)?, 3)).await?;
    unlock(&case.first, &lease).await?;
    case.java_leaves(Duration::from_secs(1), Duration::from_secs(3))
        .await?;
    let open_slot = open(case.request(0)?, 3);
    skipped_as(&case.first, &open_slot, SkipReason::SlotTaken).await?;
    let locked_at = case.slot(0)?.instant() + Duration::from_secs(1);
    case.needs_shedlocks_times(locked_at).await?;
    let lease = acquire(&case.second, &open(case.request(1)?, 3)).await?;
    attempt_is(&lease, 1)
}

pub(super) async fn new(context: &TestContext) -> Result<Slots<'_>, Stop> {
    context.needs_slot_completion()?;
    Slots::new(context).await
}

pub(super) fn open(request: AttemptRequest, attempts: u32) -> AttemptRequest {
    request.with_completion(Completion::OnSuccess(Retries::new().max_attempts(attempts)))
}

pub(super) fn attempt_is(lease: &Lease, expected: u32) -> Verdict {
    ensure!(
        lease.slot_attempt() == Some(expected),
        "this should be attempt {expected}, but the lease shows {lease:?}"
    );
    Ok(())
}

pub(super) async fn unlock_with(
    provider: &Provider,
    lease: &Lease,
    request: &UnlockRequest,
) -> Verdict {
    let answer = provider.unlock(lease, request).await?;
    ensure!(
        answer == Unlock::Unlocked,
        "{request:?} of {lease:?} should return Unlocked, but returned {answer:?}"
    );
    Ok(())
}

pub(super) async fn done(provider: &Provider, lease: &Lease) -> Verdict {
    unlock_with(
        provider,
        lease,
        &UnlockRequest::new().with_slot_end(SlotEnd::done(true)),
    )
    .await
}

pub(super) async fn failed(provider: &Provider, lease: &Lease, pause: Duration) -> Verdict {
    unlock_with(
        provider,
        lease,
        &UnlockRequest::new().with_slot_end(SlotEnd::Failed { retry_after: pause }),
    )
    .await
}

/// What the record contains about the slots, by slot number.
pub(super) async fn state_is(
    case: &Slots<'_>,
    last: u32,
    done: Option<u32>,
    attempts: Option<u32>,
) -> Verdict {
    let found = record(&case.first, &case.job).await?;
    let done = done.map(|slot| case.slot(slot)).transpose()?;
    let expected = (Some(case.slot(last)?), done, attempts);
    ensure!(
        (found.last_slot, found.last_slot_done, found.slot_attempts) == expected,
        "last slot, last slot done and attempts should be {expected:?}, but the record shows \
         {found:?}"
    );
    Ok(())
}

fn lock<T>(list: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}
