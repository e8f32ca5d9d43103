//! The slots of a record, and which slots an attempt can take.

use std::time::SystemTime;

use crate::contract::{
    AttemptRequest, Completion, LockState, RestoredSlot, SkipReason, Slot, SlotEnd,
};

/// The slots that a pause has skipped: those after `from`, up to and including `until`.
///
/// Slots that were due when the pause began are not among them, and no slot after its end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SkippedSlots {
    /// When the pause began, by the store's clock.
    pub from: Slot,
    /// When its lease ends, or was ended, by the same clock.
    pub until: Slot,
}

impl SkippedSlots {
    /// Creates the interval of a pause that began at `from` and ends at `until`.
    pub fn new(from: Slot, until: Slot) -> Self {
        Self { from, until }
    }

    /// Returns whether this slot is skipped.
    pub fn contains(&self, slot: Slot) -> bool {
        self.from < slot && slot <= self.until
    }

    /// Returns whether the pause has ended by itself or by a resumption, if its lock is free at
    /// `now`. If not, something else has freed the lock, such as a late unlock of ShedLock's, and
    /// nothing is skipped.
    pub fn has_ended(&self, now: SystemTime) -> bool {
        self.until.instant() <= now
    }
}

/// The slots of a record, with the rules of law 9. For providers, so that each need not implement
/// them again. Stores that evaluate them in their own statements follow the same rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotState {
    /// The last slot that was taken, or the instant just before a slot that was given back.
    pub last: Option<Slot>,
    /// The last slot whose run reported success. It refuses no slot by itself.
    pub done: Option<Slot>,
    /// How many attempts were made at `last`, while it must still be done; 0 if none of them
    /// counts.
    pub attempts: Option<u32>,
    /// The slots that a pause has skipped, until a later one is taken. They count as taken, except
    /// `last` while that must still be done.
    pub skipped: Option<SkippedSlots>,
}

impl SlotState {
    /// Creates a state with these parts. For providers.
    pub fn new(last: Option<Slot>, done: Option<Slot>, attempts: Option<u32>) -> Self {
        Self {
            last,
            done,
            attempts,
            skipped: None,
        }
    }

    /// Adds the slots that a pause has skipped.
    #[must_use]
    pub fn with_skipped(mut self, skipped: Option<SkippedSlots>) -> Self {
        self.skipped = skipped;
        self
    }

    /// Returns the state as it counts at this time for a lock that is not paused: without an
    /// interval of skipped slots that ends later.
    #[must_use]
    pub fn as_of(self, now: SystemTime) -> Self {
        let skipped = self.skipped.filter(|it| it.has_ended(now));
        Self { skipped, ..self }
    }

    /// Returns why the slot of this request cannot be taken. Returns `None` if the rules for slots
    /// allow it to be taken, or if the request has no slot. Call it on the state
    /// [`as_of`](Self::as_of) the store's time.
    ///
    /// `shedlock_at` is when the record was last acquired, if ShedLock acquired it, and `lock` is
    /// the state of the lock. A takeover, which waits for the lock to be free, is not refused here
    /// while the lock is taken: it is reported like any held lock. A slot whose attempts are used
    /// up is reported as given up once its last attempt no longer holds the lock. While the lock is
    /// paused no slot is refused: the pause is the reason to report.
    pub fn refusal(
        &self,
        request: &AttemptRequest,
        shedlock_at: Option<SystemTime>,
        lock: LockState,
    ) -> Option<SkipReason> {
        let slot = request.slot?;
        if lock == LockState::Paused {
            return None;
        }
        if shedlock_at.is_some_and(|at| at >= slot.instant()) {
            return Some(SkipReason::SlotTaken);
        }
        let must_be_done = self.attempts.is_some() && self.last == Some(slot);
        if !must_be_done && self.skipped.is_some_and(|it| it.contains(slot)) {
            return Some(SkipReason::SlotTaken);
        }
        let last = self.last?;
        let Completion::OnSuccess(retries) = request.completion else {
            return (slot <= last).then_some(SkipReason::SlotTaken);
        };
        let is_open = |attempts| attempts < retries.get_max_attempts();
        if slot <= last {
            let Some(made) = self.attempts.filter(|_| slot == last) else {
                return Some(SkipReason::SlotTaken);
            };
            let given_up = !lock.may_run() && !is_open(made);
            return given_up.then_some(SkipReason::SlotGivenUp);
        }
        if lock != LockState::Free {
            return None;
        }
        // A run of ShedLock at or after the open slot counts as its completion.
        let pending =
            self.attempts.is_some_and(is_open) && shedlock_at.is_none_or(|at| at < last.instant());
        let gap = request
            .previous_slot
            .is_some_and(|before| last < before || self.skipped != request.skipped_slots);
        (pending || gap).then_some(SkipReason::SlotPending)
    }

