//! A tick that has come.

use std::time::SystemTime;

use shedlock_core::Slot;

use crate::{MissedReason, Trigger};

#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) slot: Option<Slot>,
    pub(super) scheduled_at: SystemTime,
    pub(super) trigger: Trigger,
}

impl Due {
    pub(super) fn of_slot(slot: Slot, trigger: Trigger) -> Self {
        Self {
            slot: Some(slot),
            scheduled_at: slot.instant(),
            trigger,
        }
    }

    /// The same tick for another slot, which then is one that was missed.
    pub(super) fn at(self, slot: Slot) -> Self {
        if self.slot == Some(slot) {
            return self;
        }
        Self::of_slot(slot, Trigger::Missed)
    }

    pub(super) fn without_slot(scheduled_at: SystemTime, trigger: Trigger) -> Self {
        Self {
            slot: None,
            scheduled_at,
            trigger,
        }
    }

    pub(super) fn is_asked_for(&self) -> bool {
        matches!(self.trigger, Trigger::Start | Trigger::Now)
    }
}

/// What a tick that is being tried, or run, has to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Go,
    /// Between two slots of a job that runs in order, it ends and is to go on later: a run was asked
    /// for.
    MakeRoom,
    /// If it still waits for its lock, it ends.
    GiveUp(MissedReason),
    /// It ends, wherever it is.
    Cut,
}
