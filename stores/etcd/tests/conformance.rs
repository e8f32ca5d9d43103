//! The laws over a real etcd: from a URL, and over the user's own client, behind a wrapper.

mod common;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use common::endpoint;
use common::own::{Own, QUICK};
use etcd_client::{
    AlarmAction, AlarmType, Client, Compare, CompareOp, DeleteOptions, PutOptions, Txn, TxnOp,
};
use shedlock_conformance::contention::{self, CLIENTS, ROUNDS};
use shedlock_conformance::proxy::{Matcher, http2_control};
use shedlock_conformance::support::{address, unique};
use shedlock_conformance::{
    BoxError, Cost, Harness, JavaRecord, Namespace, OptionalAction, Provider, RoundTrips,
    StoreProfile, Tag, Verdict, action, prefixed,
};
use shedlock_core::{BoxFuture, Clock, LockName, SystemClock};
use shedlock_etcd::EtcdProvider;
use shedlock_rig::given::server;
use shedlock_rig::host::find_program;
use shedlock_torture::{StoreFault, TortureNamespace};

fn main() -> ExitCode {
    let server = server("etcd");
    let variant = |name, way| {
        let server = server.clone();
        Arc::new(Etcd { name, server, way }) as Arc<dyn Harness>
    };
    let client = variant("etcd-client", Way::Client);
    let prefixed = prefixed(&client)
        // Another connection, and other names.
        .about(&[
            Tag::Names,
            Tag::Record,
            Tag::Operators,
            Tag::Declared,
            Tag::Connection,
        ]);
    let harnesses = [variant("etcd", Way::Url), Arc::new(prefixed)];
    shedlock_torture::main_after::<Room>(race(server.clone()), harnesses)
}

/// Raw clients race for one key. Each names the key's last value.
async fn race(server: String) -> Verdict {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Client::connect([endpoint(&server)], None).await?);
    }
    let key = unique("race");
    clients[0].put(key.as_str(), "0", None).await?;
    // Each round is on disk before the reply.
    let verdict = contention::judge(ROUNDS / 3, &clients, |mut client, round| {
        let last = (round - 1).to_string();
        let txn = Txn::new()
            .when([Compare::value(key.as_str(), CompareOp::Equal, last)])
            .and_then([TxnOp::put(key.as_str(), round.to_string(), None)]);
        async move { Ok(client.txn(txn).await?.succeeded()) }
    });
    let verdict = verdict.await;
    clients[0].delete(key.as_str(), None).await?;
    verdict
}

/// How providers reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// From a URL.
    Url,
    /// Over the user's own client.
    Client,
}

/// One server, reached in one way.
struct Etcd {
    name: &'static str,
    server: String,
    way: Way,
}

impl Harness for Etcd {
    fn name(&self) -> &str {
        self.name
    }

    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
        Box::pin(async {
            let room = Room::new(&self.server, self.way, None).await?;
            Ok(Arc::new(room) as Arc<dyn Namespace>)
        })
    }

    fn open_child<'a>(&'a self, spec: &'a str) -> OptionalAction<'a, Provider> {
        action(async move { Ok(Arc::new(EtcdProvider::connect(spec).await?) as Provider) })
    }

    /// An extension and an unlock revoke a lease in the background, which delays no caller.
    fn round_trips(&self) -> Option<RoundTrips> {
        Some(RoundTrips {
            won: 3,
            first: 3,
            lost: 1,
            extend: 3,
            unlock: 2,
        })
    }

    fn chatter(&self) -> Option<Matcher> {
        Some(http2_control())
    }

    /// An attempt reads both keys and changes both. The lease request in between names no key.
    fn cost(&self) -> Cost {
        Cost {
            won: 2,
            first: 2,
            lost: 1,
            extend: 1,
            unlock: 1,
        }
    }

    fn profile(&self) -> OptionalAction<'_, StoreProfile> {
        (self.way == Way::Url).then_some(())?;
        action(async {
            let provider = EtcdProvider::connect(&self.server).await?;
            Ok(StoreProfile::new("etcd", "tests/profiles/etcd.json")
                .of_provider(Arc::new(provider))
                .shares_records()
                // The server here elects a leader faster than with default settings.
                .says("law05", "3 s with default settings")
                .says(
                    "law09",
                    "yes; the clients' clocks decide whether a slot is too far in the future",
                )
                .says("tested_on", "3.4"))
        })
    }

    fn namespace_on_own_store(&self) -> OptionalAction<'_, Arc<dyn Namespace>> {
        let program = find_program("etcd")?;
        action(async move {
            let server = Own::start(program, 1, &QUICK).await?;
            let room = Room::new(&server.url(), self.way, Some(server)).await?;
            Ok(Arc::new(room) as Arc<dyn Namespace>)
        })
    }

    fn namespace_to_fill(&self) -> OptionalAction<'_, Arc<dyn Namespace>> {
        self.namespace_on_own_store()
    }
}

