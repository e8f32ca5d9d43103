//! The slots of a lock, as the store has them.

use super::{Ending, Exact, SlotsSeen};

impl SlotsSeen {
    /// Why a grant for this slot is a violation, if it is one. An open slot may be run this often.
    pub(super) fn wrong(&self, slot: i64, most: Option<u32>) -> Option<(&'static str, String)> {
        let last = self.last?;
        let after = |law, why: &str| Some((law, format!("slot {slot} after {last}{why}")));
        let Some(most) = most else {
            return match slot.cmp(&last) {
                std::cmp::Ordering::Less => after("slot goes back", ""),
                std::cmp::Ordering::Equal => after("slot twice", ""),
                std::cmp::Ordering::Greater => None,
            };
        };
        let is_used_up = self.attempts >= most;
        match slot.cmp(&last) {
            std::cmp::Ordering::Less => after("slot goes back", ""),
            std::cmp::Ordering::Equal if self.is_done => after("slot twice", ", which is done"),
            std::cmp::Ordering::Equal if is_used_up => {
                after("slot run too often", ", which is given up")
            }
            std::cmp::Ordering::Greater if !(self.is_done || is_used_up) => {
                after("slot passed over", ", which is open")
            }
            _ => None,
        }
    }

    /// Records that the slot was taken.
    pub(super) fn take(&mut self, slot: Option<i64>) {
        if slot.is_none() {
            return;
        }
        self.attempts = if self.last == slot {
            self.attempts + 1
        } else {
            1
        };
        self.last = slot;
        self.is_done = false;
    }
}

impl Exact<'_> {
    /// Checks what the record contains about the slots after a lease has ended: a task that never
    /// began has used up nothing, and one that did begin has not left its slot to others.
    pub(super) fn left_slots(
        &mut self,
        name: &str,
        owner: &str,
        last: Option<i64>,
        attempts: Option<u32>,
    ) {
        let Some(lock) = self.locks.get_mut(name) else {
            return;
        };
        let grant = lock.grant.as_ref().filter(|grant| grant.owner == owner);
        let (Some(grant), Some(asked)) = (grant, self.owners.get(owner)) else {
            return;
        };
        let Some(slot) = grant.slot else { return };
        let is_open = asked.slot_attempts.is_some();
        let is_given_back = if is_open {
            attempts.is_some_and(|left| left < lock.slots.attempts)
        } else {
            last < Some(slot)
        };
        let is_forced = grant.ended == Some(Ending::Forced);
        lock.slots.last = last;
        lock.slots.attempts = attempts.unwrap_or(lock.slots.attempts);
        let has_started = asked.has_started;
        if is_given_back && has_started && !is_open {
            let what = format!("{slot} of {name} was given back by {owner}, which ran");
            self.findings.violated("slot given back", &what);
        }
        if !(is_given_back || has_started || is_forced) {
            let what = format!("{slot} of {name} was used up by {owner}, which never ran");
            self.findings.violated("slot used up", &what);
        }
    }
}
