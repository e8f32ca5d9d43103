//! What many processes did with their locks, and whether that was lawful.
//!
//! Each process writes an [`Event`] before and after every call, a line of JSON each, so that the
//! log of a process that was killed is whole up to the kill. [`History::judge`] puts the logs of
//! all together. It accuses nobody without proof: a lease is held for certain only from its answer
//! to the earliest instant at which it can have ended, and may be held from its request to the
//! latest. All moments are of one machine's clock that goes on during suspend.

mod judge;
mod lease;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use shedlock_core::{AttemptRequest, Lease, Skip};

use crate::wait::now;

pub use judge::{Findings, Rules};

/// One line of a process's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Nanoseconds on the clock that goes on during suspend.
    pub at: u64,
    /// The lock.
    pub name: String,
    /// The owner: one attempt with all that follows from it.
    pub owner: String,
    /// What happened.
    pub what: What,
}

/// What happened, in nanoseconds where it has a length, in nanoseconds since 1970 where it is an
/// instant of the store's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The attempt is about to be sent.
    Asked {
        /// How long the lease would run.
        at_most: u64,
        /// How long the lock would be kept.
        at_least: u64,
        /// The slot, in microseconds since 1970.
        slot: Option<i64>,
    },
    /// The attempt was granted.
    Acquired {
        /// The fencing token.
        token: Option<u64>,
        /// When, by the store's clock.
        acquired_at: Option<u64>,
        /// Until when, by the store's clock.
        locked_until: Option<u64>,
    },
    /// The attempt was skipped.
    Skipped {
        /// Because the lock was held or kept; false for a slot that was taken.
        locked: bool,
    },
    /// The attempt failed and may have taken effect.
    Unknown,
    /// The attempt failed and had no effect.
    Failed,
    /// An extension is about to be sent.
    RenewAsked {
        /// How long the lease would run from then.
        at_most: u64,
    },
    /// The extension worked.
    Renewed {
        /// Until when, by the store's clock.
        locked_until: Option<u64>,
    },
    /// The extension was answered with "lost".
    RenewLost,
    /// An unlock is about to be sent.
    ReleaseAsked,
    /// The unlock worked.
    Released,
    /// The unlock was answered with "lost".
    ReleaseLost,
    /// An extension or an unlock failed; it may have taken effect.
    CallFailed,
}

impl What {
    /// An attempt about to be sent.
    pub fn asked(request: &AttemptRequest) -> Self {
        Self::Asked {
            at_most: nanos(request.lock_at_most_for()),
            at_least: nanos(request.lock_at_least_for()),
            slot: request.slot().map(shedlock_core::Slot::as_micros),
        }
    }

    /// A granted attempt.
    pub fn acquired(lease: &Lease) -> Self {
        Self::Acquired {
            token: lease.fencing_token(),
            acquired_at: lease.acquired_at().map(since_1970),
            locked_until: lease.locked_until().map(since_1970),
        }
    }

    /// A granted extension.
    pub fn renewed(lease: &Lease) -> Self {
        Self::Renewed {
            locked_until: lease.locked_until().map(since_1970),
        }
    }

    /// A skipped attempt.
    pub fn skipped(skip: &Skip) -> Self {
        Self::Skipped {
            locked: matches!(
                skip.reason,
                shedlock_core::SkipReason::Held | shedlock_core::SkipReason::AtLeast
            ),
        }
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn since_1970(instant: SystemTime) -> u64 {
    nanos(instant.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// The log of one process.
#[derive(Debug)]
pub struct Log(std::fs::File);

impl Log {
    /// A log at the end of this file, which is made if it is not there.
    ///
    /// # Errors
    /// Where the file cannot be opened.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let mut options = std::fs::File::options();
        options.create(true).append(true).open(path).map(Self)
    }

    /// Writes what happened just now. On disk or not, the line outlives a killed process.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(&mut self, request: &AttemptRequest, what: What) -> std::io::Result<()> {
        let event = Event {
            at: nanos(now().since_origin()),
            name: request.name().to_string(),
            owner: request.owner().to_string(),
            what,
        };
        let mut line = serde_json::to_vec(&event)?;
        line.push(b'\n');
        // One write a line: a kill falls before it or after it.
        self.0.write_all(&line)
    }
}

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

    /// From all logs of a folder. A last line that a kill cut short is left out.
    ///
    /// # Errors
    /// Where the folder cannot be read, and for a line in the middle that is not an event.
    pub fn load(folder: &Path) -> std::io::Result<Self> {
        let mut events = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let text = std::fs::read_to_string(entry?.path())?;
            for line in text.split_inclusive('\n') {
                if line.ends_with('\n') {
                    events.push(serde_json::from_str(line)?);
                }
            }
        }
        Ok(Self::new(events))
    }

    /// All events in the order in which they happened.
    pub fn events(&self) -> &[Event] {
        &self.events
    }
}

/// A folder for logs that goes with its value, unless it is kept for a person to look at.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    kept: bool,
}

impl Folder {
    pub(crate) fn new() -> std::io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let unique = format!(
            "shedlock-history-{}-{}-{number}",
            std::process::id(),
            nanos(now().since_origin()),
        );
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir(&path)?;
        Ok(Self { path, kept: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.kept {
            // Nothing depends on it; the system clears its folder for temporary files.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
