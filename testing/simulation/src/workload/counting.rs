//! The events that the runtime reports about its locks.

use shedlock_core::{Event, Listener, LostReason};

use crate::ledger::Ledger;
use crate::transition::Transition;

/// Counts the events, and checks them against the ledger.
#[derive(Debug)]
pub(crate) struct Counting(pub(crate) Ledger);

impl Listener for Counting {
    fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::Unlocked { lease, .. } => self.0.was_released(lease.owner().as_str()),
            Event::Lost { lease, reason, .. } => {
                let owner = lease.owner();
                self.0.note(|| format!("{owner} lost its lease: {reason}"));
                self.0.count(match reason {
                    LostReason::NotHeldInStore => Transition::LostInStore,
                    LostReason::RanTooLong => Transition::RanTooLong,
                    _ => Transition::LostAtDeadline,
                });
            }
            _ => {}
        }
    }
}
