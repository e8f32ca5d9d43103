//! What is done to the workers, their ways and their store, written down for the judge.

use std::time::Duration;

use shedlock_conformance::{Verdict, child};

use super::WorkerPool;
use crate::history::{What, nanos};

impl WorkerPool {
    /// Stops one of them (SIGSTOP).
    pub(crate) fn stop_process(&mut self, number: usize) -> Verdict {
        let process = self.process(number);
        // Before it is: nothing that it does later is judged as if it ran.
        if let Some(process) = process {
            self.log.write_of(process, What::Stopped)?;
        }
        child::stop(process)
    }

    /// Lets it go on (SIGCONT).
    pub(crate) fn let_go_on(&mut self, number: usize) -> Verdict {
        let process = self.process(number);
        child::go_on(process)?;
        if let Some(process) = process {
            self.log.write_of(process, What::GoesOn)?;
        }
        Ok(())
    }

    /// Writes down what is done to the store.
    pub(crate) fn note_of_store(&mut self, what: What) -> Verdict {
        Ok(self.log.write_of(0, what)?)
    }

    /// Writes down that the way of this worker, and of whoever replaces it, is about to be disturbed,
    /// and for how long a request may be held up once it is restored.
    pub(crate) fn way_disturbed(&mut self, number: usize, delay: Duration) -> Verdict {
        let delay = nanos(delay);
        self.disturbed.insert(number, delay);
        self.note_of(number, What::WayDisturbed { delay })
    }

    /// Writes down that it is restored.
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
