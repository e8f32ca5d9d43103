//! What an executor needs of a journal's writer.

use std::sync::Arc;

use super::{JobRegistration, Journal};
use crate::contract::{Listener, LockProvider};

/// Records the jobs and runs of executors in a journal, from their events. `JournalWriter` of
/// [`shedlock-journal`](https://docs.rs/shedlock-journal) is one; set it with
/// [`Executor::journal`](crate::Executor::journal).
///
/// It is called where tasks run, so it must be quick.
pub trait Recorder: Listener {
    /// Returns the journal.
    fn journal(&self) -> &Arc<dyn Journal>;

    /// Notes the store of the locks whose runs are recorded.
    fn note_locks(&self, provider: &Arc<dyn LockProvider>);

    /// Returns whether this job was registered.
    fn has_job(&self, job: &str) -> bool;

    /// Registers a job, or changes its schedule. Its deadline exists from now on, also if the job never
    /// runs. A scheduler calls it for its jobs.
    fn register(&self, registration: JobRegistration);

    /// Returns how many entries were not recorded.
    fn dropped(&self) -> u64;
}
