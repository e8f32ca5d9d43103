//! The connection: the user's own client, or our own, which is discarded when it no longer responds.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::client::FlushErrorKind;
use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, ServerAddr};
use futures_util::FutureExt as _;
use shedlock_core::Error;
use shedlock_provider::{Call, Connect, Result, Shared, unavailable};

use crate::explain;
use crate::shape::{Version, version};

#[derive(Clone, Debug)]
pub(crate) struct Line {
    shared: Arc<Shared<Origin>>,
    /// The time limit for connecting to one server.
    pub(crate) connect: Duration,
    /// The time limit for connecting to any of the servers.
    limit: Duration,
}

pub(crate) enum Origin {
    /// The user's own client, which may have other uses too.
    Theirs(Client),
    /// Our own client. Its connection may be half-open. The client detects that only at its third unanswered ping, half
    /// a minute later, and by then a lease that was due for an extension has ended. So the connection is discarded
    /// after a missing reply, together with its client.
    Own {
        servers: Vec<ServerAddr>,
        options: Box<ConnectOptions>,
        made: u64,
    },
}

pub(crate) struct Connected {
    pub(crate) client: Client,
    /// The number of our own client; 0 for the user's client.
    which: u64,
}

impl Line {
    pub(crate) fn new(origin: Origin, connect: Duration) -> Self {
        let servers = match &origin {
            Origin::Theirs(_) => 1,
            Origin::Own { servers, .. } => u32::try_from(servers.len()).unwrap_or(u32::MAX),
        };
        Self {
            shared: Arc::new(Shared::new(origin)),
            connect,
            limit: connect.saturating_mul(servers),
        }
    }

    /// Begins a request. Returns `Unavailable` without a connection: otherwise the client would keep the request until
    /// it reconnects, and send it at an unpredictable time.
    pub(crate) async fn call(&self) -> Result<Call<'_, Origin>> {
        self.shared.call(self.limit).await
    }

    pub(crate) async fn connected(&self) -> Result<Arc<Connected>> {
        let call = self.call().await?;
        let connected = Arc::clone(&call.connection);
        call.settle();
        Ok(connected)
    }

    pub(crate) async fn nth(&self) -> Result<u64> {
        Ok(self.connected().await?.nth())
    }

    pub(crate) async fn server(&self) -> Result<Version> {
        let connected = self.connected().await?;
        Ok(version(&connected.client.server_info().version))
    }
}

impl Connected {
    /// Numbers the connection. Clients reconnect by themselves, so the number includes how often this one has
    /// connected.
    fn nth(&self) -> u64 {
        let connects = self.client.statistics().connects.load(Ordering::Relaxed);
        self.which << 32 | connects
    }

    /// Whether the client was drained, or has given up: nothing takes its messages any more. A client that is merely
    /// disconnected does not reply at once.
    pub(crate) fn is_closed(&self) -> bool {
        let flushed = self.client.flush().now_or_never();
        matches!(flushed, Some(Err(error)) if error.kind() == FlushErrorKind::SendError)
    }
}

impl Connect for Origin {
    type Connection = Connected;
    type Error = Error;

    async fn connect(&mut self) -> Result<Connected> {
        let (client, which) = match self {
            Self::Theirs(client) => (client.clone(), 0),
            Self::Own {
                servers,
                options,
                made,
            } => {
                let client = ConnectOptions::clone(options).connect(&*servers).await;
                *made += 1;
                (client.map_err(explain::unconnected)?, *made)
            }
        };
        let connected = Connected { client, which };
        if Self::is_usable(&connected, Duration::ZERO) {
            return Ok(connected);
        }
        Err(unavailable("not connected to the server")
            .advise("check that it is running")
            .retry())
    }

    fn late() -> Error {
        let timeout = io::Error::from(io::ErrorKind::TimedOut);
        explain::unreachable_server().with_source(timeout)
    }

    fn is_usable(connected: &Connected, _: Duration) -> bool {
        connected.client.connection_state() == State::Connected
    }

    fn heals(connected: &Connected) -> bool {
        connected.which == 0
    }
}
