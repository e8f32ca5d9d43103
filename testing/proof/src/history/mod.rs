//! What many processes did with their locks, and whether that was lawful.
//!
//! Each process writes an [`Event`] before and after every call, as a line of JSON, so the log of a
//! killed process is complete up to the kill. A process that stops others writes that down as well.
//! [`History::judge`] merges all logs. It reports a violation only if there is proof: a lease is
//! certainly held only from its reply to the earliest instant at which it can have ended, and is
//! possibly held from its request to the latest. All moments are from one machine's clock, which
//! keeps running while the machine is suspended.
//!
//! If the store writes a log of its own steps, on the same clock, then these are judged instead of
//! what can be concluded from the calls: exactly, with no tolerance but the one that the rules name.
//! The simulation's store does.
//!
//! # ShedLock for Java among them
//!
//! ShedLock's requests and their results go into the same logs, with its [`host`](What::Asked), and
//! are judged in the same way: two owners that hold one lock at the same time are found, whoever
//! they are. A check is dropped only for ShedLock's own leases, and only if ShedLock's design
//! cannot satisfy it:
//!
//! | not checked for ShedLock's leases | because |
//! |---|---|
//! | fencing tokens, slots, times of the store | ShedLock has none of them and returns none |
//! | that an unlock or an extension after their end is refused | its unlock returns no result, and both compare only the host |
//! | that a lease lasts, by at-most or at-least, while an earlier unanswered unlock of the same host may still be in flight | the host is the owner: the unlock ends whichever lease the host has at that time |
//! | that an unlock frees the lock while an unanswered extension may still be in flight | it extends a lock kept by at-least, whose record still names the host |

mod event;
mod exact;
mod exclusion;
mod faults;
mod hosts;
mod judge;
mod lease;
mod limits;
mod log;
mod order;
mod pauses;
mod pending;
mod skips;
mod stored;
mod withdrawals;

use std::path::Path;
use std::time::Duration;

use shedlock_core::Moment;

pub use event::{Event, What};
pub use judge::{Findings, LAWS, Rules};
pub use log::Log;
pub use stored::{Earlier, Stored};

/// The events of all processes.
#[derive(Clone, Debug, Default)]
pub struct History {
    events: Vec<Event>,
}

impl History {
    /// Creates a history from events in any order.
    pub fn new(mut events: Vec<Event>) -> Self {
        events.sort_by_key(|event| event.at);
        Self { events }
    }

    /// Loads all logs (`*.jsonl`) of a folder. A last line that a kill cut short is ignored.
    ///
    /// # Errors
    /// If the folder cannot be read, or if a line before the last is not an event.
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

    /// Returns the events up to this moment. If the logs are still being written and were loaded
    /// after this moment, that part is complete: nothing in it depends on a missing event.
    #[must_use]
    pub fn until(mut self, moment: Moment) -> Self {
        let last = nanos(moment.since_origin());
        self.events.retain(|event| event.at <= last);
        self
    }

    /// Returns all events in the order in which they happened.
    pub fn events(&self) -> &[Event] {
        &self.events
    }
}

/// The duration in whole nanoseconds.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The duration in whole milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
