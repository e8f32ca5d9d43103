//! The protocol as a model: all that can happen, in any order.

mod client;
mod message;
mod protocol;
mod record;

use std::collections::BTreeSet;

use stateright::{Model, Property};

use crate::Law;
use client::{Client, Phase};
use message::Message;
pub use protocol::{Bounds, JudgedBy, Protocol, Slots, Wrong};
use record::{Answer, Attempt, Owner, Record};

/// A protocol within bounds: what [`stateright`] checks.
#[derive(Clone, Debug)]
pub struct Protocols {
    /// Which one.
    pub protocol: Protocol,
    /// How far.
    pub bounds: Bounds,
}

/// The world at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The true time, by which all steady clocks go.
    now: i8,
    clients: Vec<Client>,
    record: Option<Record>,
    network: BTreeSet<Message>,
    /// The law that was broken, if any: nothing happens after that.
    pub broken: Option<Law>,
}

/// What can happen next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time passes.
    Tick,
    /// A client wants the lock, for a slot where there are slots.
    Want(usize, Option<i8>),
    /// A client that knows of no answer asks again.
    AskAgain(usize),
    /// A message arrives; by its place among all.
    Arrive(usize),
    /// A message is lost.
    Lose(usize),
    /// A holder asks for more time.
    AskExtension(usize),
    /// A task ends, well or not, and the lock is given back.
    Finish(usize, bool),
    /// A task is ended because its lease is about to be over.
    End(usize),
    /// A process is stopped.
    Stop(usize),
    /// It goes on.
    Wake(usize),
    /// It dies, and begins anew knowing nothing.
    Die(usize),
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

    /// The instant that a client judges by, where clients do.
    fn judged(&self, state: &State, client: &Client) -> Option<i8> {
        matches!(self.protocol.judged_by, JudgedBy::Clients { .. })
            .then_some(state.now + client.skew)
    }

    fn ends(&self, client: &Client, first_asked: i8, last_asked: i8, replied: i8) -> i8 {
        let from = match self.wrong() {
            Some(Wrong::DeadlineFromReply) => replied,
            Some(Wrong::DeadlineFromLastAsk) => last_asked,
            _ => first_asked,
        };
        from + self.bounds.at_most - self.tolerance(client)
    }

    fn request(&self, owner: Owner, slot: Option<i8>) -> Message {
        match self.protocol.judged_by {
            JudgedBy::Store => Message::Attempt { owner, slot },
            JudgedBy::Clients { .. } => Message::Read { owner, slot },
        }
    }

    fn attempt(&self, state: &State, owner: Owner, slot: Option<i8>) -> Attempt {
        let client = &state.clients[usize::from(owner.client)];
        Attempt {
            owner,
            slot,
            now: self.judged(state, client).unwrap_or(state.now),
            tolerance: self.tolerance(client),
            at_most: self.bounds.at_most,
        }
    }

    /// Puts a record in the place of the one before, and looks whether that was right.
    fn put(&self, state: &mut State, record: Record) {
        let is_taken = state
            .record
            .as_ref()
            .is_none_or(|before| before.owner != record.owner || before.token != record.token);
        if let Some(before) = &state.record
            && is_taken
        {
            let (slots, at_least) = (self.bounds.slots, self.bounds.at_least);
            let law = before.broken_by(&record, slots, at_least);
            state.broken = state.broken.or(law);
        }
        state.record = Some(record);
    }

    fn arrive(&self, state: &mut State, message: Message) {
        match message {
            Message::Attempt { owner, slot } => {
                let attempt = self.attempt(state, owner, slot);
                let answer = Record::answer(
                    state.record.as_ref(),
                    attempt,
                    self.bounds.slots,
                    self.wrong(),
                );
                let is_granted = answer != Answer::Refused;
                if let Answer::Taken(record) = answer {
                    self.put(state, record);
                }
                state
                    .network
                    .insert(Message::Answered { owner, is_granted });
            }
            Message::Read { owner, slot } => {
                let record = state.record.clone();
                state.network.insert(Message::Found {
                    owner,
                    slot,
                    record,
                });
            }
            Message::Found {
                owner,
                slot,
                record,
            } => self.found(state, owner, slot, record),
            Message::Write {
                owner,
                version,
                record,
            } => {
                let stands = state.record.as_ref().map_or(0, |record| record.version);
                let asks_nobody = self.wrong() == Some(Wrong::ReadThenWrite);
                let is_granted = stands == version || asks_nobody;
                if is_granted {
                    self.put(state, record);
                }
                state
                    .network
                    .insert(Message::Answered { owner, is_granted });
            }
            Message::Answered { owner, is_granted } => self.answered(state, owner, is_granted),
            Message::Extend {
                owner,
                judged,
                asked,
            } => {
                let now = judged.unwrap_or(state.now);
                let extended = state.record.as_ref().and_then(|record| {
                    record.extended(owner, now, self.bounds.at_most, self.wrong())
                });
                if let Some(extended) = extended {
                    self.changed_by(state, owner);
                    state.record = Some(extended);
                    state.network.insert(Message::Extended { owner, asked });
                }
            }
            Message::Extended { owner, asked } => {
                let client = state.clients[usize::from(owner.client)].clone();
                let is_meant = client.begun == owner.acquisition;
                if let Phase::Running { is_extended, .. } = client.phase
                    && is_meant
                {
                    let ends = asked + self.bounds.at_most - self.tolerance(&client);
                    state.clients[usize::from(owner.client)].phase =
                        Phase::Running { ends, is_extended };
                }
            }
            Message::Unlock {
                owner,
                judged,
                is_done,
            } => {
                let now = judged.unwrap_or(state.now);
                let unlocked = state.record.as_ref().and_then(|record| {
                    record.unlocked(owner, is_done, now, self.bounds.at_least, self.wrong())
                });
                if let Some(unlocked) = unlocked {
                    self.changed_by(state, owner);
                    state.record = Some(unlocked);
                }
            }
        }
    }

    /// An unlock or an extension of this owner's is about to change the record.
    fn changed_by(&self, state: &mut State, owner: Owner) {
        if state
            .record
            .as_ref()
            .is_some_and(|record| record.owner != owner)
        {
            state.broken = state.broken.or(Some(Law::Ownership));
        }
    }

    fn found(&self, state: &mut State, owner: Owner, slot: Option<i8>, found: Option<Record>) {
        let client = &state.clients[usize::from(owner.client)];
        let is_meant =
            client.begun == owner.acquisition && matches!(client.phase, Phase::Asking { .. });
        if !is_meant {
            return;
        }
        let attempt = self.attempt(state, owner, slot);
        match Record::answer(found.as_ref(), attempt, self.bounds.slots, self.wrong()) {
            Answer::Again => self.answered(state, owner, true),
            Answer::Refused => self.answered(state, owner, false),
            Answer::Taken(record) => {
                let version = found.map_or(0, |record| record.version);
                state.network.insert(Message::Write {
                    owner,
                    version,
                    record,
                });
            }
        }
    }

    fn answered(&self, state: &mut State, owner: Owner, is_granted: bool) {
        let now = state.now;
        let client = &mut state.clients[usize::from(owner.client)];
        let Phase::Asking {
            first_asked,
            last_asked,
            ..
        } = client.phase
        else {
            return;
        };
        if client.begun != owner.acquisition {
            return;
        }
        let ends = self.ends(client, first_asked, last_asked, now);
        client.phase = if is_granted && now < ends {
            Phase::Running {
                ends,
                is_extended: false,
            }
        } else {
            Phase::Idle
        };
    }

    fn slots_of(&self, state: &State, client: &Client) -> Vec<Option<i8>> {
        let current = (state.now + client.skew).div_euclid(2);
        match self.bounds.slots {
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
                    if asked < 2 && self.bounds.losses {
                        events.push(Event::AskAgain(number));
                    }
                }
                Phase::Running { .. } if client.must_end_at(state.now) => {
                    events.push(Event::End(number));
                    continue;
                }
                Phase::Running { is_extended, .. } => {
                    events.push(Event::Finish(number, true));
                    if matches!(self.bounds.slots, Slots::OnSuccess { .. }) {
                        events.push(Event::Finish(number, false));
                    }
                    if self.bounds.extensions && !is_extended {
                        events.push(Event::AskExtension(number));
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
                let client = &mut state.clients[number];
                client.begun += 1;
                client.phase = Phase::Asking {
                    slot,
                    first_asked: now,
                    last_asked: now,
                    asked: 1,
                };
                let request = self.request(owner_of(number, client), slot);
                state.network.insert(request);
            }
            Event::AskAgain(number) => {
                let client = &mut state.clients[number];
                if let Phase::Asking {
                    slot,
                    last_asked,
                    asked,
                    ..
                } = &mut client.phase
                {
                    (*last_asked, *asked) = (now, *asked + 1);
                    let slot = *slot;
                    let request = self.request(owner_of(number, client), slot);
                    state.network.insert(request);
                }
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
            Event::AskExtension(number) => {
                let judged = self.judged(&state, &state.clients[number]);
                let client = &mut state.clients[number];
                if let Phase::Running { is_extended, .. } = &mut client.phase {
                    *is_extended = true;
                }
                let owner = owner_of(number, client);
                state.network.insert(Message::Extend {
                    owner,
                    judged,
                    asked: now,
                });
            }
            Event::Finish(number, is_done) => {
                let judged = self.judged(&state, &state.clients[number]);
                let client = &mut state.clients[number];
                client.phase = Phase::Idle;
                let owner = owner_of(number, client);
                state.network.insert(Message::Unlock {
                    owner,
                    judged,
                    is_done,
                });
            }
            Event::End(number) => state.clients[number].phase = Phase::Idle,
            Event::Stop(number) => state.clients[number].is_stopped = true,
            Event::Wake(number) => {
                let client = &mut state.clients[number];
                client.is_stopped = false;
                let runs_on = self.wrong() == Some(Wrong::NoLookAfterPause);
                match &mut client.phase {
                    // It does one more thing before it looks at the clock.
                    Phase::Running { ends, .. } if now >= *ends && runs_on => *ends = now + 1,
                    Phase::Running { ends, .. } if now >= *ends => client.phase = Phase::Idle,
                    _ => {}
                }
            }
            Event::Die(number) => state.clients[number].phase = Phase::Idle,
        }
        let running = state
            .clients
            .iter()
            .filter(|client| client.runs_at(state.now));
        if running.count() > 1 {
            state.broken = state.broken.or(Some(Law::Exclusion));
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no law is broken", |_, state: &State| {
                state.broken.is_none()
            }),
            Property::sometimes("a lock passes from one to another", |_, state: &State| {
                state.record.as_ref().is_some_and(|record| record.token > 1)
            }),
        ]
    }
}

impl State {
    /// An answer to a process that is stopped stays where it is.
    fn waits_for_its_client(&self, message: &Message) -> bool {
        match message {
            Message::Found { owner, .. }
            | Message::Answered { owner, .. }
            | Message::Extended { owner, .. } => self.clients[usize::from(owner.client)].is_stopped,
            _ => false,
        }
    }
}

fn owner_of(number: usize, client: &Client) -> Owner {
    Owner {
        client: u8::try_from(number).unwrap_or(u8::MAX),
        acquisition: client.begun,
    }
}
