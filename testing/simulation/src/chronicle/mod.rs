//! What truly happened: the history for the judge, with the true time, and what is counted of it.

mod counting;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shedlock_core::{Error, LockName};
use shedlock_proof::Recorder;
use shedlock_proof::history::{Event, Stored, What};

use crate::transition::{Counts, Transition};
use crate::world::{Instant, World};
use counting::Counting;

/// Written by the store and the clients. Clones share one chronicle.
#[derive(Clone)]
pub(crate) struct Chronicle {
    world: World,
    book: Arc<Mutex<Book>>,
}

#[derive(Default)]
struct Book {
    history: Vec<Event>,
    counting: Counting,
    /// What is wrong with the run as a whole.
    complaint: Option<String>,
    /// What happened, in words, if a trace is requested.
    trace: Option<Vec<String>>,
    is_healed: bool,
    /// Whether the message that arrives at the store is a copy made by the network.
    is_copy: bool,
}

impl Chronicle {
    pub(crate) fn new(world: &World, is_traced: bool) -> Self {
        let book = Book {
            trace: is_traced.then(Vec::new),
            ..Book::default()
        };
        Self {
            world: world.clone(),
            book: Arc::new(Mutex::new(book)),
        }
    }

    /// Records an event of a process, or of the store if there is no process.
    pub(crate) fn write(&self, node: Option<usize>, name: &str, owner: &str, what: What) {
        let process = node.and_then(|node| u32::try_from(node + 1).ok());
        let event = Event {
            at: self.world.now(),
            process: process.unwrap_or(0),
            name: name.to_owned(),
            owner: owner.to_owned(),
            what,
        };
        let mut book = self.lock();
        book.note(event.at, || {
            let Event {
                process,
                name,
                owner,
                what,
                ..
            } = &event;
            format!("{process} {name} {owner}: {what:?}")
        });
        book.counting.see(&event);
        book.history.push(event);
    }

    /// Records a step of the store.
    pub(crate) fn stored(&self, name: &LockName, owner: &str, stored: Stored) {
        self.write(None, name.as_str(), owner, What::Stored(stored));
    }

    /// Records what happened to a process.
    pub(crate) fn happened_to(&self, node: usize, what: What) {
        self.write(Some(node), "", "", what);
    }

    /// Records what happened to this owner in its own process.
    pub(crate) fn did(&self, owner: &str, what: What) {
        let asked = self.lock().counting.asked_by(owner);
        if let Some((node, name)) = asked {
            self.write(Some(node), &name, owner, what);
        }
    }

    /// A task starts under the lock of this owner.
    pub(crate) fn starts(&self, owner: &str) -> Running {
        self.did(owner, What::Started);
        Running {
            chronicle: self.clone(),
            owner: owner.to_owned(),
        }
    }

    /// The history so far.
    pub(crate) fn history(&self) -> Vec<Event> {
        self.lock().history.clone()
    }

    /// All faults are repaired.
    pub(crate) fn heals(&self) {
        self.lock().is_healed = true;
    }

    pub(crate) fn is_healed(&self) -> bool {
        self.lock().is_healed
    }

    pub(crate) fn count(&self, transition: Transition) {
        self.lock().counting.counts.add(transition);
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().counting.counts.clone()
    }

    /// Records what is wrong with the run as a whole; the first complaint counts.
    pub(crate) fn complain(&self, what: String) {
        let now = self.world.now();
        let mut book = self.lock();
        book.note(now, || what.clone());
        book.complaint.get_or_insert(what);
    }

    pub(crate) fn complaint(&self) -> Option<String> {
        self.lock().complaint.clone()
    }

    pub(crate) fn trace(&self) -> Vec<String> {
        self.lock().trace.clone().unwrap_or_default()
    }

    /// Adds a line to the trace.
    pub(crate) fn note(&self, what: impl FnOnce() -> String) {
        let now = self.world.now();
        self.lock().note(now, what);
    }

    /// Sets whether the message that arrives now is a copy made by the network.
    pub(crate) fn carries_copy(&self, is_copy: bool) {
        self.lock().is_copy = is_copy;
    }

    /// Whether the message that arrives now is one.
    pub(crate) fn is_copy(&self) -> bool {
        self.lock().is_copy
    }

    /// Whether a node holds a lock whose lease has not ended.
    pub(crate) fn holds(&self, node: usize) -> bool {
        let now = self.world.now();
        self.lock().counting.held_by(node, now)
    }

    /// Whether all leases of a node expired while it was stopped.
    pub(crate) fn ran_out(&self, node: usize, since: Instant) -> bool {
        let now = self.world.now();
        let book = self.lock();
        book.counting.held_by(node, since) && !book.counting.held_by(node, now)
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn note(&mut self, now: Instant, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let at = Duration::from_nanos(now);
            trace.push(format!("{at:>18.6?}  {}", what()));
        }
    }
}

impl std::fmt::Debug for Chronicle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Chronicle")
    }
}

/// Records the calls of a node.
pub(crate) struct Calls {
    pub(crate) chronicle: Chronicle,
    pub(crate) node: usize,
}

impl Recorder for Calls {
    fn write(&self, name: &LockName, owner: &str, what: What) -> Result<(), Error> {
        let node = Some(self.node);
        self.chronicle.write(node, name.as_str(), owner, what);
        Ok(())
    }
}

/// A running task.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    chronicle: Chronicle,
    owner: String,
}

impl Running {
    /// The task does something that only the holder of the lock may do.
    pub(crate) fn works(&self) {
        self.chronicle.did(&self.owner, What::Step);
    }

    /// The task continues although it has been notified that its lease is lost.
    pub(crate) fn goes_on(&self) {
        self.chronicle.count(Transition::TaskWentOn);
    }
}
