//! How the store is reached: by the user's own client, or by connections that we keep.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, KvClient, LeaseClient};
use shedlock_core::{SystemClock, within};

use crate::explain::{Failure, Trouble};

/// How long a connection may take to be made, and an answer to come, unless set.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// How often a request is sent by a user's own client, which chooses a server by itself, while it
/// certainly did not arrive.
const TRIES: usize = 5;

/// What a provider talks through; made from what the user has.
///
/// | from | which server is asked | what happens when one does not answer |
/// |---|---|---|
/// | a URL | one of those that it names, as long as it answers | the next one is asked |
/// | [`etcd_client::Client`] | one of the client's, chosen by it each time | the client may choose the same again: give it keep-alives (`ConnectOptions::with_keep_alive`), by which it sees that a server has fallen silent |
///
/// An answer is waited for 5 s, or as long as the URL says.
#[derive(Clone)]
pub struct Connections {
    kind: Kind,
    response: Duration,
    /// After this long a call is given up.
    pub(crate) longest_call: Duration,
}

#[derive(Clone)]
enum Kind {
    Client(Arc<Clients>),
    Own(Arc<Own>),
}

/// The parts of a client that locks need. The whole of it is large, and is cloned to be used.
pub(crate) struct Clients {
    pub(crate) kv: KvClient,
    pub(crate) leases: LeaseClient,
}

/// One client for one server, which is left for the next one when it does not answer.
struct Own {
    servers: Vec<String>,
    options: ConnectOptions,
    /// How long a client may take to be made.
    connect: Duration,
    current: Mutex<Current>,
    /// Held while a client is made, so that one is.
    connecting: tokio::sync::Mutex<()>,
}

struct Current {
    client: Option<Arc<Clients>>,
    /// Which server it is for, or will be.
    server: usize,
    /// How many clients there were before.
    generation: u64,
}

/// What it means that an answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing: the request can be sent again, to another server.
    None,
    /// It may have changed something.
    Writes,
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
            kind: Kind::Own(Arc::new(Own {
                servers,
                options,
                connect,
                current: Mutex::new(Current {
                    client: None,
                    server,
                    generation: 0,
                }),
                connecting: tokio::sync::Mutex::default(),
            })),
            response,
            longest_call: connect.saturating_add(response),
        }
    }

    /// Asks; again where that is safe and another server may do better. Dropping the future is the
    /// same as a lost answer; a client of our own is then left behind, since its connection may have
    /// fallen silent.
    pub(crate) async fn ask<T, F>(
        &self,
        effect: Effect,
        question: impl Fn(Arc<Clients>) -> F + Send + Sync,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        let is_sent = AtomicBool::new(false);
        let asked = self.ask_again(effect, |clients| {
            is_sent.store(true, Ordering::Relaxed);
            question(clients)
        });
        match within(&SystemClock, self.longest_call, asked).await {
            Some(answer) => answer,
            None if is_sent.load(Ordering::Relaxed) => Err(Failure::Silent),
            None => Err(Failure::Connecting(None)),
        }
    }

    async fn ask_again<T, F>(
        &self,
        effect: Effect,
        question: impl Fn(Arc<Clients>) -> F + Send + Sync,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        let tries = match &self.kind {
            Kind::Client(_) => TRIES,
            // Once more than there are: the first may be one that is known to be gone only now.
            Kind::Own(own) => own.servers.len() + 1,
        };
        let mut silent = 0;
        for _ in 1..tries {
            let failure = match self.ask_once(&question).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            silent += usize::from(matches!(failure, Failure::Silent));
            let again = match failure.trouble() {
                Trouble::Refused => false,
                Trouble::NotSent => true,
                // Nobody is to wait for one silent server after the other.
                Trouble::Broken => effect == Effect::None && silent < 2,
            };
            if !again {
                return Err(failure);
            }
        }
        self.ask_once(&question).await
    }

    async fn ask_once<T, F>(
        &self,
        question: &(impl Fn(Arc<Clients>) -> F + Sync),
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        match &self.kind {
            Kind::Client(client) => self.bounded(question(Arc::clone(client))).await,
            Kind::Own(own) => {
                let (client, generation) = own.client().await?;
                let mut doubt = Doubt {
                    own,
                    generation,
                    is_over: false,
                };
                let answer = self.bounded(question(client)).await;
                doubt.is_over = answer
                    .as_ref()
                    .err()
                    .is_none_or(|failure| failure.trouble() == Trouble::Refused);
                answer
            }
        }
    }

    /// A limit of our own: the client's begins only when it has a connection.
    async fn bounded<T>(
        &self,
        answer: impl Future<Output = Result<T, etcd_client::Error>> + Send,
    ) -> Result<T, Failure> {
        match within(&SystemClock, self.response, answer).await {
            Some(answer) => answer.map_err(Failure::Client),
            None => Err(Failure::Silent),
        }
    }
}

