//! The record in the store, and how it changes.

use super::Law;
use crate::{Ending, Slots, Wrong};

/// The sender of a request: a client and one of its acquisitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) client: u8,
    pub(crate) acquisition: u8,
}

/// The record of the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) owner: Owner,
    pub(crate) is_released: bool,
    /// By the judging clock.
    pub(crate) until: i8,
    pub(crate) at: i8,
    pub(crate) token: u8,
    pub(crate) version: u8,
    pub(crate) slot: Option<i8>,
    pub(crate) is_done: bool,
    pub(crate) attempts: u8,
    /// Not kept by any store but needed to check the laws: when by the judging clock the lock was
    /// truly acquired, and the last slot that was granted.
    pub(crate) truly_at: i8,
    pub(crate) last_slot: Option<i8>,
    pub(crate) last_is_done: bool,
    pub(crate) last_attempts: u8,
    /// Whether the last slot was given back by a lease that still ran, and whether it was taken
    /// again after that.
    pub(crate) last_is_unused: bool,
    pub(crate) is_taken_again: bool,
}

/// The rules for an unlock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) slots: Slots,
    pub(crate) at_least: i8,
    pub(crate) wrong: Option<Wrong>,
}

impl Rules {
    pub(crate) fn without_at_least(self) -> Self {
        Self {
            at_least: 0,
            ..self
        }
    }
}

/// One attempt, as the store sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) owner: Owner,
    pub(crate) slot: Option<i8>,
    /// The time by the judging clock.
    pub(crate) now: i8,
    /// How long after its end another owner's lease still counts.
    pub(crate) tolerance: i8,
    pub(crate) at_most: i8,
}

/// The result of an attempt according to the rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Answer {
    /// The lock is already this owner's: the reply was lost.
    Again,
    /// The lock may be taken, and this is then the record.
    Taken(Record),
    /// The lock may not be taken.
    Refused,
    /// The slot may not be taken; and whether it is the last slot and truly open.
    SlotRefused { is_open: bool },
}

impl Record {
    /// Applies the rules to the record.
    pub(crate) fn answer(
        before: Option<&Self>,
        attempt: Attempt,
        slots: Slots,
        wrong: Option<Wrong>,
    ) -> Answer {
        if let Some(record) = before {
            let is_own = record.owner == attempt.owner;
            if is_own && !record.is_released && record.until > attempt.now {
                return Answer::Again;
            }
            // This owner has ended: a copy of its attempt arrived late.
            if is_own && record.is_released && wrong != Some(Wrong::OwnerReturns) {
                return Answer::Refused;
            }
            let tolerance = if record.is_released {
                0
            } else {
                attempt.tolerance
            };
            if !is_own && record.until.saturating_add(tolerance) > attempt.now {
                return Answer::Refused;
            }
            if let Some(slot) = attempt.slot
                && record.refuses(slot, slots, wrong)
            {
                let is_last = record.last_slot == Some(slot);
                let is_open = is_last && record.broken_by_slot(slot, slots).is_none();
                return Answer::SlotRefused { is_open };
            }
        }
        Answer::Taken(Self::taken(before, attempt, wrong))
    }

    fn refuses(&self, slot: i8, slots: Slots, wrong: Option<Wrong>) -> bool {
        let forgets = wrong == Some(Wrong::SlotOfLeaseOnly) && self.is_released;
        let Some(last) = self.slot.filter(|_| !forgets) else {
            return false;
        };
        match slots {
            Slots::Unused => false,
            Slots::WhenTaken => slot <= last,
            Slots::OnSuccess { attempts } => {
                let is_open = !self.is_done && self.attempts < attempts;
                let is_open_itself = slot == last && is_open;
                let leaves_out = is_open && slot > last && wrong != Some(Wrong::OpenSlotIsPassed);
                (slot <= last && !is_open_itself) || leaves_out
            }
        }
    }

    fn taken(before: Option<&Self>, attempt: Attempt, wrong: Option<Wrong>) -> Self {
        let token = match before {
            None => 1,
            Some(record) if wrong == Some(Wrong::TokenOnExpiryOnly) && record.is_released => {
                record.token
            }
            Some(record) => record.token + 1,
        };
        let again =
            before.is_some_and(|record| record.slot.is_some() && record.slot == attempt.slot);
        let attempts = before.filter(|_| again).map_or(0, |record| record.attempts);
        let last =
            before.filter(|record| attempt.slot.is_some() && record.last_slot == attempt.slot);
        let at = match wrong {
            Some(Wrong::AtLeastTooEarly) => attempt.now - 1,
            _ => attempt.now,
        };
        Self {
            owner: attempt.owner,
            is_released: false,
            until: attempt.now + attempt.at_most,
            at,
            token,
            version: before.map_or(1, |record| record.version + 1),
            slot: attempt.slot,
            is_done: false,
            attempts: attempts + 1,
            truly_at: attempt.now,
            last_slot: attempt.slot,
            last_is_done: false,
            last_attempts: last.map_or(0, |record| record.last_attempts) + 1,
            last_is_unused: false,
            is_taken_again: last.is_some_and(|record| record.last_is_unused),
        }
    }

    /// A record that blocks a write that may still arrive, if there was no record.
    pub(crate) fn barring(owner: Owner, now: i8) -> Self {
        Self {
            owner,
            is_released: true,
            until: now,
            at: now,
            token: 0,
            version: 0,
            slot: None,
            is_done: false,
            attempts: 0,
            truly_at: i8::MIN,
            last_slot: None,
            last_is_done: false,
            last_attempts: 0,
            last_is_unused: false,
            is_taken_again: false,
        }
    }

