//! Law 9: an operator sets the last slot.

use std::time::Duration;

use shedlock_core::{
    ResetSlotRequest, RestoredSlot, SkipReason, Slot, SlotEnd, SlotReset, UnlockRequest, admin,
};

use super::law09_open_slots::{attempt_is, done, new, open, state_is, unlock_with};
use crate::case::cases;
use crate::steps::{abandon, acquire, is_free, skipped_as, unlock};
use crate::verdict::ensure;
use crate::{Provider, Stop, TestContext, Verdict};

cases!("law09_resets" [Slots]:
    a_reset_brings_a_slot_back_from_the_future [Smoke],
    a_reset_to_a_slot_makes_later_ones_free,
    a_reset_gives_up_an_open_slot,
    an_unneeded_reset_changes_nothing,
    a_lost_slot_is_restored_but_never_backwards,
    a_lost_slot_that_must_be_done_is_restored_with_its_attempts,
);

/// A reset recovers from slots that a wrong clock claimed far in the future.
pub async fn a_reset_brings_a_slot_back_from_the_future(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let now = context.store_now(&case.first).await?;
    let at = |offset: u64| Slot::at(now + Duration::from_secs(offset));
    let request = |slot: Slot| {
        let request = context.request(&case.job).with_slot(slot);
        request.with_slot_tolerance(Duration::from_secs(7_200))
    };
    let lease = acquire(&case.first, &request(at(3_600)?)).await?;
    unlock(&case.first, &lease).await?;
    skipped_as(&case.second, &request(at(600)?), SkipReason::SlotTaken).await?;
    let (before, last_slot) = reset(&case.second, ResetSlotRequest::new(case.job.clone())).await?;
    ensure!(
        before == Some(at(3_600)?) && last_slot < at(600)?,
        "the last slot {} should be reset to now, but the answer names {before:?} and {last_slot}",
        at(3_600)?
    );
    // Past slots stay taken.
    skipped_as(&case.first, &request(Slot::at(now)?), SkipReason::SlotTaken).await?;
    abandon(&case.first, &request(at(600)?)).await
}

/// A reset to a slot makes later slots available, to run one again on purpose.
pub async fn a_reset_to_a_slot_makes_later_ones_free(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let lease = acquire(&case.first, &case.request(5)?).await?;
    unlock(&case.first, &lease).await?;
    let to = ResetSlotRequest::new(case.job.clone()).with_slot(case.slot(3)?);
    let (before, last_slot) = reset(&case.second, to).await?;
    ensure!(
        before == Some(case.slot(5)?) && last_slot == case.slot(3)?,
        "the last slot should be set from {} to {}, but the answer names {before:?} and \
         {last_slot}",
        case.slot(5)?,
        case.slot(3)?
    );
    skipped_as(&case.first, &case.request(3)?, SkipReason::SlotTaken).await?;
    abandon(&case.first, &case.request(5)?).await
}

/// A reset gives up an open slot: no replica takes it over any more.
pub async fn a_reset_gives_up_an_open_slot(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let lease = acquire(&case.first, &open(case.request(0)?, 9)).await?;
    unlock(&case.first, &lease).await?;
    let to = ResetSlotRequest::new(case.job.clone()).with_slot(case.slot(0)?);
    reset(&case.second, to).await?;
    state_is(&case, 0, None, None).await?;
    let given_up = open(case.request(0)?, 9);
    skipped_as(&case.first, &given_up, SkipReason::SlotTaken).await?;
    abandon(&case.first, &open(case.request(1)?, 9)).await
}

/// A reset changes nothing without a record, without a slot, or if the last slot is in the past.
pub async fn an_unneeded_reset_changes_nothing(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let request = ResetSlotRequest::new(case.job.clone());
    for _ in 0..2 {
        let answer = admin::reset_slot(&*case.first, &request).await?;
        ensure!(
            matches!(answer, SlotReset::NoSlot),
            "no slot was ever taken, but the reset returned {answer:?}"
        );
        let lease = acquire(&case.second, &context.request(&case.job)).await?;
        unlock(&case.second, &lease).await?;
    }
    let lease = acquire(&case.second, &case.request(0)?).await?;
    unlock(&case.second, &lease).await?;
    let answer = admin::reset_slot(&*case.first, &request).await?;
    ensure!(
        matches!(answer, SlotReset::NotAhead(_)),
        "the last slot is before the store's time, but the reset was answered {answer:?}"
    );
    state_is(&case, 0, None, None).await
}

/// A slot that a record has lost is put back, also into a record that is gone; a later slot stays.
pub async fn a_lost_slot_is_restored_but_never_backwards(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let restoring = |slot: u32, what| {
        let slot = case.slot(slot)?;
        Ok::<_, Stop>(ResetSlotRequest::restoring(case.job.clone(), slot, what))
    };
    reset(&case.first, restoring(1, RestoredSlot::UsedUp)?).await?;
    state_is(&case, 1, None, None).await?;
    is_free(&case.second, &case.job).await?;
    for slot in [0, 1] {
        skipped_as(&case.second, &case.request(slot)?, SkipReason::SlotTaken).await?;
    }
    reset(&case.second, restoring(2, RestoredSlot::Done)?).await?;
    state_is(&case, 2, Some(2), None).await?;
    // The slot of a lease that ends without a start is given back, and is not taken from it again.
    let lease = acquire(&case.first, &case.request(3)?).await?;
    let given_back = UnlockRequest::new().with_slot_end(SlotEnd::NotStarted);
    unlock_with(&case.first, &lease, &given_back).await?;
    let now = context.store_now(&case.first).await?;
    let ahead = Slot::at(now + Duration::from_secs(3_600))?;
    let ahead = ResetSlotRequest::restoring(case.job.clone(), ahead, RestoredSlot::UsedUp);
    for request in [
        restoring(0, RestoredSlot::UsedUp)?,
        restoring(3, RestoredSlot::UsedUp)?,
        ahead,
    ] {
        let answer = admin::reset_slot(&*case.second, &request).await?;
        ensure!(
            matches!(answer, SlotReset::NotRestored(_)),
            "{request:?} is not later, was given back or is in the future, but was answered {answer:?}"
        );
    }
    abandon(&case.second, &case.request(3)?).await
}

/// A slot that must be done stays open, with the attempts that were made.
pub async fn a_lost_slot_that_must_be_done_is_restored_with_its_attempts(
    context: &TestContext,
) -> Verdict {
    let case = new(context).await?;
    let open_after = |attempts| {
        let (job, slot) = (case.job.clone(), case.slot(1)?);
        let open = RestoredSlot::Open(attempts);
        Ok::<_, Stop>(ResetSlotRequest::restoring(job, slot, open))
    };
    reset(&case.first, open_after(2)?).await?;
    state_is(&case, 1, None, Some(2)).await?;
    skipped_as(
        &case.second,
        &open(case.request(2)?, 3),
        SkipReason::SlotPending,
    )
    .await?;
    let lease = acquire(&case.second, &open(case.request(1)?, 3)).await?;
    attempt_is(&lease, 3)?;
    done(&case.second, &lease).await?;
    state_is(&case, 1, Some(1), None).await
}

async fn reset(
    provider: &Provider,
    request: ResetSlotRequest,
) -> Result<(Option<Slot>, Slot), Stop> {
    match admin::reset_slot(&**provider, &request).await? {
        SlotReset::Reset {
            before, last_slot, ..
        } => Ok((before.last_slot, last_slot)),
        answer => Err(Stop::failed(format!(
            "{request:?} should succeed, but returned {answer:?}"
        ))),
    }
}
