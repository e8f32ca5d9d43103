//! How the servers are reached: over the user's own connection, or over one that is opened when it is needed and
//! dropped when it is broken.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::FutureExt as _;
use redis::aio::{ConnectionManager, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::RoutingInfo;
use redis::sentinel::SentinelClient;
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, RedisResult, Value};
use shedlock_provider::{Call, Connect, Shared};

use crate::cluster;

/// The default limit for opening a connection, and for waiting for a reply.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// The shortest time after which a server closes an idle connection (`timeout 1`).
const IDLE: Duration = Duration::from_secs(1);

/// The connections of a provider, created from a client or connection of yours.
///
/// | from | what happens when the connection breaks |
/// |---|---|
/// | [`redis::Client`] | the next call opens a new one; also after a call that got no reply |
/// | [`SentinelClient`] | the next call opens a new one to the primary that the sentinels name at that time; the client must be set to connect to primaries ([`Master`](redis::sentinel::SentinelServerType::Master)), because a replica accepts no locks |
/// | [`ConnectionManager`] | the manager opens a new one; it keeps a connection that only stops responding until the operating system closes it |
/// | [`MultiplexedConnection`] | nothing: every later call fails, as `Configuration` |
/// | [`ClusterClient`], [`ClusterConnection`] | the client reconnects and sends the call again by itself, unless it was built with `retries(0)` |
///
/// An attempt that the client has sent twice may arrive a second time, long after its caller has gone on. So over a
/// cluster's client each attempt is withdrawn once more when its timeout has passed. [`Builder::sends_once`] turns that
/// off for a client that was built with `retries(0)`, as the provider from a URL does it.
///
/// [`Builder::sends_once`]: crate::Builder::sends_once
///
/// A call without a reply is given up after 10 s; with a provider from a URL, after `connect_timeout` and
/// `response_timeout` together. Behind sentinels, `connect_timeout` applies to each of them.
#[derive(Clone, Debug)]
pub struct Connections {
    shared: Arc<Shared<Servers>>,
    /// How long opening a connection may take, over all addresses that are tried.
    connect: Duration,
    scheme: Option<Scheme>,
    pub(crate) is_cluster: bool,
    /// The client sends each command once. If not, it sends commands without a reply again.
    pub(crate) sends_once: bool,
    pub(crate) longest_call: Duration,
    /// Scripts that only read are sent by the commands for users who may not write keys.
    pub(crate) only_reads: Arc<AtomicBool>,
}

/// Where connections lead to, and their timeouts.
struct Servers {
    source: Source,
    config: AsyncConnectionConfig,
}

pub(crate) enum Source {
    Server(Client),
    /// Queried for each connection, so that it leads to the current primary.
    Sentinels(SentinelClient),
    Cluster(ClusterClient),
    Given(Line),
}

#[derive(Clone)]
pub(crate) enum Line {
    Manager(ConnectionManager),
    Multiplexed(MultiplexedConnection),
    Cluster(ClusterConnection),
}

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: RedisError,
    pub(crate) sent: Sent,
    pub(crate) is_of_cluster: bool,
    pub(crate) scheme: Option<Scheme>,
    /// The connection is the user's, and never opens again.
    pub(crate) is_final: bool,
}

/// The scheme of the URL that named the servers, for advice about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scheme {
    pub(crate) plain: &'static str,
    pub(crate) encrypted: &'static str,
    pub(crate) is_encrypted: bool,
}

/// The scheme of a Unix socket.
pub(crate) const SOCKET: &str = "unix";

/// How often a failed command was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Never,
    /// Once, or not at all.
    Once,
    /// The client retried before it gave up. An error reply is the last one.
    Repeatedly,
}

