//! Items that the expansion of `#[scheduler_lock]` uses. Not a public API: they can change in any release.

use std::future::Future;
use std::sync::Arc;

use crate::{Error, ErrorKind, Executor, LockProvider, Outcome, blocking};

#[cfg(feature = "scheduler")]
#[path = "private_job.rs"]
pub mod job;

pub use std::clone::Clone;
pub use std::convert::AsRef;
pub use std::time::Duration;
pub use std::{concat, format, module_path};

pub use crate::LockConfig;

/// A call of an annotated function.
pub struct Call {
    place: Place,
    executor: Option<Executor>,
}

/// The lock and the function, for messages.
struct Place {
    config: LockConfig,
    function: &'static str,
}

impl Call {
    /// Creates a call of this function, on the provider that is current when it runs.
    pub fn new(config: LockConfig, function: &'static str) -> Self {
        Self {
            place: Place { config, function },
            executor: None,
        }
    }

    /// Uses the provider that the attribute names.
    #[must_use]
    pub fn on(mut self, provider: impl IntoExecutor) -> Self {
        self.executor = Some(provider.into_executor());
        self
    }

    /// Extends the lease while the task runs, if wanted.
    #[must_use]
    pub fn keep_alive(mut self, wanted: bool) -> Self {
        if wanted {
            self.place.config = self.place.config.keep_alive();
        }
        self
    }

    fn executor(&mut self) -> Result<Executor, Error> {
        self.executor.take().map_or_else(Executor::current, Ok)
    }

    fn ended<T>(self, outcome: Result<Outcome<T>, Error>) -> Ended<T> {
        let place = self.place;
        // An error from before the attempt does not contain the lock's name yet.
        let outcome = outcome.map_err(|error| error.with_lock(place.config.name()));
        Ended { outcome, place }
    }
}

/// Runs an async body. `failure` returns the text of the error that the body returned.
pub fn run<F: Future>(
    mut call: Call,
    task: F,
    failure: impl Fn(&F::Output) -> Option<String>,
) -> impl Future<Output = Ended<F::Output>> {
    // Boxed before any future of ours holds it, so that it does not enlarge the caller's future.
    let task = Box::pin(task);
    async move {
        let outcome = match call.executor() {
            Ok(executor) => {
                let config = &call.place.config;
                executor.execute_judged(config, task, failure).await
            }
            Err(error) => Err(error),
        };
        call.ended(outcome)
    }
}

/// Runs a blocking body on the calling thread.
pub fn run_blocking<T>(
    mut call: Call,
    task: impl FnOnce() -> T,
    failure: impl Fn(&T) -> Option<String>,
) -> Ended<T> {
    let outcome = call.executor().and_then(|executor| {
        let executor = blocking::Executor::from_async(executor);
        executor.execute_judged(&call.place.config, task, failure)
    });
    call.ended(outcome)
}

/// Returns nothing, since it is never called. Names the type of the body, for the compiler.
pub fn unreached<T>() -> T {
    unreachable!("the expansion does not call it")
}

/// `(&&&Judged(&value)).shedlock_failure()` returns the text of the error, if the value of the body is one: the compiler
/// takes the first of the three traits below that applies to the type.
///
/// The name of the method is ours, because a trait of the user may have a `failure` for all types.
///
/// In a module of its own, so that one `use` imports all three and no lint reports that only one is used.
pub mod judged {
    /// The value of a body.
    #[derive(Debug)]
    pub struct Judged<'a, T>(pub &'a T);

    /// A `Result` whose error has a text.
    pub trait ErrorText {
        /// Returns the text of the error.
        fn shedlock_failure(&self) -> Option<String>;
    }

    impl<T, E: std::fmt::Display> ErrorText for &&Judged<'_, Result<T, E>> {
        fn shedlock_failure(&self) -> Option<String> {
            self.0.as_ref().err().map(shedlock_core::error_text)
        }
    }

    /// A `Result` whose error has no text.
    pub trait AnyError {
        /// Returns a general text.
        fn shedlock_failure(&self) -> Option<String>;
    }

    impl<T, E> AnyError for &Judged<'_, Result<T, E>> {
        fn shedlock_failure(&self) -> Option<String> {
            self.0
                .is_err()
                .then(|| "the task returned an error".to_owned())
        }
    }

    /// Any other value, which is a success.
    pub trait NoError {
        /// Returns `None`.
        fn shedlock_failure(&self) -> Option<String>;
    }

    impl<T> NoError for Judged<'_, T> {
        fn shedlock_failure(&self) -> Option<String> {
            None
        }
    }
}

/// The result of a call.
pub struct Ended<T> {
    outcome: Result<Outcome<T>, Error>,
    place: Place,
}

