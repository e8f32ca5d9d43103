//! What a process knows.

/// A process that wants the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) skew: i8,
    pub(crate) is_shedlock: bool,
    pub(crate) is_stopped: bool,
    /// How many acquisitions it has begun.
    pub(crate) begun: u8,
    pub(crate) phase: Phase,
}

/// What it is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// It does not want the lock.
    Idle,
    /// It has asked for it and knows of no answer.
    Asking {
        slot: Option<i8>,
        first_asked: i8,
        last_asked: i8,
        asked: u8,
    },
    /// Its task runs, until this instant by its own steady clock at the latest.
    Running { ends: i8, is_extended: bool },
}

impl Client {
    pub(crate) fn new(skew: i8, is_shedlock: bool) -> Self {
        Self {
            skew,
            is_shedlock,
            is_stopped: false,
            begun: 0,
            phase: Phase::Idle,
        }
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
