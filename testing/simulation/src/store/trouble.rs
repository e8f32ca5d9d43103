//! Changes of records without a client: they are deleted, or revert to an earlier state.

use std::sync::PoisonError;
use std::time::Duration;

use shedlock_core::{LockName, Owner, Slot};
use shedlock_proof::history::{Earlier, Stored};
use shedlock_provider::Record;

use super::Store;
use crate::transition::Transition;
use crate::world::{Instant, instant_of, nanos};

/// A write that a crash may still undo.
pub(super) struct Written {
    at: Instant,
    name: LockName,
    before: Option<(u64, Record)>,
}

/// How far back a crash may reach.
const LONGEST_TAIL: Duration = Duration::from_secs(5);

impl Store {
    /// An operator deletes a record, held or not.
    pub(crate) fn delete(&self, name: &LockName) {
        let was_there = self.memory.delete(name) | self.texts().remove(name).is_some();
        if was_there {
            let now = self.world.now();
            self.deleted().insert(name.clone(), now);
            self.shows(name, self.next_revision(), None);
            self.chronicle.count(Transition::Deleted);
            self.chronicle.stored(name, "", Stored::Reverted(None));
        }
    }

    /// Whether a write sent at this instant may find the versions of a different record than it was
    /// meant for. A store whose versions start over cannot refuse it, so the simulation does not
    /// let it arrive.
    pub(super) fn is_of_deleted(&self, name: &LockName, sent: Instant) -> bool {
        self.deleted().get(name).is_some_and(|at| *at >= sent)
    }

    /// Keeps the record from before a write, as long as a crash may restore it.
    pub(super) fn keep(&self, name: &LockName, before: Option<(u64, Record)>) {
        let now = self.world.now();
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = now.saturating_sub(nanos(LONGEST_TAIL));
        while tail.front().is_some_and(|written| written.at < oldest) {
            tail.pop_front();
        }
        tail.push_back(Written {
            at: now,
            name: name.clone(),
            before,
        });
    }

    /// A crash undoes the last writes. Their revisions are not reused, but versions that count by
    /// record are.
    pub(crate) fn lose_tail(&self, length: Duration) {
        let from = self.world.now().saturating_sub(nanos(length));
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let mut texts = self.texts();
        let mut reverted = Vec::new();
        while tail.back().is_some_and(|written| written.at >= from) {
            let Some(written) = tail.pop_back() else {
                break;
            };
            match written.before {
                Some(before) => texts.insert(written.name.clone(), before),
                None => texts.remove(&written.name),
            };
            if !reverted.contains(&written.name) {
                reverted.push(written.name);
            }
        }
        self.forgets_since(from);
        for name in reverted {
            self.chronicle.count(Transition::TailLost);
            let record = texts.get(&name).map(|(_, record)| record);
            let owner = record.map_or("", |record| Owner::without_mark(&record.owner));
            let reverted = Stored::Reverted(record.map(earlier));
            self.chronicle.stored(&name, owner, reverted);
        }
    }
}

fn earlier(record: &Record) -> Earlier {
    Earlier {
        token: record.fencing_token,
        from: record.locked_at.map_or(0, instant_of),
        until: instant_of(record.locked_until),
        is_released: Owner::is_released(&record.owner),
        slot: record.slots.last.map(Slot::as_micros),
        is_done: record.slots.last.is_some() && record.slots.done == record.slots.last,
        attempts: record.slots.attempts.unwrap_or(1),
    }
}
