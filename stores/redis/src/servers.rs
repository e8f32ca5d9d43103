//! Queries to the servers themselves: whether a server is suitable for locks, and all its keys.

use std::collections::{BTreeSet, HashMap};
use std::str::FromStr;
use std::sync::atomic::Ordering;

use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo, SingleNodeRoutingInfo};
use redis::{Cmd, FromRedisValue, Value, cmd};
use shedlock_core::{ErrorKind, Finding, LockName, SETTINGS, SystemClock, answered_within};
use shedlock_provider::{Result, Told, told, unavailable};

use crate::codec::{instant, malformed};
use crate::confirm::Confirmation;
use crate::connections::Connections;
use crate::explain::explain;
use crate::key::Keys;
use crate::store::RedisStore;

const SCAN: &str = "1000";

/// The route to one server of a cluster; `None` for a single server.
type Node = Option<RoutingInfo>;

impl Connections {
    /// Sends one server a command that has no key and changes nothing.
    async fn ask<T: FromRedisValue>(&self, node: &Node, command: &Cmd) -> Result<T> {
        let asked = async {
            let answer = self.send(command, node.as_ref()).await;
            answer.map_err(|failure| explain(failure, false))
        };
        let limit = self.longest_call;
        let answer = answered_within(&SystemClock, limit, ErrorKind::Unavailable, asked).await?;
        T::from_redis_value(answer).map_err(|error| malformed().with_source(error))
    }

    /// All servers that have keys. Returns an error if one of them does not respond, because its locks must not be
    /// omitted silently.
    async fn nodes(&self) -> Result<Vec<Node>> {
        if !self.is_cluster {
            return Ok(vec![None]);
        }
        let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
        let pongs: HashMap<String, String> = self.ask(&Some(all), &cmd("PING")).await?;
        let mut slots = cmd("CLUSTER");
        slots.arg("SLOTS");
        let any = RoutingInfo::SingleNode(SingleNodeRoutingInfo::Random);
        if pongs.len() < primaries(self.ask(&Some(any), &slots).await?) {
            return Err(unavailable("cannot reach a server of the cluster").retry_later());
        }
        pongs.keys().map(|address| node(address)).collect()
    }

    /// Whether every command is synced to disk. False if the server does not report it.
    async fn syncs_always(&self, node: &Node) -> bool {
        self.appendfsync(node).await.as_deref() == Some("always")
    }

    /// When commands are synced to disk, if the server reports it.
    async fn appendfsync(&self, node: &Node) -> Option<String> {
        let mut config = cmd("CONFIG");
        config.arg("GET").arg("appendfsync");
        let settings: Result<Vec<String>, _> = self.ask(node, &config).await;
        settings.ok()?.pop()
    }

    /// The names of all locks, in byte order and without duplicates. This scans every key of the database.
    pub(crate) async fn names(&self, keys: &Keys) -> Result<BTreeSet<LockName>> {
        let pattern = keys.pattern();
        let mut names = BTreeSet::new();
        for node in self.nodes().await? {
            let mut cursor = 0_u64;
            loop {
                let mut scan = cmd("SCAN");
                scan.arg(cursor).arg(&["MATCH", &pattern, "COUNT", SCAN]);
                let (next, found): (u64, Vec<Vec<u8>>) = self.ask(&node, &scan).await?;
                let found = found.iter().map(|key| std::str::from_utf8(key));
                names.extend(found.filter_map(|key| keys.name_of(key.ok()?)));
                if next == 0 {
                    break;
                }
                cursor = next;
            }
        }
        Ok(names)
    }
}