/// An environment of its own.
struct Room {
    server: String,
    environment: String,
    way: Way,
    admin: Client,
    own: Option<Own>,
}

impl Room {
    async fn new(server: &str, way: Way, own: Option<Own>) -> Result<Self, BoxError> {
        Ok(Self {
            server: server.to_owned(),
            environment: unique("space"),
            way,
            admin: Client::connect([endpoint(server)], None).await?,
            own,
        })
    }

    fn url(&self, server: &str) -> String {
        // For servers that are stopped, and connections that are cut. A server that is only busy gets the default limits.
        let limits = match self.own.is_none() && server == self.server {
            true => "",
            false => "&connect_timeout=2s&response_timeout=2500ms",
        };
        format!("{server}/?environment={}{limits}", self.environment)
    }

    fn key(&self, name: &LockName) -> String {
        format!("shedlock:{}:{name}", self.environment)
    }

    async fn over_client(&self, clock: Arc<dyn Clock>) -> Result<Provider, BoxError> {
        let client = Client::connect([endpoint(&self.server)], None).await?;
        let provider = EtcdProvider::builder(client).environment(&self.environment);
        Ok(Arc::new(provider.clock(clock).build()?))
    }

    async fn alarm(&self, action: AlarmAction) -> Result<(), BoxError> {
        let mut admin = self.admin.clone();
        admin.alarm(action, AlarmType::Nospace, None).await?;
        Ok(())
    }

    /// Deletes all keys of the room.
    async fn wipe(&self) -> Result<(), BoxError> {
        for start in ["", "shedlock-rs:"] {
            let prefix = format!("{start}shedlock:{}:", self.environment);
            let options = DeleteOptions::new().with_prefix();
            self.admin.clone().delete(prefix, Some(options)).await?;
        }
        Ok(())
    }
}

impl Namespace for Room {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        Box::pin(async {
            match self.way {
                Way::Url => {
                    let provider = EtcdProvider::connect(&self.url(&self.server)).await?;
                    Ok(Arc::new(provider) as Provider)
                }
                Way::Client => self.over_client(Arc::new(SystemClock)).await,
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async {
            match &self.own {
                Some(own) => {
                    own.stop_all();
                    Ok(())
                }
                None => self.wipe().await,
            }
        })
    }

    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        action(async move {
            let key = self.key(name);
            let mut admin = self.admin.clone();
            admin.delete(format!("shedlock-rs:{key}"), None).await?;
            admin.delete(key, None).await?;
            Ok(())
        })
    }

