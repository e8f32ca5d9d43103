//! What a pause skips: the slots after it began and up to its end, and no others.

use std::time::Duration;

use shedlock_core::{
    AttemptRequest, LockState, PauseRequest, ResetSlotRequest, ResumeRequest, Skip, SkipReason,
    SkippedSlots, Slot, SlotReset, admin,
};

use super::law09_open_slots::{done, new, open};
use super::pauses::{paused, request, resume, resumed};
use super::slots::Slots;
use crate::case::cases;
use crate::steps::{abandon, acquire, record, skip_as, skipped_as, unlock};
use crate::verdict::ensure;
use crate::{Stop, TestContext, Verdict};

cases!("pauses_slots" [Operators]:
    a_pause_skips_the_slots_from_its_start_to_its_end [Slots],
    a_job_that_is_up_to_date_goes_on_after_a_pause [Slots],
    a_job_that_is_up_to_date_goes_on_after_a_pause_that_ended_by_itself [Slots, Time],
    slots_that_were_due_before_a_pause_still_run [Slots, Smoke],
    slots_that_were_due_before_a_pause_that_ended_by_itself_still_run [Slots, Time],
    a_slot_that_was_given_back_before_a_pause_is_taken_after_it [Slots],
    an_open_slot_stays_open_through_a_pause [Slots],
    catching_up_frees_the_slots_of_a_pause [Slots],
    catching_up_frees_the_slots_of_a_pause_that_is_over [Slots],
    a_second_pause_joins_one_that_the_job_has_not_run_past [Slots],
    a_second_pause_moves_the_end_of_one_that_lasts [Slots],
    no_slot_is_skipped_once_shedlock_has_ended_a_pause [Slots, Record],
    what_shedlock_has_left_of_a_pause_can_be_resumed_and_reset [Slots, Record],
    a_reset_keeps_what_a_pause_skips_while_it_lasts [Slots],
);

/// A claim in order, after this slot, by a client that takes these slots as skipped.
fn after(
    request: AttemptRequest,
    previous: Slot,
    skipped: impl Into<Option<SkippedSlots>>,
) -> AttemptRequest {
    let request = open(request.with_previous_slot(previous), 3);
    match skipped.into() {
        Some(skipped) => request.with_skipped_slots(skipped),
        None => request,
    }
}

async fn skipped_slots(case: &Slots<'_>) -> Result<SkippedSlots, Stop> {
    let found = record(&case.first, &case.job).await?;
    let skipped = found.skipped_slots;
    skipped.ok_or_else(|| Stop::failed(format!("a pause should skip slots: {found:?}")))
}

/// Runs this slot.
async fn run(case: &Slots<'_>, number: u32) -> Verdict {
    let lease = acquire(&case.first, &open(case.request(number)?, 3)).await?;
    done(&case.first, &lease).await
}

/// How a pause ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    ByItself,
    Resumed,
    CaughtUp,
}

/// Pauses the lock until the store's clock has moved, and returns what was skipped.
async fn pause(case: &Slots<'_>, ends: Ends) -> Result<SkippedSlots, Stop> {
    let timing = case.context.timing();
    let short = timing.short();
    let pause = match ends {
        Ends::ByItself => request("job").lasting(short),
        _ => request("job"),
    };
    paused(&case.first, &pause).await?;
    if ends == Ends::ByItself {
        case.context.pass(timing.past(short)).await;
        return skipped_slots(case).await;
    }
    // Clocks with whole seconds have to move too.
    let tick = case.context.capabilities().granularity + Duration::from_millis(20);
    case.context.pass(tick).await;
    match ends {
        Ends::CaughtUp => {
            let skipped = skipped_slots(case).await?;
            let end = Slot::at(case.context.store_now(&case.first).await?)?;
            let catch_up = ResumeRequest::new(case.job.clone()).catching_up();
            let _ = resumed(&case.second, &catch_up).await?;
            Ok(SkippedSlots::new(skipped.from, end))
        }
        _ => {
            resume(&case.second, "job").await?;
            skipped_slots(case).await
        }
    }
}

/// The first slot after the pause.
async fn next(case: &Slots<'_>) -> Result<AttemptRequest, Stop> {
    let now = case.context.store_now(&case.first).await?;
    let next = Slot::at(now + 2 * Duration::from_secs(1))?;
    Ok(case.context.request(&case.job).with_slot(next))
}

fn of(case: &Slots<'_>, slot: Slot) -> AttemptRequest {
    case.context.request(&case.job).with_slot(slot)
}

