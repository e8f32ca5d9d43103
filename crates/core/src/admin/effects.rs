//! What the operations of an operator make of a record.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::contract::{
    Error, ErrorKind, LockRecord, LockState, PauseRequest, ResetSlotRequest, ResumeRequest, Slot,
    SlotState,
};

/// What a pause writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PauseEffect {
    /// The owner of the lease.
    pub(super) owner: String,
    /// The end of the lease, as the store keeps it.
    pub(super) until: SystemTime,
    /// The slots, with those that the pause skips.
    pub(super) slots: SlotState,
}

impl PauseRequest {
    /// Returns what this pause makes of a record that may be paused. `now` is the time of the clock
    /// that judges, from which others may differ by `skew`. `longest` is the store's longest lease,
    /// and `unit` is that of its ends.
    ///
    /// # Errors
    /// As [`duration`](Self::duration), and `InvalidInput` for an end beyond the calendar.
    pub(super) fn effect(
        &self,
        before: &LockRecord,
        now: SystemTime,
        skew: Duration,
        longest: Duration,
        unit: Duration,
    ) -> Result<PauseEffect, Error> {
        let lasts = self.duration(now, longest)?;
        let kept = kept_until(before).filter(|kept| *kept > now);
        let end = now
            .checked_add(lasts)
            .map(|end| kept.map_or(end, |kept| kept.max(end)));
        let until = end.and_then(|end| rounded_up(end, unit)).ok_or_else(|| {
            let what = "the pause ends beyond the calendar";
            Error::new(ErrorKind::InvalidInput, what).advise("choose an earlier end, or none")
        })?;
        let slots = match before.state {
            LockState::Paused => before.slots(),
            _ => before.slots().as_of(now + skew),
        };
        Ok(PauseEffect {
            owner: self.owner_keeping(kept),
            until,
            slots: slots.paused(Slot::at(now)?, Slot::at(until)?),
        })
    }
}

/// The end of a lease as the store keeps it: never earlier. None beyond the calendar.
fn rounded_up(end: SystemTime, unit: Duration) -> Option<SystemTime> {
    let since = end.duration_since(UNIX_EPOCH).unwrap_or_default();
    let unit = unit.as_nanos().max(1);
    let missing = since.as_nanos().next_multiple_of(unit) - since.as_nanos();
    end.checked_add(Duration::from_nanos(u64::try_from(missing).ok()?))
}

/// The end of the `lock_at_least_for` or of the backoff that a pause of this lock must keep.
fn kept_until(record: &LockRecord) -> Option<SystemTime> {
    match record.state {
        LockState::AtLeast => record.locked_until,
        LockState::Paused => record.pause()?.kept_until(),
        _ => None,
    }
}

/// What a resumption writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResumeEffect {
    /// Whether there is a pause to end. If not, only its slots are left over.
    pub(super) ends_pause: bool,
    /// Until when the lock stays taken after the pause.
    pub(super) kept_until: Option<SystemTime>,
    /// The slots afterwards.
    pub(super) slots: SlotState,
}

impl ResumeRequest {
    /// Returns what this resumption makes of a record at this time of the clock that judges, from
    /// which others may differ by `skew`; `None` if there is nothing to do: the lock is not paused,
    /// and no slots are left over that this request could free.
    ///
    /// # Errors
    /// `InvalidInput` for a time before 1970.
    pub(super) fn effect(
        &self,
        record: &LockRecord,
        now: SystemTime,
        skew: Duration,
    ) -> Result<Option<ResumeEffect>, Error> {
        let ends_pause = record.state == LockState::Paused;
        let is_left = record
            .skipped_slots
            .is_some_and(|it| self.catches_up || !it.has_ended(now + skew));
        if !ends_pause && !is_left {
            return Ok(None);
        }
        let kept = record.pause().and_then(|pause| pause.kept_until());
        let slots = match self.catches_up {
            true => record.slots().caught_up(),
            false => record.slots().resumed(Slot::at(now)?),
        };
        Ok(Some(ResumeEffect {
            ends_pause,
            kept_until: kept.filter(|kept| *kept > now),
            slots,
        }))
    }
}

