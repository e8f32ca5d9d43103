//! Locks for programs and functions without an async runtime.
//!
//! Store clients are async. Here they run on one background thread, which starts at first use and
//! lives as long as the process. Inside an async runtime these calls return `WrongContext` instead
//! of blocking it: use the async forms there, or declare with [`allow`] that this thread may block.
//!
//! ```
//! use shedlock::{LockConfig, MemoryProvider, blocking};
//! use std::sync::Arc;
//! let executor = blocking::Executor::new(Arc::new(MemoryProvider::new()));
//! let config = LockConfig::new("payroll").lock_at_most_for("10m");
//! let outcome = executor.execute(&config, || 6 * 7)?;
//! assert_eq!(outcome.value(), Some(42));
//! # Ok::<(), shedlock::Error>(())
//! ```

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock, mpsc};

use shedlock_support::spawn;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::contract::{Attempt, Error, ErrorKind, LockConfig, LockProvider};
use crate::runtime::conclude::{conclude, failure_of, run_blocking};
use crate::runtime::running::Running;
use crate::runtime::{Ended, Outcome, Release, look_after, watch_deadline};

/// Runs closures under locks on the calling thread; see the [module](self).
#[derive(Clone, Debug)]
#[must_use]
pub struct Executor(crate::Executor);

impl Executor {
    /// Creates an executor over this provider.
    pub fn new(provider: Arc<dyn LockProvider>) -> Self {
        Self(crate::Executor::new(provider))
    }

    /// Creates an executor with the settings of this one.
    pub fn from_async(executor: crate::Executor) -> Self {
        Self(executor)
    }

    /// Returns an executor over the provider that applies here, as
    /// [`Executor::current`](crate::Executor::current).
    ///
    /// # Errors
    /// `Configuration` if there is none.
    pub fn current() -> Result<Self, Error> {
        crate::Executor::current().map(Self)
    }

    /// Runs the closure on this thread under the lock, if the lock is free.
    ///
    /// A closure cannot be stopped from outside; it is only not started if its lease was lost before. If its lease is lost,
    /// it can find out through [`CurrentLock::is_lost`](crate::CurrentLock::is_lost) and
    /// [`CurrentLock::on_lost`](crate::CurrentLock::on_lost), and the outcome is [`Outcome::Lost`]
    /// with its value. If the closure panics, the panic resumes after the lock was given back.
    ///
    /// # Errors
    /// As [`Executor::execute`](crate::Executor::execute), and `WrongContext` inside an async
    /// runtime, in which case the closure has not run.
    pub fn execute<T>(
        &self,
        config: &LockConfig,
        task: impl FnOnce() -> T,
    ) -> Result<Outcome<T>, Error> {
        self.execute_judged(config, task, |_| None)
    }

    /// As [`execute`](Self::execute). `failure` returns the text of the failure that a value stands
    /// for, if it does. For `#[scheduler_lock]`.
    #[doc(hidden)]
    pub fn execute_judged<T>(
        &self,
        config: &LockConfig,
        task: impl FnOnce() -> T,
        failure: impl Fn(&T) -> Option<String>,
    ) -> Result<Outcome<T>, Error> {
        check_context()?;
        if let Some(outer) = self.0.reentered(config)? {
            let running = Running::reentrant(self.0.context(), &outer);
            let value = task();
            running.returned(failure(&value).as_deref());
            return Ok(Outcome::Executed {
                value,
                release: Release::Reentrant,
            });
        }
        let (asking, wanted) = (self.0.clone(), config.clone());
        let taken = block_on(async move {
            let granted = asking.acquire(&wanted).await?;
            // Started here, because this code runs inside the runtime.
            let looked_after = match &granted {
                Attempt::Acquired(held) => Some(look_after(held, &wanted)?),
                Attempt::Skipped(_) => None,
            };
            Ok::<_, Error>((granted, looked_after))
        });
        let (held, looked_after) = match taken?? {
            (Attempt::Acquired(held), looked_after) => (held, looked_after),
            (Attempt::Skipped(skip), _) => return Ok(Outcome::Skipped(skip)),
        };
        let watched = held.clone();
        let watch = spawn(runtime()?.handle(), async move {
            watch_deadline(&watched).await
        });
        let ran = run_blocking(&held, task, failure);
        watch.abort();
        drop(looked_after);
        // The value stays here; only the release crosses to the runtime's thread.
        let (kept, ended) = match ran {
            Ended::Finished(value) => (Some(value), Ended::Finished(())),
            Ended::Panicked(panic) => (None, Ended::Panicked(panic)),
            Ended::Cancelled(reason) => (None, Ended::Cancelled(reason)),
        };
        let concluded = block_on(async move { conclude(&held, ended).await })?;
        let outcome = concluded.resume();
        Ok(with_value(outcome, kept))
    }

