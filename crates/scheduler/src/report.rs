//! What a shutdown found and did.

use shedlock_core::Slot;

use crate::Trigger;

/// What became of the runs that were going on when the scheduler was told to stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Ended by themselves within the grace time.
    pub finished: Vec<StoppedRun>,
    /// Stopped when it was over.
    pub cut: Vec<StoppedRun>,
}

/// A run that was going on when the scheduler was told to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoppedRun {
    /// The job.
    pub job: String,
    /// Its slot.
    pub slot: Option<Slot>,
    /// Why it ran.
    pub trigger: Trigger,
    /// Whether its lock was given back; otherwise it is free when lock_at_most_for is over.
    pub unlocked: bool,
}