    /// The record after a client of ShedLock has acquired the lock: ShedLock drops the fields that
    /// it does not have.
    pub(crate) fn by_shedlock(mut self, before: Option<&Self>) -> Self {
        self.token = before.map_or(1, |record| record.token + 1);
        if let Some(before) = before {
            self.last_slot = before.last_slot;
            self.last_is_done = before.last_is_done;
            self.last_attempts = before.last_attempts;
            self.last_is_unused = before.last_is_unused;
        }
        self
    }

    /// Whether this owner's lease runs.
    pub(crate) fn is_lease_of(&self, owner: Owner, now: i8) -> bool {
        self.owner == owner && !self.is_released && self.until > now
    }

    /// Returns the law that is broken if `next` follows this record.
    pub(crate) fn broken_by(&self, next: &Self, slots: Slots, at_least: i8) -> Option<Law> {
        if next.token <= self.token {
            return Some(Law::Tokens);
        }
        // By the clocks that judged the two records: no more precise comparison of one client's
        // at-least with another client's clock is possible.
        let kept = self.is_released && self.owner != next.owner;
        if kept && next.truly_at < self.truly_at.saturating_add(at_least) {
            return Some(Law::AtLeast);
        }
        self.broken_by_slot(next.slot?, slots)
    }

    /// The law that is broken if this slot is granted after those that were truly granted.
    fn broken_by_slot(&self, slot: i8, slots: Slots) -> Option<Law> {
        let last = self.last_slot?;
        match slots {
            Slots::Unused => None,
            Slots::WhenTaken => {
                let is_unused = slot == last && self.last_is_unused;
                (slot <= last && !is_unused).then_some(Law::OneRunPerSlot)
            }
            Slots::OnSuccess { attempts } => {
                let is_over = self.last_is_done || self.last_attempts >= attempts;
                if slot < last || (slot == last && is_over) {
                    Some(Law::OneRunPerSlot)
                } else {
                    (slot > last && !is_over).then_some(Law::SlotsInOrder)
                }
            }
        }
    }

    fn is_of(&self, owner: Owner, wrong: Option<Wrong>) -> bool {
        match wrong {
            Some(Wrong::OwnerIsHost) => !self.is_released,
            _ => self.owner == owner && !self.is_released,
        }
    }

    /// The record after this owner's unlock, if it changes anything.
    pub(crate) fn unlocked(
        &self,
        owner: Owner,
        ending: Ending,
        now: i8,
        rules: &Rules,
    ) -> Option<Self> {
        let wrong = rules.wrong;
        let mut record = self.clone();
        record.version += 1;
        if wrong != Some(Wrong::UnusedSlotKept) || ending != Ending::NotStarted {
            record.end_slot(ending, rules.slots);
        }
        let ignores_owner = wrong == Some(Wrong::UnlockWithoutOwner);
        // Nothing has run under a lease that has expired, either.
        let includes_expired = ending == Ending::NotStarted;
        let is_held = self.is_of(owner, wrong) && (self.until > now || includes_expired);
        if !is_held && !ignores_owner {
            let is_late = wrong == Some(Wrong::SlotGivenBackLate)
                && matches!(ending, Ending::NotStarted | Ending::Cut);
            return is_late.then_some(record);
        }
        let at_least = match wrong {
            Some(Wrong::AtLeastForgotten) => 0,
            _ => rules.at_least,
        };
        record.is_released = true;
        record.until = now.max(self.at + at_least);
        record.truly_end_slot(ending, rules.slots);
        Some(record)
    }

    /// Updates what a store keeps of the slot if its lease ends in this way.
    fn end_slot(&mut self, ending: Ending, slots: Slots) {
        match (ending, slots) {
            (Ending::Done, _) => self.is_done = true,
            (Ending::NotStarted | Ending::Cut, Slots::OnSuccess { .. }) => {
                self.attempts = self.attempts.saturating_sub(1);
            }
            // The instant just before the slot.
            (Ending::NotStarted, _) => self.slot = self.slot.map(|slot| slot - 1),
            (Ending::Failed | Ending::Cut, _) => {}
        }
    }

    /// Updates the true state of the slot if its lease ended in this way while it ran.
    fn truly_end_slot(&mut self, ending: Ending, slots: Slots) {
        match (ending, slots) {
            (Ending::Done, _) => self.last_is_done = true,
            (Ending::NotStarted | Ending::Cut, Slots::OnSuccess { .. }) => {
                self.last_attempts = self.last_attempts.saturating_sub(1);
                self.last_is_unused = true;
            }
            (Ending::NotStarted, _) => self.last_is_unused = true,
            (Ending::Failed | Ending::Cut, _) => {}
        }
    }

    /// Whether the owner and the end are the same as in the other record.
    pub(crate) fn is_same_lease(&self, other: &Self) -> bool {
        let lease = |record: &Self| (record.owner, record.is_released, record.until);
        lease(self) == lease(other)
    }

    /// The record after this owner's extension, if it changes anything.
    pub(crate) fn extended(
        &self,
        owner: Owner,
        now: i8,
        by: i8,
        wrong: Option<Wrong>,
    ) -> Option<Self> {
        let ignores_owner = wrong == Some(Wrong::ExtendWithoutOwner) && !self.is_released;
        let is_held = (self.is_of(owner, wrong) || ignores_owner) && self.until > now;
        is_held.then(|| {
            let mut record = self.clone();
            let kept = match wrong {
                Some(Wrong::ExtensionShortens) => now,
                _ => record.until,
            };
            record.until = kept.max(now + by);
            record.version += 1;
            record
        })
    }
}
