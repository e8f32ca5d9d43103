//! The report of a shutdown.

use shedlock_core::Slot;

use crate::Trigger;

/// What became of the runs that were in progress when the scheduler was asked to stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The runs that ended by themselves within the grace period.
    pub finished: Vec<StoppedRun>,
    /// The runs that were stopped when the grace period had passed.
    pub cut: Vec<StoppedRun>,
}

/// A run that was in progress when the scheduler was asked to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoppedRun {
    /// The job.
    pub job: String,
    /// Its slot.
    pub slot: Option<Slot>,
    /// Why it ran.
    pub trigger: Trigger,
    /// Whether its lock was given back. Otherwise the lock is free when `lock_at_most_for` has
    /// passed.
    pub unlocked: bool,
}
