//! Stops and resumes processes, to imitate a suspended machine.

use crate::{Stop, Verdict};

/// Stops a process (SIGSTOP).
///
/// # Errors
/// If there is no such process; [`Stop::NotApplicable`] on systems without these signals.
pub fn stop(process: Option<u32>) -> Verdict {
    send(process, Kind::Stop)
}

/// Resumes a process (SIGCONT).
///
/// # Errors
/// As for [`stop`].
pub fn go_on(process: Option<u32>) -> Verdict {
    send(process, Kind::Continue)
}

#[derive(Clone, Copy)]
enum Kind {
    Stop,
    Continue,
}

#[cfg(unix)]
fn send(process: Option<u32>, kind: Kind) -> Verdict {
    use rustix::process::{Pid, Signal, kill_process};
    let pid = process
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw)
        .ok_or_else(|| Stop::failed("a child process ended early"))?;
    let signal = match kind {
        Kind::Stop => Signal::STOP,
        Kind::Continue => Signal::CONT,
    };
    Ok(kill_process(pid, signal)?)
}

#[cfg(not(unix))]
fn send(_process: Option<u32>, kind: Kind) -> Verdict {
    match kind {
        Kind::Stop | Kind::Continue => Err(Stop::not_applicable(
            "processes cannot be stopped and continued on this system",
        )),
    }
}
