//! A tick that is due.

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

    /// Returns the tick for this slot. If that is another slot, its trigger is `Missed`.
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

/// The instruction to a tick that is being tried or run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Go,
    /// Between two slots of a job that runs in order, the tick ends and continues later, because a
    /// run was requested.
    MakeRoom,
    /// The tick ends if it still waits for its lock.
    GiveUp(MissedReason),
    /// The tick ends, whatever its state.
    Cut,
}
