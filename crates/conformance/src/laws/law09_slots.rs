//! Law 9: at most one acquisition per (name, slot), and never an older one after a newer one.

use std::time::Duration;

use shedlock_core::{Attempt, ErrorKind, SkipReason, Slot};
use tokio::task::JoinSet;

use super::slots::Slots;
use crate::case::cases;
use crate::context::name;
use crate::steps::{
    abandon, acquire, attempt_error_as, is_free, record, skip_as, skipped, skipped_as, unlock,
};
use crate::verdict::ensure;
use crate::{JavaRecord, Stop, TestContext, Verdict};

cases!("law09_slots" [Slots]:
    slots_are_refused_unless_declared [Smoke],
    a_slot_is_taken_once [Smoke],
    a_taken_slot_survives_expiry [Time],
    an_older_slot_is_skipped,
    a_newer_slot_is_granted,
    sixty_four_contenders_for_a_slot_have_one_winner,
    contenders_for_the_same_slots_in_turn_have_one_winner_each,
    a_slot_attempt_on_a_held_lock_claims_nothing,
    a_slot_attempt_during_at_least_claims_nothing,
    acquisitions_without_slot_leave_the_slot,
    the_slots_of_two_names_are_two,
    a_slot_a_year_ahead_claims_nothing,
    the_tolerance_is_respected_on_both_sides [Time],
    slots_keep_their_microseconds,
    an_acquisition_of_shedlock_after_the_slot_takes_it [Record, Time],
    an_acquisition_of_shedlock_before_the_slot_leaves_it [Record, Time],
    a_lock_held_by_shedlock_leaves_a_later_slot [Record],
    a_lock_held_by_shedlock_since_the_slot_takes_it [Record],
);

const MINUTE: Duration = Duration::from_secs(60);

/// A provider without slots must not run a task whose slot it cannot guard.
pub async fn slots_are_refused_unless_declared(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let job = name("job");
    let slot = context.slot_before_now(&provider, MINUTE).await?;
    let request = context.request(&job).with_slot(slot);
    if context.capabilities().slots {
        let lease = acquire(&provider, &request).await?;
        ensure!(
            lease.slot() == Some(slot),
            "the lease for slot {slot} names slot {:?}",
            lease.slot()
        );
        return Ok(());
    }
    attempt_error_as(&provider, &request, &[ErrorKind::Unsupported]).await?;
    is_free(&provider, &job).await
}

/// A slot is taken once, also after unlock and for another provider.
pub async fn a_slot_is_taken_once(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    let lease = acquire(&case.first, &case.request(0)?).await?;
    skipped(&case.second, &case.request(0)?).await?;
    unlock(&case.first, &lease).await?;
    for provider in [&case.first, &case.second, &context.provider().await?] {
        let skip = skip_as(provider, &case.request(0)?, SkipReason::SlotTaken).await?;
        ensure!(
            skip.last_slot == Some(case.slot(0)?),
            "the last slot taken is {}, but the skip reports {:?}",
            case.slot(0)?,
            skip.last_slot
        );
    }
    Ok(())
}

/// A taken slot survives the expiry of its lease: if its runner crashed, the slot is used up.
pub async fn a_taken_slot_survives_expiry(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    let short = context.timing().short();
    let request = context
        .request_for(&case.job, short)
        .with_slot(case.slot(0)?);
    abandon(&case.first, &request).await?;
    context.pass(context.timing().past(short)).await;
    skipped_as(&case.first, &case.request(0)?, SkipReason::SlotTaken).await?;
    skipped_as(&case.second, &case.request(0)?, SkipReason::SlotTaken).await?;
    abandon(&case.second, &case.request(1)?).await
}

/// An older slot is skipped after a newer one, so that a late replica does not run it.
pub async fn an_older_slot_is_skipped(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    let lease = acquire(&case.first, &case.request(5)?).await?;
    unlock(&case.first, &lease).await?;
    for older in [4, 0] {
        let skip = skip_as(&case.second, &case.request(older)?, SkipReason::SlotTaken).await?;
        ensure!(
            skip.last_slot == Some(case.slot(5)?),
            "the last slot taken is {}, but the skip reports {:?}",
            case.slot(5)?,
            skip.last_slot
        );
    }
    Ok(())
}

/// Newer slots are granted in order, including after gaps.
pub async fn a_newer_slot_is_granted(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    for slot in [0, 1, 2, 7, 8] {
        let lease = acquire(&case.first, &case.request(slot)?).await?;
        unlock(&case.first, &lease).await?;
        let taken = case.slot(slot)?;
        let found = record(&case.first, &case.job).await?;
        ensure!(
            found.last_slot == Some(taken),
            "slot {taken} was taken last, but the record shows {found:?}"
        );
    }
    Ok(())
}

