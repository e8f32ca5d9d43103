//! Time limits for calls to a store.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::clock::Clock;
use crate::{Error, ErrorKind};

/// What the future gives, or `None` when it gives nothing within `limit`; it is dropped then. For
/// providers.
///
/// The timer is made only if the future is not ready at once.
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

/// The call's answer, or an error of kind `unanswered` when there is none within `limit`. For
/// providers, which bound each call by their [`longest_call`](crate::Capabilities::longest_call):
/// `OutcomeUnknown` for one that may have written, `Unavailable` for one that only reads.
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
/// The call's own, and that one.
pub async fn answered_within<T>(
    clock: &dyn Clock,
    limit: Duration,
    unanswered: ErrorKind,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    within(clock, limit, call).await.unwrap_or_else(|| {
        let limit = crate::text::duration(limit);
        Err(Error::new(
            unanswered,
            format!("the store gave no answer within {limit}"),
        ))
    })
}
