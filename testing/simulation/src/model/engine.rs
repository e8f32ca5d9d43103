//! A client that judges what it reads by its own clock, and writes if the record that it read or
//! last wrote is still in place.

use super::Law;
use super::client::Phase;
use super::message::{Call, Message};
use super::record::{Answer, Owner, Record};
use super::{Protocols, State};
use crate::{Ending, Wrong};

impl Protocols {
    /// Begins a call. An extension and an unlock use the version that the client remembers.
    pub(super) fn begin(&self, state: &mut State, owner: Owner, call: Call) {
        let known = match call {
            Call::Extend { .. } | Call::Unlock { .. } => {
                state.clients[usize::from(owner.client)].known.clone()
            }
            Call::Attempt { .. } | Call::Withdraw { .. } => None,
        };
        match known {
            Some(known) => self.judge(state, owner, call, Some(known)),
            None => {
                state.network.insert(Message::Read { owner, call });
            }
        }
    }

    /// Another write came first: reads the record again.
    pub(super) fn raced(&self, state: &mut State, owner: Owner, call: Call) {
        if self.is_waited_for(state, owner, call) {
            state.network.insert(Message::Read { owner, call });
        }
    }

    /// Whether the client still waits for this call: one that has given up does not continue it.
    pub(super) fn is_waited_for(&self, state: &State, owner: Owner, call: Call) -> bool {
        let client = &state.clients[usize::from(owner.client)];
        client.begun == owner.acquisition
            && match call {
                Call::Attempt { copy, .. } => match client.phase {
                    Phase::Asking { asked, .. } => copy == 0 || copy == asked,
                    _ => false,
                },
                Call::Extend { .. } => matches!(client.phase, Phase::Running { .. }),
                // If unlocks get no reply, only the message itself continues.
                Call::Unlock { .. } => {
                    !self.bounds.answers || matches!(client.phase, Phase::Unlocking { .. })
                }
                Call::Withdraw { .. } => matches!(client.phase, Phase::Withdrawing { .. }),
            }
    }

    /// Decides what to write in place of this record, by the client's clock.
    pub(super) fn judge(&self, state: &mut State, owner: Owner, call: Call, found: Option<Record>) {
        if !self.is_waited_for(state, owner, call) {
            return;
        }
        let version = found.as_ref().map_or(0, |record| record.version);
        let after = match call {
            Call::Attempt { slot, .. } => {
                let attempt = self.attempt(state, owner, slot);
                match Record::answer(found.as_ref(), attempt, self.bounds.slots, self.wrong()) {
                    Answer::Again => return self.answered(state, owner, call, found),
                    Answer::Refused => None,
                    Answer::SlotRefused { is_open } => {
                        if is_open && self.bounds.unused {
                            state.breaks(Law::UnusedSlot);
                        }
                        None
                    }
                    Answer::Taken(record) if self.is_shedlock(state, owner) => {
                        Some(record.by_shedlock(found.as_ref()))
                    }
                    Answer::Taken(record) => Some(record),
                }
            }
            Call::Extend { by, .. } => {
                let now = self.judged(state, owner);
                found.and_then(|record| record.extended(owner, now, by, self.wrong()))
            }
            Call::Unlock { ending } => {
                let now = self.judged(state, owner);
                found.and_then(|record| record.unlocked(owner, ending, now, &self.rules()))
            }
            Call::Withdraw { .. } => self.withdrawn(state, owner, found),
        };
        let Some(record) = after else {
            return self.answered(state, owner, call, None);
        };
        let is_beside = self.bounds.two_keys
            && matches!(call, Call::Attempt { .. })
            && !self.is_shedlock(state, owner);
        state.network.insert(if is_beside {
            Message::WriteBeside {
                owner,
                call,
                version,
                record,
            }
        } else {
            Message::Write {
                owner,
                call,
                version,
                record,
            }
        });
    }

    /// Ends the client's own lease. Otherwise replaces the version that a late write would replace,
    /// unless another lease runs, which has already replaced it.
    fn withdrawn(&self, state: &State, owner: Owner, found: Option<Record>) -> Option<Record> {
        let now = self.judged(state, owner);
        let leaves = self.wrong() == Some(Wrong::WithdrawLeavesVersion);
        match found {
            Some(record) if record.is_lease_of(owner, now) => {
                record.unlocked(owner, Ending::Failed, now, &self.rules().without_at_least())
            }
            _ if leaves => None,
            None => Some(Record::barring(owner, now)),
            Some(record) => {
                let client = &state.clients[usize::from(owner.client)];
                let tolerance = if record.is_released {
                    0
                } else {
                    self.tolerance(client)
                };
                (record.until.saturating_add(tolerance) <= now).then_some(record)
            }
        }
    }
}
