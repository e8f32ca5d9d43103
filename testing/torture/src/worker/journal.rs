//! The log of a worker.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use shedlock_conformance::wait::now;
use shedlock_core::{Error, ErrorKind, LockName, Moment};
use shedlock_proof::Recorder;
use shedlock_proof::history::{Log, What};

/// The log of this process, shared by all of its tasks.
#[derive(Clone, Debug)]
pub(crate) struct Journal(Arc<Mutex<Log>>);

impl Journal {
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self(Arc::new(Mutex::new(Log::open(path)?))))
    }

    /// Logs what happened at this moment.
    pub(crate) fn write_at(
        &self,
        moment: Moment,
        name: &LockName,
        owner: &str,
        what: What,
    ) -> Result<(), Error> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.write_at(moment, name, owner, what).map_err(unwritten)
    }

    /// Logs what concerned this whole process at this moment.
    pub(crate) fn write_of_all(&self, moment: Moment, what: What) -> Result<(), Error> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.write_of_at(moment, std::process::id(), what)
            .map_err(unwritten)
    }
}

impl Recorder for Journal {
    fn write(&self, name: &LockName, owner: &str, what: What) -> Result<(), Error> {
        self.write_at(now(), name, owner, what)
    }
}

fn unwritten(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Internal, "the log cannot be written").with_source(error)
}