impl Own {
    /// What waits for another caller's client waits no longer than for one of its own.
    async fn client(&self) -> Result<(Arc<Clients>, u64), Failure> {
        if let Some(found) = self.lock().found() {
            return Ok(found);
        }
        let connected = within(&SystemClock, self.connect, self.connected());
        connected.await.unwrap_or(Err(Failure::Connecting(None)))
    }

    async fn connected(&self) -> Result<(Arc<Clients>, u64), Failure> {
        let _only_one = self.connecting.lock().await;
        let generation = {
            let mut current = self.lock();
            if let Some(found) = current.found() {
                return Ok(found);
            }
            current.generation += 1;
            current.generation
        };
        // Where this fails, or is dropped, the next one is tried next.
        let mut doubt = Doubt {
            own: self,
            generation,
            is_over: false,
        };
        let server = self.servers[self.lock().server % self.servers.len()].clone();
        // Without a user this asks nobody: the connection is made with the first question.
        let options = Some(self.options.clone());
        let connecting = Client::connect([server], options);
        let client = connecting
            .await
            .map_err(|error| Failure::Client(error).before_connected())?;
        doubt.is_over = true;
        let client = Arc::new(Clients::from(&client));
        self.lock().client = Some(Arc::clone(&client));
        Ok((client, generation))
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    fn found(&self) -> Option<(Arc<Clients>, u64)> {
        let client = self.client.clone()?;
        Some((client, self.generation))
    }
}

/// Leaves the client behind and goes to the next server, unless the answer came.
struct Doubt<'a> {
    own: &'a Own,
    generation: u64,
    is_over: bool,
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut current = self.own.lock();
        if current.generation == self.generation {
            current.client = None;
            current.server = current.server.wrapping_add(1);
        }
    }
}

impl From<&Client> for Clients {
    fn from(client: &Client) -> Self {
        Self {
            kv: client.kv_client(),
            leases: client.lease_client(),
        }
    }
}

impl From<Client> for Connections {
    fn from(client: Client) -> Self {
        Self {
            kind: Kind::Client(Arc::new(Clients::from(&client))),
            response: TIMEOUT,
            longest_call: 2 * TIMEOUT,
        }
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Options hold passwords.
        f.write_str(match &self.kind {
            Kind::Client(_) => "Connections(client)",
            Kind::Own(_) => "Connections(own)",
        })
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
            let answer = connections.ask(Effect::Writes, async |clients: Arc<Clients>| {
                clients.kv.clone().get("key", None).await
            });
            async { answer.await.expect_err("the server never answers") }
        };
        // One after the other they would take three times as long.
        let patience = Duration::from_secs(5);
        let failures = within(&SystemClock, patience, join_all((0..50).map(|_| ask()))).await;
        for failure in failures.expect("callers wait for all before them") {
            let error = failure.explain(Effect::Writes);
            assert_eq!(error.kind(), shedlock_core::ErrorKind::Unavailable);
        }
    }
}
