//! Time limits for calls to a store.

use std::future::{Future, poll_fn};
use std::panic::catch_unwind;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::clock::Clock;
use crate::contract::{Error, ErrorKind};

/// Returns the result of the future, or `None` if it has none within `limit`, in which case the
/// future is dropped. For providers.
///
/// The timer is created only if the future is not ready at once.
pub async fn within<T>(
    clock: &dyn Clock,
    limit: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    let mut future = pin!(future);
    let mut timer = None;
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        let timer = timer.get_or_insert_with(|| clock.sleep_until(clock.now() + limit));
        timer.as_mut().poll(context).map(|()| None)
    })
    .await
}

/// Returns the result of the call, or an error of kind `unanswered` if there is none within
/// `limit`. For providers, which limit each call by their
/// [`longest_call`](crate::Capabilities::longest_call). Use `OutcomeUnknown` for a call that may
/// have written, and `Unavailable` for one that only reads.
///
/// ```
/// use shedlock_core::{Error, ErrorKind, SystemClock, answered_within};
/// use std::time::Duration;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let silent = std::future::pending::<Result<(), Error>>();
/// let limit = Duration::from_millis(20);
/// let answer = answered_within(&SystemClock, limit, ErrorKind::Unavailable, silent).await;
/// assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unavailable);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The call's own error, the timeout error described above, or `WrongContext` before the call if the clock is the
/// system's and this is no tokio runtime with timers.
pub async fn answered_within<T>(
    clock: &dyn Clock,
    limit: Duration,
    unanswered: ErrorKind,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    if clock.is_system() {
        check_runtime()?;
    }
    within(clock, limit, call).await.unwrap_or_else(|| {
        let limit = shedlock_support::text::duration(limit);
        let what = format!("no reply from the store within {limit}");
        let error = Error::new(unanswered, what);
        let error = match unanswered {
            ErrorKind::OutcomeUnknown => error.may_have_taken_effect(),
            _ => error.nothing_written(),
        };
        Err(error
            .advise("check that the store is up and that its address is right")
            .retry())
    })
}

/// Returns an error unless this is a tokio runtime with timers, on which the system's clock can wait.
///
/// # Errors
/// `WrongContext`.
#[expect(
    clippy::disallowed_methods,
    reason = "tokio has no other way to find out"
)]
pub fn check_runtime() -> Result<(), Error> {
    let wrong = |why_and_what| Error::new(ErrorKind::WrongContext, why_and_what);
    tokio::runtime::Handle::try_current().map_err(|error| {
        wrong("cannot wait for the store: the call is outside a tokio runtime")
            .advise(
                "make it on a runtime that was built with enable_all, or use shedlock::blocking",
            )
            .with_source(error)
    })?;
    catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).map_err(|_| {
        wrong("cannot wait for the store: this tokio runtime has no timers")
            .advise("build it with enable_all")
    })
}
