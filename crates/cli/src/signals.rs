//! The signals that this process may catch, and the one that must not stop it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use nix::sys::signal::Signal::SIGTTOU;
use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::process::{Pid, Signal, getpid};
use signal_hook::flag::register_conditional_shutdown;

use crate::exit::SIGNALLED;

/// The signals that the user has set this process to ignore (`nohup`, a script's background job).
///
/// They are left alone: a handler would override the user's choice, also for the command, which
/// inherits ignored signals. Empty if the system does not report them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ignored(u64);

impl Ignored {
    /// The current state. Read it before any handler is set.
    pub(crate) fn by_this_process() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self::parse(&status).unwrap_or(Self(0))
    }

    fn parse(status: &str) -> Option<Self> {
        let mask = status
            .lines()
            .find_map(|line| line.strip_prefix("SigIgn:"))?;
        u64::from_str_radix(mask.trim(), 16).ok().map(Self)
    }

    /// Whether this signal is one of them.
    pub(crate) fn contains(self, signal: Signal) -> bool {
        let bit = u32::try_from(signal.as_raw() - 1).unwrap_or(u32::MAX);
        1_u64.checked_shl(bit).is_some_and(|bit| self.0 & bit != 0)
    }
}

/// Whether this signal requests the end of a program.
pub(crate) fn asks_to_end(signal: Signal) -> bool {
    ENDS.contains(&signal)
}

const ENDS: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];

/// The signals that were blocked when this process was started.
static BLOCKED_BY_CALLER: OnceLock<SigSet> = OnceLock::new();

/// Lets this thread write to its terminal, and hand it over, from the background. Otherwise the
/// terminal would stop this process, and with it the one that keeps the deadline.
///
/// A process that is started inherits this, unless it is started [as by the caller](as_by_caller).
pub(crate) fn never_stop_for_terminal() {
    let mut signals = SigSet::empty();
    signals.add(SIGTTOU);
    match signals.thread_swap_mask(SigmaskHow::SIG_BLOCK) {
        Ok(before) => drop(BLOCKED_BY_CALLER.set(before)),
        Err(error) => tracing::debug!(%error, "could not block SIGTTOU"),
    }
}

/// Starts a process with the signal mask that this process was started with.
pub(crate) fn as_by_caller<T>(start: impl FnOnce() -> T) -> T {
    let own = BLOCKED_BY_CALLER
        .get()
        .map(|mask| mask.thread_swap_mask(SigmaskHow::SIG_SETMASK));
    let started = start();
    if let Some(Ok(own)) = own
        && let Err(error) = own.thread_set_mask()
    {
        tracing::debug!(%error, "could not restore the signal mask");
    }
    started
}

/// Whether a signal that asks the first process of a container to end ends it at once.
static ENDS_AT_ONCE: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Makes signals that ask for the end of this process end it at once, until it [handles](handles_ends) them itself.
///
/// They do that anyway, except to the first process of a PID namespace, such as that of a container: the kernel drops
/// signals for which it has no handler. This works whatever the process waits for.
pub(crate) fn end_at_once_as_process_1() -> io::Result<()> {
    match getpid() {
        Pid::INIT => end_at_once(),
        _ => Ok(()),
    }
}

/// The same in any process, also if it has handled these signals so far.
pub(crate) fn end_at_once() -> io::Result<()> {
    let ignored = Ignored::by_this_process();
    let ends = ENDS_AT_ONCE.get_or_init(|| Arc::new(AtomicBool::new(true)));
    for signal in ENDS {
        if !ignored.contains(signal) {
            let code = i32::from(SIGNALLED) + signal.as_raw();
            register_conditional_shutdown(signal.as_raw(), code, ends.clone())?;
        }
    }
    Ok(())
}

/// From now on this process handles the signals that ask for its end.
pub(crate) fn handles_ends() {
    if let Some(ends) = ENDS_AT_ONCE.get() {
        ends.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_mask_is_read() {
        let ignored = Ignored::parse("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0").unwrap();
        assert!(ignored.contains(Signal::HUP));
        assert!(ignored.contains(Signal::PIPE));
        assert!(!ignored.contains(Signal::TERM));
        assert!(Ignored::parse("").is_none());
    }
}
