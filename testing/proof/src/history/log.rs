//! Writes the logs.

use std::io::Write;
use std::path::Path;

use shedlock_core::{Clock as _, LockName, Moment, SystemClock};

use super::{Event, What, nanos};

/// The log of one process.
#[derive(Debug)]
pub struct Log(std::fs::File);

impl Log {
    /// Opens this file for appending, and creates it if it does not exist.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let mut options = std::fs::File::options();
        options.create(true).append(true).open(path).map(Self)
    }

    /// Writes what this process does at the current moment. The line survives if the process is
    /// killed, whether or not it is on disk.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&mut self, name: &LockName, owner: &str, what: What) -> std::io::Result<()> {
        self.write_at(SystemClock.now(), name, owner, what)
    }

    /// Writes what this process did at this moment.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_at(
        &mut self,
        moment: Moment,
        name: &LockName,
        owner: &str,
        what: What,
    ) -> std::io::Result<()> {
        self.append(&Event {
            at: nanos(moment.since_origin()),
            process: std::process::id(),
            name: name.to_string(),
            owner: owner.to_owned(),
            what,
        })
    }

    /// Writes an event that concerns a whole process, this one or another, at the current moment.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_of(&mut self, process: u32, what: What) -> std::io::Result<()> {
        self.write_of_at(SystemClock.now(), process, what)
    }

    /// Writes an event that concerned a whole process at this moment.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_of_at(&mut self, moment: Moment, process: u32, what: What) -> std::io::Result<()> {
        self.append(&Event {
            at: nanos(moment.since_origin()),
            process,
            name: String::new(),
            owner: String::new(),
            what,
        })
    }

    /// Writes an event of another process that keeps no log itself.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&mut self, event: &Event) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        // One write per line: a kill happens before it or after it.
        self.0.write_all(&line)
    }
}
