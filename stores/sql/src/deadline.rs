//! How long a call of the provider may take.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use shedlock_core::{Clock, Moment};

/// When one call has returned, whatever the server does.
///
/// It gives up on a connection earlier than on an answer, so that a call which sent nothing can
/// still report that, before whoever made it calls the outcome unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline<'a> {
    clock: &'a dyn Clock,
    connected: Moment,
    answered: Moment,
}

impl<'a> Deadline<'a> {
    /// For a call that returns within `limit`, made by someone who waits for `patience`.
    pub(crate) fn new(clock: &'a dyn Clock, limit: Duration, patience: Duration) -> Self {
        let now = clock.now();
        Self {
            clock,
            connected: now + limit.min(patience) / 4 * 3,
            answered: now + limit,
        }
    }

    /// The output, unless the time for a connection is over first: three quarters of the caller's
    /// patience. And no more than `limit` from now.
    pub(crate) async fn connect<T>(
        &self,
        limit: Duration,
        future: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let by = self.connected.min(self.clock.now() + limit);
        until(self.clock, by, future).await
    }

    /// Whether the time for a connection is over.
    pub(crate) fn is_too_late_to_connect(&self) -> bool {
        self.clock.now() >= self.connected
    }

    /// The output, unless the time of the call is over first.
    pub(crate) async fn answer<T>(&self, future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        until(self.clock, self.answered, future).await
    }
}

/// The future's output, or `None` once it is `moment`. The timer is made only if the future is not
/// ready at once. The future is pinned by its caller, since each function that it is passed through
/// would double its size.
async fn until<T>(
    clock: &dyn Clock,
    moment: Moment,
    mut future: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    let mut timer = None;
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        let timer = timer.get_or_insert_with(|| clock.sleep_until(moment));
        timer.as_mut().poll(context).map(|()| None)
    })
    .await
}
