//! A cluster's client that sends again after a lost reply: whatever the second copy returns, the first one takes
//! nothing when it arrives.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::own::Own;
use common::until;
use redis::cluster::ClusterClient;
use redis::{Client, cmd};
use shedlock_conformance::proxy::{Delivery, Proxy, Strike, contains};
use shedlock_core::{
    AttemptRequest, Executor, LockConfig, LockName, LockProvider, LockState, Outcome, Owner,
    UnlockRequest,
};
use shedlock_redis::RedisProvider;
use shedlock_rig::given::program;
use shedlock_rig::port;

const MINUTE: Duration = Duration::from_secs(60);

/// A cluster of one server, which its clients reach through a proxy.
struct Line {
    proxy: Proxy,
    direct: RedisProvider,
    _server: Own,
}

impl Line {
    async fn new() -> Self {
        let bus = port::free().unwrap().to_string();
        let settings = [["--cluster-enabled", "yes"], ["--cluster-port", &bus]];
        let program = program("redis-server", "redis");
        let server = Own::start(program, settings.as_flattened()).await.unwrap();
        let addr = SocketAddr::from(([127, 0, 0, 1], server.port()));
        let proxy = Proxy::start(addr).await.unwrap();
        let mut admin = common::connection(&server.admin().unwrap()).await.unwrap();
        let announced = proxy.addr().port();
        let mut announce = cmd("CONFIG");
        announce.arg(&["SET", "cluster-announce-port", &announced.to_string()]);
        let () = announce.query_async(&mut admin).await.unwrap();
        let mut slots = cmd("CLUSTER");
        slots.arg(&["ADDSLOTSRANGE", "0", "16383"]);
        let () = slots.query_async(&mut admin).await.unwrap();
        until("the cluster is whole", async || {
            let mut info = cmd("CLUSTER");
            let info: String = info.arg("INFO").query_async(&mut admin.clone()).await?;
            Ok(info.contains("cluster_state:ok"))
        })
        .await
        .unwrap();
        // The only server has all slots, so no cluster's client is needed.
        let direct = RedisProvider::builder(Client::open(server.url()).unwrap());
        Self {
            proxy,
            direct: direct.build().unwrap(),
            _server: server,
        }
    }

    /// Another owner holds the lock when the copy is sent, and has unlocked it when the copy arrives.
    async fn a_copy_takes_nothing(&self, through: RedisProvider, job: &str) {
        let job = LockName::new(job).unwrap();
        let request = AttemptRequest::new(job.clone(), Owner::generate(), MINUTE);
        let other = self.direct.attempt(&request).await.unwrap();
        let other = other.acquired().expect("the lock is free");
        let executor = Executor::new(std::sync::Arc::new(through));
        let executor = executor.store_timeout(Duration::from_secs(1));
        let config = LockConfig::new(job.as_str()).lock_at_most_for("1m");
        // Connects.
        let _ = executor.execute(&config, async {}).await.unwrap();
        let name = contains(job.as_str());
        let strike = Strike::CutAndWithholdRequest;
        let trap = self.proxy.on_request(name, 1, strike);
        let outcome = executor.execute(&config, async {}).await;
        let outcome = outcome.expect("the client reconnects");
        assert!(matches!(outcome, Outcome::Skipped(_)), "{outcome:?}");
        assert!(trap.has_struck());
        let unlocked = self.direct.unlock(&other, &UnlockRequest::new()).await;
        unlocked.unwrap();
        executor.settled().await;
        assert_eq!(trap.deliver().await, Delivery::Answered);
        let record = self.direct.inspect(&job).await.unwrap().unwrap();
        assert_eq!(record.state, LockState::Free, "{record:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_by_its_url_sends_one_copy() {
    let line = Line::new().await;
    let url = format!("redis-cluster://{}", line.proxy.addr());
    let through = RedisProvider::connect(&url).await.unwrap();
    line.a_copy_takes_nothing(through, "by-url").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_the_users_cluster_client_are_withdrawn() {
    let line = Line::new().await;
    let url = format!("redis://{}", line.proxy.addr());
    let client = ClusterClient::new([url]).unwrap();
    let connection = client.get_async_connection().await.unwrap();
    let through = RedisProvider::builder(client).build().unwrap();
    line.a_copy_takes_nothing(through, "by-client").await;
    let through = RedisProvider::builder(connection).build().unwrap();
    line.a_copy_takes_nothing(through, "by-connection").await;
}
