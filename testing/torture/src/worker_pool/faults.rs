//! Faults of the workers, their connections and their store, logged for the judge.

use std::time::Duration;

use shedlock_conformance::{Verdict, child};

use super::WorkerPool;
use shedlock_proof::history::{What, nanos};

impl WorkerPool {
    /// Stops a worker (SIGSTOP).
    pub(crate) fn stop_process(&mut self, number: usize) -> Verdict {
        let process = self.process(number);
        // Logged before the stop, so that nothing later is judged as if the process was running.
        if let Some(process) = process {
            self.log.write_of(process, What::Stopped)?;
        }
        child::stop(process)
    }

    /// Resumes a worker (SIGCONT).
    pub(crate) fn let_go_on(&mut self, number: usize) -> Verdict {
        let process = self.process(number);
        child::go_on(process)?;
        if let Some(process) = process {
            self.log.write_of(process, What::GoesOn)?;
        }
        Ok(())
    }

    /// Logs what is done to the store.
    pub(crate) fn note_of_store(&mut self, what: What) -> Verdict {
        Ok(self.log.write_of(0, what)?)
    }

    /// Logs that the connection of this worker and its replacements is about to be disturbed, and
    /// for how long a request may be held up once it is restored.
    pub(crate) fn way_disturbed(&mut self, number: usize, delay: Duration) -> Verdict {
        let delay = nanos(delay);
        self.disturbed.insert(number, delay);
        self.note_of(number, What::WayDisturbed { delay })
    }

    /// Logs that the connection is restored.
    pub(crate) fn way_restored(&mut self, number: usize) -> Verdict {
        self.disturbed.remove(&number);
        self.note_of(number, What::WayRestored)
    }

    pub(super) fn note_of(&mut self, number: usize, what: What) -> Verdict {
        if let Some(process) = self.process(number) {
            self.log.write_of(process, what)?;
        }
        Ok(())
    }
}
