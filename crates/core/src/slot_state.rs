//! What a record keeps of its slots, and who may take which.

use std::time::SystemTime;

use crate::{AttemptRequest, Completion, SkipReason, Slot};

/// What a record keeps of its slots, with the rules of law 9: for providers, so that each need not
/// write them again. Stores that judge by a statement of their own follow the same rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotState {
    /// The last slot that was taken.
    pub last: Option<Slot>,
    /// The last slot whose run said that it was done.
    pub done: Option<Slot>,
    /// How many attempts were made at `last`, while it has to be done and is not.
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
    /// `shedlock_at` is when the record was last acquired, if ShedLock did so, and `is_locked`
    /// whether the lock is taken, by a lease or an at-least. What waits for the lock to be free
    /// (a takeover) is not refused here while it is taken: that is told as any held lock is.
    pub fn refusal(
        &self,
        request: &AttemptRequest,
        shedlock_at: Option<SystemTime>,
        is_locked: bool,
    ) -> Option<SkipReason> {
        let slot = request.slot()?;
        if shedlock_at.is_some_and(|at| at >= slot.instant()) {
            return Some(SkipReason::SlotTaken);
        }
        let last = self.last?;
        let Completion::OnSuccess(retries) = request.completion() else {
            return (slot <= last).then_some(SkipReason::SlotTaken);
        };
        let is_open = |attempts| attempts < retries.most_attempts();
        if slot <= last {
            let open = slot == last && self.attempts.is_some_and(|made| is_locked || is_open(made));
            return (!open).then_some(SkipReason::SlotTaken);
        }
        if is_locked {
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