    /// Returns the state after this request has won. Call it on the state [`as_of`](Self::as_of) the
    /// store's time.
    pub fn taken(self, request: &AttemptRequest) -> Self {
        let Some(slot) = request.slot else {
            return self;
        };
        let attempts = request.completion.retries().map(|_| {
            let made = self.attempts.filter(|_| self.last == Some(slot));
            made.unwrap_or(0).saturating_add(1)
        });
        Self {
            last: Some(slot),
            done: self.done,
            attempts,
            skipped: self.skipped.filter(|it| slot <= it.until),
        }
    }

    /// Returns the state after a lease of this slot ended in this way.
    ///
    /// A task that never started, and a run that a shutdown interrupted, give the attempt back: the
    /// slot stays open. A slot that is used up when it is taken is given back only if nothing ran.
    /// The last slot is then the instant just before it, so that any replica can take the slot
    /// again, while every earlier slot stays refused. A slot that was given back, done or reset
    /// before is left unchanged.
    #[must_use]
    pub fn ended(self, slot: Slot, end: SlotEnd) -> Self {
        let runs_again = match end {
            SlotEnd::Done { .. } => return self.done(slot),
            SlotEnd::Open | SlotEnd::Failed { .. } => return self,
            SlotEnd::NotStarted => self.done != Some(slot),
            SlotEnd::Cut => false,
        };
        match self.attempts {
            _ if self.last != Some(slot) => self,
            Some(made) => Self {
                attempts: Some(made.saturating_sub(1)),
                ..self
            },
            None if runs_again => Self {
                last: Some(slot.just_before()),
                ..self
            },
            None => self,
        }
    }

    /// Returns the state after a lease of this slot ended and the slot is done.
    pub fn done(self, slot: Slot) -> Self {
        Self {
            done: self.done.max(Some(slot)),
            attempts: None,
            ..self
        }
    }

    /// Returns the state after an operator has set the last slot: slots after it can be taken.
    pub fn reset(self, to: Slot) -> Self {
        Self {
            last: Some(to),
            done: self.done.min(Some(to)),
            attempts: None,
            skipped: None,
        }
    }

    /// Returns the state after this last slot was restored.
    #[must_use]
    pub fn restored(self, slot: Slot, restored: RestoredSlot) -> Self {
        let restored_state = Self {
            last: Some(slot),
            attempts: None,
            ..self
        };
        match restored {
            RestoredSlot::UsedUp => restored_state,
            RestoredSlot::Done => restored_state.done(slot),
            RestoredSlot::Open(attempts) => Self {
                attempts: Some(attempts),
                ..restored_state
            },
        }
    }

    /// Returns the state while a pause that began at one instant holds the lock until another: slots
    /// after the first count as taken up to the second.
    ///
    /// A pause writes it when it begins, because nothing is written when it ends by itself. If the
    /// job has not run past an earlier pause, or is still paused, the two are joined. Call it on the
    /// state [`as_of`](Self::as_of) the store's time, unless the lock is paused.
    #[must_use]
    pub fn paused(self, began: Slot, end: Slot) -> Self {
        let from = self.skipped.map_or(began, |earlier| earlier.from);
        let skipped = Some(SkippedSlots::new(from.min(began), end));
        Self { skipped, ..self }
    }

    /// Returns the state after a pause was ended at this instant.
    #[must_use]
    pub fn resumed(self, at: Slot) -> Self {
        let resumed = |it: SkippedSlots| SkippedSlots::new(it.from, at.max(it.from));
        let skipped = self.skipped.map(resumed);
        Self { skipped, ..self }
    }

    /// Returns the state after the end of a pause whose slots are to run: those after the last one
    /// taken can be taken.
    #[must_use]
    pub fn caught_up(self) -> Self {
        Self {
            skipped: None,
            ..self
        }
    }
}
