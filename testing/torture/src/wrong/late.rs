//! Late requests over a store that refuses them. Another owner's lease is inserted in between, so
//! that the store grants what it would otherwise refuse.

use std::time::Duration;

use shedlock_conformance::Provider;
use shedlock_conformance::wait::{now, sleep};
use shedlock_core::{
    Attempt, AttemptRequest, Error, ForceUnlockRequest, Lease, LockName, LockProvider, Owner,
    UnlockRequest,
};

/// How long after its timeout a copy arrives, so that even a withdrawal after the timeout has
/// completed.
const LATE: Duration = Duration::from_millis(300);

/// How long a copy is retried until it arrives at a free lock.
const TRIED: Duration = Duration::from_secs(1);

/// Sends this attempt after its timeout, in the background, until it is granted.
pub(super) fn attempt(provider: Provider, request: AttemptRequest) {
    tokio::spawn(async move {
        sleep(request.timeout() + LATE).await;
        let arrived = now();
        while now().saturating_since(arrived) < TRIED {
            if let Ok(Attempt::Acquired(_)) = provider.attempt(&request).await {
                return;
            }
            sleep(Duration::from_millis(2)).await;
        }
    });
}

/// Acquires the lock once more for the owner of this lease, for this long.
pub(super) async fn take_again(
    provider: &dyn LockProvider,
    lease: &Lease,
    at_most: Duration,
) -> Result<(), Error> {
    let name = lease.name();
    provider
        .force_unlock(&ForceUnlockRequest::new(name.clone()))
        .await?;
    another_lease(provider, name, at_most).await?;
    let again = AttemptRequest::new(name.clone(), lease.owner().clone(), at_most);
    provider.attempt(&again).await.map(drop)
}

/// Lets another owner acquire and unlock the lock, so that the record no longer names the previous
/// owner.
pub(super) async fn another_lease(
    provider: &dyn LockProvider,
    name: &LockName,
    at_most: Duration,
) -> Result<(), Error> {
    let other = AttemptRequest::new(name.clone(), Owner::generate(), at_most);
    if let Attempt::Acquired(lease) = provider.attempt(&other).await? {
        provider.unlock(&lease, &UnlockRequest::new()).await?;
    }
    Ok(())
}
