//! Mistakes about the pauses of operators.

use shedlock_core::{
    Attempt, AttemptRequest, Error, ForceUnlockRequest, ForcedUnlock, Lease, LockRecord, LockState,
    Pause, PauseRequest, Paused, ResetSlotRequest, ResumeRequest, Resumed, SkipReason, Unlock,
    UnlockRequest,
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
                site.end_pause(request.name()).await?;
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

/// A pause that should wait takes the lock from its holder.
pub(super) struct PauseTakesTheLock;

impl Known for PauseTakesTheLock {
    const ABOUT: About = About::new("pause-takes-the-lock")
        .violates(&["overlap with a pause", "lost ownership"])
        .caught_by(&["pauses::a_pause_leaves_a_running_task_alone"])
        .needs(&[Needs::Pause])
        .in_torture();

    async fn pause(site: &Site, request: &PauseRequest) -> Result<Paused, Error> {
        let taking = request.clone().replacing_holder();
        site.inner.pause(&taking).await
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

    async fn pause(site: &Site, request: &PauseRequest) -> Result<Paused, Error> {
        let longest = site.inner.capabilities().longest_lock_at_most_for;
        let lasts = request.duration(site.clock.system_time(), longest)?;
        let shorter = request.clone().lasting(lasts / 2);
        site.inner.pause(&shorter).await
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

    async fn pause(site: &Site, request: &PauseRequest) -> Result<Paused, Error> {
        let paused = site.inner.pause(request).await?;
        if let Paused::Done { before, .. } = &paused
            && let Some(last) = before.as_ref().and_then(|before| before.last_slot)
        {
            let name = request.name().clone();
            let reset = ResetSlotRequest::new(name).with_slot(last);
            site.inner.reset_slot(&reset).await?;
        }
        Ok(paused)
    }

    async fn resume(site: &Site, request: &ResumeRequest) -> Result<Resumed, Error> {
        let catching_up = request.clone().catching_up();
        site.inner.resume(&catching_up).await
    }
}

/// A pause makes all slots up to its end count as taken, also those that were due before it.
pub(super) struct PauseIsAHighWaterMark;

impl Known for PauseIsAHighWaterMark {
    const ABOUT: About = About::new("pause-is-a-high-water-mark")
        .caught_by(&["pauses_slots::slots_that_were_due_before_a_pause_still_run"])
        .needs(&[Needs::Slots, Needs::Pause]);

    async fn attempt(site: &Site, request: &AttemptRequest) -> Result<Attempt, Error> {
        let record = site.inner.inspect(request.name()).await?;
        let skipped = record.as_ref().and_then(LockRecord::slots_skipped_before);
        let is_passed =
            skipped.is_some_and(|it| request.slot().is_some_and(|slot| slot <= it.until));
        match record.filter(|record| is_passed && record.last_slot != request.slot()) {
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
        match (skipped, request.previous_slot(), skip.last_slot) {
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

/// A forced unlock frees a pause.
pub(super) struct PauseForced;

impl Known for PauseForced {
    const ABOUT: About = About::new("pause-forced")
        .violates(&["pause forced"])
        .caught_by(&["pauses::a_forced_unlock_refuses_a_pause"])
        .needs(&[Needs::Pause])
        .in_torture();

    async fn force_unlock(
        site: &Site,
        request: &ForceUnlockRequest,
    ) -> Result<ForcedUnlock, Error> {
        match site.inner.force_unlock(request).await? {
            ForcedUnlock::Paused(record) => {
                site.end_pause(request.name()).await?;
                Ok(ForcedUnlock::Freed(record))
            }
            answer => Ok(answer),
        }
    }
}

/// A repeated pause is a new one.
pub(super) struct PauseIsNotIdempotent;

impl Known for PauseIsNotIdempotent {
    const ABOUT: About = About::new("pause-is-not-idempotent")
        .caught_by(&["pauses::a_repeated_pause_is_the_same_pause"])
        .needs(&[Needs::Pause]);

    async fn pause(site: &Site, request: &PauseRequest) -> Result<Paused, Error> {
        let owner = request.owner();
        let user = Pause::parse(&owner).map_or("", |pause| pause.by());
        let user = user.split('@').next().unwrap_or_default();
        let again = PauseRequest::new(request.name().clone(), user);
        site.inner.pause(&again).await
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

    async fn resume(site: &Site, request: &ResumeRequest) -> Result<Resumed, Error> {
        let record = site.inner.inspect(request.name()).await?;
        Ok(match record {
            Some(record) if record.state == LockState::Paused => Resumed::Resumed(record),
            record => Resumed::NotPaused(record),
        })
    }
}

/// A resumption frees a lock that is held and not paused.
pub(super) struct ResumeFreesHeldLocks;

impl Known for ResumeFreesHeldLocks {
    const ABOUT: About = About::new("resume-frees-held-locks")
        .caught_by(&["pauses::only_a_pause_can_be_resumed"])
        .needs(&[Needs::Pause]);

    async fn resume(site: &Site, request: &ResumeRequest) -> Result<Resumed, Error> {
        match site.inner.resume(request).await? {
            Resumed::NotPaused(Some(record)) if record.state == LockState::Held => {
                site.force(request.name()).await?;
                Ok(Resumed::Resumed(record))
            }
            answer => Ok(answer),
        }
    }
}
