//! A process of the service.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};

use super::History;

/// The log filter of replicas, which includes each unlock and the ticks that another replica has
/// taken.
const LOG: &str =
    "info,shedlock_core::runtime::release=debug,shedlock_scheduler::driver::shared=debug";

/// A running replica; killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Replica {
    name: String,
    child: Child,
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
        let child = Command::new(env!("CARGO_BIN_EXE_replica"))
            .args(["--name", name])
            .args(args.iter().map(AsRef::as_ref))
            .env("DATABASE_URL", database)
            .env("RUST_LOG", LOG)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(history.pipe())
            .spawn()
            .expect("the replica can be started");
        Self {
            name: name.to_owned(),
            child,
            history: history.clone(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The process id, as it appears in the owners of its locks.
    pub(crate) fn pid(&self) -> String {
        format!("/{}/", self.child.id())
    }

    /// Kills it with SIGKILL, and logs that once it is dead: none of its lines come after that
    /// entry.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.history.note(&self.name, "is killed");
    }

    /// Tells it to stop with SIGTERM.
    pub(crate) fn terminate(&self) {
        self.history.note(&self.name, "receives SIGTERM");
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).unwrap();
    }

    /// Waits until it has ended by itself.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let name = self.name.clone();
        self.history
            .clone()
            .wait_for(&format!("{name} ends"), |_| self.child.try_wait().unwrap())
    }

    /// Tells it to stop, and waits until it has ended successfully.
    pub(crate) fn stop(mut self) {
        self.terminate();
        let status = self.ended();
        assert!(status.success(), "{} ended with {status}", self.name);
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