    fn drop_container(&self) -> OptionalAction<'_, ()> {
        action(self.wipe())
    }

    fn restore_container(&self) -> OptionalAction<'_, ()> {
        action(async { Ok(()) })
    }

    /// Writes to the companion key: any value in the lock's own key would hold the lock.
    fn write_foreign<'a>(&'a self, name: &'a LockName, data: &'a [u8]) -> OptionalAction<'a, ()> {
        action(async move {
            let key = format!("shedlock-rs:{}", self.key(name));
            self.admin.clone().put(key, data, None).await?;
            Ok(())
        })
    }

    fn write_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
        record: &'a JavaRecord,
    ) -> OptionalAction<'a, ()> {
        action(async move {
            let mut admin = self.admin.clone();
            let key = self.key(name);
            let lasts = record.lock_until.duration_since(SystemClock.system_time());
            let Ok(lasts) = lasts else {
                admin.delete(key, None).await?;
                return Ok(());
            };
            let seconds = i64::try_from(lasts.as_millis().div_ceil(1_000))?;
            let lease = admin.lease_grant(seconds, None).await?.id();
            let at = jiff::Timestamp::try_from(record.locked_at)?;
            let value = format!("ADDED:{at:.3}@{}", record.locked_by);
            let options = PutOptions::new().with_lease(lease);
            admin.put(key, value, Some(options)).await?;
            Ok(())
        })
    }

    /// ShedLock sees a key and how long its lease will last, in seconds.
    fn read_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
    ) -> OptionalAction<'a, Option<JavaRecord>> {
        action(async move {
            let mut admin = self.admin.clone();
            let found = admin.get(self.key(name), None).await?;
            let Some(key) = found.kvs().first() else {
                return Ok(None);
            };
            let left = admin.lease_time_to_live(key.lease(), None).await?.ttl();
            let left = Duration::from_secs(u64::try_from(left)? + 1);
            let added = key.value_str()?.strip_prefix("ADDED:");
            let parts = added.and_then(|added| added.split_once('@'));
            let (at, owner) = parts.ok_or("not a value of ShedLock's")?;
            if at.len() != "2026-01-01T00:00:00.000Z".len() {
                return Err(format!("{at} is not how ShedLock writes instants").into());
            }
            Ok(Some(JavaRecord {
                locked_by: owner.to_owned(),
                locked_at: SystemTime::from(at.parse::<jiff::Timestamp>()?),
                lock_until: SystemClock.system_time() + left,
            }))
        })
    }

    fn provider_with_clock(&self, clock: Arc<dyn Clock>) -> OptionalAction<'_, Provider> {
        action(self.over_client(clock))
    }

    fn store_addr(&self) -> Option<SocketAddr> {
        address(&self.server, 2379)
    }

    fn provider_via(&self, addr: SocketAddr) -> OptionalAction<'_, Provider> {
        // The user's own client keeps a connection that no longer responds, as the crate documents,
        // so it cannot pass the fault cases.
        let url = (self.way == Way::Url).then(|| self.url(&format!("etcd://{addr}")))?;
        action(async move { Ok(Arc::new(EtcdProvider::connect(&url).await?) as Provider) })
    }

    fn child_spec(&self) -> Option<String> {
        Some(self.url(&self.server))
    }

    /// Makes the server behave as if its quota were exhausted.
    fn fill(&self) -> OptionalAction<'_, ()> {
        self.own.as_ref()?;
        action(self.alarm(AlarmAction::Activate))
    }

    fn make_space(&self) -> OptionalAction<'_, ()> {
        self.own.as_ref()?;
        action(self.alarm(AlarmAction::Deactivate))
    }

    fn stop_store(&self) -> OptionalAction<'_, ()> {
        let own = self.own.as_ref()?;
        action(async {
            own.stop_all();
            Ok(())
        })
    }

    fn start_store(&self) -> OptionalAction<'_, ()> {
        let own = self.own.as_ref()?;
        action(async {
            own.begin(0)?;
            own.serves(0).await
        })
    }
}

impl TortureNamespace for Room {
    fn child_spec_via(&self, addr: SocketAddr) -> Option<String> {
        Some(self.url(&format!("etcd://{addr}")))
    }

    fn store_version(&self) -> OptionalAction<'_, String> {
        action(async {
            let status = self.admin.clone().status().await?;
            Ok(format!("etcd {}", status.version()))
        })
    }

    fn begin_fault(&self, fault: StoreFault) -> OptionalAction<'_, ()> {
        (fault == StoreFault::Full).then_some(())?;
        self.fill()
    }

    fn end_fault(&self, fault: StoreFault) -> OptionalAction<'_, ()> {
        (fault == StoreFault::Full).then_some(())?;
        self.make_space()
    }
}