impl RedisStore {
    /// Checks the server, or each server of a cluster. Logs a warning if it may evict or lose locks. Returns
    /// `Configuration` for a replica, for a server that is too old, and for a member of a cluster that is not addressed
    /// as a cluster.
    pub(crate) async fn check_servers(&self) -> Result<()> {
        let connections = &self.connections;
        let (mut is_durable, mut replicas) = (true, 0_u32);
        for node in connections.nodes().await? {
            // A server replies to `INFO` even while it is loading.
            connections.ask::<String>(&node, &cmd("PING")).await?;
            let info: String = connections.ask(&node, &cmd("INFO")).await?;
            let info = Info(&info);
            info.check(connections.is_cluster)?;
            let appends = info.get("aof_enabled") == Some("1");
            is_durable &= appends && connections.syncs_always(&node).await;
            replicas = replicas.max(info.number("connected_slaves").unwrap_or_default());
            let time = info.number("server_time_usec").map(instant);
            self.clocks.observe_only(time);
        }
        self.durable.store(is_durable, Ordering::Relaxed);
        let is_unconfirmed = replicas > 0 && self.confirmation.is_none();
        if is_unconfirmed && !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(target: SETTINGS, replicas, "{UNCONFIRMED}");
        }
        Ok(())
    }

    /// What the settings of the server, or of each server of a cluster, mean for locks.
    pub(crate) async fn diagnose_servers(&self) -> Result<Vec<Finding>> {
        let connections = &self.connections;
        let mut findings = Vec::new();
        for node in connections.nodes().await? {
            let info: String = connections.ask(&node, &cmd("INFO")).await?;
            let appendfsync = connections.appendfsync(&node).await;
            let info = Info(&info);
            let found = info.findings(appendfsync.as_deref(), self.confirmation);
            let place = node.as_ref().and_then(address);
            findings.extend(found.into_iter().map(|found| match &place {
                Some(place) => found.about(place),
                None => found,
            }));
        }
        findings.push(self.privileges().await?);
        Ok(findings)
    }
}

// What is wrong, and what to do.
const UNCONFIRMED: Told = told(
    "locks are granted without waiting for the server's replicas: after a failover a replica may \
     lack the last locks, tokens and slots, and another process can take a held lock",
)
.advise(
    "set wait_replicas=1 in the URL (Builder::wait_replicas), or use a SQL database if two runs \
     would do harm",
);
const EVICTS: Told = told(
    "the server evicts keys when its memory is full (maxmemory-policy), and an evicted lock \
              is free",
)
.advise("set it to noeviction, or keep locks apart from caches");
const NOT_APPENDED: Told = told(
    "the append-only file is off (appendonly=no): a crash or a restart loses locks, tokens and \
     slots",
)
.advise("set appendonly=yes and appendfsync=always");
const SYNCED_LATER: Told = told(
    "the server replies before it has synced its append-only file: a crash can lose the last \
     locks, tokens and slots",
)
.advise("set appendfsync=always");
const SYNC_UNKNOWN: Told = told(
    "this user may not read whether the server syncs its append-only file before it replies \
              (CONFIG GET)",
)
.advise("check that it has appendfsync=always");

/// The address of one server of a cluster.
fn address(node: &RoutingInfo) -> Option<String> {
    match node {
        RoutingInfo::SingleNode(SingleNodeRoutingInfo::ByAddress { host, port }) => {
            Some(format!("{host}:{port}"))
        }
        _ => None,
    }
}

fn node(address: &str) -> Result<Node> {
    let (host, port) = address.rsplit_once(':').ok_or_else(malformed)?;
    let host = host.to_owned();
    let port = port.parse().map_err(|_| malformed())?;
    let server = SingleNodeRoutingInfo::ByAddress { host, port };
    Ok(Some(RoutingInfo::SingleNode(server)))
}

/// Counts the servers that have keys. Each range of slots lists its primary first, by address and port.
fn primaries(ranges: Vec<Vec<Value>>) -> usize {
    let mut seen = Vec::new();
    for range in ranges {
        if let Some(Value::Array(mut primary)) = range.into_iter().nth(2) {
            primary.truncate(2);
            if !seen.contains(&primary) {
                seen.push(primary);
            }
        }
    }
    seen.len()
}

struct Info<'a>(&'a str);

