//! Starts workers.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use shedlock_conformance::{Stop, child};
use tokio::process::Child;

use super::tail::Tail;
use super::{ERRORS, Worker, WorkerPool};
use crate::jvm::Driver;
use crate::worker::{self, WorkerSpec};
use shedlock_proof::Mistake;
use shedlock_proof::history::What;

/// The file of what the worker with this log writes to its standard error.
fn errors(log: &Path) -> PathBuf {
    log.with_extension(ERRORS)
}

impl WorkerPool {
    /// Starts this worker or its replacement.
    pub(super) fn worker(&mut self, number: usize) -> Result<Worker, Stop> {
        let mut spec = self.spec.clone();
        spec.log = self.folder.path().join(format!("{}.jsonl", self.started));
        spec.operates = self.is_operator(number);
        spec.seed = self.rng.number();
        self.started += 1;
        // The log exists before its writer, so that it can be followed from the beginning.
        File::create(&spec.log)?;
        let log = Tail::new(File::open(&spec.log)?);
        let via = self.ways.get(&number).copied();
        let (process, driver) = if self.shedlocks.contains(&number) {
            let (process, driver) = self.shedlock(spec, via)?;
            (process, Some(driver))
        } else {
            (self.own(number, &spec, via)?, None)
        };
        Ok(Worker {
            process,
            driver,
            is_old: self.olds.contains_key(&number),
            log,
            answers: 0,
            ahead: None,
        })
    }

    /// Starts one of our processes, which connects to the store through this address if one is
    /// given.
    fn own(
        &mut self,
        number: usize,
        spec: &WorkerSpec,
        via: Option<SocketAddr>,
    ) -> Result<Child, Stop> {
        let place = self.context.child_spec_via(via)?;
        let old = self.olds.get(&number);
        let mut command = match old {
            None => child::command(&self.context, &place, worker::ROLE, spec),
            Some(old) => child::command_of(old, &self.context, &place, worker::ROLE, spec),
        }?;
        if let Some(clock) = self.clocks.get(&number) {
            command.envs(clock.variables());
        }
        command.stderr(File::create(errors(&spec.log))?);
        let process = command.spawn()?;
        if let Some(number) = process.id().filter(|_| old.is_some()) {
            self.log.write_of(number, What::IsOld)?;
        }
        Ok(process)
    }

    /// Starts a process of ShedLock. Each one is a different host, including replacements, unless
    /// sharing a host is the mistake under test.
    fn shedlock(&self, spec: WorkerSpec, via: Option<SocketAddr>) -> Result<(Child, Driver), Stop> {
        let host = match self.spec.wrong {
            Some(Mistake::ShedlocksOfOneHost) => "jvm".to_owned(),
            _ => format!("jvm-{}", self.started),
        };
        let command = self.context.shedlock(&host, via).ok_or_else(|| {
            Stop::failed(
                "no process of ShedLock can take part: it was not built (`cargo xtask torture \
                 --java` does), or cannot share this store under faults \
                 (TortureNamespace::shedlock)",
            )
        })?;
        Driver::start(command, host, spec)
    }
}
