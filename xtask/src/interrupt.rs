//! Ctrl-C, Ctrl-\, SIGTERM and SIGHUP: what runs is stopped and removed before this process goes.

use crate::servers::run_dir;
use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::{Mutex, PoisonError, TryLockError};
use std::thread;

/// Held while something runs that must not be cut in the middle.
static WHOLE: Mutex<()> = Mutex::new(());

/// Watches for signals on a thread of its own.
///
/// Servers and steps run in process groups of their own, so that a Ctrl-C of the terminal
/// reaches only this process, and it alone decides in which order things end. Where a shell has let
/// it ignore one of them, as it does with jobs behind it, what it starts does not inherit that.
pub(crate) fn install() -> anyhow::Result<()> {
    let mut signals =
        Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP]).context("signals could not be watched")?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            eprintln!("\nxtask: signal {signal}: stopping what runs");
            if matches!(WHOLE.try_lock(), Err(TryLockError::WouldBlock)) {
                eprintln!("xtask: waiting for the installation, which must not be cut");
            }
            let _whole = WHOLE.lock().unwrap_or_else(PoisonError::into_inner);
            run_dir::sweep_own();
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Does something that a signal must not cut: it takes effect afterwards.
pub(crate) fn uncut<T>(action: impl FnOnce() -> T) -> T {
    let _whole = WHOLE.lock().unwrap_or_else(PoisonError::into_inner);
    action()
}
