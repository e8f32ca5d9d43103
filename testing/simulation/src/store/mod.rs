//! The store at the other end of the network.

mod conditional;
mod replica;
mod trouble;
mod versioned;
mod watched;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use shedlock_core::{BoxFuture, Clock, LockName, LockProvider, LockRecord, Moment, Owner, Slot};
use shedlock_proof::history::Stored;
use shedlock_proof::{At, Mistake, Mistaken, Surroundings};
use shedlock_provider::MemoryProvider;
use shedlock_provider::Record;

pub(crate) use conditional::Conditional;
pub(crate) use replica::LONGEST_LAG;
pub(crate) use versioned::{Flavour, Versioned};
pub(crate) use watched::Watched;

use crate::chronicle::Chronicle;
use crate::transition::Transition;
use crate::world::{Instant, World, instant_of};

/// Processes the requests that arrive.
pub(crate) struct Store {
    world: World,
    chronicle: Chronicle,
    /// Evaluates conditions itself, by its own clock: the real rules, in memory.
    memory: MemoryProvider,
    /// Replaces records whose version is still in place, without evaluating any rules.
    texts: Mutex<BTreeMap<LockName, (u64, Record)>>,
    revision: Mutex<u64>,
    /// The states that replicas may still show.
    past: Mutex<replica::Past>,
    /// The records that the last writes replaced.
    tail: Mutex<VecDeque<trouble::Written>>,
    /// When the record of a lock was last deleted.
    deleted: Mutex<BTreeMap<LockName, Instant>>,
    /// The same with a mistake in it, if there is one.
    mistaken: Mistaken,
    wrong: Option<Mistake>,
}