impl<T> Ended<T> {
    /// Returns the body's value, or `None` if it did not run to its end. Errors and lost leases are logged,
    /// because the function's return type has no error.
    fn value_or_log(self) -> Option<T> {
        let place = self.place;
        match self.outcome {
            Ok(Outcome::Lost {
                value: None,
                reason,
                ..
            }) => {
                tracing::error!(
                    lock = place.config.name(),
                    function = place.function,
                    "the lease was lost and the task was stopped: {reason}"
                );
                None
            }
            Ok(outcome) => place.value(outcome),
            Err(error) => {
                place.log(&error);
                None
            }
        }
    }

    /// Returns the body's value, `None` if it was skipped, or an error if it could not start or was
    /// stopped.
    fn value_or_error(self) -> Result<Option<T>, Error> {
        let place = self.place;
        match self.outcome? {
            Outcome::Lost {
                value: None,
                reason,
                ..
            } => Err(Error::new(
                ErrorKind::Lost,
                format!("the lease was lost and the task was stopped: {reason}"),
            )
            .with_lock(place.config.name())),
            outcome => Ok(place.value(outcome)),
        }
    }
}

impl Place {
    /// Returns the value if there is one, even if the lease was lost first; that loss is logged.
    fn value<T>(&self, outcome: Outcome<T>) -> Option<T> {
        if let Outcome::Lost { reason, .. } = &outcome {
            tracing::error!(
                lock = self.config.name(),
                function = self.function,
                "the lease was lost before the task ended, so another run may have overlapped with \
                 it: {reason}"
            );
        }
        outcome.value()
    }

    fn log(&self, error: &Error) {
        tracing::error!(
            lock = self.config.name(),
            function = self.function,
            error = %format_args!("{error:#}"),
            "the task did not run: its lock could not be requested"
        );
    }
}

/// The return types that a function under the attribute may have.
#[diagnostic::on_unimplemented(
    message = "a `#[scheduler_lock]` function cannot return `{Self}`: it has no value for a \
               skipped run",
    label = "has no value for a skipped run",
    note = "return `()`, `Option<T>`, `Result<(), E>`, `Result<Option<T>, E>`, `Outcome<T>` or \
            `Result<Outcome<T>, E>`, where `E: From<shedlock::Error>`"
)]
pub trait Return: Sized {
    /// The type of the body.
    type Body;

    /// Converts the result of the call into the function's return value.
    fn from_ended(ended: Ended<Self::Body>) -> Self;
}

impl Return for () {
    type Body = ();

    fn from_ended(ended: Ended<()>) {
        ended.value_or_log().unwrap_or_default();
    }
}

impl<T> Return for Option<T> {
    type Body = Self;

    fn from_ended(ended: Ended<Self>) -> Self {
        ended.value_or_log().flatten()
    }
}

impl<T> Return for Outcome<T> {
    type Body = T;

    fn from_ended(ended: Ended<T>) -> Self {
        ended.outcome.unwrap_or_else(|error| {
            ended.place.log(&error);
            Self::never_held()
        })
    }
}

impl<E: From<Error>> Return for Result<(), E> {
    type Body = Self;

    fn from_ended(ended: Ended<Self>) -> Self {
        ended.value_or_error()?.unwrap_or(Ok(()))
    }
}

impl<T, E: From<Error>> Return for Result<Option<T>, E> {
    type Body = Self;

    fn from_ended(ended: Ended<Self>) -> Self {
        ended.value_or_error()?.unwrap_or(Ok(None))
    }
}

impl<T, E: From<Error>> Return for Result<Outcome<T>, E> {
    type Body = Result<T, E>;

    fn from_ended(ended: Ended<Self::Body>) -> Self {
        ended.outcome?.transpose()
    }
}

/// The values that `provider = …` accepts.
#[diagnostic::on_unimplemented(
    message = "`#[scheduler_lock]` cannot use `{Self}` as its provider",
    label = "expected an `Arc` of a provider, or an `Executor`",
    note = "`provider = …` takes an `Arc<dyn LockProvider>`, an `Arc` of any provider, an \
            `Executor`, or a reference to one of them"
)]
pub trait IntoExecutor {
    /// Returns an executor that uses this provider.
    fn into_executor(self) -> Executor;
}

impl IntoExecutor for Executor {
    fn into_executor(self) -> Executor {
        self
    }
}

impl IntoExecutor for &Executor {
    fn into_executor(self) -> Executor {
        self.clone()
    }
}

impl IntoExecutor for Arc<dyn LockProvider> {
    fn into_executor(self) -> Executor {
        Executor::new(self)
    }
}

impl IntoExecutor for &Arc<dyn LockProvider> {
    fn into_executor(self) -> Executor {
        Executor::new(Arc::clone(self))
    }
}

impl<P: LockProvider> IntoExecutor for Arc<P> {
    fn into_executor(self) -> Executor {
        Executor::new(self)
    }
}

impl<P: LockProvider> IntoExecutor for &Arc<P> {
    fn into_executor(self) -> Executor {
        Arc::clone(self).into_executor()
    }
}
