//! Leases of the store, which make a lock's own key expire.

use std::sync::Arc;
use std::time::Duration;

use ErrorKind::{Lost, Unavailable};
use etcd_client::Client;
use shedlock_core::ErrorKind;
use shedlock_provider::Result;
use tokio::runtime::Handle;

use crate::found::Granted;
use crate::store::EtcdStore;

impl EtcdStore {
    /// Requests a lease. The server grants a longer one if this one is shorter than its minimum.
    ///
    /// If the reply is lost, a lease without keys may remain. It expires by itself.
    pub(crate) async fn grant(&self, duration: Duration) -> Result<Granted> {
        let seconds = seconds(duration);
        let asked = self.clock.now();
        let ask = |it: Arc<Client>| async move { it.lease_client().grant(seconds, None).await };
        let answer = self.connections.ask(Unavailable, ask).await?;
        let lasts = Duration::from_secs(answer.ttl().max(seconds).unsigned_abs());
        Ok(Granted {
            id: answer.id(),
            lasts,
            ends: asked + lasts,
        })
    }

    /// Returns the longest time that a lease can have left; it may have up to a second less. None if it has expired.
    pub(crate) async fn left(&self, id: i64) -> Result<Option<Duration>> {
        let ask = |it: Arc<Client>| async move { it.lease_client().time_to_live(id, None).await };
        match self.connections.ask(Unavailable, ask).await {
            // Truncated to whole seconds; negative if there is no lease.
            Ok(answer) => Ok(u64::try_from(answer.ttl())
                .ok()
                .map(|seconds| Duration::from_secs(seconds.saturating_add(1)))),
            Err(error) if error.kind() == Lost => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Revokes a lease that no lock needs any more, together with any key attached to it. This runs in the background,
    /// because no caller has to wait for it. If it fails, or there is no runtime left to run it, the lease expires by
    /// itself.
    pub(crate) fn revoke(&self, id: i64) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let connections = Arc::clone(&self.connections);
        runtime.spawn(async move {
            let ask = |it: Arc<Client>| async move { it.lease_client().revoke(id).await };
            match connections.ask(Unavailable, ask).await {
                Err(error) if error.kind() != Lost => {
                    tracing::debug!(%error, "cannot revoke an unused lease; it expires by itself");
                }
                _ => {}
            }
        });
    }
}

/// Returns a lease's duration in whole seconds, rounded up.
fn seconds(duration: Duration) -> i64 {
    let whole = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i64::try_from(whole.max(1)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shedlock_provider::HUNDRED_YEARS;

    #[test]
    fn leases_are_never_shorter_than_asked_for() {
        let asked = |nanos| seconds(Duration::from_nanos(nanos));
        assert_eq!(asked(0), 1);
        assert_eq!(asked(1), 1);
        assert_eq!(asked(1_000_000_000), 1);
        assert_eq!(asked(1_000_000_001), 2);
        assert_eq!(seconds(HUNDRED_YEARS), 3_162_240_000);
    }
}
