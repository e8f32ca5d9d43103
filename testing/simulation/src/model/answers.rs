//! How a client sends calls and processes replies.

use super::Law;
use super::client::Phase;
use super::message::{Call, Message};
use super::record::{Owner, Record};
use super::{JudgedBy, Protocols, State};
use crate::Wrong;

impl Protocols {
    /// A client sends a call; messages of other calls stay in flight.
    pub(super) fn send(&self, state: &mut State, owner: Owner, call: Call) {
        if matches!(self.protocol.judged_by, JudgedBy::Clients { .. }) {
            return self.begin(state, owner, call);
        }
        let is_bounded = matches!(call, Call::Attempt { .. })
            && self.bounds.answers
            && self.wrong() != Some(Wrong::LateAttempt);
        state.network.insert(Message::Ask {
            owner,
            call,
            not_after: is_bounded.then_some(state.now + self.bounds.timeout),
        });
    }

    pub(super) fn arrive(&self, state: &mut State, message: Message) {
        match message {
            Message::Ask {
                owner,
                call,
                not_after,
            } => self.asked(state, owner, call, not_after),
            Message::Read { owner, call } => {
                let record = self.read(state);
                state.network.insert(Message::Found {
                    owner,
                    call,
                    record,
                });
            }
            Message::Found {
                owner,
                call,
                record,
            } => self.judge(state, owner, call, record),
            Message::WriteBeside {
                owner,
                call,
                version,
                record,
            } => {
                self.write_beside(state, record.slot);
                state.network.insert(Message::Write {
                    owner,
                    call,
                    version,
                    record,
                });
            }
            Message::Write {
                owner,
                call,
                version,
                record,
            } => self.write(state, owner, call, version, &record),
            Message::Raced { owner, call } => self.raced(state, owner, call),
            Message::Answered { owner, call, done } => self.answered(state, owner, call, done),
        }
    }

    pub(super) fn answered(
        &self,
        state: &mut State,
        owner: Owner,
        call: Call,
        done: Option<Record>,
    ) {
        if !self.is_waited_for(state, owner, call) {
            return;
        }
        match call {
            Call::Attempt { .. } => self.attempted(state, owner, done),
            Call::Extend { by, asked } => {
                let Some(record) = done else { return };
                let client = &mut state.clients[usize::from(owner.client)];
                let until = asked + by - self.tolerance(client);
                if let Phase::Running { ends, .. } = &mut client.phase {
                    *ends = until.max(*ends);
                }
                self.remember(state, owner, record);
            }
            Call::Unlock { .. } => {
                let client = &state.clients[usize::from(owner.client)];
                if let Phase::Unlocking { strays, .. } = client.phase {
                    self.end(state, owner, strays);
                }
            }
            Call::Withdraw { is_last } => {
                let is_final = is_last || self.wrong() == Some(Wrong::WithdrawOnce);
                if is_final {
                    self.settle(state, owner);
                }
            }
        }
    }

    fn attempted(&self, state: &mut State, owner: Owner, done: Option<Record>) {
        let now = state.now;
        let client = &mut state.clients[usize::from(owner.client)];
        let Phase::Asking {
            first_asked,
            last_asked,
            asked,
            ..
        } = client.phase
        else {
            return;
        };
        // The last copy got a reply; the earlier ones did not.
        let strays = (asked > 1).then_some(first_asked + self.bounds.timeout);
        let bound = last_asked + self.bounds.timeout;
        let ends = self.ends(client, first_asked, last_asked, now);
        match done {
            Some(record) if now < ends => {
                let client = &mut state.clients[usize::from(owner.client)];
                client.phase = Phase::Running {
                    ends,
                    extended: 0,
                    strays,
                };
                self.remember(state, owner, record);
            }
            Some(_) if self.bounds.answers => self.give_up(state, owner, bound),
            Some(_) => state.clients[usize::from(owner.client)].forget(),
            None => match strays.filter(|_| self.bounds.answers) {
                Some(bound) => {
                    let client = &mut state.clients[usize::from(owner.client)];
                    client.phase = Phase::Withdrawing { bound, asked: 0 };
                }
                None => self.end(state, owner, None),
            },
        }
    }

    fn remember(&self, state: &mut State, owner: Owner, record: Record) {
        let client = &mut state.clients[usize::from(owner.client)];
        client.told = client.told.max(record.until);
        if matches!(self.protocol.judged_by, JudgedBy::Clients { .. }) {
            client.known = Some(record);
        }
        self.judge_end(state, owner);
    }

    /// Withdraws what may have been won, immediately and once more after the bound.
    pub(super) fn give_up(&self, state: &mut State, owner: Owner, bound: i8) {
        let client = &mut state.clients[usize::from(owner.client)];
        client.phase = Phase::Withdrawing { bound, asked: 0 };
        self.send(state, owner, Call::Withdraw { is_last: false });
    }

    /// The acquisition has ended, except for copies of its attempt that may be left.
    fn end(&self, state: &mut State, owner: Owner, strays: Option<i8>) {
        let now = state.now;
        let client = &mut state.clients[usize::from(owner.client)];
        let forgets = self.wrong() == Some(Wrong::StraysForgotten);
        match strays.filter(|bound| !forgets || now <= *bound) {
            _ if !self.bounds.answers => client.forget(),
            Some(bound) => client.phase = Phase::Withdrawing { bound, asked: 0 },
            None => self.settle(state, owner),
        }
    }

    fn settle(&self, state: &mut State, owner: Owner) {
        state.clients[usize::from(owner.client)].settle();
        let is_held = state
            .record
            .as_ref()
            .is_some_and(|record| record.is_lease_of(owner, state.now));
        if is_held {
            state.breaks(Law::HeldByNoOne);
        }
    }
}
