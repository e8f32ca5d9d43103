//! What a record keeps of its slots, and who may take which.

use std::time::SystemTime;

use crate::{AttemptRequest, Completion, LockState, SkipReason, Slot, SlotEnd};

/// What a record keeps of its slots, with the rules of law 9: for providers, so that each need not
/// write them again. Stores that judge by a statement of their own follow the same rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotState {
    /// The last slot that was taken; the instant just before a slot that was given back.
    pub last: Option<Slot>,
    /// The last slot whose run said that it was done.
    pub done: Option<Slot>,
    /// How many attempts were made at `last`, while it has to be done and is not; 0 where none of
    /// them counts.
    pub attempts: Option<u32>,
}

impl SlotState {
    /// The state with these parts. For providers.
    pub fn new(last: Option<Slot>, done: Option<Slot>, attempts: Option<u32>) -> Self {
        Self {
            last,
            done,
            attempts,
        }
    }

    /// Why the slot of this request cannot be taken; none where it can, as far as slots go, and
    /// where the request names none.
    ///
    /// `shedlock_at` is when the record was last acquired, if ShedLock did so, and `lock` whether
    /// the lock is taken. What waits for the lock to be free (a takeover) is not refused here while
    /// it is taken: that is reported as any held lock is. A slot whose attempts are used up waits for
    /// nothing but the last of them.
    pub fn refusal(
        &self,
        request: &AttemptRequest,
        shedlock_at: Option<SystemTime>,
        lock: LockState,
    ) -> Option<SkipReason> {
        let slot = request.slot()?;
        if shedlock_at.is_some_and(|at| at >= slot.instant()) {
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
        // ShedLock's run at or after the slot that is open has done it.
        let pending =
            self.attempts.is_some_and(is_open) && shedlock_at.is_none_or(|at| at < last.instant());
        let gap = request.previous_slot().is_some_and(|before| last < before);
        (pending || gap).then_some(SkipReason::SlotPending)
    }

    /// The state after this request has won.
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

    /// The state after a lease of this slot ended in this way.
    ///
    /// A task that never started, and a run that a shutdown cut, give the attempt back: the slot
    /// stays open. A slot that is used up when it is taken is given back only where nothing ran: the
    /// last slot then is the instant just before it, so that any replica can take it again, and every
    /// earlier slot stays refused. What was given back, done or reset before is left as it is.
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

    /// The state after a lease of this slot ended and the slot is done.
    pub fn done(self, slot: Slot) -> Self {
        Self {
            last: self.last,
            done: Some(slot),
            attempts: None,
        }
    }

    /// The state after an operator has set the last slot.
    pub fn reset(self, to: Slot) -> Self {
        Self {
            last: Some(to),
            done: self.done,
            attempts: None,
        }
    }
}
