//! The connection, and leaving it once it has fallen silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use shedlock_core::{Clock as _, Error, ErrorKind, SystemClock};

/// For so long a request waits for the connection that replaces a silent one.
const NEW_CONNECTION: Duration = Duration::from_secs(1);

/// How often it looks.
const LOOK: Duration = Duration::from_millis(5);

/// How requests reach the server.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    client: Client,
    /// Which of its connections was left and is not replaced yet; 0: none. None where the client is
    /// the user's, who may do more with it than ask for locks.
    left: Option<Arc<AtomicU64>>,
}

/// A client that is connected.
pub(crate) struct Connected<'a> {
    pub(crate) client: &'a Client,
    /// Which of its connections this is.
    pub(crate) nth: u64,
}

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

    /// The client, if it has a connection that was not left; waits for the one that replaces it.
    ///
    /// # Errors
    /// `Unavailable`: the client would keep a request until it is connected again, and send it who
    /// knows when.
    pub(crate) async fn connected(&self) -> Result<Connected<'_>, Error> {
        if let Some(left) = &self.left {
            let relaxed = Ordering::Relaxed;
            let until = SystemClock.now() + NEW_CONNECTION;
            loop {
                // Of two who see the same leave, the slower must not undo a later one.
                let nth = left.load(relaxed);
                let is_replaced = self.nth() > nth && self.is_connected();
                if nth == 0 || is_replaced || SystemClock.now() >= until {
                    // For a server that is gone, whoever comes next need not wait as long.
                    let _ = left.compare_exchange(nth, 0, relaxed, relaxed);
                    break;
                }
                SystemClock.sleep_until(SystemClock.now() + LOOK).await;
            }
        }
        if !self.is_connected() {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "there is no connection to the server",
            ));
        }
        Ok(Connected {
            client: &self.client,
            nth: self.nth(),
        })
    }

    /// A request had no answer in time. The connection may be half-open: the client itself finds
    /// that out by its third ping without an answer, half a minute later, when a lease has ended that
    /// was to be extended. So the next request goes over a new one; of several that waited on the
    /// same connection one has it replaced.
    pub(crate) async fn was_silent(&self, nth: u64) {
        let Some(left) = &self.left else { return };
        let relaxed = Ordering::Relaxed;
        if nth == self.nth() && left.fetch_max(nth, relaxed) < nth {
            tracing::warn!(
                "the server was silent for as long as an answer may take: connecting anew"
            );
            // Fails only where the client has ended, and then so does the next request.
            let _ = self.client.force_reconnect().await;
        }
    }

    /// The version of the server that it is connected to.
    pub(crate) fn server_version(&self) -> String {
        self.client.server_info().version
    }

    fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// How many connections the client has had.
    pub(crate) fn nth(&self) -> u64 {
        self.client.statistics().connects.load(Ordering::Relaxed)
    }
}
