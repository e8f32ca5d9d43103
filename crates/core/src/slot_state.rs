//! The slots of a record, and which slots an attempt can take.

use std::time::SystemTime;

use crate::{AttemptRequest, Completion, LockState, SkipReason, Slot, SlotEnd};

/// The slots of a record, with the rules of law 9. For providers, so that each need not implement
/// them again. Stores that evaluate them in their own statements follow the same rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotState {
    /// The last slot that was taken, or the instant just before a slot that was given back.
    pub last: Option<Slot>,
    /// The last slot that counts as done: a run marked it so, or a pause ended at this instant.
    /// After a pause it is later than `last`. Slots up to it count as taken, except `last` while
    /// that must still be done.
    pub done: Option<Slot>,
    /// How many attempts were made at `last`, while it must still be done; 0 if none of them
    /// counts.
    pub attempts: Option<u32>,
}

impl SlotState {
    /// Creates a state with these parts. For providers.
    pub fn new(last: Option<Slot>, done: Option<Slot>, attempts: Option<u32>) -> Self {
        Self {
            last,
            done,
            attempts,
        }
    }

    /// Returns why the slot of this request cannot be taken. Returns `None` if the rules for slots
    /// allow it to be taken, or if the request has no slot.
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
        let slot = request.slot()?;
        if lock == LockState::Paused {
            return None;
        }
        if shedlock_at.is_some_and(|at| at >= slot.instant()) {
            return Some(SkipReason::SlotTaken);
        }
        let must_be_done = self.attempts.is_some() && self.last == Some(slot);
        if !must_be_done && self.done.is_some_and(|done| slot <= done) {
            return Some(SkipReason::SlotTaken);
        }
        let last = self.last?;
        let Completion::OnSuccess(retries) = request.completion() else {
            return (slot <= last).then_some(SkipReason::SlotTaken);
        };
        let is_open = |attempts| attempts < retries.get_max_attempts();
        if slot <= last {
            let Some(made) = self.attempts.filter(|_| slot == last) else {
                return Some(SkipReason::SlotTaken);
            };
            let given_up = lock != LockState::Held && !is_open(made);
            return given_up.then_some(SkipReason::SlotGivenUp);
        }
        if lock != LockState::Free {
            return None;
        }
        // A run of ShedLock at or after the open slot counts as its completion.
        let pending =
            self.attempts.is_some_and(is_open) && shedlock_at.is_none_or(|at| at < last.instant());
        let gap = request
            .previous_slot()
            .is_some_and(|before| self.last.max(self.done) < Some(before));
        (pending || gap).then_some(SkipReason::SlotPending)
    }

    /// Returns the state after this request has won.
    pub fn taken(self, request: &AttemptRequest) -> Self {
        let Some(slot) = request.slot() else {
            return self;
        };
        let attempts = request.completion().retries().map(|_| {
            let made = self.attempts.filter(|_| self.last == Some(slot));
            made.unwrap_or(0).saturating_add(1)
        });
        Self {
            last: Some(slot),
            done: self.done,
            attempts,
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
            last: self.last,
            done: self.done.max(Some(slot)),
            attempts: None,
        }
    }

    /// Returns the state after an operator has set the last slot: slots after it can be taken.
    pub fn reset(self, to: Slot) -> Self {
        Self {
            last: Some(to),
            done: self.done.min(Some(to)),
            attempts: None,
        }
    }

    /// Returns the state after a pause that ends, or has ended, at this instant: slots up to it
    /// count as taken, except a slot that must still be done.
    ///
    /// A pause writes it when it begins, because nothing is written when it ends by itself.
    pub fn paused_until(self, end: Slot) -> Self {
        Self {
            done: Some(end),
            ..self
        }
    }

    /// Returns the state after the end of a pause whose slots are to run: those after the last one
    /// taken can be taken.
    pub fn caught_up(self) -> Self {
        Self {
            done: self.done.min(self.last),
            ..self
        }
    }

    /// Returns the slot up to which all slots are taken or done, or the open one that comes next.
    pub fn reached(&self) -> Option<Slot> {
        if self.attempts.is_some() {
            self.last
        } else {
            self.last.max(self.done)
        }
    }
}
