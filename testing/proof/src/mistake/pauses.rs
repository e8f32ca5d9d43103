//! Mistakes about the pauses of operators.

use shedlock_core::admin::{Change, Changed, LeaseChange, Seen};
use shedlock_core::{
    Attempt, AttemptRequest, Error, Lease, LockName, LockRecord, LockState, Pause, PauseRequest,
    SkipReason, Unlock, UnlockRequest,
};

use super::about::{About, Known, Needs};
use super::site::Site;

/// An attempt ignores pauses.
pub(super) struct PauseIgnored;

impl Known for PauseIgnored {
    const ABOUT: About = About::new("pause-ignored")
        .caught_by(&["pauses::a_pause_holds_the_lock_and_shows_who_and_why"])
        .violates(&["overlap with a pause", "pause lost"])
        .needs(&[Needs::Pause])
        .in_torture();

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let answer = site.inner.attempt(request).await?;
        match &answer {
            Attempt::Skipped(skip) if skip.reason == SkipReason::Paused => {
                site.end_pause(&request.name).await?;
                site.inner.attempt(request).await
            }
            _ => Ok(answer),
        }
    }
}

/// An unlock that finds its lease replaced by a pause frees the pause.
pub(super) struct PauseFreedByUnlock;

impl Known for PauseFreedByUnlock {
    const ABOUT: About = About::new("pause-freed-by-unlock")
        .caught_by(&["pauses::a_pause_can_take_the_lock_from_its_holder"])
        .violates(&["overlap with a pause", "pause lost"])
        .needs(&[Needs::Pause])
        .in_torture();

    async fn unlock(site: &Site, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        let unlock = site.inner.unlock(lease, request).await?;
        if unlock == Unlock::Lost {
            site.end_pause(lease.name()).await?;
        }
        Ok(unlock)
    }
}

/// A look shows a held lock as free, so that a pause that should wait takes it from its holder.
pub(super) struct PauseTakesTheLock;

impl Known for PauseTakesTheLock {
    const ABOUT: About = About::new("pause-takes-the-lock")
        .violates(&["overlap with a pause", "lost ownership"])
        .caught_by(&["pauses::a_pause_leaves_a_running_task_alone"])
        .needs(&[Needs::Pause])
        .in_torture();

    async fn look(site: &Site, name: &LockName) -> Result<Option<Seen>, Error> {
        let show = |record: &mut LockRecord| {
            if record.state.may_run() {
                record.state = LockState::Free;
            }
        };
        site.shown(name, show).await
    }
}

/// A pause ends after half its time.
pub(super) struct PauseEndsEarly;

impl Known for PauseEndsEarly {
    const ABOUT: About = About::new("pause-ends-early")
        .caught_by(&["pauses::a_pause_ends_by_itself"])
        .violates(&["overlap with a pause", "pause lost"])
        .needs(&[Needs::Pause])
        .in_torture();

    async fn change(
        site: &Site,
        name: &LockName,
        seen: &Seen,
        change: &Change,
    ) -> Result<Changed, Error> {
        let mut shorter = change.clone();
        if let LeaseChange::Take { until, .. } = &mut shorter.lease {
            let now = site.read_at(&seen.record);
            *until -= until.duration_since(now).unwrap_or_default() / 2;
        }
        site.inner.change(name, seen, &shorter).await
    }
}

/// Slots that fall due during a pause can be run after it.
pub(super) struct PauseForgetsSlots;

impl Known for PauseForgetsSlots {
    const ABOUT: About = About::new("pause-forgets-slots")
        .violates(&["slot of a pause"])
        .caught_by(&["pauses_slots::a_job_that_is_up_to_date_goes_on_after_a_pause"])
        .needs(&[Needs::Slots, Needs::Pause])
        .in_torture();

    async fn change(
        site: &Site,
        name: &LockName,
        seen: &Seen,
        change: &Change,
    ) -> Result<Changed, Error> {
        let mut without_slots = change.clone();
        if change.lease != LeaseChange::Keep {
            without_slots.slots = None;
        }
        site.inner.change(name, seen, &without_slots).await
    }
}

/// A pause makes all slots up to its end count as taken, also those that were due before it.
pub(super) struct PauseIsAHighWaterMark;

impl Known for PauseIsAHighWaterMark {
    const ABOUT: About = About::new("pause-is-a-high-water-mark")
        .caught_by(&["pauses_slots::slots_that_were_due_before_a_pause_still_run"])
        .needs(&[Needs::Slots, Needs::Pause]);

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let record = site.inner.inspect(&request.name).await?;
        let skipped = record.as_ref().and_then(LockRecord::slots_skipped_before);
        let is_passed = skipped.is_some_and(|it| request.slot.is_some_and(|slot| slot <= it.until));
        match record.filter(|record| is_passed && record.last_slot != request.slot) {
            Some(record) => {
                let skip = record.as_skip_for(SkipReason::SlotTaken, &record.slots());
                Ok(Attempt::Skipped(skip))
            }
            None => site.inner.attempt(request).await,
        }
    }
}