/// The interval in the record is exactly what counts: the slot at the start and that after the end can be taken.
pub async fn a_pause_skips_the_slots_from_its_start_to_its_end(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    let hour = Duration::from_secs(3_600);
    paused(&case.first, &request("job").lasting(hour)).await?;
    let found = record(&case.first, &case.job).await?;
    let (Some(skipped), Some(until)) = (found.skipped_slots, found.locked_until) else {
        return Err(Stop::failed(format!(
            "what is skipped until when? {found:?}"
        )));
    };
    let granularity = context.capabilities().granularity;
    ensure!(
        skipped.until.instant() <= until && until <= skipped.until.instant() + granularity,
        "slots are skipped as long as the lease of the pause lasts: {found:?}"
    );
    let during = skip_as(&case.second, &case.request(1)?, SkipReason::Paused).await?;
    ensure!(
        during.skipped_slots.is_none(),
        "which slots a pause skips is not decided while it lasts: {during:?}"
    );
    context.pass(granularity + Duration::from_millis(20)).await;
    resume(&case.first, "job").await?;
    let skipped = skipped_slots(&case).await?;
    for slot in [
        skipped.until,
        Slot::from_micros(skipped.from.as_micros() + 1)?,
    ] {
        for request in [of(&case, slot), open(of(&case, slot), 3)] {
            let skip: Skip = skip_as(&case.second, &request, SkipReason::SlotTaken).await?;
            ensure!(
                skip.skipped_slots == Some(skipped) && skip.last_slot.is_none(),
                "the skip should show what was skipped, {skipped:?}: {skip:?}"
            );
        }
    }
    let lease = acquire(&case.second, &of(&case, skipped.from)).await?;
    unlock(&case.second, &lease).await?;
    ensure!(
        skipped_slots(&case).await? == skipped,
        "a slot from before a pause changes nothing about it"
    );
    let first = Slot::from_micros(skipped.until.as_micros() + 1)?;
    let lease = acquire(&case.second, &of(&case, first)).await?;
    unlock(&case.second, &lease).await?;
    let found = record(&case.first, &case.job).await?;
    ensure!(
        found.skipped_slots.is_none(),
        "a slot after a pause was taken, so the pause is over: {found:?}"
    );
    Ok(())
}

/// A claim after a pause names the last slot before it, and what it takes as skipped. Any other claim is refused with
/// what it has to know.
async fn goes_on(case: &Slots<'_>, skipped: SkippedSlots) -> Verdict {
    let next = next(case).await?;
    let last = case.slot(1)?;
    let moved = Slot::from_micros(skipped.until.as_micros() - 1)?;
    let stale = SkippedSlots::new(skipped.from, moved);
    for refused in [
        after(next.clone(), last, None),
        after(next.clone(), last, stale),
        after(next.clone(), skipped.until, None),
        after(next.clone(), skipped.until, skipped),
    ] {
        let skip = skip_as(&case.second, &refused, SkipReason::SlotPending).await?;
        ensure!(
            skip.last_slot == Some(last) && skip.skipped_slots == Some(skipped),
            "the skip should show the last slot {last} and {skipped:?}: {skip:?}"
        );
    }
    let lease = acquire(&case.second, &after(next.clone(), last, skipped)).await?;
    done(&case.second, &lease).await?;
    skipped_as(&case.first, &open(next, 3), SkipReason::SlotTaken).await
}

async fn up_to_date(context: &TestContext, ends: Ends) -> Verdict {
    let case = new(context).await?;
    run(&case, 0).await?;
    run(&case, 1).await?;
    let skipped = pause(&case, ends).await?;
    goes_on(&case, skipped).await
}

/// A job that has run all slots from before a pause runs the first one after it.
pub async fn a_job_that_is_up_to_date_goes_on_after_a_pause(context: &TestContext) -> Verdict {
    up_to_date(context, Ends::Resumed).await
}

/// The same after a pause that ended by itself, when no one could write anything.
pub async fn a_job_that_is_up_to_date_goes_on_after_a_pause_that_ended_by_itself(
    context: &TestContext,
) -> Verdict {
    up_to_date(context, Ends::ByItself).await
}

