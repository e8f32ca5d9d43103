//! Late requests over a store that refuses them.

use std::time::Duration;

use shedlock_core::{Attempt, AttemptRequest, Error, ForceUnlockRequest, Lease, admin};

use super::site::Site;

/// How long after its timeout a copy arrives, so that even a withdrawal after the timeout has
/// completed.
const LATE: Duration = Duration::from_millis(300);

/// How long a copy is retried until it arrives at a free lock.
const TRIED: Duration = Duration::from_secs(1);

impl Site {
    /// Sends this attempt after its timeout, in the background, until it is granted.
    pub(super) fn attempt_late(&self, request: AttemptRequest) {
        let (provider, clock) = (self.inner.clone(), self.clock.clone());
        tokio::spawn(async move {
            let due = clock.now() + request.timeout + LATE;
            clock.sleep_until(due).await;
            let arrived = clock.now();
            while clock.now().saturating_since(arrived) < TRIED {
                if let Ok(Attempt::Acquired(_)) = provider.attempt(&request).await {
                    return;
                }
                clock
                    .sleep_until(clock.now() + Duration::from_millis(2))
                    .await;
            }
        });
    }

    /// Acquires the lock once more for the owner of this lease, for this long. Another owner's lease
    /// is inserted in between, so that the store grants what it would otherwise refuse.
    pub(super) async fn take_again(&self, lease: &Lease, at_most: Duration) -> Result<(), Error> {
        let name = lease.name();
        let forced = ForceUnlockRequest::new(name.clone());
        admin::force_unlock(&*self.inner, &forced).await?;
        self.another_lease(name, at_most).await?;
        let again = AttemptRequest::new(name.clone(), lease.owner().clone(), at_most);
        self.inner.attempt(&again).await.map(drop)
    }
}
