//! Extensions by others: `shedlock extend` while the command runs.

use std::convert::Infallible;
use std::time::{Duration, SystemTime};

use shedlock::{Clock, Error, ExtendRequest, HeldLock, LockProvider, SystemClock};

use crate::watchdog::Plan;

/// An end that is later by no more than this is the same one: a store may round.
const TOLERANCE: Duration = Duration::from_secs(1);

/// Reads the end of the lease in the last seconds before the command is stopped, and extends the lease to that end if
/// another process has moved it. The extension is an event, by which the watchdog gets its new plan. If the record names
/// another owner, an extension finds out whether the lease is lost, since a read may be of an old record.
pub(super) async fn follow(lock: &HeldLock, provider: &dyn LockProvider) -> Infallible {
    let at_most = lock.lease().lock_at_most_for();
    let mut known = lock.locked_until();
    loop {
        let grace = Plan::grace_of(lock.lease().lock_at_most_for());
        let until_stop = lock.time_left().saturating_sub(grace);
        let pause = until_stop.saturating_sub(grace).max(grace / 4);
        SystemClock.sleep_until(SystemClock.now() + pause).await;
        if lock.time_left() > 2 * grace {
            continue;
        }
        if let Err(error) = catch_up(lock, provider, at_most, &mut known).await {
            tracing::debug!(lock = lock.name().as_str(), error = %format_args!("{error:#}"),
                "cannot read the end of the lease");
        }
    }
}

async fn catch_up(
    lock: &HeldLock,
    provider: &dyn LockProvider,
    at_most: Duration,
    known: &mut Option<SystemTime>,
) -> Result<(), Error> {
    let Some(record) = provider.inspect(lock.name()).await? else {
        return Ok(());
    };
    let is_ours = record.owner.as_deref() == Some(lock.owner().as_str());
    if !is_ours {
        return lock.extend(&ExtendRequest::new(lock.time_left())).await;
    }
    let (Some(until), Some(now)) = (record.locked_until, record.read_at) else {
        return Ok(());
    };
    // Not every store reports the end that it grants.
    let granted = || record.locked_at?.checked_add(at_most);
    let Some(before) = known.or_else(granted) else {
        return Ok(());
    };
    if until
        .duration_since(before)
        .is_ok_and(|later| later > TOLERANCE)
        && let Ok(left) = until.duration_since(now)
    {
        lock.extend(&ExtendRequest::new(left)).await?;
        *known = Some(until);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shedlock::{
        Attempt, AttemptRequest, BoxFuture, Executor, Lease, LockConfig, MemoryProvider,
    };

    use super::*;

    /// A store that does not report when the leases end that it grants, like MySQL.
    #[derive(Debug)]
    struct Endless {
        inner: Arc<MemoryProvider>,
    }

    impl LockProvider for Endless {
        fn attempt<'a>(
            &'a self,
            request: &'a AttemptRequest,
        ) -> BoxFuture<'a, Result<Attempt, Error>> {
            Box::pin(async {
                Ok(match self.inner.attempt(request).await? {
                    Attempt::Acquired(_) => Attempt::Acquired(Lease::granted(request)),
                    skipped => skipped,
                })
            })
        }

        shedlock_core::delegate!(inner except attempt);
    }

    #[tokio::test]
    async fn an_extension_is_not_missed_on_a_store_that_reports_no_end() {
        let provider = Arc::new(Endless {
            inner: Arc::default(),
        });
        let config = LockConfig::new("a").lock_at_most_for(Duration::from_secs(3));
        let held = match Executor::new(provider.clone()).lock(&config).await.unwrap() {
            Attempt::Acquired(held) => held,
            skipped => panic!("{skipped:?}"),
        };
        assert_eq!(held.locked_until(), None);
        let hour = ExtendRequest::new(Duration::from_secs(3_600));
        let _ = provider.extend(&held.lease(), &hour).await.unwrap();
        let extended = async {
            while !held.is_lost() && held.time_left() < Duration::from_secs(60) {
                let soon = SystemClock.now() + Duration::from_millis(20);
                SystemClock.sleep_until(soon).await;
            }
        };
        tokio::select! {
            never = follow(&held, &*provider) => match never {},
            () = extended => {}
        }
        assert!(!held.is_lost());
        let _ = held.unlock().await;
    }
}
