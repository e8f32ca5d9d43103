//! One line of a log.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use shedlock_core::{
    AttemptRequest, Lease, LockState, Pause, PauseRequest, Paused, Resumed, Skip, SkipReason, Slot,
};

use super::{Stored, nanos};

/// One line of a process's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Nanoseconds on the clock that keeps running while the machine is suspended.
    pub at: u64,
    /// The process that acted, or that was acted upon.
    pub process: u32,
    /// The lock; empty if the event concerns the whole process.
    pub name: String,
    /// The owner: one attempt with everything that follows from it; empty if the event concerns the
    /// whole process.
    pub owner: String,
    /// What happened.
    pub what: What,
}

/// What happened. Durations are in nanoseconds; instants of the store are in nanoseconds since
/// 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The attempt is about to be sent.
    Asked {
        /// The requested length of the lease.
        at_most: u64,
        /// How long the lock is to be kept.
        at_least: u64,
        /// The slot, in microseconds since 1970.
        slot: Option<i64>,
        /// How often the slot may be run, if it stays open until it is done.
        slot_attempts: Option<u32>,
        /// The host that ShedLock writes as owner, if the attempt is one of ShedLock for Java.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// The timeout of the attempt.
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
        /// The lock was held or kept.
        locked: bool,
        /// The slot, or a later one, was taken.
        slot_taken: bool,
        /// The owner of the running lease, as the record names it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
        /// The end of that lease, by the store's clock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
    },
    /// The attempt failed and may have taken effect.
    Unknown,
    /// The attempt failed and had no effect.
    Failed,
    /// The attempt is about to be withdrawn: no one uses what it may have won.
    Withdrawn,
    /// The withdrawal succeeded: whatever the attempt had won is free.
    Withdrew,
    /// An extension is about to be sent.
    RenewAsked {
        /// The requested length of the lease from then on.
        at_most: u64,
    },
    /// The extension succeeded.
    Renewed {
        /// Until when, by the store's clock.
        locked_until: Option<u64>,
    },
    /// The extension returned "lost".
    RenewLost,
    /// A pause is about to be sent. The owner is the pause.
    PauseAsked {
        /// How long it lasts unless it is resumed.
        lasts: u64,
        /// Whether it takes the lock from a holder.
        replaces_holder: bool,
        /// How long its caller waits for a reply. Then nothing more is sent.
        timeout: u64,
    },
    /// The pause holds the lock.
    Paused {
        /// Until when, by the store's clock.
        until: u64,
        /// Whether this call made the pause. Otherwise it may have found its own.
        is_new: bool,
        /// The holder that lost the lock to this call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaced: Option<String>,
    },
    /// A resumption is about to be sent. The owner is the call.
    ResumeAsked {
        /// Whether slots of the pause are to run.
        catches_up: bool,
        /// How long its caller waits for a reply. Then nothing more is sent.
        timeout: u64,
    },
    /// The resumption ended a pause.
    Resumed {
        /// The pause.
        pause: String,
    },
    /// The resumption found no pause.
    NotPaused,
    /// A forced unlock freed the lock from this pause, which it must not do.
    Forced,
    /// A forced unlock of this owner's lease is about to be sent.
    ForceAsked,
    /// The runtime reports that the task of this owner ran under the lock to its end and succeeded, and that it gave the
    /// lock back.
    Succeeded,
    /// A task begins under the lock.
    Started,
    /// A task under the lock does something. It must not do so after its lease ends.
    Step,
    /// The unlock that follows reports the slot as done.
    SlotDone,
    /// The unlock or withdrawal that follows reports that nothing ran or that a shutdown cut the
    /// run: this attempt at the slot does not count.
    SlotGivenBack {
        /// Whether nothing ran: then even a slot that is used up when taken is given back.
        unused: bool,
    },
    /// An unlock is about to be sent.
    ReleaseAsked,
    /// The unlock succeeded.
    Released,
    /// The unlock returned "lost".
    ReleaseLost,
    /// The holder was notified that its lock was given back.
    ReleaseReported,
    /// An extension or an unlock failed; it may have taken effect.
    CallFailed,
    /// The process reads its wall clock, at its start and whenever the clock has jumped.
    WallClock {
        /// The clock's value, in nanoseconds since 1970.
        shows: u64,
    },
    /// The store's clock was read, by which slots are due. It may have been up to a second later.
    StoreClock {
        /// The clock's value, in nanoseconds since 1970.
        shows: u64,
    },
    /// The process is about to be stopped from outside, as by SIGSTOP.
    Stopped,
    /// The process was resumed.
    GoesOn,
    /// The process runs an earlier version, whose attempts are not bounded by a timeout.
    IsOld,
    /// The process's connection to the store is about to be disturbed.
    WayDisturbed {
        /// How long a request may be held up after the connection is restored.
        delay: u64,
    },
    /// The process's connection to the store was restored.
    WayRestored,
    /// A fault of the store is about to begin: requests may wait in it.
    StoreTroubled,
    /// The fault of the store has ended.
    StoreRecovered,
    /// The store is about to be killed.
    StoreKilled,
    /// The store was started again and accepts requests.
    StoreStarted,
    /// The store itself did this.
    Stored(Stored),
}

