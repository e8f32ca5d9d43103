//! Follows the log of a running process.

use std::fs::File;
use std::io::Read;

use shedlock_conformance::Stop;

use shedlock_proof::history::{Event, What};

/// A log that is still being written.
pub(super) struct Tail {
    file: File,
    rest: Vec<u8>,
    /// Whether its process holds a lock according to the log, as a worker or with a pause.
    pub(super) holds: bool,
}

impl Tail {
    pub(super) fn new(file: File) -> Self {
        Self {
            file,
            rest: Vec::new(),
            holds: false,
        }
    }

    /// Returns what was written since the last call.
    pub(super) fn read(&mut self) -> Result<Vec<Event>, Stop> {
        self.file.read_to_end(&mut self.rest)?;
        let mut events = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let event: Event = serde_json::from_slice(&line)?;
            self.holds = matches!(
                event.what,
                What::Acquired { .. }
                    | What::Renewed { .. }
                    | What::RenewAsked { .. }
                    | What::Step
                    | What::PauseAsked { .. }
                    | What::Paused { .. }
                    | What::ResumeAsked { .. }
            );
            events.push(event);
        }
        Ok(events)
    }
}
