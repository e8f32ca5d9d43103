//! The events that the runtime reports about its locks.

use shedlock_core::{Event, Listener, LostReason};
use shedlock_proof::history::What;

use crate::chronicle::Chronicle;
use crate::transition::Transition;

/// Records and counts the events.
#[derive(Debug)]
pub(crate) struct Counting(pub(crate) Chronicle);

impl Listener for Counting {
    fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::Unlocked { lease, .. } => {
                self.0.did(lease.owner().as_str(), What::ReleaseReported);
            }
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
