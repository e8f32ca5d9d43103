//! The laws' harness over Redis and Valkey: a namespace is an environment in the keys.

#![allow(dead_code, reason = "each test target uses a part of it")]

pub(crate) mod cluster;
mod record;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, cmd};
use shedlock_conformance::contention::{self, CLIENTS, ROUNDS};
use shedlock_conformance::support::unique;
use shedlock_conformance::{
    BoxError, Cost, Harness, JavaRecord, Namespace, OptionalAction, Provider, RoundTrips, Scope,
    StoreProfile, Verdict, action,
};
use shedlock_core::{BoxFuture, Clock, LockName, Owner};
use shedlock_redis::RedisProvider;
use shedlock_torture::{StoreFault, TortureNamespace, shedlock_jvm};
use tokio::sync::Mutex;

use crate::common::connection;
use crate::common::own::{DURABLE, Own};

/// How providers reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From a URL.
    Url,
    /// Over the client's own connection manager.
    Manager,
}

/// One server, reached in one way.
pub(crate) struct Redis {
    pub(crate) name: &'static str,
    pub(crate) server: String,
    pub(crate) way: Way,
    /// The program that starts a separate server, if available.
    pub(crate) program: Option<PathBuf>,
    pub(crate) scope: Scope,
}

/// Raw clients race for one key, with a script, as attempts do.
pub(crate) async fn race(server: &str) -> Verdict {
    let client = Client::open(server)?;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(connection(&client).await?);
    }
    let key = unique("race");
    let script = "if (redis.call('GET', KEYS[1]) or '0') ~= ARGV[1] then return 0 end \
                  redis.call('SET', KEYS[1], ARGV[2], 'EX', 60) return 1";
    contention::judge(ROUNDS, &clients, |mut client, round| {
        let mut claim = cmd("EVAL");
        claim.arg(script).arg(1).arg(&key);
        claim.arg(round - 1).arg(round);
        async move { Ok(claim.query_async::<u8>(&mut client).await? == 1) }
    })
    .await
}

impl Harness for Redis {
    fn name(&self) -> &str {
        self.name
    }

    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
        Box::pin(async {
            let room = Room::new(&self.server, self.way, None).await?;
            Ok(Arc::new(room) as Arc<dyn Namespace>)
        })
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    fn open_child<'a>(&'a self, spec: &'a str) -> OptionalAction<'a, Provider> {
        action(from_url(spec.to_owned()))
    }

    /// Each call is one script.
    fn cost(&self) -> Cost {
        Cost {
            won: 1,
            first: 1,
            lost: 1,
            extend: 1,
            unlock: 1,
        }
    }

    /// One profile for both.
    fn profile(&self) -> OptionalAction<'_, StoreProfile> {
        if self.name != "redis" && self.name != "valkey" {
            return None;
        }
        let sheet = StoreProfile::new("Redis, Valkey", "tests/profiles/redis.json")
            .shares_records()
            .says("durable", "only with `appendfsync always`")
            .says(
                "hosts",
                "yes; after a failover, Sentinel and Cluster may lose locks that no replica had received (see \
                 `wait_replicas`)",
            )
            .says("tested_on", "Redis 7.0, Valkey 9");
        action(async { Ok(sheet) })
    }

    fn round_trips(&self) -> Option<RoundTrips> {
        Some(RoundTrips::ONE)
    }

    fn namespace_on_own_store(&self) -> OptionalAction<'_, Arc<dyn Namespace>> {
        let program = self.program.clone()?;
        action(async move {
            let server = Own::start(program, &DURABLE).await?;
            let url = server.url();
            let room = Room::new(&url, self.way, Some(server)).await?;
            Ok(Arc::new(room) as Arc<dyn Namespace>)
        })
    }

    fn namespace_to_fill(&self) -> OptionalAction<'_, Arc<dyn Namespace>> {
        self.namespace_on_own_store()
    }
}

/// A namespace with its own environment.
pub(crate) struct Room {
    server: String,
    environment: String,
    way: Way,
    admin: Client,
    own: Option<Own>,
    /// The connection that ends a fault. During the fault it may be impossible to open another one.
    keeper: Mutex<Option<MultiplexedConnection>>,
}

