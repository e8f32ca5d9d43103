//! How the server is reached: by the user's own connection, or by one that we keep.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionManager, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::SentinelClient;
use redis::{Client, Cmd, RedisError, Value};
use shedlock_core::{SystemClock, within};

use crate::cluster::{self, Cluster};
use crate::own::{Own, Source};

/// How long a connection may take to be made, and an answer to come, unless set.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// What a provider talks through; made from what the user has.
///
/// | from | what happens when the connection breaks |
/// |---|---|
/// | [`redis::Client`] | the next call makes a new one; also after a call whose answer did not come |
/// | [`SentinelClient`] | the same, to the primary that the sentinels name by then |
/// | [`ConnectionManager`] | the manager makes a new one; it stays with one that has only fallen silent until the operating system gives it up |
/// | [`MultiplexedConnection`] | nothing: every later call fails |
/// | [`ClusterClient`], [`ClusterConnection`] | the client connects again, and sends the call again by itself |
///
/// A call that has no answer after 10 s is given up; from a URL, after `connect_timeout` and
/// `response_timeout` together. Behind sentinels `connect_timeout` counts for each of them.
#[derive(Clone)]
pub struct Connections {
    kind: Kind,
    longest_call: Duration,
}

#[derive(Clone)]
enum Kind {
    Own(Arc<Own>),
    Manager(ConnectionManager),
    Multiplexed(MultiplexedConnection),
    Cluster(Cluster),
}

/// A server that keys lie on.
pub(crate) enum Node {
    Only,
    OfCluster(cluster::Node),
}

/// A failed command, by how far it came.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There was no connection to send it by.
    Connecting(RedisError),
    /// It was sent, or may have been.
    Running(RedisError),
    /// The client has tried it again before it gave up: a refusal is that of the last time.
    Repeated(RedisError),
}

impl Failure {
    pub(crate) fn error(&self) -> &RedisError {
        match self {
            Self::Connecting(error) | Self::Running(error) | Self::Repeated(error) => error,
        }
    }
}

impl Connections {
    /// One of our own to where this leads over so many addresses in turn, with these limits of time for
    /// each.
    pub(crate) fn own(
        source: Source,
        addresses: usize,
        connect: Duration,
        response: Duration,
    ) -> Self {
        let own = Own::new(source, connect, response).asking(addresses);
        let longest = own.longest_connect().saturating_add(response);
        Self::from(Kind::Own(Arc::new(own))).with_longest_call(longest)
    }

    /// One of our own to a cluster.
    pub(crate) fn own_cluster(client: ClusterClient) -> Self {
        Self::from(Kind::Cluster(Cluster::own(client)))
    }

    pub(crate) fn with_longest_call(mut self, longest: Duration) -> Self {
        self.longest_call = longest;
        self
    }

    /// After this long a call is given up.
    pub(crate) fn longest_call(&self) -> Duration {
        self.longest_call
    }

    /// What a connection of the user's does not bound itself.
    async fn bounded<T>(
        &self,
        answer: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let answer = within(&SystemClock, self.longest_call, answer).await;
        answer.unwrap_or_else(|| Err(Failure::Running(silence())))
    }