fn default_timeout() -> u64 {
    nanos(AttemptRequest::DEFAULT_TIMEOUT)
}

impl What {
    /// An attempt about to be sent.
    pub fn asked(request: &AttemptRequest) -> Self {
        Self::Asked {
            at_most: nanos(request.lock_at_most_for),
            at_least: nanos(request.lock_at_least_for),
            slot: request.slot.map(shedlock_core::Slot::as_micros),
            slot_attempts: request
                .slot
                .and(request.completion.retries())
                .map(shedlock_core::Retries::get_max_attempts),
            host: None,
            timeout: nanos(request.timeout),
        }
    }

    /// The reading of the store's clock from which the first slot was taken, which is this long
    /// before.
    pub fn store_clock(first: Slot, ago: Duration) -> Self {
        let shows = first.instant() + ago;
        Self::StoreClock {
            shows: since_1970(shows),
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

    /// A pause about to be sent, which lasts this long.
    pub fn pause_asked(request: &PauseRequest, lasts: Duration, timeout: Duration) -> Self {
        Self::PauseAsked {
            lasts: nanos(lasts),
            replaces_holder: request.replaces_holder,
            timeout: nanos(timeout),
        }
    }

    /// The answer to a pause. One that waits for a task is skipped like an attempt.
    pub fn paused(answer: &Paused) -> Self {
        match answer {
            Paused::Done { before, until, .. } => Self::Paused {
                until: since_1970(*until),
                is_new: before.is_some(),
                replaced: before
                    .as_ref()
                    .filter(|record| record.state == LockState::Held)
                    .and_then(|record| record.owner.clone()),
            },
            Paused::Held(record) => Self::skipped(&record.as_skip()),
            _ => Self::Unknown,
        }
    }

    /// The answer to a resumption.
    pub fn resumed(answer: &Resumed) -> Self {
        match answer {
            // It may also have found only what a pause that is over has left.
            Resumed::Resumed(before) => Self::Resumed {
                pause: before.pause().map_or("", |pause| pause.id()).to_owned(),
            },
            Resumed::NotPaused(_) => Self::NotPaused,
            _ => Self::Unknown,
        }
    }

    /// A skipped attempt.
    pub fn skipped(skip: &Skip) -> Self {
        let is_held = matches!(skip.reason, SkipReason::Held | SkipReason::Paused);
        Self::Skipped {
            locked: is_held || skip.reason == SkipReason::AtLeast,
            slot_taken: matches!(skip.reason, SkipReason::SlotTaken | SkipReason::SlotGivenUp),
            holder: skip.owner.as_deref().filter(|_| is_held).map(named),
            until: skip.until.map(since_1970).filter(|_| is_held),
        }
    }
}

/// An owner as histories name it: a pause without its reason and without what it keeps, which its request does not know.
fn named(owner: &str) -> String {
    let id = Pause::parse(owner).map_or(owner, |pause| pause.id());
    id.to_owned()
}

fn since_1970(instant: SystemTime) -> u64 {
    nanos(instant.duration_since(UNIX_EPOCH).unwrap_or_default())
}