async fn backlog(context: &TestContext, ends: Ends) -> Verdict {
    let case = new(context).await?;
    run(&case, 0).await?;
    let skipped = pause(&case, ends).await?;
    // Whatever a claim takes as skipped, it leaves nothing out.
    for assumed in [None, Some(skipped)] {
        let early = after(next(&case).await?, case.slot(1)?, assumed);
        let skip = skip_as(&case.second, &early, SkipReason::SlotPending).await?;
        ensure!(
            skip.last_slot == Some(case.slot(0)?),
            "the slot after {} must run first: {skip:?}",
            case.slot(0)?
        );
    }
    let due = after(case.request(1)?, case.slot(0)?, skipped);
    let lease = acquire(&case.second, &due).await?;
    done(&case.second, &lease).await?;
    goes_on(&case, skipped).await
}

/// A pause skips no slot that was due before it, however far behind the job is.
pub async fn slots_that_were_due_before_a_pause_still_run(context: &TestContext) -> Verdict {
    backlog(context, Ends::Resumed).await
}

/// The same after a pause that ended by itself.
pub async fn slots_that_were_due_before_a_pause_that_ended_by_itself_still_run(
    context: &TestContext,
) -> Verdict {
    backlog(context, Ends::ByItself).await
}

/// A slot that is used up when it is taken, and was given back, is no slot of the pause.
pub async fn a_slot_that_was_given_back_before_a_pause_is_taken_after_it(
    context: &TestContext,
) -> Verdict {
    let case = new(context).await?;
    let taken = case.request(1)?;
    abandon(&case.first, &taken).await?;
    case.first.withdraw(&taken).await?;
    pause(&case, Ends::Resumed).await?;
    abandon(&case.second, &case.request(1)?).await
}

/// A slot that must not be lost, and was open when the pause began, is run after it.
pub async fn an_open_slot_stays_open_through_a_pause(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    run(&case, 0).await?;
    let lease = acquire(&case.first, &open(case.request(1)?, 3)).await?;
    unlock(&case.first, &lease).await?;
    let skipped = pause(&case, Ends::Resumed).await?;
    let early = after(next(&case).await?, case.slot(1)?, skipped);
    skipped_as(&case.second, &early, SkipReason::SlotPending).await?;
    let lease = acquire(&case.second, &open(case.request(1)?, 3)).await?;
    ensure!(
        lease.slot_attempt() == Some(2),
        "the second attempt at the open slot: {lease:?}"
    );
    done(&case.second, &lease).await?;
    goes_on(&case, skipped).await
}

/// What was skipped runs, in order: a client that still takes it as skipped is refused, and so is one that leaves it
/// out.
async fn runs_what_was_skipped(case: &Slots<'_>, skipped: SkippedSlots) -> Verdict {
    let (last, next) = (case.slot(1)?, next(case).await?);
    for (previous, assumed) in [(last, Some(skipped)), (skipped.until, None)] {
        let stale = after(next.clone(), previous, assumed);
        let skip = skip_as(&case.first, &stale, SkipReason::SlotPending).await?;
        ensure!(
            skip.skipped_slots.is_none() && skip.last_slot == Some(last),
            "nothing is skipped any more: {skip:?}"
        );
    }
    let during = after(of(case, skipped.until), last, None);
    let lease = acquire(&case.first, &during).await?;
    done(&case.first, &lease).await?;
    abandon(&case.first, &after(next, skipped.until, None)).await
}

/// A resumption that catches up makes the slots after the last one taken available, also for a client that has seen
/// the pause.
pub async fn catching_up_frees_the_slots_of_a_pause(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    run(&case, 1).await?;
    let skipped = pause(&case, Ends::CaughtUp).await?;
    skipped_as(&case.second, &case.request(1)?, SkipReason::SlotTaken).await?;
    runs_what_was_skipped(&case, skipped).await
}

/// The same if the pause is over already, in between two views of the clients.
pub async fn catching_up_frees_the_slots_of_a_pause_that_is_over(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    run(&case, 1).await?;
    let skipped = pause(&case, Ends::Resumed).await?;
    let early = after(next(&case).await?, case.slot(1)?, None);
    skipped_as(&case.first, &early, SkipReason::SlotPending).await?;
    let catch_up = ResumeRequest::new(case.job.clone()).catching_up();
    let before = resumed(&case.second, &catch_up).await?;
    ensure!(
        before.skipped_slots == Some(skipped) && before.state == LockState::Free,
        "the pause was over, and its slots were left: {before:?}"
    );
    runs_what_was_skipped(&case, skipped).await
}

