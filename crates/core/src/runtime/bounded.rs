//! Time limits for calls of the runtime.

use std::time::Duration;

use crate::clock::Clock;
use crate::contract::{Error, ErrorKind, answered_within};

/// Returns the result of the call, or `OutcomeUnknown` if there is none within `limit`, since the
/// store may have acted.
pub(super) async fn bounded<T>(
    clock: &dyn Clock,
    limit: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    answered_within(clock, limit, ErrorKind::OutcomeUnknown, call).await
}
