//! The laws over a real ZooKeeper: from a URL, over the user's own client, and behind a wrapper.

#[path = "../common/mod.rs"]
mod common;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use common::{OPEN, client, delete_all, host};
use shedlock_conformance::contention::{self, CLIENTS, ROUNDS};
use shedlock_conformance::proxy::Matcher;
use shedlock_conformance::support::{address, unique};
use shedlock_conformance::{
    BoxError, Cost, Harness, JavaRecord, Namespace, OptionalAction, Provider, RoundTrips, Scope,
    StoreProfile, Tag, Verdict, action, prefixed,
};
use shedlock_core::{BoxFuture, Clock, LockName};
use shedlock_rig::OwnServer;
use shedlock_rig::given::server;
use shedlock_torture::TortureNamespace;
use shedlock_zookeeper::{Builder, ZooKeeperProvider};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use zookeeper_client::{Client, Error};

/// The tolerated skew here: less than the default, because cases wait for it.
const SKEW: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let server = server("zookeeper");
    let variant = |name, way| {
        let server = server.clone();
        Arc::new(ZooKeeper { name, server, way }) as Arc<dyn Harness>
    };
    let straight = variant("zookeeper", Way::Url);
    let harnesses = [
        Arc::new(prefixed(&straight)),
        straight,
        variant("zookeeper-client", Way::Client),
    ];
    shedlock_torture::main_after::<Room>(race(server.clone()), harnesses)
}

/// Raw clients race for one node. Each names the node's last version, as attempts do.
async fn race(server: String) -> Verdict {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(client(&server).await?);
    }
    let node = format!("/{}", unique("race"));
    clients[0].create(&node, b"", &OPEN).await?;
    let verdict = contention::judge(ROUNDS, &clients, |client, round| {
        let node = node.clone();
        async move {
            let last = i32::try_from(round - 1)?;
            match client.set_data(&node, b"mine", Some(last)).await {
                Ok(_) => Ok(true),
                Err(Error::BadVersion) => Ok(false),
                Err(error) => Err(error.into()),
            }
        }
    });
    let verdict = verdict.await;
    clients[0].delete(&node, None).await?;
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

struct ZooKeeper {
    name: &'static str,
    server: String,
    way: Way,
}

impl Harness for ZooKeeper {
    fn name(&self) -> &str {
        self.name
    }

    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
        Box::pin(async {
            let room = Room::make(&self.server, self.way, None).await?;
            Ok(Arc::new(room) as Arc<dyn Namespace>)
        })
    }

    fn scope(&self) -> Scope {
        match self.way {
            Way::Url => Scope::Whole,
            // The same requests in another session.
            Way::Client => Scope::About(&[Tag::Connection]),
        }
    }

    fn open_child<'a>(&'a self, spec: &'a str) -> OptionalAction<'a, Provider> {
        action(open(spec.to_owned()))
    }

    fn namespace_on_own_store(&self) -> OptionalAction<'_, Arc<dyn Namespace>> {
        action(async {
            let own = OwnServer::start("zookeeper", &[])?;
            let url = own.url().to_owned();
            let room = Room::make(&url, self.way, Some(own)).await?;
            Ok(Arc::new(room) as Arc<dyn Namespace>)
        })
    }

    /// The profile of a provider with the default tolerated skew.
    fn profile(&self) -> OptionalAction<'_, StoreProfile> {
        if self.way != Way::Url {
            return None;
        }
        action(async {
            let provider = ZooKeeperProvider::connect(&self.server).await?;
            Ok(
                StoreProfile::new("ZooKeeper", "tests/profiles/zookeeper.json")
                    .of_provider(Arc::new(provider))
                    .shares_records()
                    .says("tested_on", "3.8"),
            )
        })
    }

    /// Both nodes are read in one round trip, and written in one.
    fn round_trips(&self) -> Option<RoundTrips> {
        Some(RoundTrips {
            won: 2,
            first: 2,
            lost: 1,
            extend: 2,
            unlock: 2,
        })
    }

    /// Matches pings, which have a number of their own.
    fn chatter(&self) -> Option<Matcher> {
        const PING: [u8; 4] = (-2_i32).to_be_bytes();
        Some(Arc::new(|packet| packet.get(4..8) == Some(&PING)))
    }

    /// Both nodes are read by one request, and written by one.
    fn cost(&self) -> Cost {
        Cost {
            won: 2,
            first: 2,
            lost: 1,
            extend: 2,
            unlock: 2,
        }
    }
}

/// A chroot of its own.
struct Room {
    admin: Client,
    server: String,
    chroot: String,
    way: Way,
    own: Option<OwnServer>,
}

impl Room {
    async fn make(server: &str, way: Way, own: Option<OwnServer>) -> Result<Self, BoxError> {
        let chroot = format!("/{}", unique("space"));
        let admin = client(server).await?;
        admin.create(&chroot, b"", &OPEN).await?;
        let admin = admin.chroot(chroot.clone()).map_err(|_| "no chroot")?;
        let room = Self {
            admin,
            server: server.to_owned(),
            chroot,
            way,
            own,
        };
        open(room.url(server)).await?.migrate().await?;
        Ok(room)
    }

    fn url(&self, server: &str) -> String {
        let skew = SKEW.as_millis();
        // For servers that are stopped, and connections that are cut. The client gives up a connection that is silent for
        // two fifths of its session. A server that is only busy gets long limits.
        let limits = match self.own.is_none() && server == self.server {
            true => "&session_timeout=40s",
            false => "&session_timeout=7s&connect_timeout=1500ms&response_timeout=2500ms",
        };
        format!("{server}{}?tolerated_skew={skew}ms{limits}", self.chroot)
    }

