//! A process of the service.

use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

use shedlock_rig::wait::PATIENCE;
use shedlock_rig::{Running, Signal};

use super::History;

/// The log filter of replicas, which includes each unlock and the ticks that another replica has
/// taken.
const LOG: &str = "info,shedlock_core::lock=debug,shedlock_scheduler::driver::shared=debug";

/// A running replica; killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Replica {
    name: String,
    process: Running,
    history: Arc<History>,
}

impl Replica {
    /// Starts a replica without waiting until it is ready.
    pub(crate) fn start<S: AsRef<str>>(
        history: &Arc<History>,
        database: &str,
        name: &str,
        args: &[S],
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_replica"));
        command
            .args(["--name", name])
            .args(args.iter().map(AsRef::as_ref))
            .env("DATABASE_URL", database)
            .env("RUST_LOG", LOG)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(history.pipe());
        Self {
            name: name.to_owned(),
            process: Running::start(&mut command).unwrap(),
            history: history.clone(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The process id, as it appears in the owners of its locks.
    pub(crate) fn pid(&self) -> String {
        format!("/{}/", self.process.id())
    }

    /// Kills it with SIGKILL, and logs that once it is dead: none of its lines come after that
    /// entry.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
        self.history.note(&self.name, "is killed");
    }

    /// Tells it to stop with SIGTERM.
    pub(crate) fn terminate(&self) {
        self.history.note(&self.name, "receives SIGTERM");
        self.process.signal(Signal::TERM);
    }

    /// Waits until it has ended by itself.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        self.process.wait(PATIENCE).unwrap()
    }

    /// Tells it to stop, and waits until it has ended successfully.
    pub(crate) fn stop(mut self) {
        self.terminate();
        let status = self.ended();
        assert!(status.success(), "{} ended with {status}", self.name);
    }
}
