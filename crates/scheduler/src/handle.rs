//! A handle to control a running scheduler.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use shedlock_core::{Error, ErrorKind};
use tokio::sync::{mpsc, oneshot};

use crate::driver::Command;
use crate::{JobStatus, ShutdownReport};

/// A handle to a running scheduler. Clones control the same scheduler; dropping them stops nothing.
///
/// All methods are cancellation safe: a request takes effect whether or not you await its reply.
#[derive(Clone)]
pub struct Handle {
    commands: mpsc::UnboundedSender<Command>,
    fate: Arc<Fate>,
}

/// How a scheduler ended.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    pub(crate) report: OnceLock<ShutdownReport>,
    /// The panic message, if the scheduler panicked repeatedly and stopped.
    panic: OnceLock<String>,
}

tokio::task_local! {
    /// The scheduler whose job runs here.
    static RUNS_IN: Arc<Fate>;
}

impl Fate {
    /// Runs the task of a job.
    pub(crate) fn inside<F: Future>(self: &Arc<Self>, task: F) -> impl Future<Output = F::Output> {
        RUNS_IN.scope(self.clone(), task)
    }

    pub(crate) fn inside_blocking<T>(self: &Arc<Self>, task: impl FnOnce() -> T) -> T {
        RUNS_IN.sync_scope(self.clone(), task)
    }

    pub(crate) fn panicked(&self, message: &str) {
        let _ = self.panic.set(message.to_owned());
    }
}

impl Handle {
    pub(crate) fn new(commands: mpsc::UnboundedSender<Command>, fate: Arc<Fate>) -> Self {
        Self { commands, fate }
    }

    /// Stops firing and lets the runs in progress finish within the grace period. Then stops the
    /// remaining runs and gives their locks back. Returns which runs finished and which were cut.
    ///
    /// A run is stopped by dropping its future. Its lock is then unlocked as after any run, and the
    /// shutdown waits for that, up to 10 s if the store does not reply. A tick that waits for its
    /// lock is given up at once. An attempt that is in transit and wins is still run within the
    /// grace period, since its slot is used.
    ///
    /// If you call it again, the shorter grace period applies, and both calls return the report.
    ///
    /// Inside a job of this scheduler, which the shutdown waits for, the call begins the shutdown and returns at once, as
    /// `WrongContext`. The job should return then; await the report elsewhere.
    ///
    /// # Errors
    /// `WrongContext` inside a job of this scheduler, and if the runtime has shut down before the scheduler; `Internal` if
    /// the scheduler itself has panicked repeatedly and stopped.
    pub async fn shutdown(&self, grace: Duration) -> Result<ShutdownReport, Error> {
        let reply = self.send(|reply| Command::Shutdown { grace, reply });
        if RUNS_IN.try_with(|fate| Arc::ptr_eq(fate, &self.fate)) == Ok(true) {
            return Err(Error::new(
                ErrorKind::WrongContext,
                "the shutdown has begun, and cannot be awaited inside a job that it waits for",
            )
            .advise("return from the job, and await the shutdown elsewhere"));
        }
        let asked = self.receive(reply).await;
        match (asked, self.fate.report.get()) {
            (Ok(report), _) => Ok(report),
            (Err(_), Some(report)) => Ok(report.clone()),
            (Err(error), None) => Err(error),
        }
    }

    /// Stops firing ticks of this job on this node until it is resumed. A run in progress
    /// continues. It is then the last run, even if a job that must not be lost is making up for
    /// several slots. Other replicas are not affected.
    ///
    /// A job whose initial delay ends while it is paused begins when it is resumed.
    ///
    /// # Errors
    /// `InvalidInput` for an unknown job; `WrongContext` after a shutdown; `Internal` if the
    /// scheduler itself has panicked repeatedly and stopped.
    pub async fn pause(&self, job: &str) -> Result<(), Error> {
        let job = job.to_owned();
        self.ask(|reply| Command::Pause { job, reply }).await?
    }

    /// Fires ticks of this job again, from now on. Ticks that passed in the meantime are not made
    /// up, except those of a job that must not be lost: it goes on at once with what is not done.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn resume(&self, job: &str) -> Result<(), Error> {
        let job = job.to_owned();
        self.ask(|reply| Command::Resume { job, reply }).await?
    }

    /// Runs this job as soon as no run on this node holds its lock, even if the job is paused.
    /// Returns at once. The run belongs to no slot, so the schedule continues unchanged. If another
    /// replica holds the lock, the run is skipped. A job that is making up for several slots
    /// performs the run between two of them.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn run_now(&self, job: &str) -> Result<(), Error> {
        let job = job.to_owned();
        self.ask(|reply| Command::RunNow { job, reply }).await?
    }

    /// Returns the status of the jobs, in the order in which they were added.
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
        let reply = self.send(command);
        self.receive(reply).await
    }

    fn send<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> oneshot::Receiver<T> {
        let (sender, reply) = oneshot::channel();
        // A command that is not accepted drops its reply, which is checked when it is received.
        let _ = self.commands.send(command(sender));
        reply
    }

    async fn receive<T>(&self, reply: oneshot::Receiver<T>) -> Result<T, Error> {
        reply.await.map_err(|_| match self.fate.panic.get() {
            Some(panic) => Error::new(ErrorKind::Internal, format!("the scheduler stopped after repeated panics ({panic}): no job runs here any more")).advise("restart the process"),
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
