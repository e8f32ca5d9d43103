//! Three servers: one of them stops, or no longer responds.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::cluster::Cluster;
use common::{MINUTE, request};
use shedlock_core::{
    Attempt, AttemptRequest, Error, ExtendRequest, Extension, Failover, Lease, LockProvider,
    Unlock, UnlockRequest,
};
use shedlock_nats::NatsProvider;
use shedlock_rig::Signal;
use shedlock_rig::wait::answered;

/// All these cases share one start of three servers.
#[tokio::test(flavor = "multi_thread")]
async fn a_majority_keeps_the_locks() {
    let cluster = Cluster::start().await;
    let options = "bucket=locks&replicas=3&connect_timeout=1s&response_timeout=1s";
    let provider = connected(&cluster, &[0, 1, 2], options).await;
    repeated(async || provider.migrate().await).await;
    repeated(async || provider.check().await).await;
    let declared = provider.capabilities();
    assert!(
        !declared.durable,
        "no operator asserts that its servers sync"
    );
    assert_eq!(declared.failover, Failover::Majority);

    the_leader_falls_silent(&cluster, options).await;
    a_server_stops(&cluster, &provider).await;
}

/// Calls go to the other servers. Until there is a new leader, their errors are retryable.
async fn the_leader_falls_silent(cluster: &Cluster, options: &str) {
    let leader = cluster.leader("locks", 0).await;
    let others: Vec<_> = (0..3).filter(|i| *i != leader).collect();
    let provider = connected(cluster, &others, options).await;
    let lease = taken(&provider, request("held")).await;
    cluster.servers[leader].signal(Signal::STOP);
    let lease = still_held(&provider, &lease).await;
    let next = taken(&provider, request("next")).await;
    cluster.servers[leader].signal(Signal::CONT);
    // Once resumed, the server does not rely on its old state.
    let own = connected(cluster, &[leader], options).await;
    let other = asked(&own, request("next")).await;
    assert!(matches!(other, Attempt::Skipped(_)), "{other:?}");
    given_back(&provider, &next).await;
    given_back(&provider, &lease).await;
}

async fn a_server_stops(cluster: &Cluster, provider: &NatsProvider) {
    let lease = taken(provider, request("held")).await;
    let leader = cluster.leader("locks", 0).await;
    cluster.servers[leader].stop();
    let lease = still_held(provider, &lease).await;
    let next = taken(provider, request("next")).await;
    given_back(provider, &next).await;
    given_back(provider, &lease).await;
}

async fn connected(cluster: &Cluster, servers: &[usize], options: &str) -> NatsProvider {
    let url = cluster.url(servers, options);
    repeated(async || NatsProvider::connect(&url).await).await
}

/// Checks the lease with another owner's attempt, and with its holder's extension.
async fn still_held(provider: &NatsProvider, lease: &Lease) -> Lease {
    let other = asked(provider, request(lease.name().as_str())).await;
    let Attempt::Skipped(skip) = other else {
        panic!("a majority has the lease: {other:?}");
    };
    assert_eq!(skip.owner.as_deref(), Some(lease.owner().as_str()));
    let longer = ExtendRequest::new(2 * MINUTE);
    match repeated(async || provider.extend(lease, &longer).await).await {
        Extension::Extended(lease) => lease,
        other => panic!("a majority has the lease: {other:?}"),
    }
}

async fn taken(provider: &NatsProvider, request: AttemptRequest) -> Lease {
    let attempt = asked(provider, request).await;
    attempt.acquired().expect("the lock should be free")
}

/// Repeats an attempt with the same owner, as the runtime does.
async fn asked(provider: &NatsProvider, request: AttemptRequest) -> Attempt {
    repeated(async || provider.attempt(&request).await).await
}

async fn given_back(provider: &NatsProvider, lease: &Lease) {
    let request = UnlockRequest::new();
    let unlocked = repeated(async || provider.unlock(lease, &request).await).await;
    assert_eq!(unlocked, Unlock::Unlocked);
}

/// Repeats a call while its errors are retryable: a new leader may be elected at any time after a server has stopped or
/// has been resumed.
async fn repeated<T>(call: impl AsyncFn() -> Result<T, Error>) -> T {
    answered("a leader replies", Error::is_retryable, call).await
}
