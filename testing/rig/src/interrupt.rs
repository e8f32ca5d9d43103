//! Ctrl-C, Ctrl-\, SIGTERM and SIGHUP: everything that runs is stopped and removed before this
//! process exits.

use crate::engine::run_dir;
use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::{Mutex, PoisonError, TryLockError};
use std::thread;

/// Held while an action runs that must not be interrupted.
static WHOLE: Mutex<()> = Mutex::new(());

/// Watches for signals on a separate thread.
///
/// Servers and steps run in their own process groups, so that a Ctrl-C of the terminal reaches only
/// this process, which alone decides in which order things end. If a shell has set it to ignore one
/// of the signals, as for background jobs, the processes that it starts do not inherit that.
pub fn install() -> anyhow::Result<()> {
    let mut signals =
        Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP]).context("signals could not be watched")?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            eprintln!("\nxtask: signal {signal}: stopping what runs");
            if matches!(WHOLE.try_lock(), Err(TryLockError::WouldBlock)) {
                eprintln!("xtask: waiting for the installation, which must not be interrupted");
            }
            let _whole = WHOLE.lock().unwrap_or_else(PoisonError::into_inner);
            run_dir::sweep_own();
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Runs an action that a signal must not interrupt. The signal takes effect afterwards.
pub fn uncut<T>(action: impl FnOnce() -> T) -> T {
    let _whole = WHOLE.lock().unwrap_or_else(PoisonError::into_inner);
    action()
}
