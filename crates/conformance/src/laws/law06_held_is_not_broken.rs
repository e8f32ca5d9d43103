//! Law 6: an attempt is idempotent, a withdrawn one leaves nothing, and a dropped one is cleaned
//! up.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::{Attempt, AttemptRequest, LockState, SkipReason};
use tokio::task::JoinSet;

use crate::case::cases;
use crate::context::name;
use crate::steps::{abandon, acquire, is_free, record, skipped_as, still_holds, unlock};
use crate::verdict::ensure;
use crate::wait::bounded;
use crate::{Stop, TestContext, Verdict};

cases!("law06_held_is_not_broken" [Ownership]:
    the_same_attempt_twice_is_one_lease [Smoke],
    the_same_attempt_by_another_client_is_one_lease,
    the_same_attempt_sixteen_times_at_once_is_one_lease,
    the_same_attempt_for_a_slot_is_one_lease [Slots],
    an_attempt_asked_again_after_its_lease_expired_does_not_return_the_old_lease [Time],
    a_withdrawn_attempt_frees_at_once [Smoke],
    a_withdrawal_frees_only_its_own,
    a_withdrawal_of_nothing_is_false,
    a_withdrawn_lease_that_has_expired_keeps_no_one_waiting [Time],
    a_withdrawn_attempt_gives_its_slot_back [Slots],
    a_withdrawn_lease_that_has_expired_gives_its_slot_back [Slots],
    an_attempt_dropped_midway_holds_no_longer_than_at_most [Connection],
);

/// An attempt that is repeated while its lease runs returns the same lease.
pub async fn the_same_attempt_twice_is_one_lease(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let request = context.request(&name("job"));
    let first = acquire(&provider, &request).await?;
    let again = acquire(&provider, &request).await?;
    same_lease(&first, &again)?;
    still_holds(&provider, &first).await?;
    unlock(&provider, &again).await?;
    is_free(&provider, &request.name).await
}

/// An attempt repeated on another connection gets the same lease: the connection that lost the
/// reply is gone.
pub async fn the_same_attempt_by_another_client_is_one_lease(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let request = context.request(&name("job"));
    let lease = acquire(&first, &request).await?;
    let again = acquire(&second, &request).await?;
    same_lease(&lease, &again)?;
    unlock(&second, &again).await?;
    is_free(&first, &request.name).await
}

/// Sixteen concurrent copies of an attempt get one lease; duplicates in flight may overtake each
/// other.
pub async fn the_same_attempt_sixteen_times_at_once_is_one_lease(context: &TestContext) -> Verdict {
    let providers = context.providers(2).await?;
    for round in 0..3 {
        let request = context.request(&name(&format!("job-{round}")));
        let mut attempts = JoinSet::new();
        for i in 0..16 {
            let (provider, request) = (Arc::clone(&providers[i % 2]), request.clone());
            attempts.spawn(async move { provider.attempt(&request).await });
        }
        let mut first = None;
        while let Some(joined) = attempts.join_next().await {
            match joined?? {
                Attempt::Acquired(lease) => match &first {
                    None => first = Some(lease),
                    Some(first) => same_lease(first, &lease)?,
                },
                answer => {
                    return Err(Stop::failed(format!(
                        "one attempt sent sixteen times at once returned {answer:?}"
                    )));
                }
            }
        }
        let lease = first.ok_or_else(|| Stop::failed("no attempt was granted"))?;
        still_holds(&providers[0], &lease).await?;
        unlock(&providers[0], &lease).await?;
    }
    Ok(())
}

/// A repeated attempt for a slot gets its lease: the slot is not "already taken" for the attempt
/// that took it.
pub async fn the_same_attempt_for_a_slot_is_one_lease(context: &TestContext) -> Verdict {
    context.needs_slots()?;
    let (first, second) = context.two().await?;
    let slot = context
        .slot_before_now(&first, Duration::from_secs(60))
        .await?;
    let request = context.request(&name("job")).with_slot(slot);
    let lease = acquire(&first, &request).await?;
    same_lease(&lease, &acquire(&first, &request).await?)?;
    same_lease(&lease, &acquire(&second, &request).await?)?;
    unlock(&first, &lease).await
}

/// An attempt repeated after its lease expired gets a new lease or a skip, never the expired lease.
pub async fn an_attempt_asked_again_after_its_lease_expired_does_not_return_the_old_lease(
    context: &TestContext,
) -> Verdict {
    let provider = context.provider().await?;
    let short = context.timing().short();
    let request = context.request_for(&name("job"), short);
    let old = acquire(&provider, &request).await?;
    context.pass(context.timing().past(short)).await;
    if let Attempt::Acquired(lease) = provider.attempt(&request).await?
        && let (Some(before), Some(after)) = (old.locked_until(), lease.locked_until())
    {
        ensure!(
            after > before,
            "an attempt repeated after its lease expired returned the expired lease: {lease:?}"
        );
    }
    Ok(())
}

/// A withdrawal frees the lock immediately: at-least does not apply, because the task never ran.
pub async fn a_withdrawn_attempt_frees_at_once(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let request = context
        .request(&name("job"))
        .with_lock_at_least_for(context.timing().long());
    abandon(&first, &request).await?;
    withdraw(&second, &request, true).await?;
    is_free(&first, &request.name).await?;
    withdraw(&first, &request, false).await?;
    abandon(&first, &context.request(&request.name)).await
}

/// A withdrawal does not free another owner's lease, nor a lease of another attempt of this client.
pub async fn a_withdrawal_frees_only_its_own(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    let lease = acquire(&first, &context.request(&job)).await?;
    let refused = context.request(&job);
    skipped_as(&first, &refused, SkipReason::Held).await?;
    withdraw(&first, &refused, false).await?;
    withdraw(&second, &context.request(&job), false).await?;
    still_holds(&first, &lease).await?;
    unlock(&first, &lease).await
}

