//! Sessions end and move, but locks stay.

use std::time::Duration;

use shedlock_conformance::proxy::{Fault, Proxy};
use shedlock_core::{
    Attempt, ErrorKind, Extension, LockProvider, SkipReason, Unlock, UnlockRequest,
};
use shedlock_zookeeper::ZooKeeperProvider;
use zookeeper_client::{Client, SessionState};

use crate::common::own::Own;
use crate::room::{Room, extend, request, take};
use shedlock_rig::Signal;
use shedlock_rig::wait::{answered, sleep};

/// Repeats the extension until the store replies.
async fn extended(provider: &ZooKeeperProvider, lease: &shedlock_core::Lease) -> Extension {
    let request = shedlock_core::ExtendRequest::new(crate::room::MINUTE);
    let extend = async || provider.extend(lease, &request).await;
    answered(
        "the store replies",
        shedlock_core::Error::is_retryable,
        extend,
    )
    .await
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
        "{through}?path={}&session_timeout=2s&connect_timeout=1s&response_timeout=1s",
        room.path
    );
    let own = ZooKeeperProvider::connect(&url).await.unwrap();
    let connector = Client::connector().with_session_timeout(Duration::from_secs(2));
    let client = connector.connect(&proxy.addr().to_string()).await.unwrap();
    let second = Duration::from_secs(1);
    let builder = ZooKeeperProvider::builder(client.clone()).path(&room.path);
    let builder = builder.connect_timeout(second).response_timeout(second);
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
    let unlocked = own.unlock(&first, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
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
        let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
        assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
    }
}

#[tokio::test]
async fn a_session_of_the_users_client_moves_to_another_server_of_the_ensemble() {
    crate::room::common_server();
    let servers = Own::ensemble().await.unwrap();
    let all: Vec<String> = servers.iter().map(Own::address).collect();
    let all = all.join(",");
    let url =
        format!("zookeeper://{all}?session_timeout=4s&connect_timeout=2s&response_timeout=2s");
    let own = ZooKeeperProvider::connect(&url).await.unwrap();
    let connector = Client::connector().with_session_timeout(Duration::from_secs(15));
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
    assert_eq!(client.session_id(), session);
    assert_eq!(client.state(), SessionState::SyncConnected);
    let token = first.fencing_token();
    let unlocked = own.unlock(&first, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
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
    let leader = servers.iter().position(Own::leads).unwrap();
    let (leads, follows) = (&servers[leader], &servers[(leader + 1) % 3]);
    let url = format!("{}?session_timeout=40s", leads.url());
    let at_leader = ZooKeeperProvider::connect(&url).await.unwrap();
    let elsewhere = ZooKeeperProvider::connect(&follows.url()).await.unwrap();
    let lease = take(&at_leader, "job").await;

    leads.signal(Signal::STOP);
    let unlock = async || elsewhere.unlock(&lease, &UnlockRequest::new()).await;
    let is_retryable = shedlock_core::Error::is_retryable;
    answered("another leader is elected", is_retryable, unlock).await;
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