impl Room {
    async fn new(server: &str, way: Way, own: Option<Own>) -> Result<Self, BoxError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let owner = Owner::generate();
        let random = owner.as_str().rsplit('/').next().unwrap_or_default();
        Ok(Self {
            server: server.to_owned(),
            environment: format!("space-{number}-{random}"),
            way,
            admin: Client::open(server)?,
            own,
            keeper: Mutex::new(None),
        })
    }

    fn url(&self) -> String {
        format!("{}?environment={}", self.server, self.environment)
    }

    fn key(&self, name: &LockName) -> String {
        format!("job-lock:{}:{name}", self.environment)
    }

    async fn admin(&self) -> Result<MultiplexedConnection, BoxError> {
        Ok(connection(&self.admin).await?)
    }

    async fn provider_at(&self, server: &str) -> Result<Provider, BoxError> {
        match self.way {
            Way::Url => from_url(format!("{server}?environment={}", self.environment)).await,
            Way::Manager => {
                let config = redis::aio::ConnectionManagerConfig::new()
                    .set_number_of_retries(1)
                    .set_connection_timeout(Some(Duration::from_secs(5)))
                    // The client's default limit is short for a busy machine.
                    .set_response_timeout(Some(Duration::from_secs(5)));
                let manager = Client::open(server)?.get_connection_manager_lazy(config)?;
                let provider = RedisProvider::builder(manager).environment(&self.environment);
                Ok(Arc::new(provider.build()?))
            }
        }
    }

    /// Changes settings of the running server, or sends it other commands.
    async fn tell(&self, orders: &[&[&str]]) -> Result<(), BoxError> {
        let mut keeper = self.keeper.lock().await;
        let mut admin = match keeper.take() {
            Some(admin) => admin,
            None => self.admin().await?,
        };
        for words in orders {
            let mut order = cmd(words[0]);
            order.arg(&words[1..]);
            let _: redis::Value = order.query_async(&mut admin).await?;
        }
        *keeper = Some(admin);
        Ok(())
    }

    /// Deletes all keys of the namespace.
    async fn wipe(&self) -> Result<(), BoxError> {
        let mut admin = self.admin().await?;
        let mut cursor = 0_u64;
        loop {
            let (next, keys): (u64, Vec<String>) = cmd("SCAN")
                .arg(cursor)
                .arg("MATCH")
                .arg(format!("*job-lock:{}:*", self.environment))
                .arg("COUNT")
                .arg(1_000)
                .query_async(&mut admin)
                .await?;
            if !keys.is_empty() {
                let _: u64 = cmd("DEL").arg(keys).query_async(&mut admin).await?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }
}

async fn from_url(url: String) -> Result<Provider, BoxError> {
    // Does not contact the server, which may be down.
    let (server, environment) = url.split_once("?environment=").ok_or("no environment")?;
    let provider = RedisProvider::builder(Client::open(server)?).environment(environment);
    Ok(Arc::new(provider.build()?))
}

impl Namespace for Room {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        Box::pin(self.provider_at(&self.server))
    }

    fn close(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async {
            match &self.own {
                Some(own) => {
                    own.stop();
                    Ok(())
                }
                None => self.wipe().await,
            }
        })
    }

    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        action(async move {
            let mut admin = self.admin().await?;
            let key = self.key(name);
            let companion = format!("shedlock-rs:{{{key}}}");
            let mut delete = cmd("DEL");
            let _: u64 = delete
                .arg(key)
                .arg(companion)
                .query_async(&mut admin)
                .await?;
            Ok(())
        })
    }

    fn drop_container(&self) -> OptionalAction<'_, ()> {
        action(self.wipe())
    }

    fn restore_container(&self) -> OptionalAction<'_, ()> {
        action(async { Ok(()) })
    }

    /// Writes a list instead of a text.
    fn write_foreign<'a>(&'a self, name: &'a LockName, data: &'a [u8]) -> OptionalAction<'a, ()> {
        action(async move {
            let mut admin = self.admin().await?;
            let push = redis::cmd("LPUSH").arg(self.key(name)).arg(data).to_owned();
            push.exec_async(&mut admin).await?;
            Ok(())
        })
    }

    fn write_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
        record: &'a JavaRecord,
    ) -> OptionalAction<'a, ()> {
        action(async move {
            let mut admin = self.admin().await?;
            record::write(&mut admin, &self.key(name), record).await
        })
    }

    fn read_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
    ) -> OptionalAction<'a, Option<JavaRecord>> {
        action(async move {
            let mut admin = self.admin().await?;
            record::read(&mut admin, &self.key(name)).await
        })
    }

    /// The client has no clock that could be wrong.
    fn provider_with_clock(&self, _clock: Arc<dyn Clock>) -> OptionalAction<'_, Provider> {
        Some(self.provider())
    }

    fn store_addr(&self) -> Option<SocketAddr> {
        let address = self.server.strip_prefix("redis://")?;
        address.to_socket_addrs().ok()?.next()
    }

    fn provider_via(&self, addr: SocketAddr) -> OptionalAction<'_, Provider> {
        // The manager keeps a connection that has stopped responding, as `Connections` documents, so it cannot pass the
        // cases of faults.
        let through = (self.way == Way::Url).then(|| format!("redis://{addr}"))?;
        action(async move { self.provider_at(&through).await })
    }

    fn child_spec(&self) -> Option<String> {
        Some(self.url())
    }

    fn fill(&self) -> OptionalAction<'_, ()> {
        self.own.as_ref()?;
        action(self.tell(&[&["CONFIG", "SET", "maxmemory", "1"]]))
    }

    fn make_space(&self) -> OptionalAction<'_, ()> {
        self.own.as_ref()?;
        action(self.tell(&[&["CONFIG", "SET", "maxmemory", "0"]]))
    }

    fn stop_store(&self) -> OptionalAction<'_, ()> {
        let own = self.own.as_ref()?;
        action(async {
            own.stop();
            Ok(())
        })
    }

    fn start_store(&self) -> OptionalAction<'_, ()> {
        let own = self.own.as_ref()?;
        action(async {
            // Its connection ended with the server.
            self.keeper.lock().await.take();
            own.begin().await
        })
    }
}

