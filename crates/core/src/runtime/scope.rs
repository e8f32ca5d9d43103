//! The provider and executor that apply if none is given explicitly.

use std::future::Future;
use std::sync::{Arc, OnceLock};

use crate::contract::{Error, ErrorKind, LockProvider};
use crate::runtime::Executor;

tokio::task_local! {
    static SCOPED: Executor;
}

static GLOBAL: OnceLock<Executor> = OnceLock::new();

/// Sets the provider of the process. Attributes use it unless they name another one.
///
/// # Errors
/// `Configuration` if one is set already. It stays in place.
pub fn set_global_provider(provider: Arc<dyn LockProvider>) -> Result<(), Error> {
    set_global_executor(Executor::new(provider))
}

/// Sets the provider of the process together with defaults, listener and the other settings of an
/// executor.
///
/// # Errors
/// As [`set_global_provider`].
pub fn set_global_executor(executor: Executor) -> Result<(), Error> {
    GLOBAL.set(executor).map_err(|_| {
        Error::new(
            ErrorKind::Configuration,
            "this process's lock provider is already set",
        )
        .advise("set it once, at startup, and use with_provider where you need another")
    })
}

/// Runs the future with this provider instead of the process's. Tasks that it spawns do not inherit
/// the provider.
///
/// ```
/// use shedlock::{Executor, LockConfig, MemoryProvider, with_provider};
/// use std::sync::Arc;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outcome = with_provider(Arc::new(MemoryProvider::new()), async {
///     let config = LockConfig::new("payroll").lock_at_most_for("10m");
///     Executor::current()?.execute(&config, async {}).await
/// });
/// assert!(outcome.await?.is_executed());
/// # Ok::<(), shedlock::Error>(()) }).unwrap();
/// ```
pub fn with_provider<F: Future>(
    provider: Arc<dyn LockProvider>,
    future: F,
) -> impl Future<Output = F::Output> {
    with_executor(Executor::new(provider), future)
}

/// Runs the future with this executor instead of the process's.
pub fn with_executor<F: Future>(executor: Executor, future: F) -> impl Future<Output = F::Output> {
    SCOPED.scope(executor, future)
}

/// Runs the closure on this thread with this provider instead of the process's.
pub fn with_provider_blocking<R>(provider: Arc<dyn LockProvider>, run: impl FnOnce() -> R) -> R {
    with_executor_blocking(Executor::new(provider), run)
}

/// Runs the closure on this thread with this executor instead of the process's.
pub fn with_executor_blocking<R>(executor: Executor, run: impl FnOnce() -> R) -> R {
    SCOPED.sync_scope(executor, run)
}

/// Returns the provider that applies here: the scoped one, otherwise the process's.
///
/// # Errors
/// `Configuration` if there is neither.
pub fn current_provider() -> Result<Arc<dyn LockProvider>, Error> {
    current_executor().map(|executor| executor.provider().clone())
}

pub(crate) fn current_executor() -> Result<Executor, Error> {
    SCOPED
        .try_with(Executor::clone)
        .ok()
        .or_else(|| GLOBAL.get().cloned())
        .ok_or_else(|| {
            Error::new(ErrorKind::Configuration, "no lock provider is set")
                .advise("call set_global_provider at startup, or name one in the attribute")
        })
}