impl<'a> Info<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        let mut lines = self.0.lines();
        lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
    }

    fn number<T: FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }

    fn check(&self, is_cluster: bool) -> Result<()> {
        let refused = if self.get("role").is_some_and(|role| role != "master") {
            told("the server is a replica and takes no writes").advise("connect to the primary")
        } else if self.get("cluster_enabled") == Some("1") && !is_cluster {
            told("the server belongs to a cluster").advise(
                "use a URL that begins with redis-cluster:// (with TLS rediss-cluster://), or the client's ClusterClient",
            )
        } else if self.get("redis_version").is_some_and(is_too_old) {
            told("the server is older than Redis 6.2, which locks need").advise("upgrade it")
        } else {
            if let Some(policy) = self.evicts() {
                tracing::warn!(target: SETTINGS, policy, "{EVICTS}");
            }
            return Ok(());
        };
        Err(refused.error(ErrorKind::Configuration))
    }

    /// The policy by which the server deletes keys when its memory is full, unless it never does.
    fn evicts(&self) -> Option<&'a str> {
        let is_bounded = self.get("maxmemory").is_some_and(|bytes| bytes != "0");
        self.get("maxmemory_policy")
            .filter(|policy| is_bounded && *policy != "noeviction")
    }

    fn findings(
        &self,
        appendfsync: Option<&str>,
        confirmation: Option<Confirmation>,
    ) -> [Finding; 4] {
        let checked = |check, fault: Option<Told>, well: &str| match fault {
            Some(fault) => fault.warning(check, &[]),
            None => Finding::ok(check, well),
        };
        let durability = match (self.get("aof_enabled"), appendfsync) {
            (Some("1"), Some("always")) => None,
            (Some("1"), Some(_)) => Some(SYNCED_LATER),
            (Some("1"), None) => Some(SYNC_UNKNOWN),
            _ => Some(NOT_APPENDED),
        };
        [
            Finding::ok("version", self.product()),
            checked(
                "eviction",
                self.evicts().map(|_| EVICTS),
                "the server does not evict keys",
            ),
            checked(
                "durability",
                durability,
                "commands are on disk before they are confirmed",
            ),
            self.replicas(confirmation),
        ]
    }

    /// The server's product and version. Valkey also returns the version of Redis with which it is compatible.
    fn product(&self) -> String {
        let of_valkey = self.get("valkey_version").map(|it| ("Valkey", it));
        let of_redis = || self.get("redis_version").map(|it| ("Redis", it));
        let (name, version) = of_valkey
            .or_else(of_redis)
            .unwrap_or(("Redis", "of unknown version"));
        format!("{name} {version}")
    }

    fn replicas(&self, confirmation: Option<Confirmation>) -> Finding {
        const CHECK: &str = "replicas";
        let Some(Confirmation { replicas, .. }) = confirmation else {
            return match self.number("connected_slaves").unwrap_or(0_u32) {
                0 => Finding::ok(CHECK, "no replicas are connected"),
                _ => UNCONFIRMED.warning(CHECK, &[]),
            };
        };
        // One that is still loading the data confirms nothing.
        let is_online = |line: &&str| line.starts_with("slave") && line.contains(",state=online,");
        let online = self.0.lines().filter(is_online).count();
        let found =
            format!("locks wait for {replicas} replicas (wait_replicas), and {online} are online");
        if usize::try_from(replicas).is_ok_and(|replicas| replicas <= online) {
            return Finding::ok(CHECK, found);
        }
        Finding::error(
            CHECK,
            format!("{found}: no lock can be taken"),
            "connect more replicas, or lower wait_replicas in the URL (Builder::wait_replicas)",
        )
    }
}

/// By the version of Redis, which Valkey returns too.
fn is_too_old(version: &str) -> bool {
    let mut numbers = version.split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < (6, 2),
        _ => false,
    }
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

    #[test]
    fn valkey_is_named_by_its_own_version() {
        let redis = "redis_version:7.2.4\r\n";
        assert_eq!(Info(redis).product(), "Redis 7.2.4");
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n";
        assert_eq!(Info(valkey).product(), "Valkey 9.1.2");
        assert_eq!(Info("").product(), "Redis of unknown version");
    }

    #[test]
    fn primaries_are_counted_once_each() {
        let node = |port| Value::Array(vec![text("10.0.0.1"), Value::Int(port), text("id")]);
        let range = |port| vec![Value::Int(0), Value::Int(1), node(port), node(9)];
        assert_eq!(primaries(vec![range(1), range(2), range(1)]), 2);
        assert_eq!(primaries(Vec::new()), 0);
    }

    #[test]
    fn a_server_of_a_cluster_is_found_by_its_address() {
        let expected = RoutingInfo::SingleNode(SingleNodeRoutingInfo::ByAddress {
            host: "::1".to_owned(),
            port: 7000,
        });
        assert_eq!(node("::1:7000").unwrap(), Some(expected));
        assert!(node("::1:port").is_err());
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }
}
