//! Sessions end and move, but locks stay.

use std::time::Duration;

use shedlock_conformance::proxy::{Fault, Proxy};
use shedlock_core::{
    Attempt, Error, ErrorKind, ExtendRequest, Extension, Lease, LockProvider, SkipReason, Unlock,
    UnlockRequest,
};
use shedlock_zookeeper::ZooKeeperProvider;
use zookeeper_client::{Client, SessionState};

use crate::common::own::Own;
use crate::room::{MINUTE, Room, extend, request};
use shedlock_rig::Signal;
use shedlock_rig::wait::{answered, found_async, sleep};

/// Repeats a call until the store replies: a session can move, and on a busy machine its client can give up a connection.
async fn repeated<T>(call: impl AsyncFnMut() -> Result<T, Error>) -> T {
    answered("the store replies", Error::is_retryable, call).await
}

async fn take(provider: &ZooKeeperProvider, name: &str) -> Lease {
    let request = request(name);
    let attempt = repeated(async || provider.attempt(&request).await).await;
    attempt.acquired().expect("the lock should be free")
}

async fn extended(provider: &ZooKeeperProvider, lease: &Lease) -> Extension {
    let request = ExtendRequest::new(MINUTE);
    repeated(async || provider.extend(lease, &request).await).await
}

async fn unlock(provider: &ZooKeeperProvider, lease: &Lease) -> Unlock {
    let request = UnlockRequest::new();
    repeated(async || provider.unlock(lease, &request).await).await
}

#[tokio::test]
async fn a_lock_outlives_the_session_that_took_it() {
    let room = Room::new().await;
    let lease = room.take("job").await;
    let Room { url, provider, .. } = room;
    drop(provider);
    let another = ZooKeeperProvider::connect(&url).await.unwrap();
    assert!(matches!(
        extend(&another, &lease).await,
        Extension::Extended(_)
    ));
    let unlocked = another.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
}

