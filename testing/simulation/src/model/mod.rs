//! The protocol as a model: everything that can happen, in any order.

mod answers;
mod client;
mod engine;
mod law;
mod message;
mod protocol;
mod record;
mod store;

use std::collections::BTreeSet;

use stateright::{Model, Property};

use client::{Client, Phase};
pub use law::Law;
use message::{Call, Message};
pub use protocol::{Bounds, Ending, JudgedBy, Protocol, Slots, Wrong};
use record::{Attempt, Owner, Record, Rules};

/// A protocol within bounds, which [`stateright`] checks.
#[derive(Clone, Debug)]
pub struct Protocols {
    /// The protocol.
    pub protocol: Protocol,
    /// The bounds.
    pub bounds: Bounds,
}

/// The world at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The true time, which all monotonic clocks follow.
    now: i8,
    clients: Vec<Client>,
    record: Option<Record>,
    /// The slot that is kept in a second key.
    beside: Option<i8>,
    /// The number of the last write.
    versions: u8,
    /// The record before the last write, as long as that write may be lost; and whether a write was
    /// lost.
    tail: Option<Option<Record>>,
    has_lost: bool,
    network: BTreeSet<Message>,
    /// The broken law, if any: nothing happens after that.
    pub broken: Option<Law>,
}

/// What can happen next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time passes.
    Tick,
    /// A client wants the lock, for a slot if there are slots.
    Want(usize, Option<i8>),
    /// A client without a reply repeats its request.
    AskAgain(usize),
    /// A message arrives, given by its position among all messages.
    Arrive(usize),
    /// A message is lost.
    Lose(usize),
    /// A client without a reply gives up, and withdraws what it may have won.
    GiveUp(usize),
    /// It withdraws once more, after the bound.
    WithdrawForGood(usize),
    /// A holder requests this much more time from now on.
    AskExtension(usize, i8),
    /// A task ends, or never begins, and the lock is given back.
    Finish(usize, Ending),
    /// A task is ended because its lease is about to expire.
    End(usize),
    /// A process is stopped.
    Stop(usize),
    /// A stopped process is resumed.
    Wake(usize),
    /// A process dies and starts again without any state.
    Die(usize),
    /// The store loses the last write.
    LoseTail,
}

impl Protocols {
    fn wrong(&self) -> Option<Wrong> {
        self.protocol.wrong
    }

    fn tolerance(&self, client: &Client) -> i8 {
        match self.protocol.judged_by {
            JudgedBy::Clients { tolerated_skew } if !client.is_shedlock => tolerated_skew,
            _ => 0,
        }
    }

    /// The clock that judges.
    fn judged(&self, state: &State, owner: Owner) -> i8 {
        match self.protocol.judged_by {
            JudgedBy::Store => state.now,
            JudgedBy::Clients { .. } => state.now + state.clients[usize::from(owner.client)].skew,
        }
    }

    fn ends(&self, client: &Client, first_asked: i8, last_asked: i8, replied: i8) -> i8 {
        let from = match self.wrong() {
            Some(Wrong::DeadlineFromReply) => replied,
            Some(Wrong::DeadlineFromLastAsk) => last_asked,
            _ => first_asked,
        };
        from + self.bounds.at_most - self.tolerance(client)
    }

    fn attempt(&self, state: &State, owner: Owner, slot: Option<i8>) -> Attempt {
        let client = &state.clients[usize::from(owner.client)];
        Attempt {
            owner,
            slot,
            now: self.judged(state, owner),
            tolerance: self.tolerance(client),
            at_most: self.bounds.at_most,
        }
    }

    /// The rules for an unlock.
    fn rules(&self) -> Rules {
        Rules {
            slots: self.bounds.slots,
            at_least: self.bounds.at_least,
            wrong: self.wrong(),
        }
    }

