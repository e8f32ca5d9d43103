//! Signals that stop the process.

use shedlock_core::{Error, ErrorKind};

/// Completes when the process is asked to stop: by SIGTERM, or by ctrl-c (SIGINT).
///
/// After the first call, these signals no longer end the process by themselves, except that a ctrl-c that no call waits
/// for, as the second one during a shutdown, ends it at once with the exit code 130 (Unix). Needs a tokio runtime with I/O
/// enabled. Cancellation safe. Signals that arrived before the call are not seen.
///
/// # Errors
/// `Internal` if the handler cannot be installed.
///
/// ```no_run
/// # async fn run(scheduler: shedlock::scheduler::Scheduler) -> Result<(), shedlock::Error> {
/// use shedlock::scheduler::shutdown_signal;
/// use std::time::Duration;
/// let handle = scheduler.start()?;
/// shutdown_signal().await?;
/// // Below the 30 s after which Kubernetes kills the process.
/// let report = handle.shutdown(Duration::from_secs(25)).await?;
/// for run in report.cut {
///     eprintln!("{} was cut", run.job);
/// }
/// # Ok(()) }
/// ```
pub async fn shutdown_signal() -> Result<(), Error> {
    wait().await.map_err(|error| {
        Error::new(ErrorKind::Internal, "cannot listen for termination signals").with_source(error)
    })
}

#[cfg(unix)]
async fn wait() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let _waiting = impatience::Waiting::start()?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// A ctrl-c that no one waits for: the user has lost patience with the shutdown, or with a runtime that is blocked.
#[cfg(unix)]
mod impatience {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex, PoisonError};

    /// The exit code of a process that SIGINT has ended, as shells report it.
    const INTERRUPTED: i32 = 130;

    /// How many calls wait for a signal, and the condition under which SIGINT ends the process, once it is registered.
    static STATE: Mutex<(usize, Option<Arc<AtomicBool>>)> = Mutex::new((0, None));

    pub(super) struct Waiting;

    impl Waiting {
        pub(super) fn start() -> io::Result<Self> {
            let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
            if state.1.is_none() {
                let ends = Arc::new(AtomicBool::new(false));
                let (signal, condition) = (signal_hook::consts::SIGINT, ends.clone());
                signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, condition)?;
                state.1 = Some(ends);
            }
            state.0 += 1;
            Self::set(&state);
            Ok(Self)
        }

        fn set((waiting, ends): &(usize, Option<Arc<AtomicBool>>)) {
            if let Some(ends) = ends {
                ends.store(*waiting == 0, Ordering::SeqCst);
            }
        }
    }

    impl Drop for Waiting {
        fn drop(&mut self) {
            let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
            state.0 -= 1;
            Self::set(&state);
        }
    }
}

#[cfg(not(unix))]
async fn wait() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}
