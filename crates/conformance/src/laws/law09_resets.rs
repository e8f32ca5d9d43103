//! Law 9: an operator sets the last slot.

use std::time::Duration;

use shedlock_core::{ResetSlotRequest, SkipReason, Slot, SlotReset};

use super::law09_open_slots::{new, open, state_is};
use crate::case::cases;
use crate::steps::{abandon, acquire, skipped_as, unlock};
use crate::verdict::ensure;
use crate::{Provider, Stop, TestContext, Verdict};

cases!("law09_resets" [Slots]:
    a_reset_brings_a_slot_back_from_the_future [Smoke],
    a_reset_to_a_slot_makes_later_ones_free,
    a_reset_gives_up_an_open_slot,
    an_unneeded_reset_changes_nothing,
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
        let answer = case.first.reset_slot(&request).await?;
        ensure!(
            matches!(answer, SlotReset::NoSlot),
            "no slot was ever taken, but the reset returned {answer:?}"
        );
        let lease = acquire(&case.second, &context.request(&case.job)).await?;
        unlock(&case.second, &lease).await?;
    }
    let lease = acquire(&case.second, &case.request(0)?).await?;
    unlock(&case.second, &lease).await?;
    let answer = case.first.reset_slot(&request).await?;
    ensure!(
        matches!(answer, SlotReset::NotAhead(_)),
        "the last slot is before the store's time, but the reset was answered {answer:?}"
    );
    state_is(&case, 0, None, None).await
}

async fn reset(
    provider: &Provider,
    request: ResetSlotRequest,
) -> Result<(Option<Slot>, Slot), Stop> {
    match provider.reset_slot(&request).await? {
        SlotReset::Reset {
            before, last_slot, ..
        } => Ok((before.last_slot, last_slot)),
        answer => Err(Stop::failed(format!(
            "{request:?} should succeed, but returned {answer:?}"
        ))),
    }
}
