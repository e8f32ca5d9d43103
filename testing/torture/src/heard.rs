//! Counts what the logs of workers contain while they are written.

use std::collections::BTreeMap;

use serde::Serialize;

use shedlock_proof::history::{Event, What};

/// How often each kind of event happened.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Heard {
    /// Attempts that were granted.
    pub(crate) acquisitions: usize,
    /// Attempts that were skipped.
    pub(crate) skips: usize,
    /// Attempts that failed and may have taken effect.
    pub(crate) unknown: usize,
    /// Attempts that failed and had no effect.
    pub(crate) failed: usize,
    /// Extensions and unlocks that failed.
    pub(crate) calls_failed: usize,
    /// Extensions that were granted.
    pub(crate) extensions: usize,
    /// Unlocks that succeeded.
    pub(crate) unlocks: usize,
    /// Extensions and unlocks that were lost.
    pub(crate) lost: usize,
    /// Pauses that hold a lock.
    pub(crate) pauses: usize,
    /// Pauses that took the lock from a holder.
    pub(crate) replaced: usize,
    /// Forced unlocks of a holder.
    pub(crate) forced: usize,
    /// Pauses that were ended.
    pub(crate) resumed: usize,
    /// Steps of tasks under their locks.
    pub(crate) steps: usize,
    /// Acquisitions of each lock.
    #[serde(skip)]
    pub(crate) by_name: BTreeMap<String, usize>,
}

impl Heard {
    /// Counts one event.
    pub(crate) fn hear(&mut self, event: &Event) {
        match event.what {
            What::Acquired { .. } => {
                self.acquisitions += 1;
                *self.by_name.entry(event.name.clone()).or_default() += 1;
            }
            What::Skipped { .. } => self.skips += 1,
            What::Unknown => self.unknown += 1,
            What::Failed => self.failed += 1,
            What::CallFailed => self.calls_failed += 1,
            What::Renewed { .. } => self.extensions += 1,
            What::Released => self.unlocks += 1,
            What::RenewLost | What::ReleaseLost => self.lost += 1,
            What::Step => self.steps += 1,
            What::ForceAsked => self.forced += 1,
            What::Paused { ref replaced, .. } => {
                self.pauses += 1;
                self.replaced += usize::from(replaced.is_some());
            }
            What::Resumed { .. } => self.resumed += 1,
            What::Asked { .. }
            | What::RenewAsked { .. }
            | What::ReleaseAsked
            | What::Withdrawn
            | What::Withdrew
            | What::Started
            | What::ReleaseReported
            | What::Stored(_)
            | What::SlotDone
            | What::SlotGivenBack { .. }
            | What::WallClock { .. }
            | What::StoreClock { .. }
            | What::PauseAsked { .. }
            | What::ResumeAsked { .. }
            | What::NotPaused
            | What::Forced
            | What::Succeeded
            | What::Stopped
            | What::GoesOn
            | What::IsOld
            | What::WayDisturbed { .. }
            | What::WayRestored
            | What::StoreTroubled
            | What::StoreRecovered
            | What::StoreKilled
            | What::StoreStarted => {}
        }
    }
}
