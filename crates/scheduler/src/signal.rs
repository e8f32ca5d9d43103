//! Signals that stop the process.

use shedlock_core::{Error, ErrorKind};

/// Completes when the process is asked to stop: by SIGTERM, or by ctrl-c (SIGINT).
///
/// After the first call, these signals no longer end the process by themselves, except that a ctrl-c that no call waits
/// for, as the second one during a shutdown, ends it at once with the exit code 130 (Unix). Needs a tokio runtime with I/O
/// enabled. Cancellation safe: a signal that arrives between two calls, as in a `select!` that handles another event,
/// completes the next one (Unix). Signals before the first call are not seen.
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
    let waiting = between::Waiting::start()?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    if waiting.is_asked() {
        // The runtime may still have to pass the signal on, which is then not left to the next call.
        tokio::task::yield_now().await;
    } else {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
    waiting.answer();
    Ok(())
}

/// What arrives while no call waits. The next call completes at once. After a ctrl-c there is no next call: the user has
/// lost patience with the shutdown, or with a runtime that is blocked.
#[cfg(unix)]
mod between {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag;

    /// The exit code of a process that SIGINT has ended, as shells report it.
    const INTERRUPTED: i32 = 130;

    /// How many calls wait for a signal, and the handlers, once they are registered.
    static STATE: Mutex<(usize, Option<Handlers>)> = Mutex::new((0, None));

    #[derive(Clone)]
    struct Handlers {
        /// Whether SIGINT ends the process.
        ends: Arc<AtomicBool>,
        /// Whether a signal has arrived for which no call has completed.
        asked: Arc<AtomicBool>,
    }

    impl Handlers {
        fn register() -> io::Result<Self> {
            let (ends, asked) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
            flag::register_conditional_shutdown(SIGINT, INTERRUPTED, ends.clone())?;
            for signal in [SIGTERM, SIGINT] {
                flag::register(signal, asked.clone())?;
            }
            Ok(Self { ends, asked })
        }
    }

    pub(super) struct Waiting(Handlers);

    impl Waiting {
        pub(super) fn start() -> io::Result<Self> {
            let (waiting, handlers) = &mut *state();
            let handlers = match handlers {
                Some(handlers) => handlers,
                None => handlers.insert(Handlers::register()?),
            };
            *waiting += 1;
            handlers.ends.store(false, Ordering::SeqCst);
            Ok(Self(handlers.clone()))
        }

        pub(super) fn is_asked(&self) -> bool {
            self.0.asked.load(Ordering::SeqCst)
        }

        /// A call completes.
        pub(super) fn answer(&self) {
            self.0.asked.store(false, Ordering::SeqCst);
        }
    }

    impl Drop for Waiting {
        fn drop(&mut self) {
            let (waiting, _) = &mut *state();
            *waiting -= 1;
            self.0.ends.store(*waiting == 0, Ordering::SeqCst);
        }
    }

    fn state() -> MutexGuard<'static, (usize, Option<Handlers>)> {
        STATE.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(not(unix))]
async fn wait() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}