/// The connection is cut for longer than a session lasts.
#[tokio::test]
async fn an_expired_session_is_replaced_or_reported_where_the_client_is_the_users() {
    let room = Room::new().await;
    let server = crate::room::server_address();
    let proxy = Proxy::start(server).await.unwrap();
    let through = format!("zookeeper://{}", proxy.addr());
    let url = format!(
        "{through}?path={}&session_timeout=6s&connect_timeout=2s&response_timeout=2s",
        room.path
    );
    let own = repeated(async || ZooKeeperProvider::connect(&url).await).await;
    let connector = Client::connector().with_session_timeout(Duration::from_secs(6));
    let client = connector.connect(&proxy.addr().to_string()).await.unwrap();
    let seconds = Duration::from_secs(2);
    let builder = ZooKeeperProvider::builder(client.clone()).path(&room.path);
    let builder = builder.connect_timeout(seconds).response_timeout(seconds);
    let theirs = builder.build().unwrap();
    let (first, second) = (take(&own, "own").await, take(&theirs, "theirs").await);

    proxy.set(Fault::Refuse).await.unwrap();
    let mut state = client.state_watcher();
    while client.state() != SessionState::Expired {
        state.changed().await;
    }
    for provider in [&own, &theirs] {
        let error = provider.attempt(&request("other")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    proxy.heal().await.unwrap();

    let Extension::Extended(first) = extended(&own, &first).await else {
        panic!("the lease of a provider with sessions of its own should run on");
    };
    assert_eq!(unlock(&own, &first).await, Unlock::Unlocked);
    let error = theirs.attempt(&request("other")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("create a new client"), "{error}");
    assert_eq!(room.skip("theirs").await.reason, SkipReason::Held);
    // The lock can still be unlocked with the lease and a new client.
    assert_eq!(room.unlock(&second).await, Unlock::Unlocked);
}

/// Checks that an unlocked lock is free on every server, even on one that has not received the
/// unlock yet.
async fn given_back_is_free_everywhere(servers: &[Own]) {
    let mut providers = Vec::new();
    for server in servers {
        providers.push(ZooKeeperProvider::connect(&server.url()).await.unwrap());
    }
    for round in 0..60 {
        let provider = &providers[round % providers.len()];
        let lease = take(provider, "passed on").await;
        assert_eq!(unlock(provider, &lease).await, Unlock::Unlocked);
    }
}

#[tokio::test]
async fn a_session_of_the_users_client_moves_to_another_server_of_the_ensemble() {
    crate::room::common_server();
    let servers = Own::ensemble().await.unwrap();
    let all: Vec<String> = servers.iter().map(Own::address).collect();
    let all = all.join(",");
    let url =
        format!("zookeeper://{all}?session_timeout=6s&connect_timeout=2s&response_timeout=2s");
    let own = repeated(async || ZooKeeperProvider::connect(&url).await).await;
    let connector = Client::connector().with_session_timeout(Duration::from_secs(40));
    let client = connector.connect(&all).await.unwrap();
    let session = client.session_id();
    let theirs = ZooKeeperProvider::builder(client.clone()).build().unwrap();
    let (mut first, mut second) = (take(&own, "own").await, take(&theirs, "theirs").await);
    given_back_is_free_everywhere(&servers).await;
    // Stops each server once, including the leader and the servers of both sessions.
    for server in &servers {
        server.stop();
        for (provider, lease) in [(&own, &mut first), (&theirs, &mut second)] {
            match extended(provider, lease).await {
                Extension::Extended(longer) => *lease = longer,
                other => panic!("two of three servers are there: {other:?}"),
            }
        }
        server.begin().unwrap();
        server.serves().await.unwrap();
    }
    found_async("the user's client is connected", async || {
        (client.state() == SessionState::SyncConnected).then_some(())
    })
    .await;
    assert_eq!(client.session_id(), session);
    let token = first.fencing_token();
    assert_eq!(unlock(&own, &first).await, Unlock::Unlocked);
    let later = take(&own, "own").await;
    assert!(later.fencing_token() > token, "a new leader goes on");
    // Without a quorum no one gets the lock, and an attempt is an error, not a skip.
    for server in &servers[..2] {
        server.stop();
    }
    let error = own.attempt(&request("own")).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
}

/// Checks that an unlocked lock is free to the clients of a leader that does not know yet that it is deposed.
#[tokio::test]
async fn a_deposed_leader_does_not_report_a_lock_as_held() {
    crate::room::common_server();
    let servers = Own::ensemble().await.unwrap();
    let leads = async || servers.iter().position(Own::leads);
    let leader = found_async("a server leads", leads).await;
    let (leads, follows) = (&servers[leader], &servers[(leader + 1) % 3]);
    let url = format!("{}?session_timeout=40s", leads.url());
    let at_leader = ZooKeeperProvider::connect(&url).await.unwrap();
    let elsewhere = ZooKeeperProvider::connect(&follows.url()).await.unwrap();
    let lease = take(&at_leader, "job").await;

    leads.signal(Signal::STOP);
    // Once another leader is elected.
    assert_eq!(unlock(&elsewhere, &lease).await, Unlock::Unlocked);
    let asked = request("job");
    let (attempt, ()) = tokio::join!(at_leader.attempt(&asked), async {
        // The request waits in the socket of the server.
        sleep(Duration::from_millis(200)).await;
        leads.signal(Signal::CONT);
    });
    assert!(
        matches!(attempt, Err(_) | Ok(Attempt::Acquired(_))),
        "the lock is free: {attempt:?}"
    );
}

#[tokio::test]
async fn a_healthy_server_has_no_faults() {
    let room = Room::new().await;
    let findings = room.provider.diagnose().await.unwrap();
    let is_ok = |finding: &shedlock_core::Finding| finding.level == shedlock_core::Level::Ok;
    assert!(findings.iter().all(is_ok), "{findings:?}");
    let has = findings.iter().any(|finding| finding.check == "replicas");
    assert!(has, "the configuration was not read: {findings:?}");
}