/// What a reset of the last slot writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResetEffect {
    /// Nothing: no slot was ever taken or skipped.
    NoSlot,
    /// Nothing: no slot is ahead of the store's clock.
    NotAhead,
    /// Nothing: a slot is restored only forwards, and never ahead of the store's clock.
    NotRestored,
    /// These slots, with this last one.
    Set(Slot, SlotState),
}

impl ResetSlotRequest {
    /// Returns what this reset makes of a record at this time of the clock that judges, from which
    /// others may differ by `skew`. What a pause skips stays skipped while it lasts.
    ///
    /// # Errors
    /// `InvalidInput` for a time before 1970.
    pub(super) fn effect(
        &self,
        record: &LockRecord,
        now: SystemTime,
        skew: Duration,
    ) -> Result<ResetEffect, Error> {
        let slots = record.slots();
        if let (Some(slot), Some(restored)) = (self.slot, self.restored) {
            // A slot that was given back leaves the instant before it.
            let is_known = slots.last.is_some_and(|last| last >= slot.just_before());
            if is_known || slot.instant() > now {
                return Ok(ResetEffect::NotRestored);
            }
            return Ok(ResetEffect::Set(slot, slots.restored(slot, restored)));
        }
        let is_paused = record.state == LockState::Paused;
        let skipped = slots.skipped.filter(|_| !is_paused);
        let is_left = skipped.is_some_and(|it| !it.has_ended(now + skew));
        let to = match (self.slot, slots.last) {
            (Some(to), last) if last.is_some() || skipped.is_some() => to,
            (None, Some(last)) if last.instant() > now => Slot::at(now)?,
            (None, Some(last)) if is_left => {
                return Ok(ResetEffect::Set(last, slots.caught_up()));
            }
            (None, Some(_)) => return Ok(ResetEffect::NotAhead),
            (None, None) if is_left => Slot::at(now)?,
            (_, _) => return Ok(ResetEffect::NoSlot),
        };
        let mut reset = slots.reset(to);
        if is_paused {
            reset.skipped = slots.skipped;
        }
        Ok(ResetEffect::Set(to, reset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{LockName, Owner, SkippedSlots};

    fn at(minute: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000 + 60 * minute)
    }

    fn slot(minute: u64) -> Slot {
        Slot::at(at(minute)).unwrap()
    }

    fn name() -> LockName {
        LockName::new("job").unwrap()
    }

    fn record(owner: &str, now: u64, until: u64) -> LockRecord {
        let mut record = LockRecord::from_stored(name(), owner, until > now);
        record.locked_until = Some(at(until));
        record.read_at = Some(at(now));
        record
    }

    const DAY: Duration = Duration::from_secs(86_400);
    const NONE: Duration = Duration::ZERO;
    const MILLISECOND: Duration = Duration::from_millis(1);

    fn pause(before: &LockRecord, now: u64, lasts: u64) -> PauseEffect {
        let request = PauseRequest::new(name(), "alice").lasting(Duration::from_secs(60 * lasts));
        request
            .effect(before, at(now), NONE, DAY, MILLISECOND)
            .unwrap()
    }

    #[test]
    fn a_pause_never_ends_before_its_end() {
        let end = at(0) + Duration::from_nanos(1_000_001);
        let stored = |unit| rounded_up(end, unit).unwrap();
        assert_eq!(stored(Duration::from_nanos(1)), end);
        assert_eq!(stored(MILLISECOND), at(0) + 2 * MILLISECOND);
        assert_eq!(stored(DAY / 86_400), at(0) + DAY / 86_400);
        assert_eq!(rounded_up(at(0), MILLISECOND), Some(at(0)));
    }

    #[test]
    fn at_least_and_a_backoff_survive_a_pause() {
        let kept = record(&Owner::generate().released(), 0, 10);
        let first = pause(&kept, 0, 5);
        assert_eq!(first.until, at(10), "it ends no earlier");
        // Another operator moves the end.
        let paused = record(&first.owner, 1, 10);
        let second = pause(&paused, 1, 60);
        assert_eq!(second.until, at(61));
        let paused = record(&second.owner, 2, 61);
        let resumed = ResumeRequest::new(name())
            .effect(&paused, at(2), NONE)
            .unwrap();
        assert_eq!(resumed.unwrap().kept_until, Some(at(10)));
        let late = ResumeRequest::new(name())
            .effect(&paused, at(11), NONE)
            .unwrap();
        assert_eq!(late.unwrap().kept_until, None);
    }

    #[test]
    fn a_second_pause_joins_one_that_the_job_has_not_run_past() {
        let mut free = record(&Owner::generate().released(), 20, 0);
        free.skipped_slots = Some(SkippedSlots::new(slot(5), slot(10)));
        let joined = pause(&free, 20, 5).slots.skipped.unwrap();
        assert_eq!(joined, SkippedSlots::new(slot(5), slot(25)));
        // Something else ended the first one.
        free.skipped_slots = Some(SkippedSlots::new(slot(5), slot(90)));
        let alone = pause(&free, 20, 5).slots.skipped.unwrap();
        assert_eq!(alone, SkippedSlots::new(slot(20), slot(25)));
        let mut paused = record(&pause(&free, 20, 5).owner, 22, 25);
        paused.skipped_slots = Some(alone);
        let moved = pause(&paused, 22, 1).slots.skipped.unwrap();
        assert_eq!(moved, SkippedSlots::new(slot(20), slot(23)));
    }

    #[test]
    fn what_a_pause_has_left_over_can_be_resumed_and_reset() {
        let mut free = record("web-3", 20, 0);
        let (resume, catch_up) = (
            ResumeRequest::new(name()),
            ResumeRequest::new(name()).catching_up(),
        );
        assert_eq!(catch_up.effect(&free, at(20), NONE).unwrap(), None);
        free.skipped_slots = Some(SkippedSlots::new(slot(5), slot(10)));
        assert_eq!(resume.effect(&free, at(20), NONE).unwrap(), None);
        let caught_up = catch_up.effect(&free, at(20), NONE).unwrap().unwrap();
        assert_eq!(
            (caught_up.ends_pause, caught_up.slots.skipped),
            (false, None)
        );
        free.skipped_slots = Some(SkippedSlots::new(slot(5), slot(90)));
        let resumed = resume
            .effect(&free, at(20), NONE)
            .unwrap()
            .unwrap()
            .slots
            .skipped;
        assert_eq!(resumed, Some(SkippedSlots::new(slot(5), slot(20))));
        let reset = ResetSlotRequest::new(name());
        let set = ResetEffect::Set(slot(20), SlotState::new(Some(slot(20)), None, None));
        assert_eq!(reset.effect(&free, at(20), NONE).unwrap(), set);
        free.last_slot = Some(slot(4));
        free.slot_attempts = Some(1);
        let open = SlotState::new(Some(slot(4)), None, Some(1));
        let set = ResetEffect::Set(slot(4), open);
        assert_eq!(
            reset.effect(&free, at(20), NONE).unwrap(),
            set,
            "it stays open"
        );
    }

    #[test]
    fn a_reset_of_a_paused_lock_keeps_what_the_pause_skips() {
        let none = record("web-3", 0, 0);
        let effect = pause(&none, 1, 60);
        let mut paused = record(&effect.owner, 2, 61).with_slots(effect.slots);
        paused.last_slot = Some(slot(1));
        let to = ResetSlotRequest::new(name()).with_slot(slot(0));
        let ResetEffect::Set(_, slots) = to.effect(&paused, at(2), NONE).unwrap() else {
            unreachable!("there is a last slot")
        };
        assert_eq!(
            (slots.last, slots.skipped),
            (Some(slot(0)), effect.slots.skipped)
        );
    }
}