/// Replicas that wake up for a tick at the same time have one winner, whether or not they unlock
/// quickly.
pub async fn sixty_four_contenders_for_a_slot_have_one_winner(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    let providers = context.providers(4).await?;
    for slot in 0..4 {
        let winners = case.contend(&providers, slot, 64).await?;
        ensure!(
            winners == 1,
            "64 contenders for slot {}, {winners} winners",
            case.slot(slot)?
        );
    }
    Ok(())
}

/// Contenders that go through the same slots at their own speed have one winner each.
pub async fn contenders_for_the_same_slots_in_turn_have_one_winner_each(
    context: &TestContext,
) -> Verdict {
    let case = Slots::new(context).await?;
    let providers = context.providers(4).await?;
    let mut replicas = JoinSet::new();
    for provider in providers {
        let requests = (0..20)
            .map(|slot| case.request(slot))
            .collect::<Result<Vec<_>, _>>()?;
        replicas.spawn(async move {
            let mut won = Vec::new();
            for request in requests {
                if let Attempt::Acquired(lease) = provider.attempt(&request).await? {
                    won.push(lease.slot());
                    unlock(&provider, &lease).await?;
                }
            }
            Ok::<_, Stop>(won)
        });
    }
    let mut won = Vec::new();
    while let Some(joined) = replicas.join_next().await {
        won.extend(joined??);
    }
    won.sort_unstable();
    let count = won.len();
    won.dedup();
    ensure!(
        won.len() == count,
        "{count} acquisitions for only {} different slots",
        won.len()
    );
    Ok(())
}

/// An attempt for a slot on a held lock is skipped, and the slot is still available.
pub async fn a_slot_attempt_on_a_held_lock_claims_nothing(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    let lease = acquire(&case.first, &context.request(&case.job)).await?;
    skipped_as(&case.second, &case.request(0)?, SkipReason::Held).await?;
    unlock(&case.first, &lease).await?;
    abandon(&case.second, &case.request(0)?).await
}

/// An attempt for a slot during at-least of an earlier slot is skipped, and the slot is still
/// available.
pub async fn a_slot_attempt_during_at_least_claims_nothing(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    let medium = context.timing().medium();
    let request = case.request(0)?.with_lock_at_least_for(medium);
    let lease = acquire(&case.first, &request).await?;
    unlock(&case.first, &lease).await?;
    // On a loaded machine at-least may have passed; then it is correct to grant the slot.
    if let Attempt::Skipped(skip) = case.second.attempt(&case.request(1)?).await? {
        ensure!(
            skip.reason == SkipReason::AtLeast,
            "slot {} is newer than {} and at-least keeps the lock, but the skip is {skip:?}",
            case.slot(1)?,
            case.slot(0)?
        );
        context.pass(context.timing().past(medium)).await;
        abandon(&case.second, &case.request(1)?).await?;
    }
    Ok(())
}

/// Acquisitions without a slot neither claim the last slot nor clear it.
pub async fn acquisitions_without_slot_leave_the_slot(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    let lease = acquire(&case.first, &case.request(0)?).await?;
    unlock(&case.first, &lease).await?;
    for _ in 0..3 {
        let lease = acquire(&case.second, &context.request(&case.job)).await?;
        unlock(&case.second, &lease).await?;
    }
    skipped_as(&case.first, &case.request(0)?, SkipReason::SlotTaken).await?;
    abandon(&case.first, &case.request(1)?).await
}

/// Each name has its own slots.
pub async fn the_slots_of_two_names_are_two(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    abandon(&case.first, &case.request(0)?).await?;
    let other = context.request(&name("other")).with_slot(case.slot(0)?);
    abandon(&case.second, &other).await
}

/// A slot a year ahead is refused, so that a node with a wrong clock cannot silence the job for a
/// year.
pub async fn a_slot_a_year_ahead_claims_nothing(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    let now = context.store_now(&case.first).await?;
    let ahead = Slot::at(now + Duration::from_secs(365 * 86_400))?;
    let request = || context.request(&case.job).with_slot(ahead);
    // Without a record, on a free lock, and on a held one.
    attempt_error_as(&case.first, &request(), &[ErrorKind::SlotAhead]).await?;
    let lease = acquire(&case.first, &case.request(0)?).await?;
    match case.second.attempt(&request()).await {
        Ok(Attempt::Skipped(_)) => {}
        Err(error) if error.kind() == ErrorKind::SlotAhead => {}
        answer => {
            return Err(Stop::failed(format!(
                "an attempt at a slot a year ahead on a held lock returned {answer:?}"
            )));
        }
    }
    unlock(&case.first, &lease).await?;
    attempt_error_as(&case.first, &request(), &[ErrorKind::SlotAhead]).await?;
    is_free(&case.first, &case.job).await?;
    // The job continues.
    abandon(&case.second, &case.request(1)?).await
}

