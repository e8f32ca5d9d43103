//! When a store last replied, so that a connection that was cut while it was idle is found before an attempt is sent.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shedlock_core::Moment;

/// A connection that was idle for longer than this is tested before an attempt is sent on it: load balancers and
/// firewalls drop idle connections, often without notifying either side, and an attempt whose reply is lost costs a
/// withdrawal.
pub const FRESH: Duration = Duration::from_secs(30);

/// How long a connection may take to reply to a test. One that was dropped silently never replies.
pub const TEST: Duration = Duration::from_secs(1);

/// When the last reply came.
#[derive(Debug, Default)]
pub(crate) struct LastReply(Mutex<Option<Moment>>);

impl LastReply {
    /// Notes a reply.
    pub(crate) fn came(&self, now: Moment) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    /// Whether the connections may have been cut since. Before the first reply there are none.
    pub(crate) fn is_old(&self, now: Moment) -> bool {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| now.saturating_since(last) > FRESH)
    }
}
