//! Explores every order in which clients that take a lock, and ShedLock between them, can read and write the two keys
//! of the lock, and checks that no slot is granted twice. The companion messages and their rules are the real ones.

use std::collections::HashSet;
use std::time::UNIX_EPOCH;

use shedlock_core::{Slot, SlotState};
use shedlock_provider::Record;

use crate::codec::{Beside, kept};

/// How a taker writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Way {
    /// Both keys in one step.
    AtOnce,
    /// First the companion key, then the lock.
    OneByOne,
    /// Like `OneByOne`, but forgets the announcement that it finds in the companion key, as an earlier version did.
    Forgetful,
    /// Carries the announcement over, but trusts a lock that it read too early.
    Hasty,
}

/// The last message of the lock's key: its sequence and its last slot; no slot if ShedLock wrote it.
type Lock = (u64, Option<i64>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Store {
    sequence: u64,
    lock: Lock,
    beside: (u64, String),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Taker {
    way: Way,
    slot: i64,
    lock: Option<Lock>,
    beside: Option<(u64, String)>,
    has_read_again: bool,
    /// The sequence of the lock's message to replace, once the companion key is written.
    announced: Option<u64>,
    has_ended: bool,
    was_granted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    store: Store,
    takers: Vec<Taker>,
    /// How many more times ShedLock may take the lock.
    shedlock: u32,
}

impl Taker {
    fn new(way: Way, slot: i64) -> Self {
        Self {
            way,
            slot,
            lock: None,
            beside: None,
            has_read_again: false,
            announced: None,
            has_ended: false,
            was_granted: false,
        }
    }

    /// A retry would be another taker's attempt.
    fn lost_a_race(&mut self) {
        self.has_ended = true;
    }

    fn won(&mut self, store: &mut Store) {
        store.sequence += 1;
        store.lock = (store.sequence, Some(self.slot));
        (self.has_ended, self.was_granted) = (true, true);
    }

    /// Takes the next step, once both keys are read.
    fn write(&mut self, store: &mut Store) {
        let (Some((sequence, own)), Some((before, text))) = (self.lock, self.beside.clone()) else {
            return;
        };
        let read = Beside::from_bytes(text.as_bytes()).ok();
        let based_on = read.as_ref().map_or(0, |it| it.based_on);
        if based_on > sequence && !self.has_read_again && self.way != Way::Hasty {
            self.lock = Some(store.lock);
            self.has_read_again = true;
            return;
        }
        let mut record = Record::until(UNIX_EPOCH);
        match (own, &read) {
            (Some(slot), _) => record.slots = slots(slot),
            (None, Some(read)) => read.complete(&mut record, sequence),
            (None, None) => {}
        }
        let last = record.slots.last.map_or(0, Slot::as_micros);
        if self.slot <= last {
            self.has_ended = true;
            return;
        }
        let mut beside = Beside {
            based_on: sequence,
            was: kept(None, record.slots),
            taken: kept(None, slots(self.slot)),
        };
        if store.beside.0 != before {
            return self.lost_a_race();
        }
        if self.way == Way::AtOnce && store.lock.0 != sequence {
            return self.lost_a_race();
        }
        let pending = match self.way {
            Way::OneByOne => read.and_then(|it| it.pending(sequence)),
            // Without a second read of the lock, only an announcement based on the sequence that was read is known to
            // be pending.
            Way::Hasty => read
                .filter(|it| it.based_on == sequence)
                .and_then(|it| it.pending(sequence)),
            Way::AtOnce | Way::Forgetful => None,
        };
        if let Some(pending) = pending {
            beside = beside.carrying(&pending);
        }
        store.sequence += 1;
        store.beside = (store.sequence, beside.to_text());
        if self.way == Way::AtOnce {
            self.won(store);
        } else {
            self.announced = Some(sequence);
        }
    }
}

fn slots(last: i64) -> SlotState {
    let last = Slot::from_micros(last).ok();
    SlotState::new(last, None, None)
}

impl World {
    /// Starts with a lock of ours that no one holds, after slot 1, and these takers.
    fn new(takers: &[(Way, i64)]) -> Self {
        let beside = Beside {
            based_on: 0,
            was: kept(None, SlotState::default()),
            taken: kept(None, slots(1)),
        };
        Self {
            store: Store {
                sequence: 2,
                lock: (2, Some(1)),
                beside: (1, beside.to_text()),
            },
            takers: takers
                .iter()
                .map(|(way, slot)| Taker::new(*way, *slot))
                .collect(),
            shedlock: 2,
        }
    }

    /// Returns all worlds that are one step ahead.
    fn next(&self) -> Vec<Self> {
        let mut worlds = Vec::new();
        if self.shedlock > 0 {
            let mut world = self.clone();
            world.shedlock -= 1;
            world.store.sequence += 1;
            world.store.lock = (world.store.sequence, None);
            worlds.push(world);
        }
        for (i, taker) in self.takers.iter().enumerate() {
            if taker.has_ended {
                continue;
            }
            let mut step = |change: &dyn Fn(&mut Taker, &mut Store)| {
                let mut world = self.clone();
                change(&mut world.takers[i], &mut world.store);
                worlds.push(world);
            };
            if let Some(sequence) = taker.announced {
                step(&|taker, store| {
                    if store.lock.0 == sequence {
                        taker.won(store);
                    } else {
                        taker.lost_a_race();
                    }
                });
                continue;
            }
            if taker.lock.is_none() {
                step(&|taker, store| taker.lock = Some(store.lock));
            }
            if taker.beside.is_none() {
                step(&|taker, store| taker.beside = Some(store.beside.clone()));
            }
            if taker.lock.is_some() && taker.beside.is_some() {
                step(&Taker::write);
            }
        }
        worlds
    }

    fn grants_twice(&self) -> bool {
        let granted = self.takers.iter().filter(|it| it.was_granted);
        let mut seen = HashSet::new();
        granted.into_iter().any(|taker| !seen.insert(taker.slot))
    }
}

/// Returns the number of reachable worlds, or none if one of them grants a slot twice.
fn explored(takers: &[(Way, i64)]) -> Option<usize> {
    let first = World::new(takers);
    let mut seen = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some(world) = open.pop() {
        if world.grants_twice() {
            return None;
        }
        for next in world.next() {
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    Some(seen.len())
}

#[test]
fn no_order_of_steps_grants_a_slot_twice() {
    use Way::{AtOnce, OneByOne};
    for ways in [
        [OneByOne, OneByOne, OneByOne],
        [AtOnce, AtOnce, AtOnce],
        [AtOnce, OneByOne, OneByOne],
        [OneByOne, AtOnce, AtOnce],
    ] {
        for slots in [[3, 2, 3], [2, 3, 2], [3, 3, 2]] {
            let takers: Vec<_> = ways.into_iter().zip(slots).collect();
            let worlds = explored(&takers);
            assert!(
                worlds.is_some_and(|count| count > 1000),
                "{takers:?}: {worlds:?}"
            );
        }
    }
}

/// An earlier version alongside this one is no worse than on its own.
#[test]
fn one_taker_that_forgets_is_found_out() {
    use Way::{Forgetful, Hasty, OneByOne};
    assert_eq!(
        explored(&[(Forgetful, 3), (Forgetful, 2), (Forgetful, 3)]),
        None
    );
    // A taker that reads the lock before the state that another announcement is based on drops that announcement.
    assert_eq!(explored(&[(Hasty, 3), (Hasty, 2), (OneByOne, 3)]), None);
}