/// The withdrawal of an attempt that never reached the store returns `false` and does not take the
/// lock.
pub async fn a_withdrawal_of_nothing_is_false(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let request = context.request(&name("job"));
    withdraw(&provider, &request, false).await?;
    is_free(&provider, &request.name).await?;
    let at_least = context
        .request(&request.name)
        .with_lock_at_least_for(context.timing().long());
    let lease = acquire(&provider, &at_least).await?;
    unlock(&provider, &lease).await?;
    withdraw(&provider, &request, false).await?;
    let found = record(&provider, &request.name).await?;
    ensure!(
        found.state == LockState::AtLeast,
        "a withdrawal of nothing ended another owner's at-least: {found:?}"
    );
    Ok(())
}

/// A withdrawn lease that has expired delays no one, not even for the tolerated clock skew: its
/// owner has given it up.
pub async fn a_withdrawn_lease_that_has_expired_keeps_no_one_waiting(
    context: &TestContext,
) -> Verdict {
    let (first, second) = context.two().await?;
    let short = context.timing().short();
    let request = context.request_for(&name("job"), short);
    abandon(&first, &request).await?;
    // If the store is late to end the lease, the withdrawal ends it.
    context.pass(short).await;
    first.withdraw(&request).await?;
    abandon(&second, &context.request(&request.name)).await
}

/// A withdrawal after the lease expired gives the slot back: the store was unreachable, but nothing
/// ran for the slot.
pub async fn a_withdrawn_lease_that_has_expired_gives_its_slot_back(
    context: &TestContext,
) -> Verdict {
    context.needs_slots()?;
    let provider = context.provider().await?;
    let minute = Duration::from_secs(60);
    let slot = context.slot_before_now(&provider, minute).await?;
    let short = context.timing().short();
    let request = context.request_for(&name("job"), short).with_slot(slot);
    abandon(&provider, &request).await?;
    context.pass(context.timing().past(short)).await;
    withdraw(&provider, &request, true).await?;
    let another = context.request(&request.name).with_slot(slot);
    abandon(&provider, &another).await?;
    // A withdrawal does not give back the slot of a run in progress.
    withdraw(&provider, &request, false).await?;
    skipped_as(
        &provider,
        &context.request(&request.name).with_slot(slot),
        SkipReason::SlotTaken,
    )
    .await
}

/// A withdrawn attempt gives its slot back: the runtime withdraws attempts that never ran.
pub async fn a_withdrawn_attempt_gives_its_slot_back(context: &TestContext) -> Verdict {
    context.needs_slots()?;
    let provider = context.provider().await?;
    let job = name("job");
    let slot = context
        .slot_before_now(&provider, Duration::from_secs(60))
        .await?;
    let request = context.request(&job).with_slot(slot);
    abandon(&provider, &request).await?;
    withdraw(&provider, &request, true).await?;
    // This attempt cannot take the slot again: a copy of it that arrives late must not run
    // anything.
    withdraw(&provider, &request, false).await?;
    let another = || context.request(&job).with_slot(slot);
    let lease = acquire(&provider, &another()).await?;
    // Withdrawn without its slot: the task may have run.
    let (owner, at_most) = (lease.owner().clone(), lease.lock_at_most_for());
    let ran = AttemptRequest::new(job.clone(), owner, at_most);
    withdraw(&provider, &ran, true).await?;
    skipped_as(&provider, &another(), SkipReason::SlotTaken).await?;
    abandon(&provider, &context.request(&job)).await
}

/// Dropping an attempt is like losing its reply. The attempt is then withdrawn. If the request was
/// still in flight at that time, at-most ends the lease that it won.
pub async fn an_attempt_dropped_midway_holds_no_longer_than_at_most(
    context: &TestContext,
) -> Verdict {
    let (first, second) = context.two().await?;
    // The pools are warm, so that the attempt is dropped and not the connection setup.
    abandon(&first, &context.request(&name("warm"))).await?;
    for micros in [0, 100, 300, 1_000, 3_000] {
        let job = name(&format!("job-{micros}"));
        let request = context.request_for(&job, context.timing().medium());
        let dropped = bounded(Duration::from_micros(micros), first.attempt(&request)).await;
        if let Some(answer) = dropped {
            let _ = answer?;
        }
        first.withdraw(&request).await?;
        let taken = context
            .take_when_free(&second, &job, context.timing().long())
            .await?;
        // Nothing in flight takes the lock back.
        first.withdraw(&request).await?;
        still_holds(&second, &taken.lease).await?;
    }
    Ok(())
}

fn same_lease(first: &shedlock_core::Lease, again: &shedlock_core::Lease) -> Verdict {
    // A store may return the times in one kind of reply only (MySQL: in replies to reads, not to
    // writes).
    let agree = |one: Option<SystemTime>, other: Option<SystemTime>| {
        one.is_none() || other.is_none() || one == other
    };
    let same = first.owner() == again.owner()
        && first.fencing_token() == again.fencing_token()
        && first.slot() == again.slot()
        && agree(first.acquired_at(), again.acquired_at())
        && agree(first.locked_until(), again.locked_until());
    ensure!(
        same,
        "the same attempt, repeated, should return the same lease, but returned {first:?} and \
         then {again:?}"
    );
    Ok(())
}

async fn withdraw(provider: &crate::Provider, request: &AttemptRequest, expected: bool) -> Verdict {
    let answer = provider.withdraw(request).await?;
    ensure!(
        answer == expected,
        "withdrawing the attempt of {} should return {expected}, but returned {answer}",
        &request.owner
    );
    Ok(())
}
