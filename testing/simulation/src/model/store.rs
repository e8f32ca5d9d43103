//! How the store processes requests.

use super::Law;
use super::message::{Call, Message};
use super::record::{Answer, Owner, Record};
use super::{JudgedBy, Protocols, State};
use crate::{Ending, Wrong};

impl Protocols {
    /// A store that reads and writes in one step, by its own clock.
    pub(super) fn asked(&self, state: &mut State, owner: Owner, call: Call, not_after: Option<i8>) {
        let before = state.record.as_ref();
        let after = match call {
            Call::Attempt { slot, .. } => {
                let attempt = self.attempt(state, owner, slot);
                let is_late = not_after.is_some_and(|instant| state.now > instant);
                match Record::answer(before, attempt, self.bounds.slots, self.wrong()) {
                    Answer::Taken(_) if is_late => None,
                    Answer::Taken(record) => Some(record),
                    Answer::Refused => None,
                    Answer::SlotRefused { is_open } => {
                        if is_open && self.bounds.unused {
                            state.breaks(Law::UnusedSlot);
                        }
                        None
                    }
                    Answer::Again => {
                        let done = before.cloned();
                        self.answer(state, owner, call, done);
                        return;
                    }
                }
            }
            Call::Extend { by, .. } => {
                before.and_then(|record| record.extended(owner, state.now, by, self.wrong()))
            }
            Call::Unlock { ending } => {
                let is_again =
                    before.is_some_and(|record| record.owner == owner && record.is_released);
                if is_again {
                    let done = before.cloned();
                    self.answer(state, owner, call, done);
                    return;
                }
                before.and_then(|record| record.unlocked(owner, ending, state.now, &self.rules()))
            }
            Call::Withdraw { .. } => before
                .filter(|record| record.is_lease_of(owner, state.now))
                .and_then(|record| {
                    let rules = self.rules().without_at_least();
                    record.unlocked(owner, Ending::Failed, state.now, &rules)
                }),
        };
        if let Some(record) = &after {
            self.put(state, owner, call, record);
        }
        self.answer(state, owner, call, after);
    }

    fn answer(&self, state: &mut State, owner: Owner, call: Call, done: Option<Record>) {
        let is_heard = match call {
            Call::Attempt { .. } => true,
            Call::Extend { .. } => done.is_some(),
            Call::Unlock { .. } | Call::Withdraw { .. } => self.bounds.answers,
        };
        if is_heard {
            // A client of such a store needs only the end of its lease.
            let done = done.map(|record| match self.protocol.judged_by {
                JudgedBy::Store => Record {
                    until: record.until,
                    ..Record::barring(owner, 0)
                },
                JudgedBy::Clients { .. } => record,
            });
            state
                .network
                .insert(Message::Answered { owner, call, done });
        }
    }

    /// Returns the record. If ShedLock acquired the lock last, the data kept next to the lock
    /// completes it.
    pub(super) fn read(&self, state: &State) -> Option<Record> {
        let mut record = state.record.clone()?;
        if self.bounds.two_keys && self.is_shedlock(state, record.owner) {
            record.slot = state.beside;
        }
        Some(record)
    }

    pub(super) fn is_shedlock(&self, state: &State, owner: Owner) -> bool {
        state.clients[usize::from(owner.client)].is_shedlock
    }

    /// Writes a slot next to the lock; keeps the larger one if another write came first.
    pub(super) fn write_beside(&self, state: &mut State, slot: Option<i8>) {
        state.beside = match self.wrong() {
            Some(Wrong::KeysApart) => slot,
            _ => slot.max(state.beside),
        };
    }

    /// Replaces the record of this version, if it is still in place.
    pub(super) fn write(
        &self,
        state: &mut State,
        owner: Owner,
        call: Call,
        version: u8,
        record: &Record,
    ) {
        let stands = state.record.as_ref().map_or(0, |record| record.version);
        if stands != version && self.wrong() != Some(Wrong::ReadThenWrite) {
            state.network.insert(Message::Raced { owner, call });
            return;
        }
        state.versions += 1;
        let version = state.versions;
        let record = Record {
            version,
            ..record.clone()
        };
        self.put(state, owner, call, &record);
        self.answer(state, owner, call, Some(record));
    }

    /// Replaces the previous record, and checks whether that was right.
    fn put(&self, state: &mut State, owner: Owner, call: Call, record: &Record) {
        let before = state.record.replace(record.clone());
        if self.bounds.tails && !state.has_lost {
            state.tail = Some(before.clone());
        }
        let is_attempt = matches!(call, Call::Attempt { .. });
        if let Some(before) = &before {
            let is_taken = before.owner != record.owner || before.token != record.token;
            if !is_attempt && before.owner != record.owner {
                state.breaks(Law::Ownership);
            }
            // With some mistakes, an unlock or an extension keeps the owner that it found.
            let is_own = before.owner == owner || matches!(call, Call::Withdraw { .. });
            // A call that gives back another owner's slot is judged by the laws of slots.
            let is_of_slot = call.gives_back() && before.is_same_lease(record);
            if !is_attempt && !is_own && !is_of_slot {
                state.breaks(Law::Ownership);
            }
            if is_taken {
                let (slots, at_least) = (self.bounds.slots, self.bounds.at_least);
                if let Some(law) = before.broken_by(record, slots, at_least) {
                    state.breaks(law);
                }
            }
            if is_attempt && before.owner == owner && before.is_released {
                state.breaks(Law::HeldByNoOne);
            }
        }
        let client = &state.clients[usize::from(owner.client)];
        let is_settled = client.is_settled(owner.acquisition);
        if is_settled && record.is_lease_of(owner, state.now) {
            state.breaks(Law::HeldByNoOne);
        }
        self.judge_end(state, owner);
    }

    /// Checks whether a lease ends earlier than its holder was promised.
    pub(super) fn judge_end(&self, state: &mut State, owner: Owner) {
        let client = &state.clients[usize::from(owner.client)];
        let is_short = state.record.as_ref().is_some_and(|record| {
            let is_its = record.owner == owner && client.begun == owner.acquisition;
            is_its && !record.is_released && record.until < client.told
        });
        if is_short {
            state.breaks(Law::CutShort);
        }
    }

    /// Loses the last write, and its number too unless the store prevents that.
    pub(super) fn lose_tail(&self, state: &mut State) {
        let Some(before) = state.tail.take() else {
            return;
        };
        state.has_lost = true;
        if self.wrong() == Some(Wrong::VersionsReused) {
            state.versions = before.as_ref().map_or(0, |record| record.version);
        }
        state.record = before;
    }
}
