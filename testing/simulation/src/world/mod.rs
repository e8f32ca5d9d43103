//! The world's time, and the events that are scheduled in it.

mod clock;
mod network;
mod node;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) use clock::NodeClock;
pub(crate) use network::{Faults, Link, Network};
pub(crate) use node::Node;

/// The true time: nanoseconds since the world's beginning.
pub(crate) type Instant = u64;

/// The position of an event: its instant, and its order among the events of that instant.
pub(crate) type Place = (Instant, u64);

/// What happens at an instant.
pub(crate) enum Event {
    /// A timer of a node fires.
    Wake(usize, Waker),
    /// A message arrives: at the store, or at this node.
    Arrive(Option<usize>, Box<dyn FnOnce() + Send>),
    /// The world does something to a node or to the store.
    Strike(Strike),
}

/// What the world does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strike {
    /// The process is killed.
    Crash(usize),
    /// The process is started again.
    Restart(usize),
    /// The process is stopped, as by SIGSTOP.
    Stop(usize),
    /// The process is stopped just after it has sent a request.
    StopInCall(usize),
    /// The process is resumed.
    Resume(usize),
    /// The process is shut down, and started again later.
    Retire(usize),
    /// The node's wall clock is set.
    Jump(usize),
    /// The node is cut off from the store.
    Part(usize),
    /// The node is connected to the store again.
    Join(usize),
    /// The store goes down.
    StoreDown,
    /// The store is up again.
    StoreUp,
    /// An operator frees a lock by force.
    Force,
    /// An operator deletes a record.
    Delete,
    /// All faults are repaired, and no new ones occur.
    Heal,
}

/// The calendar at the world's beginning: 2030-01-01 00:00:00 UTC.
const BEGINNING: Duration = Duration::from_secs(1_893_456_000);

/// The single queue of all future events. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct World(Arc<Mutex<Time>>);

#[derive(Default)]
struct Time {
    now: Instant,
    next: u64,
    events: BTreeMap<Place, Event>,
    /// A hash of everything that has happened.
    fingerprint: u64,
}

impl World {
    pub(crate) fn now(&self) -> Instant {
        self.lock().now
    }

    /// The true calendar.
    pub(crate) fn calendar(&self) -> SystemTime {
        calendar_at(self.now())
    }

    /// Schedules an event, no earlier than now.
    pub(crate) fn set(&self, at: Instant, event: Event) -> Place {
        let mut time = self.lock();
        time.next += 1;
        let place = (at.max(time.now), time.next);
        time.events.insert(place, event);
        place
    }

    pub(crate) fn after(&self, delay: Duration, event: Event) -> Place {
        self.set(self.now().saturating_add(nanos(delay)), event)
    }

    pub(crate) fn cancel(&self, place: Place) {
        let event = self.lock().events.remove(&place);
        // The value it owns may access this queue when it is dropped.
        drop(event);
    }

    /// Makes a timer wake another task.
    pub(crate) fn rewake(&self, place: Place, waker: &Waker) {
        if let Some(Event::Wake(_, known)) = self.lock().events.get_mut(&place) {
            known.clone_from(waker);
        }
    }

    /// Returns the next event up to this instant, and moves the time to it; otherwise moves the
    /// time to this instant.
    pub(crate) fn next(&self, until: Instant) -> Option<Event> {
        let mut time = self.lock();
        let due = time
            .events
            .first_key_value()
            .is_some_and(|(place, _)| place.0 <= until);
        if !due {
            time.now = time.now.max(until);
            return None;
        }
        let ((at, number), event) = time.events.pop_first()?;
        time.now = at;
        let kind = match &event {
            Event::Wake(node, _) => *node as u64,
            Event::Arrive(node, _) => 100 + node.map_or(99, |node| node as u64),
            Event::Strike(_) => 300,
        };
        for word in [at, number, kind] {
            time.fingerprint = (time.fingerprint ^ word).wrapping_mul(0x0100_0000_01b3);
        }
        Some(event)
    }

    /// Two runs with the same fingerprint are identical.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.lock().fingerprint
    }

    fn lock(&self) -> MutexGuard<'_, Time> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "World({})", self.now())
    }
}

pub(crate) fn calendar_at(instant: Instant) -> SystemTime {
    UNIX_EPOCH + BEGINNING + Duration::from_nanos(instant)
}

/// The instant at which the true calendar shows this.
pub(crate) fn instant_of(calendar: SystemTime) -> Instant {
    let since = calendar.duration_since(UNIX_EPOCH + BEGINNING);
    since.map_or(0, nanos)
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
