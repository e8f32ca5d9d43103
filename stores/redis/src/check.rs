//! A look at the server: is it one that locks can be kept in.

use std::str::FromStr;
use std::time::SystemTime;

use redis::cmd;
use shedlock_core::{Error, ErrorKind};

use crate::connections::{Connections, Node};
use crate::kept::instant;
use crate::send::{ask, nodes};

/// What the server says of itself.
#[derive(Debug)]
pub(crate) struct Server {
    /// Whether an answer means that the command is on disk.
    pub(crate) durable: bool,
    /// How many replicas are connected: of a cluster the most that one of its servers has.
    pub(crate) replicas: u32,
    /// Its clock. Of a cluster that of one server.
    pub(crate) time: Option<SystemTime>,
}

/// Of replicas that a failover may promote, and that are not waited for.
pub(crate) fn warn_of_replicas(replicas: u32) {
    tracing::warn!(
        replicas,
        "the server has replicas, and locks are granted without waiting for them: after a failover a \
         replica may lack the last locks, tokens and slots, and another process takes the same lock \
         again; set wait_replicas=1 in the URL (Builder::wait_for_replicas), or use a database where \
         two runs would do harm"
    );
}

/// Asks the server, or each of a cluster. Warns where it may evict locks.
///
/// # Errors
/// `Configuration` for a replica, for a server that is too old, and for one of a cluster.
pub(crate) async fn check(connections: &Connections) -> Result<Server, Error> {
    let mut all = Server {
        durable: true,
        replicas: 0,
        time: None,
    };
    for node in nodes(connections).await? {
        let server = look(connections, &node).await?;
        all.durable &= server.durable;
        all.replicas = all.replicas.max(server.replicas);
        all.time = server.time;
    }
    Ok(all)
}

async fn look(connections: &Connections, node: &Node) -> Result<Server, Error> {
    ask::<String>(connections, node, &cmd("PING")).await?;
    let info: String = ask(connections, node, &cmd("INFO")).await?;
    let info = Info(&info);
    if info.get("role").is_some_and(|role| role != "master") {
        return Err(configuration(
            "the server is a replica, which takes no writes: connect to the primary",
        ));
    }
    if info.get("cluster_enabled") == Some("1") && !connections.is_cluster() {
        return Err(configuration(
            "the server is one of a cluster: use a URL that begins with redis-cluster:// (with TLS \
             rediss-cluster://), or the client's ClusterClient",
        ));
    }
    if info.get("redis_version").is_some_and(is_too_old) {
        return Err(configuration(
            "the server is older than Redis 6.2, which locks need: upgrade it",
        ));
    }
    let policy = info.get("maxmemory_policy").unwrap_or("noeviction");
    let is_bounded = info.get("maxmemory").is_some_and(|bytes| bytes != "0");
    if is_bounded && policy != "noeviction" {
        tracing::warn!(
            policy,
            "the server evicts keys when its memory is full (maxmemory-policy), and a lock that is \
             evicted is free: set it to noeviction, or keep locks apart from caches"
        );
    }
    let appends = info.get("aof_enabled") == Some("1");
    Ok(Server {
        durable: appends && syncs_always(connections, node).await,
        replicas: info.number("connected_slaves").unwrap_or_default(),
        time: info.number("server_time_usec").map(instant),
    })
}

/// Whether each command is synced. A server that does not tell is taken not to.
async fn syncs_always(connections: &Connections, node: &Node) -> bool {
    let mut config = cmd("CONFIG");
    config.arg("GET").arg("appendfsync");
    let told: Result<Vec<String>, _> = ask(connections, node, &config).await;
    told.is_ok_and(|told| told.iter().any(|value| value == "always"))
}

/// The answer to `INFO`.
struct Info<'a>(&'a str);

impl<'a> Info<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        let mut lines = self.0.lines();
        lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
    }

    fn number<T: FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }
}

/// Valkey tells the version of the Redis that it was made from.
fn is_too_old(version: &str) -> bool {
    let mut numbers = version.split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < (6, 2),
        _ => false,
    }
}

fn configuration(message: &str) -> Error {
    Error::new(ErrorKind::Configuration, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        for old in ["5.0.14", "6.0.16", "2.8"] {
            assert!(is_too_old(old), "{old}");
        }
        for new in ["6.2.0", "7.0.15", "10.1", "255.255.255", "unstable"] {
            assert!(!is_too_old(new), "{new}");
        }
    }

    #[test]
    fn values_are_found_by_their_whole_key() {
        let text = "maxmemory_policy:noeviction\r\nmaxmemory:0\r\nconnected_slaves:2\r\n";
        let info = Info(text);
        assert_eq!(info.get("maxmemory"), Some("0"));
        assert_eq!(info.get("maxmemory_policy"), Some("noeviction"));
        assert_eq!(info.get("role"), None);
        assert_eq!(info.number("connected_slaves"), Some(2));
        assert_eq!(info.number::<u32>("maxmemory_policy"), None);
    }
}
