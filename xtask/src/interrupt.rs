//! Ctrl-C, SIGTERM and SIGHUP: what runs is stopped and removed before this process goes.

use crate::servers::run_dir;
use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::thread;

/// Watches for signals on a thread of its own.
///
/// Servers and steps run in process groups of their own, so that a Ctrl-C of the terminal
/// reaches only this process, and it alone decides in which order things end.
pub(crate) fn install() -> anyhow::Result<()> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).context("signals could not be watched")?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            eprintln!("\nxtask: signal {signal}: stopping what runs");
            run_dir::sweep_own();
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}
