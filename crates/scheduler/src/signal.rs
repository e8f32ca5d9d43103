//! Signals that stop the process.

use shedlock_core::{Error, ErrorKind};

/// Completes when the process is asked to stop: by SIGTERM, or by ctrl-c (SIGINT).
///
/// After the first call, these signals no longer end the process by themselves. Needs a tokio
/// runtime with I/O enabled. Cancellation safe. Signals that arrived before the call are not seen.
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
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

#[cfg(not(unix))]
async fn wait() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}