    /// Configures a provider over the user's own client.
    async fn over_client(&self) -> Result<Builder, BoxError> {
        let servers = format!("{}{}", host(&self.server), self.chroot);
        // The session must outlive the server's absence, or the client could not return to it.
        let connector = Client::connector().with_session_timeout(Duration::from_secs(40));
        let client = connector.connect(&servers).await?;
        let builder = ZooKeeperProvider::builder(client).tolerated_skew(SKEW);
        Ok(match self.own {
            Some(_) => builder
                .connect_timeout(Duration::from_millis(1_500))
                .response_timeout(Duration::from_millis(2_500)),
            None => builder,
        })
    }

    /// Returns the node of a name that is a valid path.
    fn node(name: &LockName) -> String {
        format!("/shedlock/{name}")
    }
}

async fn open(url: String) -> Result<Provider, BoxError> {
    Ok(Arc::new(ZooKeeperProvider::connect(&url).await?))
}

impl Namespace for Room {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        match self.way {
            Way::Url => Box::pin(open(self.url(&self.server))),
            Way::Client => {
                Box::pin(async { Ok(Arc::new(self.over_client().await?.build()?) as Provider) })
            }
        }
    }

    fn close(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async {
            if self.own.is_some() {
                // The server goes with everything in it.
                return Ok(());
            }
            let root = self.admin.clone().chroot("/").map_err(|_| "no root")?;
            Ok(delete_all(&root, &self.chroot).await?)
        })
    }

    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        action(async { Ok(self.admin.delete(&Self::node(name), None).await?) })
    }

    fn drop_container(&self) -> OptionalAction<'_, ()> {
        action(async {
            delete_all(&self.admin, "/shedlock").await?;
            Ok(delete_all(&self.admin, "/shedlock.owners").await?)
        })
    }

    fn restore_container(&self) -> OptionalAction<'_, ()> {
        action(async {
            open(self.url(&self.server)).await?.migrate().await?;
            Ok(())
        })
    }

    /// Writes a node as ShedLock does.
    fn write_foreign<'a>(&'a self, name: &'a LockName, data: &'a [u8]) -> OptionalAction<'a, ()> {
        action(async move {
            self.admin.create(&Self::node(name), data, &OPEN).await?;
            Ok(())
        })
    }

    fn write_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
        record: &'a JavaRecord,
    ) -> OptionalAction<'a, ()> {
        action(async {
            let until = jiff::Timestamp::try_from(record.lock_until)?;
            let (node, data) = (Self::node(name), format!("{until:.3}"));
            match self.admin.set_data(&node, data.as_bytes(), None).await {
                Err(Error::NoNode) => {
                    self.admin.create(&node, data.as_bytes(), &OPEN).await?;
                }
                answer => drop(answer?),
            }
            Ok(())
        })
    }

    fn read_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
    ) -> OptionalAction<'a, Option<JavaRecord>> {
        action(async {
            let data = match self.admin.get_data(&Self::node(name)).await {
                Ok((data, _)) => String::from_utf8(data)?,
                Err(Error::NoNode) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            if data.len() != "2026-01-01T00:00:00.000Z".len() {
                return Err(format!("{data} is not how ShedLock writes instants").into());
            }
            let until: jiff::Timestamp = data.parse()?;
            // Owner and start are in a node that ShedLock does not read, so take them from our own
            // view.
            let seen = open(self.url(&self.server)).await?.inspect(name).await?;
            let seen = seen.ok_or("the record is gone")?;
            Ok(Some(JavaRecord {
                locked_by: seen.owner.unwrap_or_default(),
                locked_at: seen.locked_at.ok_or("no beginning")?,
                lock_until: SystemTime::from(until),
            }))
        })
    }

    fn provider_with_clock(&self, clock: Arc<dyn Clock>) -> OptionalAction<'_, Provider> {
        action(async {
            let builder = self.over_client().await?;
            Ok(Arc::new(builder.clock(clock).build()?) as Provider)
        })
    }

    fn store_addr(&self) -> Option<SocketAddr> {
        address(&self.server, 2181)
    }

    fn provider_via(&self, addr: SocketAddr) -> OptionalAction<'_, Provider> {
        action(open(self.url(&format!("zookeeper://{addr}"))))
    }

    fn child_spec(&self) -> Option<String> {
        Some(self.url(&self.server))
    }

    fn stop_store(&self) -> OptionalAction<'_, ()> {
        let own = self.own.as_ref()?;
        action(async { own.kill() })
    }

    fn start_store(&self) -> OptionalAction<'_, ()> {
        let own = self.own.as_ref()?;
        action(async { own.start_again() })
    }
}

impl TortureNamespace for Room {
    fn child_spec_via(&self, addr: SocketAddr) -> Option<String> {
        Some(self.url(&format!("zookeeper://{addr}")))
    }

    fn store_version(&self) -> OptionalAction<'_, String> {
        action(async {
            let mut socket = TcpStream::connect(host(&self.server)).await?;
            socket.write_all(b"srvr").await?;
            let mut told = String::new();
            socket.read_to_string(&mut told).await?;
            let version = told.strip_prefix("Zookeeper version: ");
            let version = version.and_then(|rest| rest.split(['-', ',']).next());
            Ok(format!("ZooKeeper {}", version.ok_or("no version")?))
        })
    }
}
