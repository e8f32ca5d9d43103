//! The signals that this process may catch, and the one that must not stop it.

use rustix::process::Signal;

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
    matches!(
        signal,
        Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT
    )
}

/// Lets this thread write to its terminal, and hand it over, from the background. Otherwise the
/// terminal would stop this process, and with it the one that keeps the deadline.
///
/// Commands that are started do not inherit this: the standard library clears the mask.
pub(crate) fn never_stop_for_terminal() {
    let mut signals = nix::sys::signal::SigSet::empty();
    signals.add(nix::sys::signal::Signal::SIGTTOU);
    if let Err(error) = signals.thread_block() {
        tracing::debug!(%error, "could not block SIGTTOU");
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
