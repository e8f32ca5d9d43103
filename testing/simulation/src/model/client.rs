//! The state of a client.

use crate::Ending;
use crate::model::message::Call;
use crate::model::record::Record;

/// A process that wants the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) skew: i8,
    pub(crate) is_shedlock: bool,
    pub(crate) is_stopped: bool,
    /// How many acquisitions it has begun.
    pub(crate) begun: u8,
    pub(crate) phase: Phase,
    /// The record as it last wrote it, if it replaces records.
    pub(crate) known: Option<Record>,
    /// The latest end of its lease that the store returned.
    pub(crate) told: i8,
    /// Its acquisitions that have ended for good, one bit for each.
    pub(crate) settled: u8,
}

/// What it is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// It does not want the lock.
    Idle,
    /// It has attempted the lock and has no reply yet.
    Asking {
        slot: Option<i8>,
        first_asked: i8,
        last_asked: i8,
        asked: u8,
    },
    /// Its task runs, at the latest until `ends` by its own monotonic clock. A copy of its attempt
    /// whose reply was lost may arrive until `strays`.
    Running {
        ends: i8,
        extended: u8,
        strays: Option<i8>,
    },
    /// Its task has ended, and it has sent the unlock.
    Unlocking {
        ending: Ending,
        strays: Option<i8>,
        asked: u8,
    },
    /// It withdraws what it may have won, and does so once more after the bound.
    Withdrawing { bound: i8, asked: u8 },
}

impl Client {
    pub(crate) fn new(skew: i8, is_shedlock: bool) -> Self {
        Self {
            skew,
            is_shedlock,
            is_stopped: false,
            begun: 0,
            phase: Phase::Idle,
            known: None,
            told: i8::MIN,
            settled: 0,
        }
    }

    /// Begins another acquisition.
    pub(crate) fn begin(&mut self, slot: Option<i8>, now: i8) {
        self.begun += 1;
        self.known = None;
        self.told = i8::MIN;
        self.phase = Phase::Asking {
            slot,
            first_asked: now,
            last_asked: now,
            asked: 1,
        };
    }

    /// Its acquisition has ended, and no part of it may hold the lock any more.
    pub(crate) fn settle(&mut self) {
        self.settled |= 1 << self.begun;
        self.forget();
    }

    /// It continues without finding out how its acquisition ended.
    pub(crate) fn forget(&mut self) {
        self.phase = Phase::Idle;
        self.known = None;
        self.told = i8::MIN;
    }

    pub(crate) fn is_settled(&self, acquisition: u8) -> bool {
        self.settled & (1 << acquisition) != 0
    }

    /// Whether its task does something at this instant.
    pub(crate) fn runs_at(&self, now: i8) -> bool {
        !self.is_stopped && matches!(self.phase, Phase::Running { ends, .. } if now < ends)
    }

    /// Whether its task has to end before any more time passes.
    pub(crate) fn must_end_at(&self, now: i8) -> bool {
        !self.is_stopped && matches!(self.phase, Phase::Running { ends, .. } if now >= ends)
    }
}

impl Phase {
    /// Repeats the call that got no reply.
    pub(crate) fn ask_again(&mut self, now: i8, answers: bool) -> Option<Call> {
        match self {
            Self::Asking {
                slot,
                last_asked,
                asked,
                ..
            } => {
                (*last_asked, *asked) = (now, *asked + 1);
                let copy = if answers { *asked } else { 0 };
                Some(Call::Attempt { slot: *slot, copy })
            }
            Self::Unlocking { ending, asked, .. } => {
                *asked += 1;
                Some(Call::Unlock { ending: *ending })
            }
            _ => None,
        }
    }
}
