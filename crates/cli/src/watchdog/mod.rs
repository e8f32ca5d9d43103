//! The process that guards a command: it stops the command before the lease can end, whatever
//! becomes of `run`.
//!
//! `run` starts this program a second time, and the second process is the parent of the command.
//! So there is no instant in which the command runs and nobody keeps its deadline.

mod client;
mod job;
mod plan;
mod processes;
mod protocol;
mod rescue;
mod server;
mod timer;

use std::ffi::OsStr;

#[cfg(test)]
pub(crate) use plan::Supervision;
#[cfg(test)]
pub(crate) use protocol::{Inbox, Order, Report, frame};

pub(crate) use client::{Guard, News};
pub(crate) use plan::{Plan, StopReason};
pub(crate) use processes::Process;
pub(crate) use protocol::{Ended, NotStarted, Start, Status};
pub(crate) use server::serve;

/// The argument that makes this program a watchdog. Not for people.
pub(crate) const ARGUMENT: &str = "__watchdog";

/// Whether orphans of a job become children of its watchdog. Elsewhere the process group is all that
/// is known of a job, and a process that leaves it is on its own.
const ORPHANS_ARE_ADOPTED: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// Whether all that the command has started can be found, wherever it has moved to. Where it cannot,
/// the command's process group is all that is known of it.
fn descendants_are_found() -> bool {
    ORPHANS_ARE_ADOPTED && processes::are_listed()
}

/// Whether this process was started as a watchdog.
pub(crate) fn is_wanted(first_argument: Option<&OsStr>) -> bool {
    first_argument == Some(OsStr::new(ARGUMENT))
}

/// Makes this process the parent of what its descendants leave behind, where the system can.
pub(crate) fn adopt_orphans() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::debug!(%error, "orphans of the command will not be adopted");
    }
}