impl Connections {
    /// Connections to this source, which tries this many addresses one after another, with these timeouts for each.
    pub(crate) fn new(
        source: Source,
        addresses: usize,
        connect: Duration,
        response: Duration,
    ) -> Self {
        let is_cluster = matches!(source, Source::Cluster(_) | Source::Given(Line::Cluster(_)));
        let addresses = u32::try_from(addresses).unwrap_or(u32::MAX);
        let all = connect.saturating_mul(addresses);
        let longest_call = all.saturating_add(response);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(connect))
            .set_response_timeout(Some(response));
        Self {
            shared: Arc::new(Shared::new(Servers { source, config })),
            // Before it is connected, a cluster's client queries several servers, and some of them may not respond.
            connect: if is_cluster { longest_call } else { all },
            scheme: None,
            is_cluster,
            sends_once: !is_cluster,
            longest_call,
            only_reads: Arc::default(),
        }
    }

    /// A cluster's client that was built without retries.
    pub(crate) fn that_send_once(self) -> Self {
        let sends_once = true;
        Self { sends_once, ..self }
    }

    pub(crate) fn with_scheme(self, scheme: Scheme) -> Self {
        let scheme = Some(scheme);
        Self { scheme, ..self }
    }

    /// Begins a call on a connection that is open.
    async fn call(&self) -> Result<Call<'_, Servers>, Failure> {
        let call = self.shared.call(self.connect).await;
        call.map_err(|failure| Failure {
            scheme: self.scheme,
            ..failure
        })
    }

    /// Sends a command to the server that has its keys; in a cluster, to where `to` leads. Dropping the future has the
    /// same effect as a lost reply.
    pub(crate) async fn send(
        &self,
        command: &Cmd,
        to: Option<&RoutingInfo>,
    ) -> Result<Value, Failure> {
        let call = self.call().await?;
        let sent = match (&*call.connection, to) {
            (Line::Manager(line), _) => line.clone().send_packed_command(command).await,
            (Line::Multiplexed(line), _) => line.clone().send_packed_command(command).await,
            (Line::Cluster(line), None) => cluster::send(line, command).await,
            (Line::Cluster(line), Some(to)) => {
                let (mut line, command) = (line.clone(), command.clone());
                line.route_command(command, to.clone()).await
            }
        };
        self.settled(call, sent.and_then(Value::extract_error))
    }

    /// Sends two commands at once, on one connection, to the server that has this key. If the second one fails, its
    /// error is in the second reply.
    pub(crate) async fn send_both(
        &self,
        key: &str,
        commands: [Cmd; 2],
    ) -> Result<(Value, Value), Failure> {
        let mut both = redis::pipe();
        for command in commands {
            both.add_command(command);
        }
        let call = self.call().await?;
        let sent = match &*call.connection {
            Line::Manager(line) => line.clone().send_packed_commands(&both, 0, 2).await,
            Line::Multiplexed(line) => line.clone().send_packed_commands(&both, 0, 2).await,
            Line::Cluster(line) => cluster::send_both(line, key, &both).await,
        };
        let both = sent.and_then(|answers| {
            let mut answers = answers.into_iter();
            let mut next = || answers.next().unwrap_or(Value::Nil);
            Ok((next().extract_error()?, next()))
        });
        self.settled(call, both)
    }

    fn settled<T>(&self, call: Call<'_, Servers>, answer: RedisResult<T>) -> Result<T, Failure> {
        let answer = answer.map_err(|error| Failure {
            sent: match &*call.connection {
                _ if !self.sends_once => Sent::Repeatedly,
                // If the client could not reconnect, the error is a connection refusal.
                _ if error.is_connection_refusal() => Sent::Never,
                Line::Cluster(_) if cluster::was_not_sent(&error) => Sent::Never,
                _ => Sent::Once,
            },
            error,
            is_of_cluster: self.is_cluster,
            scheme: None,
            is_final: false,
        });
        // A read-only server is a replica. Reconnect, because another server may now be the primary.
        let is_read_only = |error: &RedisError| error.to_string().contains("READONLY");
        call.settle_by(answer, |Failure { error, .. }| {
            error.code().is_some() && !is_read_only(error)
        })
    }
}

/// The error for a connection that could not be opened.
impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        Self {
            error,
            sent: Sent::Never,
            is_of_cluster: false,
            scheme: None,
            is_final: false,
        }
    }
}

impl Connect for Servers {
    type Connection = Line;
    type Error = Failure;

    async fn connect(&mut self) -> Result<Line, Failure> {
        let config = &self.config;
        Ok(match &mut self.source {
            Source::Server(client) => {
                let made = client.get_multiplexed_async_connection_with_config(config);
                Line::Multiplexed(made.await?)
            }
            Source::Sentinels(client) => {
                Line::Multiplexed(client.get_async_connection_with_config(config).await?)
            }
            Source::Cluster(client) => Line::Cluster(client.get_async_connection().await?),
            Source::Given(line) => {
                // A manager whose connection was closed opens another one once it has noticed.
                let is_usable = Self::is_usable(line, Duration::MAX);
                if !is_usable && matches!(line, Line::Multiplexed(_)) {
                    let error = io::Error::from(io::ErrorKind::BrokenPipe);
                    return Err(Failure {
                        is_final: true,
                        ..RedisError::from(error).into()
                    });
                }
                line.clone()
            }
        })
    }

    fn late() -> Failure {
        RedisError::from(io::Error::from(io::ErrorKind::TimedOut)).into()
    }

    /// A connection that the server has closed, for example an idle one (`timeout`, in whole seconds), refuses a command at
    /// once. One that is open may still send it, together with the call that comes next, so only an idle one is asked.
    fn is_usable(line: &Line, idle: Duration) -> bool {
        if idle < IDLE {
            return true;
        }
        let ping = redis::cmd("PING");
        let refused = match line {
            Line::Manager(line) => line.clone().send_packed_command(&ping).now_or_never(),
            Line::Multiplexed(line) => line.clone().send_packed_command(&ping).now_or_never(),
            // It keeps a connection to each node.
            Line::Cluster(_) => None,
        };
        !matches!(refused, Some(Err(_)))
    }

    fn heals(line: &Line) -> bool {
        matches!(line, Line::Cluster(_))
    }
}

impl From<Source> for Connections {
    fn from(source: Source) -> Self {
        // The client does not expose how many sentinels it has. Three are usual, and the primary comes after them.
        let addresses = match source {
            Source::Sentinels(_) => 3 + 1,
            _ => 1,
        };
        Self::new(source, addresses, TIMEOUT, TIMEOUT)
    }
}

macro_rules! made_from {
    ($($client:ty => $source:expr;)+) => {$(
        impl From<$client> for Connections {
            fn from(client: $client) -> Self {
                Self::from($source(client))
            }
        }
    )+};
}

made_from! {
    Client => Source::Server;
    SentinelClient => Source::Sentinels;
    ClusterClient => Source::Cluster;
    ConnectionManager => |manager| Source::Given(Line::Manager(manager));
    MultiplexedConnection => |connection| Source::Given(Line::Multiplexed(connection));
    ClusterConnection => |connection| Source::Given(Line::Cluster(connection));
}
