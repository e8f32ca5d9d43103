//! The connection, and leaving it once it has fallen silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::Client;

/// How requests reach the server.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) client: Client,
    /// How often a silent connection was left. None where the client is the user's, who may do more
    /// with it than ask for locks.
    left: Option<Arc<AtomicU64>>,
}

/// The connection that a request began on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun(u64);

impl Line {
    /// Over a client of the user's.
    pub(crate) fn of(client: Client) -> Self {
        Self { client, left: None }
    }

    /// The client is ours alone.
    pub(crate) fn owned(mut self) -> Self {
        self.left = Some(Arc::default());
        self
    }

    pub(crate) fn begin(&self) -> Begun {
        Begun(
            self.left
                .as_ref()
                .map_or(0, |left| left.load(Ordering::Relaxed)),
        )
    }

    /// A request had no answer in time. The connection may be half-open: the client itself finds
    /// that out by its third ping without an answer, half a minute later, when a lease has ended that
    /// was to be extended. So the next request goes over a new one; of several that waited on the
    /// same connection one has it replaced.
    pub(crate) async fn was_silent(&self, begun: Begun) {
        let Some(left) = &self.left else { return };
        let next = begun.0 + 1;
        let relaxed = Ordering::Relaxed;
        if left
            .compare_exchange(begun.0, next, relaxed, relaxed)
            .is_ok()
        {
            tracing::warn!(
                "the server was silent for as long as an answer may take: connecting anew"
            );
            // Fails only where the client has ended, and then so does the next request.
            let _ = self.client.force_reconnect().await;
        }
    }
}