    /// Runs a closure that can fail. As [`execute`](Self::execute), but an `Err` marks the run of
    /// the slot, if there is one, as failed.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn try_execute<T, E: fmt::Display>(
        &self,
        config: &LockConfig,
        task: impl FnOnce() -> Result<T, E>,
    ) -> Result<Outcome<Result<T, E>>, Error> {
        self.execute_judged(config, task, failure_of)
    }
}

fn with_value<T>(outcome: Outcome<()>, value: Option<T>) -> Outcome<T> {
    match (outcome, value) {
        (Outcome::Executed { release, .. }, Some(value)) => Outcome::Executed { value, release },
        (Outcome::Lost { reason, .. }, value) => Outcome::Lost { value, reason },
        (Outcome::Skipped(skip), _) => Outcome::Skipped(skip),
        (Outcome::Executed { .. }, None) => unreachable!("a panic was resumed before"),
    }
}

/// Blocks this thread until a future that runs on the background thread completes. Use it to
/// connect, to inspect a lock, or to migrate.
///
/// # Errors
/// `WrongContext` inside an async runtime; `Internal` if the future panicked.
pub fn block_on<F>(future: F) -> Result<F::Output, Error>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    check_context()?;
    let (sender, receiver) = mpsc::sync_channel(1);
    spawn(runtime()?.handle(), async move {
        let output = future.await;
        // This fails only if the waiting thread is gone, and it waits below.
        let _ = sender.send(output);
    });
    receiver.recv().map_err(|_| {
        Error::new(
            ErrorKind::Internal,
            "the call panicked on the background thread",
        )
    })
}

thread_local! {
    static MAY_BLOCK: Cell<bool> = const { Cell::new(false) };
}

/// Declares that this thread may block although it belongs to an async runtime. For closures inside
/// `tokio::task::spawn_blocking`. Never use it in async code.
///
/// ```
/// use shedlock::{LockConfig, MemoryProvider, blocking};
/// use std::sync::Arc;
/// # tokio::runtime::Builder::new_multi_thread().build().unwrap().block_on(async {
/// let executor = blocking::Executor::new(Arc::new(MemoryProvider::new()));
/// let config = LockConfig::new("payroll").lock_at_most_for("10m");
/// assert!(executor.execute(&config, || ()).is_err());
/// tokio::task::spawn_blocking(move || blocking::allow(|| executor.execute(&config, || ())))
///     .await
///     .unwrap()?;
/// # Ok::<(), shedlock::Error>(()) }).unwrap();
/// ```
pub fn allow<R>(run: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            MAY_BLOCK.set(self.0);
        }
    }
    let _restore = Restore(MAY_BLOCK.replace(true));
    run()
}

fn check_context() -> Result<(), Error> {
    if Handle::try_current().is_err() || MAY_BLOCK.get() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::WrongContext,
        "a blocking lock call in an async runtime would block the runtime",
    )
    .advise("use the async form, or run this in spawn_blocking inside blocking::allow"))
}

fn runtime() -> Result<&'static Runtime, Error> {
    static RUNTIME: OnceLock<Result<Runtime, std::io::Error>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("shedlock")
            .enable_all()
            .build()
    });
    runtime.as_ref().map_err(|error| {
        Error::new(ErrorKind::Internal, "cannot start the background thread")
            .advise("check the limits of this process")
            .with_source(error.to_string())
    })
}