    /// How tasks end, as far as it makes a difference.
    fn endings(&self) -> &'static [Ending] {
        match (self.bounds.slots, self.bounds.unused) {
            (Slots::Unused, _) | (Slots::WhenTaken, false) => &[Ending::Done],
            (Slots::WhenTaken, true) => &[Ending::Done, Ending::NotStarted],
            (Slots::OnSuccess { .. }, false) => &[Ending::Done, Ending::Failed],
            (Slots::OnSuccess { .. }, true) => &[
                Ending::Done,
                Ending::Failed,
                Ending::Cut,
                Ending::NotStarted,
            ],
        }
    }

    fn slots_of(&self, state: &State, client: &Client) -> Vec<Option<i8>> {
        let current = (state.now + client.skew).div_euclid(2);
        match self.bounds.slots {
            _ if client.is_shedlock => vec![None],
            Slots::Unused => vec![None],
            Slots::WhenTaken => vec![Some(current)],
            Slots::OnSuccess { .. } => (current - 1..=current).map(Some).collect(),
        }
    }
}

impl Model for Protocols {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let client = |(number, skew): (usize, &i8)| {
            Client::new(*skew, self.bounds.shedlocks.contains(&number))
        };
        vec![State {
            now: 0,
            clients: self.bounds.skews.iter().enumerate().map(client).collect(),
            record: None,
            beside: None,
            versions: 0,
            tail: None,
            has_lost: false,
            network: BTreeSet::new(),
            broken: None,
        }]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        if state.broken.is_some() {
            return;
        }
        let must_end = state
            .clients
            .iter()
            .any(|client| client.must_end_at(state.now));
        if state.now < self.bounds.time && !must_end {
            events.push(Event::Tick);
        }
        for (number, message) in state.network.iter().enumerate() {
            if !state.waits_for_its_client(message) {
                events.push(Event::Arrive(number));
            }
            if self.bounds.losses {
                events.push(Event::Lose(number));
            }
        }
        if state.tail.is_some() {
            events.push(Event::LoseTail);
        }
        for (number, client) in state.clients.iter().enumerate() {
            if client.is_stopped {
                events.push(Event::Wake(number));
                continue;
            }
            match client.phase {
                Phase::Idle => {
                    if client.begun < self.bounds.acquisitions {
                        let slots = self.slots_of(state, client);
                        events.extend(slots.into_iter().map(|slot| Event::Want(number, slot)));
                    }
                    continue;
                }
                Phase::Asking { asked, .. } => {
                    if asked < 2 && (self.bounds.losses || self.bounds.answers) {
                        events.push(Event::AskAgain(number));
                    }
                    if self.bounds.answers {
                        events.push(Event::GiveUp(number));
                    }
                }
                Phase::Unlocking { asked, .. } => {
                    if asked < 2 {
                        events.push(Event::AskAgain(number));
                    }
                }
                Phase::Withdrawing { bound, asked } => {
                    if asked < 2 && state.now > bound {
                        events.push(Event::WithdrawForGood(number));
                    }
                }
                Phase::Running { .. } if client.must_end_at(state.now) => {
                    events.push(Event::End(number));
                    continue;
                }
                Phase::Running { extended, .. } => {
                    let endings = self.endings();
                    events.extend(endings.iter().map(|end| Event::Finish(number, *end)));
                    if extended < self.bounds.extensions {
                        events.push(Event::AskExtension(number, self.bounds.at_most));
                        if self.bounds.extensions > 1 {
                            events.push(Event::AskExtension(number, 1));
                        }
                    }
                }
            }
            if self.bounds.pauses {
                events.push(Event::Stop(number));
            }
            if self.bounds.deaths {
                events.push(Event::Die(number));
            }
        }
    }

    fn next_state(&self, before: &State, event: Event) -> Option<State> {
        let mut state = before.clone();
        let now = state.now;
        match event {
            Event::Tick => state.now += 1,
            Event::Want(number, slot) => {
                state.clients[number].begin(slot, now);
                self.send(
                    &mut state,
                    owner_of(before, number, 1),
                    Call::Attempt {
                        slot,
                        copy: u8::from(self.bounds.answers),
                    },
                );
            }
            Event::AskAgain(number) => {
                let call = state.clients[number]
                    .phase
                    .ask_again(now, self.bounds.answers)?;
                self.send(&mut state, owner_of(before, number, 0), call);
            }
            Event::GiveUp(number) => {
                let Phase::Asking { last_asked, .. } = state.clients[number].phase else {
                    return None;
                };
                let bound = last_asked + self.bounds.timeout;
                self.give_up(&mut state, owner_of(before, number, 0), bound);
            }
            Event::WithdrawForGood(number) => {
                if let Phase::Withdrawing { asked, .. } = &mut state.clients[number].phase {
                    *asked += 1;
                }
                let call = Call::Withdraw { is_last: true };
                self.send(&mut state, owner_of(before, number, 0), call);
            }
            Event::Arrive(number) => {
                let message = state.network.iter().nth(number)?.clone();
                state.network.remove(&message);
                self.arrive(&mut state, message);
            }
            Event::Lose(number) => {
                let message = state.network.iter().nth(number)?.clone();
                state.network.remove(&message);
            }
            Event::AskExtension(number, by) => {
                if let Phase::Running { extended, .. } = &mut state.clients[number].phase {
                    *extended += 1;
                }
                let call = Call::Extend { by, asked: now };
                self.send(&mut state, owner_of(before, number, 0), call);
            }
            Event::Finish(number, ending) => {
                let owner = owner_of(before, number, 0);
                let Phase::Running { strays, .. } = state.clients[number].phase else {
                    return None;
                };
                // While the lease runs, a copy that arrives finds it and changes nothing.
                state.clients[number].phase = Phase::Unlocking {
                    ending,
                    strays: strays.filter(|bound| now <= *bound),
                    asked: 1,
                };
                self.send(&mut state, owner, Call::Unlock { ending });
                if !self.bounds.answers {
                    state.clients[number].forget();
                }
            }
            Event::LoseTail => self.lose_tail(&mut state),
            Event::End(number) => state.clients[number].forget(),
            Event::Stop(number) => state.clients[number].is_stopped = true,
            Event::Wake(number) => {
                let client = &mut state.clients[number];
                client.is_stopped = false;
                let runs_on = self.wrong() == Some(Wrong::NoLookAfterPause);
                match &mut client.phase {
                    // It does one more step before it checks the clock.
                    Phase::Running { ends, .. } if now >= *ends && runs_on => *ends = now + 1,
                    Phase::Running { ends, .. } if now >= *ends => client.forget(),
                    _ => {}
                }
            }
            Event::Die(number) => state.clients[number].forget(),
        }
        let running = state
            .clients
            .iter()
            .filter(|client| client.runs_at(state.now));
        if running.count() > 1 {
            state.breaks(Law::Exclusion);
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("no law is broken", |_, state: &State| {
                state.broken.is_none()
            }),
            Property::sometimes("a lock passes from one to another", |_, state: &State| {
                state.record.as_ref().is_some_and(|record| record.token > 1)
            }),
        ];
        // Not with a mistake, which may end the exploration before this state is reached.
        if self.bounds.unused && self.wrong().is_none() {
            properties.push(Property::sometimes(
                "a slot that was given back is taken again",
                |_, state: &State| {
                    let record = state.record.as_ref();
                    record.is_some_and(|record| record.is_taken_again)
                },
            ));
        }
        properties
    }
}

impl State {
    /// A reply to a stopped process stays in flight.
    fn waits_for_its_client(&self, message: &Message) -> bool {
        message
            .recipient()
            .is_some_and(|owner| self.clients[usize::from(owner.client)].is_stopped)
    }

    /// Records a broken law; the first one counts. If the store has lost a write, only one law is
    /// checked: no client treats another client's lease as its own.
    fn breaks(&mut self, law: Law) {
        if !self.has_lost || law == Law::Ownership {
            self.broken = self.broken.or(Some(law));
        }
    }
}

fn owner_of(state: &State, number: usize, more: u8) -> Owner {
    Owner {
        client: u8::try_from(number).unwrap_or(u8::MAX),
        acquisition: state.clients[number].begun + more,
    }
}