    /// Sends a command. Dropping the future is the same as a lost answer.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, Failure> {
        self.bounded(self.send_unbounded(command)).await
    }

    async fn send_unbounded(&self, command: &Cmd) -> Result<Value, Failure> {
        match &self.kind {
            Kind::Own(own) => own.send(command).await,
            Kind::Manager(manager) => {
                let mut manager = manager.clone();
                let sent = manager.send_packed_command(command).await;
                sent.and_then(Value::extract_error).map_err(running)
            }
            Kind::Multiplexed(connection) => {
                let mut connection = connection.clone();
                let sent = connection.send_packed_command(command).await;
                sent.and_then(Value::extract_error).map_err(running)
            }
            Kind::Cluster(cluster) => cluster.send(command).await,
        }
    }

    /// Sends two commands at once, on one connection, to the server that has this key. An error of the
    /// second one stands in its answer.
    pub(crate) async fn send_both(
        &self,
        key: &str,
        commands: [Cmd; 2],
    ) -> Result<(Value, Value), Failure> {
        self.bounded(self.send_both_unbounded(key, commands)).await
    }

    async fn send_both_unbounded(
        &self,
        key: &str,
        commands: [Cmd; 2],
    ) -> Result<(Value, Value), Failure> {
        let mut both = redis::pipe();
        for command in commands {
            both.add_command(command);
        }
        let answers = match &self.kind {
            Kind::Own(own) => own.send_all(&both).await,
            Kind::Manager(manager) => {
                let sent = manager.clone().send_packed_commands(&both, 0, 2).await;
                sent.map_err(running)
            }
            Kind::Multiplexed(connection) => {
                let sent = connection.clone().send_packed_commands(&both, 0, 2).await;
                sent.map_err(running)
            }
            Kind::Cluster(cluster) => cluster.send_all(&both, key).await,
        };
        let refused = |error| match &self.kind {
            Kind::Cluster(_) => Failure::Repeated(error),
            _ => Failure::Running(error),
        };
        let mut answers = answers?.into_iter();
        let first = answers.next().unwrap_or(Value::Nil).extract_error();
        let second = answers.next().unwrap_or(Value::Nil);
        Ok((first.map_err(refused)?, second))
    }

    /// All servers that keys lie on.
    pub(crate) async fn nodes(&self) -> Result<Vec<Node>, Failure> {
        match &self.kind {
            Kind::Cluster(cluster) => {
                let nodes = self.bounded(cluster.nodes()).await?;
                Ok(nodes.into_iter().map(Node::OfCluster).collect())
            }
            _ => Ok(vec![Node::Only]),
        }
    }

    /// Sends a command that names no key to one of them.
    pub(crate) async fn send_to(&self, node: &Node, command: &Cmd) -> Result<Value, Failure> {
        match (&self.kind, node) {
            (Kind::Cluster(cluster), Node::OfCluster(node)) => {
                self.bounded(cluster.send_to(node, command)).await
            }
            _ => self.send(command).await,
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.kind, Kind::Cluster(_))
    }
}

/// A manager that could not connect again says so by the refusal itself.
fn running(error: RedisError) -> Failure {
    if error.is_connection_refusal() {
        Failure::Connecting(error)
    } else {
        Failure::Running(error)
    }
}

/// No answer in time.
pub(crate) fn silence() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

/// Whether the server refused a write since it is a replica.
pub(crate) fn is_read_only(error: &RedisError) -> bool {
    error.to_string().contains("READONLY")
}

impl From<Kind> for Connections {
    fn from(kind: Kind) -> Self {
        Self {
            kind,
            longest_call: 2 * TIMEOUT,
        }
    }
}

impl From<Client> for Connections {
    fn from(client: Client) -> Self {
        Self::own(Source::Server(client), 1, TIMEOUT, TIMEOUT)
    }
}

/// It has to lead to primaries ([`Master`](redis::sentinel::SentinelServerType::Master)): a replica
/// takes no locks.
impl From<SentinelClient> for Connections {
    fn from(client: SentinelClient) -> Self {
        // The client does not reveal how many sentinels it has: three are usual.
        Self::own(Source::Sentinels(client), 1 + 3, TIMEOUT, TIMEOUT)
    }
}

impl From<ConnectionManager> for Connections {
    fn from(manager: ConnectionManager) -> Self {
        Self::from(Kind::Manager(manager))
    }
}

impl From<MultiplexedConnection> for Connections {
    fn from(connection: MultiplexedConnection) -> Self {
        Self::from(Kind::Multiplexed(connection))
    }
}

impl From<ClusterClient> for Connections {
    fn from(client: ClusterClient) -> Self {
        Self::own_cluster(client)
    }
}

impl From<ClusterConnection> for Connections {
    fn from(connection: ClusterConnection) -> Self {
        Self::from(Kind::Cluster(Cluster::Given(connection)))
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Addresses may come with passwords.
        f.write_str(match &self.kind {
            Kind::Own(_) => "Connections(own)",
            Kind::Manager(_) => "Connections(manager)",
            Kind::Multiplexed(_) => "Connections(multiplexed)",
            Kind::Cluster(_) => "Connections(cluster)",
        })
    }
}