/// A claim in order whose previous slot a pause has skipped is granted, whatever was not run before the pause.
pub(super) struct SkippedSlotIsThePrevious;

impl Known for SkippedSlotIsThePrevious {
    const ABOUT: About = About::new("skipped-slot-is-the-previous")
        .caught_by(&["pauses_slots::a_job_that_is_up_to_date_goes_on_after_a_pause"])
        .needs(&[Needs::Slots, Needs::Pause]);

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let answer = site.inner.attempt(request).await?;
        let Attempt::Skipped(skip) = &answer else {
            return Ok(answer);
        };
        let skipped = skip
            .skipped_slots
            .filter(|_| skip.reason == SkipReason::SlotPending);
        match (skipped, request.previous_slot, skip.last_slot) {
            (Some(skipped), Some(previous), Some(last)) if skipped.contains(previous) => {
                let again = request.clone().with_previous_slot(last);
                site.inner.attempt(&again.with_skipped_slots(skipped)).await
            }
            _ => Ok(answer),
        }
    }
}

/// An unlock takes a forced unlock of its lease for an earlier call of its own.
pub(super) struct ForcedUnlockIsOnesOwn;

impl Known for ForcedUnlockIsOnesOwn {
    const ABOUT: About = About::new("forced-unlock-is-ones-own")
        .caught_by(&["operators::the_holder_loses_a_lock_that_was_freed_by_force"]);

    async fn unlock(site: &Site, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        let unlock = site.inner.unlock(lease, request).await?;
        let record = site.inner.inspect(lease.name()).await?;
        let is_marked = record.is_some_and(|record| {
            record.is_unlocked && record.owner.as_deref() == Some(lease.owner().as_str())
        });
        Ok(if is_marked { Unlock::Unlocked } else { unlock })
    }
}

/// A look shows a pause as a holder, so that a forced unlock frees it.
pub(super) struct PauseForced;

impl Known for PauseForced {
    const ABOUT: About = About::new("pause-forced")
        .violates(&["pause forced"])
        .caught_by(&["pauses::a_forced_unlock_refuses_a_pause"])
        .needs(&[Needs::Pause])
        .in_torture();

    async fn look(site: &Site, name: &LockName) -> Result<Option<Seen>, Error> {
        let show = |record: &mut LockRecord| {
            if record.state == LockState::Paused {
                record.state = LockState::Held;
            }
        };
        site.shown(name, show).await
    }
}

/// A store keeps another owner than that of the pause, so that a repeated pause is a new one.
pub(super) struct PauseIsNotIdempotent;

impl Known for PauseIsNotIdempotent {
    const ABOUT: About = About::new("pause-is-not-idempotent")
        .caught_by(&["pauses::a_repeated_pause_is_the_same_pause"])
        .needs(&[Needs::Pause]);

    async fn change(
        site: &Site,
        name: &LockName,
        seen: &Seen,
        change: &Change,
    ) -> Result<Changed, Error> {
        let mut other = change.clone();
        if let LeaseChange::Take { owner, .. } = &mut other.lease {
            let user = Pause::parse(owner).map_or("", |pause| pause.by());
            let user = user.split('@').next().unwrap_or_default();
            *owner = PauseRequest::new(name.clone(), user).owner();
        }
        site.inner.change(name, seen, &other).await
    }
}

/// A resumption returns "resumed" and changes nothing.
pub(super) struct ResumeForgotten;

impl Known for ResumeForgotten {
    const ABOUT: About = About::new("resume-forgotten")
        .caught_by(&["pauses::a_pause_needs_no_record"])
        .violates(&["owner returns", "taken for too long"])
        .needs(&[Needs::Pause])
        .in_torture();

    async fn change(
        site: &Site,
        name: &LockName,
        seen: &Seen,
        change: &Change,
    ) -> Result<Changed, Error> {
        if seen.record.state == LockState::Paused {
            return Ok(Changed::Done);
        }
        site.inner.change(name, seen, change).await
    }
}

/// A look shows a held lock as paused, so that a resumption frees it.
pub(super) struct ResumeFreesHeldLocks;

impl Known for ResumeFreesHeldLocks {
    const ABOUT: About = About::new("resume-frees-held-locks")
        .caught_by(&["pauses::only_a_pause_can_be_resumed"])
        .needs(&[Needs::Pause]);

    async fn look(site: &Site, name: &LockName) -> Result<Option<Seen>, Error> {
        let show = |record: &mut LockRecord| {
            if record.state == LockState::Held {
                record.state = LockState::Paused;
            }
        };
        site.shown(name, show).await
    }
}
