//! Counts what happened, from the events. It judges nothing.

use std::collections::{BTreeMap, HashMap};

use shedlock_proof::history::{Event, Stored, What};

use crate::transition::{Counts, Transition};
use crate::world::Instant;

/// What was counted, and what has to be remembered for that.
#[derive(Default)]
pub(super) struct Counting {
    pub(super) counts: Counts,
    owners: HashMap<String, Asked>,
    locks: BTreeMap<String, Lock>,
}

/// An attempt.
struct Asked {
    node: usize,
    name: String,
    at_most: u64,
    slot_attempts: Option<u32>,
    last_sent: Instant,
    timeout: u64,
    is_unlocked: bool,
    withdrawn_at: Option<Instant>,
    has_ended: bool,
}

/// The last lease of a lock, and its slots.
#[derive(Default)]
struct Lock {
    owner: String,
    at: Instant,
    until: Instant,
    has_ended: bool,
    slot: Option<i64>,
    last_slot: Option<i64>,
    is_done: bool,
    attempts: u32,
}

impl Counting {
    pub(super) fn see(&mut self, event: &Event) {
        let (at, name, owner) = (event.at, event.name.as_str(), event.owner.as_str());
        match &event.what {
            What::Asked { .. } => self.asked(event),
            What::Acquired { .. } => {
                let asked = self.owners.get(owner);
                if asked.is_some_and(|it| it.last_sent.saturating_add(it.at_most) <= at) {
                    self.counts.add(Transition::CameTooLate);
                }
            }
            What::Withdrawn => {
                self.counts.add(Transition::GivenUpUnknown);
                if let Some(asked) = self.owners.get_mut(owner) {
                    asked.withdrawn_at = Some(at);
                }
            }
            What::Withdrew => {
                let is_last = |it: &Asked| {
                    let bound = it.last_sent.saturating_add(it.timeout);
                    it.withdrawn_at.is_some_and(|sent| sent >= bound)
                };
                if self.owners.get(owner).is_some_and(is_last) {
                    self.counts.add(Transition::WithdrawnForGood);
                }
            }
            What::ReleaseAsked => {
                if let Some(asked) = self.owners.get_mut(owner) {
                    asked.is_unlocked = true;
                }
            }
            What::RenewLost => self.counts.add(Transition::ExtensionRefused),
            What::ReleaseLost => self.counts.add(Transition::UnlockRefused),
            What::Stored(stored) => self.stored(at, name, owner, stored),
            _ => {}
        }
    }

    fn asked(&mut self, event: &Event) {
        let What::Asked {
            at_most,
            slot_attempts,
            timeout,
            ..
        } = event.what
        else {
            return;
        };
        if let Some(asked) = self.owners.get_mut(&event.owner) {
            asked.last_sent = event.at;
            self.counts.add(Transition::AskedAgain);
            return;
        }
        self.counts.add(Transition::Asked);
        let asked = Asked {
            node: usize::try_from(event.process).map_or(0, |process| process.saturating_sub(1)),
            name: event.name.clone(),
            at_most,
            slot_attempts,
            last_sent: event.at,
            timeout,
            is_unlocked: false,
            withdrawn_at: None,
            has_ended: false,
        };
        self.owners.insert(event.owner.clone(), asked);
    }

    fn stored(&mut self, at: Instant, name: &str, owner: &str, stored: &Stored) {
        match stored {
            Stored::Granted { slot, until, .. } => self.granted(at, name, owner, *slot, *until),
            Stored::Extended { until } => {
                self.counts.add(Transition::Extended);
                if let Some(lock) = self.locks.get_mut(name) {
                    if lock.until == *until {
                        self.counts.add(Transition::ExtendedByLess);
                    }
                    lock.until = *until;
                }
            }
            Stored::Ended {
                is_withdrawn,
                is_done,
                free,
            } => self.ended(name, owner, *is_withdrawn, *is_done, *free),
            Stored::Slots { last, attempts } => self.left_slots(name, owner, *last, *attempts),
            Stored::Freed => {
                self.counts.add(Transition::ForcedFree);
                self.is_gone(name, at);
            }
            Stored::Reverted(earlier) => {
                self.is_gone(name, at);
                let lock = self.locks.entry(name.to_owned()).or_default();
                lock.last_slot = earlier.as_ref().and_then(|earlier| earlier.slot);
                if let Some(earlier) = earlier {
                    owner.clone_into(&mut lock.owner);
                    lock.until = earlier.until;
                    lock.has_ended = earlier.is_released;
                    lock.is_done = earlier.is_done;
                    lock.attempts = earlier.attempts;
                }
            }
            Stored::Holds { .. } => {}
        }
    }

