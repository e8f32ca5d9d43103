//! Connections to the ensemble: the user's own client, or our own sessions.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{Error, ErrorKind, SystemClock, within};
use shedlock_provider::{
    Call, Connect, Result, Shared, invalid, unanswered, unavailable, unresolved,
};
use zookeeper_client::{Client, Connector, Error as ClientError, SessionState};

use crate::explain::{explain, is_answered, is_refused_unseen, refused, unreachable_server};
use crate::requests::Session;

#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    shared: Arc<Shared<Origin>>,
    /// How long it may take to establish a session.
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
}

pub(crate) enum Origin {
    Theirs(Client),
    /// Our own sessions. Locks do not depend on them.
    Own {
        connector: Box<Connector>,
        servers: String,
        /// `/` if there is none.
        chroot: String,
    },
}

impl Sessions {
    pub(crate) fn new(origin: Origin) -> Self {
        Self {
            shared: Arc::new(Shared::new(origin)),
            connect_timeout: Duration::from_secs(5),
            response_timeout: Duration::from_secs(5),
        }
    }

    /// Sends a request over a connected session. `lost` is the kind of the error if no reply arrives. A request that
    /// changes nothing is sent once more if its connection broke: only using a connection reveals that it is broken.
    /// Any request is sent once more if the server refused it because of its session.
    ///
    /// Dropping the future counts as a lost reply. The session is then discarded, because its connection may no longer
    /// respond.
    pub(crate) async fn ask<T, F>(&self, lost: ErrorKind, ask: impl Fn(Session) -> F) -> Result<T>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let mut again = true;
        loop {
            let call = self.shared.call(self.connect_timeout).await?;
            let session = Session::clone(&call.connection);
            let answer = within(&SystemClock, self.response_timeout, ask(session)).await;
            let answer = answer.ok_or_else(|| unanswered(lost))?;
            let error = match call.settle_by(answer, is_answered) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let may_repeat =
                is_refused_unseen(&error) || lost == ErrorKind::Unavailable && !is_answered(&error);
            if !again || !may_repeat {
                return Err(explain(error, lost));
            }
            again = false;
        }
    }

    pub(crate) async fn reach(&self) -> Result<()> {
        let call = self.shared.call(self.connect_timeout);
        call.await.map(Call::settle)
    }
}

impl Connect for Origin {
    type Connection = Session;
    type Error = Error;

    async fn connect(&mut self) -> Result<Session> {
        match self {
            Self::Theirs(client) => {
                settled(client).await?;
                let session = Session::begin(client.clone()).await;
                session.map_err(|error| explain(error, ErrorKind::Unavailable))
            }
            Self::Own {
                connector,
                servers,
                chroot,
            } => {
                let client = Connector::clone(connector).connect(servers).await;
                if let Err(ClientError::NoHosts) = client {
                    return Err(no_hosts(servers).await);
                }
                let client = client.map_err(refused)?.chroot(chroot.clone());
                let client = client.map_err(|_| {
                    invalid("the chroot in the URL is not a valid node path")
                        .advise("write it like zookeeper://host/app/env")
                })?;
                Session::begin(client).await.map_err(refused)
            }
        }
    }

    fn late() -> Error {
        unreachable_server()
    }

    fn is_usable(session: &Session, _: Duration) -> bool {
        is_connected(session.client.state())
    }
}

/// Returns the error for servers none of which could be connected to. The client does not report whether their host
/// names can be resolved.
async fn no_hosts(servers: &str) -> Error {
    let Some(error) = lookup_failure(servers).await else {
        return unreachable_server();
    };
    match unresolved(&error) {
        Some(explained) => explained.with_source(error),
        None => unreachable_server(),
    }
}

/// Returns why none of the host names can be resolved, or none if one of them can.
async fn lookup_failure(servers: &str) -> Option<io::Error> {
    let mut failure = None;
    for server in servers.split(',') {
        let address = server.split_once("://").map_or(server, |(_, rest)| rest);
        match tokio::net::lookup_host(address).await {
            Ok(_) => return None,
            Err(error) => failure = Some(error),
        }
    }
    failure
}

/// Waits until the user's client is connected. It reconnects by itself, to any server that it finds.
async fn settled(client: &Client) -> Result<()> {
    let mut watcher = client.state_watcher();
    let mut state = client.state();
    while state == SessionState::Disconnected {
        state = watcher.changed().await;
    }
    match state {
        state if is_connected(state) => Ok(()),
        SessionState::AuthFailed => Err(explain(ClientError::AuthFailed, ErrorKind::Unavailable)),
        _ => Err(
            unavailable("this client's session has ended, and a client cannot open another").advise(
                "create a new client and provider, or a provider from a URL, which opens new sessions by itself",
            ),
        ),
    }
}

fn is_connected(state: SessionState) -> bool {
    matches!(
        state,
        SessionState::SyncConnected | SessionState::ConnectedReadOnly
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_host_name_that_does_not_resolve_is_reported() {
        let error = no_hosts("tcp://no-such-host.invalid:2181").await;
        assert!(error.to_string().contains("the host name"), "{error}");
        for servers in [
            "tcp://127.0.0.1:1",
            "tcp://no-such-host.invalid:2181,tcp://127.0.0.1:1",
        ] {
            let error = no_hosts(servers).await;
            assert!(error.to_string().contains("refused or closed"), "{error}");
        }
    }
}