impl Store {
    pub(crate) fn new(world: &World, chronicle: &Chronicle, wrong: Option<Mistake>) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(TrueClock(world.clone()));
        let memory = MemoryProvider::with_clock(Arc::clone(&clock));
        Self {
            world: world.clone(),
            chronicle: chronicle.clone(),
            mistaken: mistaken(wrong, &memory, clock),
            memory,
            texts: Mutex::default(),
            revision: Mutex::default(),
            past: Mutex::default(),
            tail: Mutex::default(),
            deleted: Mutex::default(),
            wrong,
        }
    }

    /// The record of a conditional store.
    fn record(&self, name: &LockName) -> Option<LockRecord> {
        at_once(self.memory.inspect(name)).ok().flatten()
    }

    /// Records who holds the lock in a conditional store after a call.
    fn compare(&self, name: &LockName) {
        if !self.has_true_owners() {
            return;
        }
        let record = self.record(name);
        let held = record.as_ref().and_then(|record| {
            let until = instant_of(record.locked_until?);
            Some((record.owner.as_deref()?, until))
        });
        let (owner, until) = held.unwrap_or_default();
        self.chronicle.stored(name, owner, Stored::Holds { until });
    }

    /// Whether only the end of a free record differs, and only by a millisecond. A record without
    /// an owner may also be marked as released.
    fn is_rewritten(&self, before: &Record, after: &Record) -> bool {
        const TICK: Duration = Duration::from_millis(1);
        /// The largest error of the clock of a client that treats a lease as expired.
        const WRONG: Instant = 1_000_000_000;
        let (from, to) = (before.locked_until, after.locked_until);
        let moved = to.duration_since(from).or_else(|_| from.duration_since(to));
        let mut expected = before.clone();
        expected.locked_until = to;
        if before.owner.is_empty() && Owner::is_released(&after.owner) {
            expected.owner.clone_from(&after.owner);
        }
        // A token that was the number of the previous write is now stored explicitly.
        expected.fencing_token = expected.fencing_token.or(after.fencing_token);
        expected == *after
            && moved.is_ok_and(|moved| moved == TICK)
            && instant_of(from) <= self.world.now() + WRONG
    }

    /// Records what a write of a whole record means.
    fn tell(&self, name: &LockName, version: u64, before: Option<&Record>, after: &Record) {
        let is_rewritten = match before {
            // A withdrawal moves the end of an expired lease by a millisecond.
            Some(before) => before == after || self.is_rewritten(before, after),
            // A withdrawal creates a record that blocks requests that may still arrive.
            None => Owner::is_released(&after.owner),
        };
        if is_rewritten {
            self.chronicle
                .note(|| format!("the store rejects late requests for {name}"));
            self.chronicle.count(Transition::Barred);
            return;
        }
        let owner = Owner::without_mark(&after.owner);
        let until = instant_of(after.locked_until);
        if Owner::is_released(&after.owner) {
            let is_done = after.slots.last.is_some() && after.slots.done == after.slots.last;
            let is_ended = |before: &Record| {
                Owner::is_released(&before.owner) && Owner::without_mark(&before.owner) == owner
            };
            if before.is_some_and(is_ended) {
                // A forced unlock frees a lock kept by at-least.
                self.chronicle.stored(name, "", Stored::Freed);
                return;
            }
            let ended = Stored::Ended {
                is_withdrawn: None,
                is_done,
                free: until,
            };
            self.chronicle.stored(name, owner, ended);
            let slots = Stored::Slots {
                last: after.slots.last.map(Slot::as_micros),
                attempts: after.slots.attempts,
            };
            self.chronicle.stored(name, owner, slots);
            return;
        }
        // Each acquisition has its own time, and keeps it.
        let same = before.is_some_and(|before| {
            before.owner == after.owner && before.locked_at == after.locked_at
        });
        if same {
            self.chronicle
                .stored(name, owner, Stored::Extended { until });
            return;
        }
        let is_slots = before.is_none_or(|before| before.slots != after.slots);
        let slot = after.slots.last.filter(|_| is_slots);
        let granted = Stored::Granted {
            token: after.fencing_token.or(Some(version)),
            slot: slot.map(Slot::as_micros),
            from: after.locked_at.map_or(0, instant_of),
            until,
            is_copy: self.chronicle.is_copy(),
        };
        self.chronicle.stored(name, owner, granted);
    }

    /// Whether records name the owners that asked. Not if the owner is the host.
    fn has_true_owners(&self) -> bool {
        self.wrong != Some(Mistake::OwnerIsHost)
    }

    fn deleted(&self) -> MutexGuard<'_, BTreeMap<LockName, Instant>> {
        self.deleted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_revision(&self) -> u64 {
        let mut revision = self.revision.lock().unwrap_or_else(PoisonError::into_inner);
        *revision += 1;
        *revision
    }

    fn texts(&self) -> MutexGuard<'_, BTreeMap<LockName, (u64, Record)>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The store with a mistake of a provider. That late attempts are granted is a mistake of the store
/// itself, which judges them.
fn mistaken(wrong: Option<Mistake>, memory: &MemoryProvider, clock: Arc<dyn Clock>) -> Mistaken {
    let of_provider = |it: &Mistake| it.at() == At::Provider && *it != Mistake::LateAttempt;
    let surroundings = Surroundings {
        clock,
        records: Some(Arc::new(memory.clone())),
        ..Surroundings::new(0)
    };
    let inner = Arc::new(memory.clone());
    Mistaken::new(wrong.filter(of_provider), inner, surroundings)
}

/// A call that needs no waiting: the in-memory store replies immediately.
fn at_once<T>(mut call: BoxFuture<'_, T>) -> T {
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("memory does not wait"),
    }
}

/// The store's clock shows the true time.
#[derive(Debug)]
struct TrueClock(World);

impl Clock for TrueClock {
    fn now(&self) -> Moment {
        Moment::from_origin(std::time::Duration::from_nanos(self.0.now()))
    }

    fn system_time(&self) -> SystemTime {
        self.0.calendar()
    }

    fn sleep_until(&self, _: Moment) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}
