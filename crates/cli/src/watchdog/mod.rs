//! The process that guards a command. It stops the command before the lease can end, whatever happens to `run`.
//!
//! `run` starts this program a second time, and the second process is the parent of the command. So there is no instant
//! in which the command runs without a process that keeps its deadline.

mod client;
mod heirloom;
mod job;
mod orphaned;
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
pub(crate) use protocol::{Inbox, Order, Report, Survivors, frame};

pub(crate) use client::{Guard, News, own_program};
pub(crate) use heirloom::{Copies, Heirloom, Legacy, SlotFate};
pub(crate) use plan::{Plan, StopReason};
pub(crate) use processes::Process;
pub(crate) use protocol::{Ended, NotStarted, Start, Status};
pub(crate) use server::serve;

/// The argument that makes this program a watchdog. Not for users.
pub(crate) const ARGUMENT: &str = "__watchdog";

/// Whether orphans of a job become children of its watchdog. On other systems only the process group identifies a job,
/// and a process that leaves it is not stopped.
pub(crate) const ORPHANS_ARE_ADOPTED: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// Whether all processes that the command has started can be found, wherever they have moved. If not, only the
/// command's process group is known.
fn descendants_are_found() -> bool {
    ORPHANS_ARE_ADOPTED && processes::are_listed()
}

/// Whether this process was started as a watchdog.
pub(crate) fn is_wanted(first_argument: Option<&OsStr>) -> bool {
    first_argument == Some(OsStr::new(ARGUMENT))
}

/// Makes this process the parent of its descendants' orphans, if the system supports it.
pub(crate) fn adopt_orphans() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::debug!(%error, "orphans of the command will not be adopted");
    }
}
