//! The connection, and leaving it once it has fallen silent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use shedlock_core::{Clock as _, Error, ErrorKind, Moment, SystemClock};

/// For so long a request waits for the connection that replaces a silent one.
pub(crate) const NEW_CONNECTION: Duration = Duration::from_secs(1);

/// As long as this a connection may be silent whose request was given up: one that is cancelled at once
/// proves nothing.
const GIVEN_UP: Duration = Duration::from_millis(250);

/// How often it looks.
const LOOK: Duration = Duration::from_millis(5);

/// How requests reach the server.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    client: Client,
    /// None where the client is the user's, who may do more with it than ask for locks.
    own: Option<Arc<Own>>,
}

/// What is known of the connections of a client of ours.
#[derive(Debug, Default)]
struct Own {
    /// Which of them was left and is not replaced yet; 0: none.
    left: AtomicU64,
    /// Which of them has answered nothing since a request was sent.
    unanswered: Mutex<Option<Unanswered>>,
}

/// A connection that has answered nothing.
#[derive(Clone, Copy, Debug)]
struct Unanswered {
    /// Which it is.
    nth: u64,
    /// When the first request was sent.
    since: Moment,
    /// A request was given up by whoever waited for its answer, as by a keep-alive, which has less time
    /// than an answer may take.
    is_given_up: bool,
}

/// A request that waits for its answer.
pub(crate) struct Waiting<'a> {
    line: &'a Line,
    nth: u64,
    is_over: bool,
}

impl Waiting<'_> {
    /// The answer is there, or has not come in time.
    pub(crate) fn settle(mut self) {
        self.is_over = true;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if let Some(own) = self.line.own.as_deref()
            && let Some(unanswered) = &mut *own.unanswered()
            && unanswered.nth == self.nth
        {
            unanswered.is_given_up = true;
        }
    }
}

impl Own {
    fn unanswered(&self) -> MutexGuard<'_, Option<Unanswered>> {
        self.unanswered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
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
        Self { client, own: None }
    }

    /// The client is ours alone.
    pub(crate) fn owned(mut self) -> Self {
        self.own = Some(Arc::default());
        self
    }

    /// The client, if it has a connection that was not left; waits for the one that replaces it.
    ///
    /// # Errors
    /// `Unavailable`: the client would keep a request until it is connected again, and send it who
    /// knows when.
    pub(crate) async fn connected(&self) -> Result<Connected<'_>, Error> {
        if let Some(Own { left, .. }) = self.own.as_deref() {
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
        let Some(Own { left, .. }) = self.own.as_deref() else {
            return;
        };
        let relaxed = Ordering::Relaxed;
        if nth == self.nth() && left.fetch_max(nth, relaxed) < nth {
            tracing::warn!(
                "the server was silent for as long as an answer may take: connecting anew"
            );
            // Fails only where the client has ended, and then so does the next request.
            let _ = self.client.force_reconnect().await;
        }
    }

    /// The client for a request that may take this long. A connection that has answered nothing for
    /// that time is left first: whoever drops a request sooner never finds out that it was silent.
    ///
    /// # Errors
    /// As [`connected`](Self::connected).
    pub(crate) async fn to_send(&self, timeout: Duration) -> Result<Connected<'_>, Error> {
        let connected = self.connected().await?;
        let Some(own) = self.own.as_deref() else {
            return Ok(connected);
        };
        let now = SystemClock.now();
        let silent = {
            let mut unanswered = own.unanswered();
            let known = unanswered.filter(|known| known.nth == connected.nth);
            let known = known.unwrap_or(Unanswered {
                nth: connected.nth,
                since: now,
                is_given_up: false,
            });
            *unanswered = Some(known);
            let silent = now.saturating_since(known.since);
            silent >= timeout || known.is_given_up && silent >= GIVEN_UP
        };
        if !silent {
            return Ok(connected);
        }
        self.was_silent(connected.nth).await;
        let connected = self.connected().await?;
        *own.unanswered() = Some(Unanswered {
            nth: connected.nth,
            since: SystemClock.now(),
            is_given_up: false,
        });
        Ok(connected)
    }

    /// A request is on its way over this connection; dropped, it was given up.
    pub(crate) fn waiting(&self, nth: u64) -> Waiting<'_> {
        Waiting {
            line: self,
            nth,
            is_over: false,
        }
    }

    /// The server has answered.
    pub(crate) fn was_answered(&self) {
        if let Some(own) = self.own.as_deref() {
            *own.unanswered() = None;
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
