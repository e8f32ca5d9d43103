//! A cluster: keys lie on several servers, and the client knows on which.

use std::sync::Arc;

use redis::aio::ConnectionLike as _;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{
    MultipleNodeRoutingInfo, Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr,
};
use redis::{Cmd, ErrorKind, FromRedisValue as _, Pipeline, RedisError, Value, cmd};
use tokio::sync::OnceCell;

use crate::connections::Failure;

/// The connection to a cluster. It heals by itself, and calls that fail are sent again by the
/// client, so that an error tells nothing of what was sent before.
#[derive(Clone)]
pub(crate) enum Cluster {
    Given(ClusterConnection),
    /// Made when it is needed.
    Own(Arc<(ClusterClient, OnceCell<ClusterConnection>)>),
}

/// A server of a cluster that keys lie on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    host: String,
    port: u16,
}

impl Cluster {
    pub(crate) fn own(client: ClusterClient) -> Self {
        Self::Own(Arc::new((client, OnceCell::new())))
    }

    /// Sends a command to the server that has its keys.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, Failure> {
        let mut connection = self.connection().await?;
        let sent = connection.req_packed_command(command).await;
        sent.and_then(Value::extract_error)
            .map_err(Failure::Repeated)
    }

    /// Sends commands at once to the server that has this key.
    pub(crate) async fn send_all(
        &self,
        commands: &Pipeline,
        key: &str,
    ) -> Result<Vec<Value>, Failure> {
        let mut connection = self.connection().await?;
        let route = Route::with_key(key, SlotAddr::Master);
        let server = SingleNodeRoutingInfo::SpecificNode(route);
        let sent = connection.route_pipeline(commands.clone(), 0, commands.len(), server);
        sent.await.map_err(Failure::Repeated)
    }

    /// Sends a command that has no keys to one server.
    pub(crate) async fn send_to(&self, node: &Node, command: &Cmd) -> Result<Value, Failure> {
        let routing = RoutingInfo::SingleNode(SingleNodeRoutingInfo::ByAddress {
            host: node.host.clone(),
            port: node.port,
        });
        self.route(command, routing).await
    }

    /// All servers that keys lie on.
    ///
    /// # Errors
    /// Where one of them does not answer: what it has must not be left out in silence.
    pub(crate) async fn nodes(&self) -> Result<Vec<Node>, Failure> {
        let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
        let answered = self.route(&cmd("PING"), all).await?;
        let mut slots = cmd("CLUSTER");
        slots.arg("SLOTS");
        let any = RoutingInfo::SingleNode(SingleNodeRoutingInfo::Random);
        let slots = self.route(&slots, any).await?;
        let nodes = answered_by(answered).map_err(Failure::Repeated)?;
        if nodes.len() < primaries(slots) {
            return Err(Failure::Repeated(RedisError::from((
                ErrorKind::ClusterConnectionNotFound,
                "a server of the cluster cannot be reached",
            ))));
        }
        Ok(nodes)
    }

    async fn route(&self, command: &Cmd, routing: RoutingInfo) -> Result<Value, Failure> {
        let mut connection = self.connection().await?;
        let sent = connection.route_command(command.clone(), routing).await;
        sent.and_then(Value::extract_error)
            .map_err(Failure::Repeated)
    }

    async fn connection(&self) -> Result<ClusterConnection, Failure> {
        match self {
            Self::Given(connection) => Ok(connection.clone()),
            Self::Own(own) => {
                let (client, made) = &**own;
                let made = made.get_or_try_init(|| client.get_async_connection()).await;
                made.cloned().map_err(Failure::Connecting)
            }
        }
    }
}

/// The servers of an answer that holds one for each; an error where one of them refused.
fn answered_by(answers: Value) -> Result<Vec<Node>, RedisError> {
    let Value::Map(answers) = answers else {
        return Err(unexpected());
    };
    let nodes = answers.into_iter().map(|(address, answer)| {
        answer.extract_error()?;
        let address = String::from_redis_value(address)?;
        let (host, port) = address.rsplit_once(':').ok_or_else(unexpected)?;
        Ok(Node {
            host: host.to_owned(),
            port: port.parse().map_err(|_| unexpected())?,
        })
    });
    nodes.collect()
}

/// How many servers keys lie on: each range of slots names its own first, by address and port.
fn primaries(slots: Value) -> usize {
    let ranges = Vec::<Vec<Value>>::from_redis_value(slots).unwrap_or_default();
    let mut seen: Vec<Vec<Value>> = Vec::new();
    for range in ranges {
        let primary = range.into_iter().nth(2).map(Vec::from_redis_value);
        if let Some(Ok(mut primary)) = primary {
            primary.truncate(2);
            if !seen.contains(&primary) {
                seen.push(primary);
            }
        }
    }
    seen.len()
}

fn unexpected() -> RedisError {
    RedisError::from((
        ErrorKind::UnexpectedReturnType,
        "an answer that no cluster gives",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primaries_are_counted_once_each() {
        let node = |port| Value::Array(vec![text("10.0.0.1"), Value::Int(port), text("id")]);
        let range = |port| Value::Array(vec![Value::Int(0), Value::Int(1), node(port), node(9)]);
        assert_eq!(
            primaries(Value::Array(vec![range(1), range(2), range(1)])),
            2
        );
        assert_eq!(primaries(Value::Nil), 0);
    }

    #[test]
    fn a_server_that_refused_is_no_server_that_answered() {
        let node = |answer| Value::Map(vec![(text("::1:7000"), answer)]);
        let answered = answered_by(node(text("PONG"))).unwrap();
        assert_eq!((&*answered[0].host, answered[0].port), ("::1", 7000));
        assert!(answered_by(Value::Nil).is_err());
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }
}