impl TortureNamespace for Room {
    fn child_spec_via(&self, addr: SocketAddr) -> Option<String> {
        Some(format!("redis://{addr}?environment={}", self.environment))
    }

    /// With `safeUpdate`: without it, ShedLock's unlock frees the lock regardless of its owner. Each of its leases has its own
    /// value, which contains this machine's name.
    fn shedlock(&self, _host: &str, through: Option<SocketAddr>) -> Option<Command> {
        let server = match (self.way, through) {
            (Way::Url, None) => self.server.clone(),
            (Way::Url, Some(addr)) => format!("redis://{addr}"),
            (Way::Manager, _) => return None,
        };
        let properties = [
            ("interop.patience", "4000"),
            // Its log would be full of expected faults.
            ("org.slf4j.simpleLogger.defaultLogLevel", "off"),
        ];
        let arguments = ["redis-spring-safe", &server, &self.environment];
        shedlock_jvm(&properties, &arguments)
    }

    fn store_version(&self) -> OptionalAction<'_, String> {
        action(async {
            let mut admin = self.admin().await?;
            let told: String = cmd("INFO").arg("server").query_async(&mut admin).await?;
            let word = |name: &str| told.lines().find_map(|line| line.strip_prefix(name));
            let valkey = word("valkey_version:").map(|version| format!("Valkey {version}"));
            let redis = || word("redis_version:").map(|version| format!("Redis {version}"));
            Ok(valkey.or_else(redis).ok_or("a server without a version")?)
        })
    }

    fn begin_fault(&self, fault: StoreFault) -> OptionalAction<'_, ()> {
        self.own.as_ref()?;
        let orders: &[&[&str]] = match fault {
            StoreFault::FewConnections => &[
                &["CONFIG", "SET", "maxclients", "4"],
                &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"],
            ],
            // There is no server to copy from, so it keeps its data.
            StoreFault::ReadOnly => &[&["REPLICAOF", "127.0.0.1", "1"]],
            StoreFault::Full => return self.fill(),
            _ => return None,
        };
        action(self.tell(orders))
    }

    fn end_fault(&self, fault: StoreFault) -> OptionalAction<'_, ()> {
        self.own.as_ref()?;
        let orders: &[&[&str]] = match fault {
            StoreFault::FewConnections => &[&["CONFIG", "SET", "maxclients", "10000"]],
            StoreFault::ReadOnly => &[&["REPLICAOF", "NO", "ONE"]],
            StoreFault::Full => return self.make_space(),
            _ => return None,
        };
        action(self.tell(orders))
    }
}
