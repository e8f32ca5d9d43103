//! Mistakes about slots.

use std::time::Duration;

use shedlock_core::{
    Attempt, AttemptRequest, Completion, Error, Lease, LockRecord, LockState, ResetSlotRequest,
    Skip, SkipReason, Slot, SlotEnd, Unlock, UnlockRequest, admin,
};

use super::about::{About, Known, Needs};
use super::site::{Site, passed_on, without_slot};

/// A slot is remembered only while its lease runs.
pub(super) struct SlotOfLeaseOnly;

impl Known for SlotOfLeaseOnly {
    const ABOUT: About = About::new("slot-of-lease-only")
        .violates(&["slot twice", "slot goes back", "slot given back"])
        .caught_by(&["law09_slots::a_slot_is_taken_once"])
        .needs(&[Needs::Slots])
        .in_torture()
        .in_simulation();

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        regardless_of_slots(site, request).await
    }
}

async fn regardless_of_slots(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
    let without = without_slot(request, &request.owner, request.lock_at_most_for);
    Ok(passed_on(request, site.inner.attempt(&without).await?))
}

/// A slot only has to differ from the last one; it does not have to be later.
pub(super) struct SlotsAnyOrder;

impl Known for SlotsAnyOrder {
    const ABOUT: About = About::new("slots-any-order")
        .caught_by(&["law09_slots::an_older_slot_is_skipped"])
        .violates(&["slot goes back", "slot twice"])
        .needs(&[Needs::Slots])
        .in_torture()
        .in_simulation();

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let answer = site.inner.attempt(request).await?;
        if let Attempt::Skipped(skip) = &answer
            && skip.reason == SkipReason::SlotTaken
            && skip.last_slot > request.slot
        {
            return regardless_of_slots(site, request).await;
        }
        Ok(answer)
    }
}

/// The check for a taken slot is a separate step before the acquisition.
pub(super) struct SlotInTwoSteps;

impl Known for SlotInTwoSteps {
    const ABOUT: About = About::new("slot-in-two-steps")
        .caught_by(&["law09_slots::sixty_four_contenders_for_a_slot_have_one_winner"])
        .needs(&[Needs::Slots]);

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let Some(slot) = request.slot else {
            return site.inner.attempt(request).await;
        };
        let name = &request.name;
        if site.shared.lock().slots.get(name) >= Some(&slot) {
            return Ok(Attempt::Skipped(Skip::new(SkipReason::SlotTaken)));
        }
        site.between_two_steps().await;
        let answer = regardless_of_slots(site, request).await?;
        if matches!(answer, Attempt::Acquired(_)) {
            site.shared.lock().slots.insert(name.clone(), slot);
        }
        Ok(answer)
    }
}

/// A slot far ahead of the clock is granted.
pub(super) struct SlotAheadGranted;

impl Known for SlotAheadGranted {
    const ABOUT: About = About::new("slot-ahead-granted")
        .caught_by(&["law09_slots::a_slot_a_year_ahead_claims_nothing"])
        .needs(&[Needs::Slots]);

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let years = Duration::from_secs(1_000 * 86_400);
        let tolerant = request.clone().with_slot_tolerance(years);
        site.inner.attempt(&tolerant).await
    }
}

/// A slot is given back a second time, even if another owner has it then.
pub(super) struct SlotGivenBackTwice;

impl Known for SlotGivenBackTwice {
    const ABOUT: About = About::new("slot-given-back-twice")
        .caught_by(&["law09_unused_slots::a_stale_lease_gives_nothing_back"])
        .violates(&["slot twice"])
        // Stores whose last slot can be set.
        .needs(&[Needs::Completion])
        .in_torture();

    /// In two steps and regardless of its holder.
    async fn unlock(site: &Site, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        let unlock = site.inner.unlock(lease, request).await?;
        if request.slot_end != SlotEnd::NotStarted {
            return Ok(unlock);
        }
        site.sleep(lease.lock_at_most_for() / 8).await;
        let record = site.inner.inspect(lease.name()).await?;
        if let (Some(slot), Some(record)) = (lease.slot(), record)
            && record.last_slot == Some(slot)
        {
            reset(site, &record, slot.just_before()).await?;
        }
        Ok(unlock)
    }
}

/// A slot stays used up even if the task never began.
pub(super) struct UnusedSlotKept;

impl Known for UnusedSlotKept {
    const ABOUT: About = About::new("unused-slot-kept")
        .violates(&["slot used up"])
        .caught_by(&[
            "law06_held_is_not_broken::a_withdrawn_attempt_gives_its_slot_back",
            "law09_unused_slots::a_task_that_never_started_gives_its_slot_back",
        ])
        .needs(&[Needs::Slots])
        .in_simulation();

    async fn withdraw(site: &Site, request: &AttemptRequest) -> Result<bool, Error> {
        site.inner.withdraw(&request.clone().without_slot()).await
    }

    async fn unlock(site: &Site, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        match request.slot_end {
            SlotEnd::NotStarted => {
                let used = UnlockRequest::new().ignoring_at_least();
                site.inner.unlock(lease, &used).await
            }
            _ => site.inner.unlock(lease, request).await,
        }
    }
}

/// An open slot may be passed over for a later one.
pub(super) struct OpenSlotIsPassed;

impl Known for OpenSlotIsPassed {
    const ABOUT: About = About::new("open-slot-is-passed")
        .violates(&["slot passed over"])
        .caught_by(&["law09_open_slots::a_later_slot_waits_for_the_open_one"])
        .needs(&[Needs::Completion])
        .in_simulation();

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        if let Some((record, open)) = open_and_free(site, request).await?
            && request.slot > Some(open)
        {
            reset(site, &record, open).await?;
        }
        site.inner.attempt(request).await
    }
}

/// A take-over of an open slot restarts its count of attempts.
pub(super) struct AttemptsForgottenAtTakeover;

impl Known for AttemptsForgottenAtTakeover {
    const ABOUT: About = About::new("attempts-forgotten-at-takeover")
        .violates(&["slot run too often"])
        .caught_by(&["law09_open_slots::attempts_are_bounded"])
        .needs(&[Needs::Completion])
        .in_simulation();

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        if let Some((record, open)) = open_and_free(site, request).await?
            && request.slot == Some(open)
        {
            reset(site, &record, open.just_before()).await?;
        }
        site.inner.attempt(request).await
    }
}

/// The record of the lock and its last slot, if that is open and could be taken over.
async fn open_and_free(
    site: &Site,
    request: &AttemptRequest,
) -> Result<Option<(LockRecord, Slot)>, Error> {
    if request.completion == Completion::WhenTaken {
        return Ok(None);
    }
    let record = site.inner.inspect(&request.name).await?;
    let free = record.filter(|record| record.state == LockState::Free);
    Ok(free.and_then(|record| {
        let open = record.slot_attempts.and(record.last_slot)?;
        Some((record, open))
    }))
}

/// Sets the last slot of this lock.
async fn reset(site: &Site, record: &LockRecord, slot: Slot) -> Result<(), Error> {
    let request = ResetSlotRequest::new(record.name.clone()).with_slot(slot);
    admin::reset_slot(&*site.inner, &request).await.map(drop)
}
