//! What many processes did with their locks, and whether that was lawful.
//!
//! Each process writes an [`Event`] before and after every call, a line of JSON each, so that the
//! log of a process that was killed is whole up to the kill. Whoever stops processes writes that
//! down too. [`History::judge`] puts the logs of all together. It accuses nobody without proof: a
//! lease is held for certain only from its answer to the earliest instant at which it can have ended,
//! and may be held from its request to the latest. All moments are of one machine's clock that goes on
//! during suspend.
//!
//! # ShedLock for Java among them
//!
//! What ShedLock asks and is told goes into the same logs, with its [`host`](What::Asked), and is judged
//! with ours: two that hold one lock at once are found out, whoever they are. Only what cannot hold by
//! ShedLock's own design is not asked of its leases, and of no others:
//!
//! | not asked of ShedLock's leases | because |
//! |---|---|
//! | fencing tokens, slots, times of the store | it knows none, and tells none |
//! | that an unlock or an extension after their end is refused | its unlock answers nothing, and both look at the host alone |
//! | that a lease lasts, by at-most or by at-least, where an earlier unlock of the same host that nobody answered may still be on its way | the host is the owner: it ends whichever lease the host has by then |
//! | that a lock comes free with the unlock, where an extension that nobody answered may still be on its way | it extends what at-least keeps, which names the host still |

mod event;
mod exclusion;
mod faults;
mod hosts;
mod judge;
mod lease;
mod limits;
mod log;
mod order;
mod pending;
mod skips;

use std::path::Path;
use std::time::Duration;

use shedlock_core::Moment;

pub use event::{Event, What};
pub use judge::{Findings, Rules};
pub use log::Log;

/// The events of all processes.
#[derive(Clone, Debug, Default)]
pub struct History {
    events: Vec<Event>,
}

impl History {
    /// From events in any order.
    pub fn new(mut events: Vec<Event>) -> Self {
        events.sort_by_key(|event| event.at);
        Self { events }
    }

    /// From all logs (`*.jsonl`) of a folder. A last line that a kill cut short is left out.
    ///
    /// # Errors
    /// Where the folder cannot be read, and for a line in the middle that is not an event.
    pub fn load(folder: &Path) -> std::io::Result<Self> {
        let mut events = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path
                .extension()
                .is_none_or(|extension| extension != "jsonl")
            {
                continue;
            }
            let text = std::fs::read_to_string(path)?;
            for line in text.split_inclusive('\n') {
                if line.ends_with('\n') {
                    events.push(serde_json::from_str(line)?);
                }
            }
        }
        Ok(Self::new(events))
    }

    /// What happened up to this moment. Of logs that are still written, and that were loaded after
    /// this moment, that much is whole: nothing in it follows from anything that is not.
    #[must_use]
    pub fn until(mut self, moment: Moment) -> Self {
        let last = nanos(moment.since_origin());
        self.events.retain(|event| event.at <= last);
        self
    }

    /// All events in the order in which they happened.
    pub fn events(&self) -> &[Event] {
        &self.events
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
