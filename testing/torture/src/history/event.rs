//! A line of a log.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use shedlock_core::{AttemptRequest, Lease, Skip, SkipReason};

use super::nanos;

/// One line of a process's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Nanoseconds on the clock that goes on during suspend.
    pub at: u64,
    /// The process that did it, or that it was done to.
    pub process: u32,
    /// The lock; empty for what concerns the whole process.
    pub name: String,
    /// The owner: one attempt with all that follows from it; empty for what concerns the whole
    /// process.
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
        /// How often the slot may be run where it stays open until it is done.
        slot_attempts: Option<u32>,
        /// Where ShedLock for Java asks: the host that it writes as owner.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// How long the attempt may be on its way.
        #[serde(default = "default_timeout")]
        timeout: u64,
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
        /// Because the lock was held or kept.
        locked: bool,
        /// Because the slot, or a later one, was taken.
        slot_taken: bool,
        /// The owner whose lease runs, as the record names it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
        /// Until when that lease runs, by the store's clock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
    },
    /// The attempt failed and may have taken effect.
    Unknown,
    /// The attempt failed and had no effect.
    Failed,
    /// The attempt is about to be withdrawn: nobody waits for what it may have won.
    Withdrawn,
    /// The withdrawal was answered: whatever the attempt had won by then is free.
    Withdrew,
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
    /// A task under the lock, which must not outlive the lease, does something.
    Step,
    /// The unlock that follows will say that the slot is done.
    SlotDone,
    /// The unlock or the withdrawal that follows will say that nothing ran, or that a shutdown cut the
    /// run: the attempt at the slot does not count.
    SlotGivenBack {
        /// Whether nothing ran: then a slot that is used up when it is taken is given back too.
        unused: bool,
    },
    /// An unlock is about to be sent.
    ReleaseAsked,
    /// The unlock worked.
    Released,
    /// The unlock was answered with "lost".
    ReleaseLost,
    /// An extension or an unlock failed; it may have taken effect.
    CallFailed,
    /// The process looks at its wall clock, at its start and where it is not as before.
    WallClock {
        /// What it shows, in nanoseconds since 1970.
        shows: u64,
    },
    /// The process is about to be stopped from outside, as by SIGSTOP.
    Stopped,
    /// The process was let go on.
    GoesOn,
    /// The process runs an earlier version, whose attempts are not bounded by a timeout.
    IsOld,
    /// The way of the process to the store is about to be disturbed.
    WayDisturbed {
        /// How long a request may be held up after the way is restored.
        delay: u64,
    },
    /// The way of the process to the store was restored.
    WayRestored,
    /// The store is about to get into fault: requests may wait in it.
    StoreTroubled,
    /// The store's trouble is over.
    StoreRecovered,
    /// The store is about to be killed.
    StoreKilled,
    /// The store was started again, and answers.
    StoreStarted,
}

fn default_timeout() -> u64 {
    nanos(AttemptRequest::DEFAULT_TIMEOUT)
}

impl What {
    /// An attempt about to be sent.
    pub fn asked(request: &AttemptRequest) -> Self {
        Self::Asked {
            at_most: nanos(request.lock_at_most_for()),
            at_least: nanos(request.lock_at_least_for()),
            slot: request.slot().map(shedlock_core::Slot::as_micros),
            slot_attempts: request
                .slot()
                .and(request.completion().retries())
                .map(shedlock_core::Retries::get_max_attempts),
            host: None,
            timeout: nanos(request.timeout()),
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
        let is_held = skip.reason == SkipReason::Held;
        Self::Skipped {
            locked: is_held || skip.reason == SkipReason::AtLeast,
            slot_taken: matches!(skip.reason, SkipReason::SlotTaken | SkipReason::SlotGivenUp),
            holder: skip.owner.clone().filter(|_| is_held),
            until: skip.until.map(since_1970).filter(|_| is_held),
        }
    }
}

fn since_1970(instant: SystemTime) -> u64 {
    nanos(instant.duration_since(UNIX_EPOCH).unwrap_or_default())
}
