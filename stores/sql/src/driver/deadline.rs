//! The time that a call has.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{Budget, Clock, within};

/// The time by which one call must have a connection and must have returned, whatever the server does.
///
/// The time for a connection ends earlier. So a call that sent nothing can still report this before its caller treats
/// the outcome as unknown.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    pub(crate) budget: Budget,
    /// How much of the budget's time may pass before there is a connection.
    connect: Duration,
    /// The budget's owner does not end the call when its time is over.
    ends_itself: bool,
}

impl Deadline {
    /// For a call that returns within `limit`.
    pub(crate) fn new(clock: &Arc<dyn Clock>, limit: Duration) -> Self {
        Self {
            budget: Budget::new(Arc::clone(clock), limit),
            connect: limit / 4 * 3,
            ends_itself: true,
        }
    }

    /// For a call that is ended when the time of this budget is over, or `limit` is.
    pub(crate) fn of(budget: &Budget, limit: Duration) -> Self {
        Self {
            budget: budget.clone(),
            connect: limit.min(budget.time()) / 4 * 3,
            ends_itself: false,
        }
    }

    /// Returns the output, unless the time for a connection (three quarters of all) or `limit` from now passes first.
    ///
    /// The caller pins the future, because each function that takes it by value would double its size.
    pub(crate) async fn connect<T>(
        &self,
        limit: Duration,
        future: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        within(
            &**self.budget.clock(),
            self.left_to_connect().min(limit),
            future,
        )
        .await
    }

    /// The time that is left.
    pub(crate) fn left(&self) -> Duration {
        self.budget.left()
    }

    pub(crate) fn is_too_late_to_connect(&self) -> bool {
        self.left_to_connect().is_zero()
    }

    fn left_to_connect(&self) -> Duration {
        let elapsed = self.budget.time() - self.budget.left();
        self.connect.saturating_sub(elapsed)
    }

    pub(crate) async fn answer<T>(&self, future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        if self.ends_itself {
            within(&**self.budget.clock(), self.left(), future).await
        } else {
            Some(future.await)
        }
    }
}