/// A slot just inside the tolerance is granted, one just outside is refused; for the default and
/// for a custom tolerance.
pub async fn the_tolerance_is_respected_on_both_sides(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    // More than a loaded machine may lose between reading the clock and making the attempt.
    let margin = Duration::from_secs(20);
    for (i, tolerance) in [Slot::DEFAULT_TOLERANCE, 10 * MINUTE]
        .into_iter()
        .enumerate()
    {
        let job = name(&format!("job-{i}"));
        let now = context.store_now(&case.first).await?;
        let attempt = |ahead: Duration| {
            Ok::<_, Stop>(
                context
                    .request(&job)
                    .with_slot(Slot::at(now + ahead)?)
                    .with_slot_tolerance(tolerance),
            )
        };
        let outside = attempt(tolerance + margin)?;
        attempt_error_as(&case.first, &outside, &[ErrorKind::SlotAhead]).await?;
        is_free(&case.first, &job).await?;
        abandon(&case.first, &attempt(tolerance - margin)?).await?;
    }
    Ok(())
}

/// Two slots a microsecond apart are different, and are returned exactly as given.
pub async fn slots_keep_their_microseconds(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    let base = case.slot(0)?.as_micros() + 123_456;
    for micros in [base, base + 1] {
        let slot = Slot::from_micros(micros)?;
        let request = context.request(&case.job).with_slot(slot);
        let lease = acquire(&case.first, &request).await?;
        unlock(&case.first, &lease).await?;
        let again = context.request(&case.job).with_slot(slot);
        let skip = skip_as(&case.second, &again, SkipReason::SlotTaken).await?;
        ensure!(
            skip.last_slot == Some(slot),
            "slot {slot} was taken last, but the skip reports {:?}",
            skip.last_slot
        );
    }
    Ok(())
}

/// An acquisition of ShedLock at or after the slot's instant takes the slot: ShedLock has no slots
/// to compare.
pub async fn an_acquisition_of_shedlock_after_the_slot_takes_it(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    for later in [Duration::ZERO, Duration::from_secs(1)] {
        case.java_leaves(later, Duration::from_secs(3)).await?;
        skipped_as(&case.first, &case.request(0)?, SkipReason::SlotTaken).await?;
    }
    Ok(())
}

/// An acquisition of ShedLock before the slot leaves it available: that was the run of the previous
/// slot.
pub async fn an_acquisition_of_shedlock_before_the_slot_leaves_it(
    context: &TestContext,
) -> Verdict {
    let case = Slots::new(context).await?;
    let slot = case.slot(0)?.instant();
    let record = JavaRecord {
        locked_by: "java-host".to_owned(),
        locked_at: slot - Duration::from_secs(1),
        lock_until: slot + Duration::from_secs(1),
    };
    context.write_as_shedlock(&case.job, &record).await?;
    case.needs_shedlocks_times(record.locked_at).await?;
    abandon(&case.first, &case.request(0)?).await
}

/// A lock held by ShedLock is held, and when ShedLock has finished, a slot after its acquisition is
/// available.
pub async fn a_lock_held_by_shedlock_leaves_a_later_slot(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    case.java(Duration::ZERO, 10 * context.timing().long() + 60 * MINUTE)
        .await?;
    case.needs_shedlocks_times(case.slot(0)?.instant()).await?;
    skipped_as(&case.first, &case.request(1)?, SkipReason::Held).await?;
    case.java(Duration::ZERO, Duration::from_secs(3)).await?;
    abandon(&case.first, &case.request(1)?).await
}

/// A lock that ShedLock has held since the slot takes the slot: there is nothing to wait for.
pub async fn a_lock_held_by_shedlock_since_the_slot_takes_it(context: &TestContext) -> Verdict {
    let case = Slots::new(context).await?;
    let kept = 10 * context.timing().long() + 60 * MINUTE;
    for later in [Duration::ZERO, Duration::from_secs(1)] {
        case.java(later, kept).await?;
        skipped_as(&case.first, &case.request(0)?, SkipReason::SlotTaken).await?;
    }
    Ok(())
}
