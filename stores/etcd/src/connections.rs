//! Connections to the servers: the user's own client, or our own clients, each for one server.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions};
use shedlock_core::{ErrorKind, SystemClock, within};
use shedlock_provider::{Connect, Result, Shared};

use crate::explain::{Failure, Fault};

/// The default time limit for making a connection, and for a reply.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// How often a request is sent over the user's own client while it certainly has not arrived. That client chooses a
/// server itself.
const TRIES: usize = 5;

#[derive(Debug)]
pub(crate) struct Connections {
    shared: Shared<Servers>,
    connect: Duration,
    response: Duration,
    /// How often a request is sent while resending is safe.
    tries: usize,
}

enum Servers {
    Given(Box<Client>),
    /// Our own client for one server at a time. If that server does not reply, the next one is used.
    Own {
        servers: Vec<String>,
        options: Box<ConnectOptions>,
        next: usize,
    },
}

impl Connect for Servers {
    type Connection = Client;
    type Error = Failure;

    async fn connect(&mut self) -> Result<Client, Failure> {
        match self {
            Self::Given(client) => Ok(Client::clone(client)),
            Self::Own {
                servers,
                options,
                next,
            } => {
                let server = servers[*next].clone();
                *next = (*next + 1) % servers.len();
                // Without a user, this sends nothing: the connection is made with the first request.
                let client = Client::connect([server], Some(ConnectOptions::clone(options))).await;
                client.map_err(Failure::unconnected)
            }
        }
    }

    fn late() -> Failure {
        Failure::not_sent()
    }
}

impl Connections {
    /// Creates our own connections to these servers, at least one, with these time limits.
    pub(crate) fn own(
        servers: Vec<String>,
        options: ConnectOptions,
        connect: Duration,
        response: Duration,
    ) -> Self {
        Self {
            // One more than the number of servers: the first connection may already be broken.
            tries: servers.len() + 1,
            shared: Shared::new(Servers::Own {
                // Different processes start with different servers.
                next: std::process::id() as usize % servers.len().max(1),
                servers,
                options: Box::new(options),
            }),
            connect,
            response,
        }
    }

    pub(crate) fn of(client: Client) -> Self {
        Self {
            shared: Shared::new(Servers::Given(Box::new(client))),
            connect: TIMEOUT,
            response: TIMEOUT,
            tries: TRIES,
        }
    }

    pub(crate) fn longest_call(&self) -> Duration {
        self.connect.saturating_add(self.response)
    }

    /// Sends a request, and resends it if that is safe and another server may succeed. `lost` is the kind of the error
    /// if no reply arrives: `OutcomeUnknown` for a request that writes.
    ///
    /// Dropping the future counts as a lost reply. Our own client is then discarded, because its connection may no
    /// longer respond.
    pub(crate) async fn ask<T, F>(
        &self,
        lost: ErrorKind,
        question: impl Fn(Arc<Client>) -> F + Send + Sync,
    ) -> Result<T>
    where
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        let mut tries = self.tries;
        let mut was_silent = false;
        loop {
            let failure = match self.ask_once(lost, &question).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            tries -= 1;
            let again = match failure.fault {
                Fault::Refused => false,
                Fault::NotSent => true,
                Fault::Broken | Fault::Silent if lost == ErrorKind::OutcomeUnknown => false,
                Fault::Broken => true,
                // Do not make the caller wait for several silent servers in a row.
                Fault::Silent => !mem::replace(&mut was_silent, true),
            };
            if tries == 0 || !again {
                return Err(failure.error);
            }
        }
    }

    async fn ask_once<T, F>(
        &self,
        lost: ErrorKind,
        question: &(impl Fn(Arc<Client>) -> F + Sync),
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        let call = self.shared.call(self.connect).await?;
        let asked = question(Arc::clone(&call.connection));
        // Our own limit: the client's limit starts only once it has a connection.
        let answer = match within(&SystemClock, self.response, asked).await {
            Some(answer) => answer.map_err(|error| Failure::of(error, lost)),
            None => Err(Failure::unanswered(Fault::Silent, lost)),
        };
        call.settle_by(answer, |failure| failure.fault == Fault::Refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;

    /// With a user, making a client includes the login.
    #[tokio::test]
    async fn callers_do_not_wait_for_the_connection_attempts_of_others() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", silent.local_addr().unwrap());
        let limit = Duration::from_millis(300);
        let options = ConnectOptions::new().with_user("user", "password");
        let connections = Connections::own(vec![server], options, limit, limit);
        let ask = || {
            let get = |it: Arc<Client>| async move { it.kv_client().get("key", None).await };
            let answer = connections.ask(ErrorKind::OutcomeUnknown, get);
            async { answer.await.expect_err("the server never answers") }
        };
        // One after the other would take three times as long.
        let patience = Duration::from_secs(5);
        let errors = within(&SystemClock, patience, join_all((0..50).map(|_| ask()))).await;
        for error in errors.expect("callers wait for all before them") {
            assert_eq!(error.kind(), ErrorKind::Unavailable);
        }
    }
}
