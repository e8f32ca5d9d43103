//! How long a call of the provider may take.

use std::pin::Pin;
use std::time::Duration;

use shedlock_core::{Clock, Moment, within};

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
    ///
    /// The future is pinned by its caller, since each function that it is passed through would double its size.
    pub(crate) async fn connect<T>(
        &self,
        limit: Duration,
        future: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let left = self.connected.saturating_since(self.clock.now());
        within(self.clock, left.min(limit), future).await
    }

    pub(crate) fn is_too_late_to_connect(&self) -> bool {
        self.clock.now() >= self.connected
    }

    pub(crate) async fn answer<T>(&self, future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let left = self.answered.saturating_since(self.clock.now());
        within(self.clock, left, future).await
    }
}