/// A second pause that begins before the job has run past the first one skips the slots between the two as well.
pub async fn a_second_pause_joins_one_that_the_job_has_not_run_past(
    context: &TestContext,
) -> Verdict {
    let case = new(context).await?;
    run(&case, 1).await?;
    let first = pause(&case, Ends::Resumed).await?;
    let second = pause(&case, Ends::Resumed).await?;
    ensure!(
        second.from == first.from && second.until > first.until,
        "{first:?} and the second pause should be one: {second:?}"
    );
    goes_on(&case, second).await?;
    let third = pause(&case, Ends::Resumed).await?;
    ensure!(
        third.from >= second.until,
        "the job has run past {second:?}, so that is over: {third:?}"
    );
    Ok(())
}

/// Pausing a paused lock moves the end only.
pub async fn a_second_pause_moves_the_end_of_one_that_lasts(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    paused(&case.first, &request("job")).await?;
    let first = skipped_slots(&case).await?;
    let other = PauseRequest::new(case.job.clone(), "bob").lasting(Duration::from_secs(60));
    paused(&case.second, &other).await?;
    let second = skipped_slots(&case).await?;
    ensure!(
        second.from == first.from && second.until < first.until,
        "the second pause should only move the end of {first:?}: {second:?}"
    );
    resume(&case.first, "job").await
}

/// Ends a pause that has no end, as a late unlock of ShedLock does: no one writes what is skipped.
async fn ended_by_shedlock(case: &Slots<'_>) -> Result<SkippedSlots, Stop> {
    run(case, 1).await?;
    paused(&case.first, &request("job").replacing_holder()).await?;
    let skipped = skipped_slots(case).await?;
    case.java(2 * Duration::from_secs(60), Duration::from_secs(60))
        .await?;
    let found = case.first.inspect(&case.job).await?;
    if found.as_ref().and_then(|it| it.skipped_slots) != Some(skipped) {
        return Err(Stop::failed(format!(
            "ShedLock leaves what is skipped as it is, {skipped:?}: {found:?}"
        )));
    }
    Ok(skipped)
}

/// A pause that something else has ended skips nothing, and the next claim clears it, so that it cannot come back.
pub async fn no_slot_is_skipped_once_shedlock_has_ended_a_pause(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    ended_by_shedlock(&case).await?;
    let next = next(&case).await?;
    let lease = acquire(&case.second, &after(next.clone(), case.slot(1)?, None)).await?;
    done(&case.second, &lease).await?;
    let found = record(&case.first, &case.job).await?;
    ensure!(
        found.skipped_slots.is_none(),
        "the claim should clear what is left of the pause: {found:?}"
    );
    Ok(())
}

/// An operator can end what is left of a pause that something else has ended.
pub async fn what_shedlock_has_left_of_a_pause_can_be_resumed_and_reset(
    context: &TestContext,
) -> Verdict {
    let case = new(context).await?;
    let skipped = ended_by_shedlock(&case).await?;
    resume(&case.second, "job").await?;
    let resumed = skipped_slots(&case).await?;
    let now = context.store_now(&case.first).await? + context.capabilities().granularity;
    ensure!(
        resumed.from == skipped.from && resumed.until.instant() <= now,
        "the slots up to the resumption are skipped, instead of {skipped:?}: {resumed:?}"
    );
    let to = ResetSlotRequest::new(case.job.clone()).with_slot(case.slot(0)?);
    let reset = admin::reset_slot(&*case.second, &to).await?;
    ensure!(
        matches!(reset, SlotReset::Reset { .. }),
        "there is a last slot, but the answer was {reset:?}"
    );
    let found = record(&case.first, &case.job).await?;
    ensure!(
        found.skipped_slots.is_none() && found.last_slot == Some(case.slot(0)?),
        "a reset clears what was skipped: {found:?}"
    );
    Ok(())
}

/// A reset of the last slot does not make the slots of a pause available.
pub async fn a_reset_keeps_what_a_pause_skips_while_it_lasts(context: &TestContext) -> Verdict {
    let case = new(context).await?;
    run(&case, 1).await?;
    paused(&case.first, &request("job")).await?;
    let to = ResetSlotRequest::new(case.job.clone()).with_slot(case.slot(0)?);
    let reset = admin::reset_slot(&*case.second, &to).await?;
    ensure!(
        matches!(reset, SlotReset::Reset { .. }),
        "there is a last slot, but the answer was {reset:?}"
    );
    context
        .pass(context.capabilities().granularity + Duration::from_millis(20))
        .await;
    resume(&case.first, "job").await?;
    let skipped = skipped_slots(&case).await?;
    skipped_as(
        &case.second,
        &of(&case, skipped.until),
        SkipReason::SlotTaken,
    )
    .await?;
    abandon(&case.second, &case.request(1)?).await
}
