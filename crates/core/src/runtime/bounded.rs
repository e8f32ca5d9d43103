//! Time limits for calls to a store.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::Error;
use crate::ErrorKind;
use crate::clock::Clock;

/// The call's answer, or `Unknown` when there is none within `limit`: the store may have acted.
///
/// The timer is made only if the call does not answer at once.
pub(super) async fn bounded<T>(
    clock: &dyn Clock,
    limit: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let mut call = pin!(call);
    let mut timer = None;
    poll_fn(|context| {
        if let Poll::Ready(answer) = call.as_mut().poll(context) {
            return Poll::Ready(answer);
        }
        let timer = timer.get_or_insert_with(|| clock.sleep_until(clock.now() + limit));
        timer.as_mut().poll(context).map(|()| {
            let limit = crate::text::duration(limit);
            Err(Error::new(
                ErrorKind::Unknown,
                format!("the store gave no answer within {limit}"),
            ))
        })
    })
    .await
}