    fn granted(&mut self, at: Instant, name: &str, owner: &str, slot: Option<i64>, until: Instant) {
        let asked = self.owners.get(owner);
        let has_ended = |it: &Asked| it.has_ended || it.is_unlocked || it.withdrawn_at.is_some();
        if asked.is_none_or(has_ended) {
            self.counts.add(Transition::GrantedToNobody);
        }
        let is_first = !self.locks.contains_key(name);
        let lock = self.locks.entry(name.to_owned()).or_default();
        self.counts.add(match is_first || lock.has_ended {
            true => Transition::Won,
            false => Transition::WonAfterExpiry,
        });
        if slot.is_some() {
            self.counts.add(Transition::SlotTaken);
            let is_same = lock.last_slot == slot;
            let most = asked.and_then(|asked| asked.slot_attempts);
            if is_same {
                self.counts.add(Transition::SlotTakenOver);
            } else if lock.last_slot.is_some()
                && !lock.is_done
                && most.is_some_and(|most| lock.attempts >= most)
            {
                self.counts.add(Transition::SlotGivenUp);
            }
            lock.attempts = if is_same { lock.attempts + 1 } else { 1 };
            lock.last_slot = slot;
            lock.is_done = false;
        }
        owner.clone_into(&mut lock.owner);
        (lock.at, lock.until, lock.slot) = (at, until, slot);
        lock.has_ended = false;
    }

    fn ended(
        &mut self,
        name: &str,
        owner: &str,
        is_withdrawn: Option<bool>,
        is_done: bool,
        free: Instant,
    ) {
        let asked = self.owners.get_mut(owner);
        let sent = asked
            .as_ref()
            .map(|it| (it.is_unlocked, it.withdrawn_at.is_some()));
        self.counts.add(match (is_withdrawn, sent) {
            (Some(true), _) | (None, Some((false, true))) => Transition::Withdrawn,
            (Some(false), _) | (None, Some((true, _))) => Transition::Unlocked,
            (None, _) => Transition::ForcedFree,
        });
        if let Some(asked) = asked {
            asked.has_ended = true;
        }
        if let Some(lock) = self.locks.get_mut(name) {
            lock.has_ended = true;
            lock.until = free;
            if is_done && lock.slot.is_some() && is_withdrawn != Some(true) {
                lock.is_done = true;
                self.counts.add(Transition::SlotDone);
            }
        }
    }

    fn left_slots(&mut self, name: &str, owner: &str, last: Option<i64>, attempts: Option<u32>) {
        let Some(lock) = self.locks.get_mut(name).filter(|lock| lock.owner == owner) else {
            return;
        };
        let asked = self.owners.get(owner);
        let is_open = asked.is_some_and(|asked| asked.slot_attempts.is_some());
        let is_given_back = match is_open {
            true => attempts.is_some_and(|left| left < lock.attempts),
            false => last < lock.slot,
        };
        if lock.slot.is_some() && is_given_back {
            self.counts.add(Transition::SlotGivenBack);
        }
        lock.last_slot = last;
        lock.attempts = attempts.unwrap_or(lock.attempts);
    }

    fn is_gone(&mut self, name: &str, at: Instant) {
        if let Some(lock) = self.locks.get_mut(name) {
            lock.has_ended = true;
            lock.until = at;
            if let Some(asked) = self.owners.get_mut(&lock.owner) {
                asked.has_ended = true;
            }
        }
    }

    /// The node that attempted as this owner, and the lock.
    pub(super) fn asked_by(&self, owner: &str) -> Option<(usize, String)> {
        let asked = self.owners.get(owner)?;
        Some((asked.node, asked.name.clone()))
    }

    pub(super) fn held_by(&self, node: usize, at: Instant) -> bool {
        self.locks.values().any(|lock| {
            let asked = self.owners.get(&lock.owner);
            let is_here = asked.is_some_and(|asked| asked.node == node);
            is_here && !lock.has_ended && lock.until > at && lock.at <= at
        })
    }
}
