//! How the servers are reached: by the user's own client, or by one of ours for one server at a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, mem};

use etcd_client::{Client, ConnectOptions};
use shedlock_core::{Error, ErrorKind, SystemClock, within};
use tokio::sync::OnceCell;

use crate::explain::{Failure, Trouble};

/// How long a connection may take to be made, and an answer to come, unless set.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// How often a request is sent by a user's own client, which chooses a server by itself, while it
/// certainly did not arrive.
const TRIES: usize = 5;

/// What a provider sends requests through.
pub(crate) struct Connections {
    /// None where the client is the user's own.
    servers: Vec<String>,
    options: ConnectOptions,
    connect: Duration,
    response: Duration,
    current: Mutex<Arc<Session>>,
}

/// One client for one server, which is left for the next one when it does not answer.
struct Session {
    server: usize,
    client: OnceCell<Arc<Client>>,
}

impl Session {
    fn new(server: usize, client: Option<Client>) -> Arc<Self> {
        let client = OnceCell::new_with(client.map(Arc::new));
        Arc::new(Self { server, client })
    }
}

impl Connections {
    /// Connections of our own to these servers, at least one, with these limits of time.
    pub(crate) fn own(
        servers: Vec<String>,
        options: ConnectOptions,
        connect: Duration,
        response: Duration,
    ) -> Self {
        // Processes begin with different servers.
        let server = std::process::id() as usize % servers.len().max(1);
        Self {
            servers,
            options,
            connect,
            response,
            current: Mutex::new(Session::new(server, None)),
        }
    }

    /// The user's own client.
    pub(crate) fn of(client: Client) -> Self {
        Self {
            current: Mutex::new(Session::new(0, Some(client))),
            ..Self::own(Vec::new(), ConnectOptions::new(), TIMEOUT, TIMEOUT)
        }
    }

    /// After this long a call is given up.
    pub(crate) fn longest_call(&self) -> Duration {
        self.connect.saturating_add(self.response)
    }

    /// Asks; again where that is safe and another server may do better. `lost` is the kind of the error
    /// where no answer comes: `OutcomeUnknown` for a request that writes.
    ///
    /// Dropping the future is the same as a lost answer; a client of our own is then left, since its
    /// connection may have fallen silent.
    pub(crate) async fn ask<T, F>(
        &self,
        lost: ErrorKind,
        question: impl Fn(Arc<Client>) -> F + Send + Sync,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        let mut tries = match self.servers.len() {
            0 => TRIES,
            // Once more than there are: the first may be one that is known to be gone only now.
            servers => servers + 1,
        };
        let mut was_silent = false;
        loop {
            let failure = match self.ask_once(lost, &question).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            tries -= 1;
            let again = match failure.trouble {
                Trouble::Refused => false,
                Trouble::NotSent => true,
                Trouble::Broken | Trouble::Silent if lost == ErrorKind::OutcomeUnknown => false,
                Trouble::Broken => true,
                // No caller waits for one silent server after the other.
                Trouble::Silent => !mem::replace(&mut was_silent, true),
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
        let mut doubt = Doubt {
            connections: self,
            session: Arc::clone(&self.current()),
            is_over: false,
        };
        let connected = self.client(&doubt.session);
        let connected = within(&SystemClock, self.connect, connected).await;
        let client = connected.unwrap_or_else(|| Err(Failure::not_sent()))?;
        // A limit of our own: the client's begins only when it has a connection.
        let answer = match within(&SystemClock, self.response, question(client)).await {
            Some(answer) => answer.map_err(|error| Failure::of(error, lost)),
            None => Err(Failure::unanswered(Trouble::Silent, lost)),
        };
        let failure = answer.as_ref().err();
        doubt.is_over = failure.is_none_or(|failure| failure.trouble == Trouble::Refused);
        answer
    }

    /// That of a session: one caller makes it, and the others wait.
    async fn client(&self, session: &Arc<Session>) -> Result<Arc<Client>, Failure> {
        let connect = || async {
            // A caller that waited for one that failed goes on to the next server instead.
            if !Arc::ptr_eq(&self.current(), session) {
                return Err(Failure::not_sent());
            }
            let server = self.servers[session.server].clone();
            // Without a user this sends nothing: the connection is made with the first request.
            let client = Client::connect([server], Some(self.options.clone())).await;
            client.map(Arc::new).map_err(Failure::unconnected)
        };
        session.client.get_or_try_init(connect).await.cloned()
    }

    fn current(&self) -> MutexGuard<'_, Arc<Session>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leaves a session and goes to the next server, unless the answer came.
struct Doubt<'a> {
    connections: &'a Connections,
    session: Arc<Session>,
    is_over: bool,
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        let servers = self.connections.servers.len();
        if self.is_over || servers == 0 {
            return;
        }
        let mut current = self.connections.current();
        if Arc::ptr_eq(&current, &self.session) {
            *current = Session::new((self.session.server + 1) % servers, None);
        }
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Options hold passwords.
        f.debug_tuple("Connections").field(&self.servers).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;

    /// With a user, a client is made by logging in.
    #[tokio::test]
    async fn callers_do_not_wait_for_the_connecting_of_all_before_them() {
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
        // One after the other they would take three times as long.
        let patience = Duration::from_secs(5);
        let errors = within(&SystemClock, patience, join_all((0..50).map(|_| ask()))).await;
        for error in errors.expect("callers wait for all before them") {
            assert_eq!(error.kind(), ErrorKind::Unavailable);
        }
    }
}
