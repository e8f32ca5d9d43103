//! Talking to a running scheduler.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use shedlock_core::{Error, ErrorKind};
use tokio::sync::{mpsc, oneshot};

use crate::driver::Command;
use crate::{JobStatus, ShutdownReport};

/// A handle to a running scheduler. Clones talk to the same one; dropping them stops nothing.
///
/// Everything here is cancellation safe: what was asked for is done, whether or not the answer is
/// waited for.
#[derive(Clone)]
pub struct Handle {
    commands: mpsc::UnboundedSender<Command>,
    fate: Arc<Fate>,
}

/// How a scheduler ended.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    pub(crate) report: OnceLock<ShutdownReport>,
    /// The last words of one that panicked again and again.
    panic: OnceLock<String>,
}

impl Fate {
    pub(crate) fn panicked(&self, message: &str) {
        let _ = self.panic.set(message.to_owned());
    }
}

impl Handle {
    pub(crate) fn new(commands: mpsc::UnboundedSender<Command>, fate: Arc<Fate>) -> Self {
        Self { commands, fate }
    }

    /// Stops firing, lets the runs that are going on finish within the grace time, then stops them
    /// and gives their locks back; tells which finished and which were cut.
    ///
    /// A run is stopped by dropping its future; its lock is then unlocked as after any run, and
    /// waited for, up to 10 s where the store does not answer. A tick that waits for its lock is
    /// given up at once; an attempt that is on its way and wins is run within the grace time, since
    /// its slot is used.
    ///
    /// Asked again, the shorter grace counts, and both get the report.
    ///
    /// # Errors
    /// `WrongContext` where the runtime has shut down under the scheduler; `Internal` where the
    /// scheduler itself has panicked again and again, and stopped.
    pub async fn shutdown(&self, grace: Duration) -> Result<ShutdownReport, Error> {
        let asked = self.ask(|reply| Command::Shutdown { grace, reply }).await;
        match (asked, self.fate.report.get()) {
            (Ok(report), _) => Ok(report),
            (Err(_), Some(report)) => Ok(report.clone()),
            (Err(error), None) => Err(error),
        }
    }

    /// Fires no more ticks of this job on this node, until it is resumed. A run that is going on
    /// goes on, and is the last one also where a job that must not be lost makes up for several
    /// slots. Other replicas are not told.
    ///
    /// A job whose initial delay ends while it is paused begins when it is resumed.
    ///
    /// # Errors
    /// `InvalidInput` for an unknown job; `WrongContext` after a shutdown; `Internal` where the
    /// scheduler itself has panicked again and again, and stopped.
    pub async fn pause(&self, job: &str) -> Result<(), Error> {
        let job = job.to_owned();
        self.ask(|reply| Command::Pause { job, reply }).await?
    }

    /// Fires ticks of this job again, from now on: those that passed meanwhile are not made up.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn resume(&self, job: &str) -> Result<(), Error> {
        let job = job.to_owned();
        self.ask(|reply| Command::Resume { job, reply }).await?
    }

    /// Runs this job as soon as its lock is free of runs on this node, paused or not; returns at
    /// once. The run belongs to no slot, so the schedule goes on as it would have; it is skipped
    /// where another replica holds the lock. A job that makes up for several slots runs it between
    /// two of them.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn run_now(&self, job: &str) -> Result<(), Error> {
        let job = job.to_owned();
        self.ask(|reply| Command::RunNow { job, reply }).await?
    }

    /// How the jobs stand, in the order in which they were added.
    ///
    /// # Errors
    /// `WrongContext` after a shutdown.
    pub async fn jobs(&self) -> Result<Vec<JobStatus>, Error> {
        self.ask(|reply| Command::Jobs { reply }).await
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        // A command that is not taken drops its reply, which is what is looked at.
        let _ = self.commands.send(command(reply));
        answer.await.map_err(|_| match self.fate.panic.get() {
            Some(panic) => Error::new(
                ErrorKind::Internal,
                format!(
                    "the scheduler panicked again and again and has stopped ({panic}): no job runs \
                     here any more; restart the process"
                ),
            ),
            None => Error::new(
                ErrorKind::WrongContext,
                "the scheduler has shut down, or is shutting down",
            ),
        })
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("fate", &self.fate)
            .finish_non_exhaustive()
    }
}
