//! The identity of the store of the locks, for records.

use std::time::Duration;

use shedlock_core::{Clock, LockProvider, store_identity, within};

/// The identity for a record, which is worth keeping even if the locks cannot be read now: `None` if they cannot.
pub(crate) async fn lock_store(
    provider: &dyn LockProvider,
    clock: &dyn Clock,
) -> Option<Option<String>> {
    const PATIENCE: Duration = Duration::from_secs(1);
    within(clock, PATIENCE, store_identity(provider))
        .await?
        .ok()
}
