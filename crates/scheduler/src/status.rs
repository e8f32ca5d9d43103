//! The status of a job.

use std::time::SystemTime;

use shedlock_core::Slot;

/// The status of a job on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobStatus {
    /// The job.
    pub name: String,
    /// Its schedule, as it was written.
    pub schedule: String,
    /// Whether it is paused here.
    pub paused: bool,
    /// Whether a tick of it is being tried or run here.
    pub active: bool,
    /// When it is next due, jitter included. `None` while it is paused or has no next time, and for
    /// a fixed delay while its run is in progress.
    pub next: Option<SystemTime>,
    /// The newest slot that is known on this node to be used up, by this or another replica.
    pub last_slot: Option<Slot>,
}
