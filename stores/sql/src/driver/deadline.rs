//! The time that a call has.

use std::pin::Pin;
use std::time::Duration;

use shedlock_core::{Clock, Moment, within};

/// The instants by which one call must have a connection and must have returned, whatever the server does.
///
/// The limit for a connection is earlier. So a call that sent nothing can still report this before its caller treats
/// the outcome as unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline<'a> {
    clock: &'a dyn Clock,
    connected: Moment,
    answered: Moment,
}

impl<'a> Deadline<'a> {
    /// For a call that returns within `limit` and whose caller waits for `patience`.
    pub(crate) fn new(clock: &'a dyn Clock, limit: Duration, patience: Duration) -> Self {
        let now = clock.now();
        Self {
            clock,
            connected: now + limit.min(patience) / 4 * 3,
            answered: now + limit,
        }
    }

    /// Returns the output, unless the time for a connection (three quarters of the caller's patience) or `limit` from
    /// now passes first.
    ///
    /// The caller pins the future, because each function that takes it by value would double its size.
    pub(crate) async fn connect<T>(
        &self,
        limit: Duration,
        future: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let left = self.connected.saturating_since(self.clock.now());
        within(self.clock, left.min(limit), future).await
    }

    /// The time that is left.
    pub(crate) fn left(&self) -> Duration {
        self.answered.saturating_since(self.clock.now())
    }

    pub(crate) fn is_too_late_to_connect(&self) -> bool {
        self.clock.now() >= self.connected
    }

    pub(crate) async fn answer<T>(&self, future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        within(self.clock, self.left(), future).await
    }
}
