//! A cluster of three servers: a server that is stopped, a leader that is paused, an address without a server.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::own::{Own, QUICK};
use etcd_client::Client;

use shedlock_core::{
    Attempt, AttemptRequest, Clock, Error, ExtendRequest, Extension, Lease, LockName, LockProvider,
    Moment, Owner, SystemClock, Unlock, UnlockRequest,
};
use shedlock_etcd::EtcdProvider;
use shedlock_rig::Signal;
use shedlock_rig::given::program;
use shedlock_rig::wait::{answered, found_async, sleep};

const LEASE: Duration = Duration::from_secs(5);

/// A lease that is extended in time although an election delays calls: the holder's call and the other client's may
/// take two seconds each.
const AMPLE: Duration = Duration::from_secs(15);

async fn cluster() -> Own {
    let program = program("etcd", "etcd");
    Own::start(program, 3, &QUICK).await.unwrap()
}

/// A provider with the addresses of all servers, which contacts this one first.
async fn provider(cluster: &Own, first: usize) -> EtcdProvider {
    // Which server of a URL comes first depends on the process id.
    let skew = std::process::id() as usize % 3;
    let hosts: Vec<_> = (0..3)
        .map(|i| cluster.endpoint((first + 3 + i - skew) % 3))
        .collect();
    let limits = "connect_timeout=1s&response_timeout=1s";
    let url = format!("etcd://{}/?{limits}", hosts.join(","));
    EtcdProvider::connect(&url).await.unwrap()
}

/// The server that is the leader. On a busy machine, another one may be elected while they are asked.
async fn leader(cluster: &Own) -> usize {
    let mut members = (0..3).cycle();
    found_async("a server of the cluster is the leader", async || {
        let member = members.next()?;
        let client = Client::connect([cluster.endpoint(member)], None).await;
        let status = client.ok()?.status().await.ok()?;
        (status.header()?.member_id() == status.leader()).then_some(member)
    })
    .await
}

fn request(name: &str, at_most: Duration) -> AttemptRequest {
    AttemptRequest::new(LockName::new(name).unwrap(), Owner::generate(), at_most)
}

/// Repeats a call until it succeeds, as a runtime does.
async fn until_answered<T>(ask: impl AsyncFn() -> Result<T, Error>) -> T {
    answered("two servers of three reply", Error::is_retryable, ask).await
}

async fn acquired(provider: &EtcdProvider, request: &AttemptRequest) -> Lease {
    let attempt = until_answered(|| provider.attempt(request)).await;
    let Attempt::Acquired(lease) = attempt else {
        panic!("the lock should be free: {attempt:?}");
    };
    lease
}

async fn extended(provider: &EtcdProvider, lease: &Lease, at_most: Duration) -> Lease {
    let request = ExtendRequest::new(at_most);
    let extended = until_answered(|| provider.extend(lease, &request)).await;
    let Extension::Extended(lease) = extended else {
        panic!("the lease runs: {extended:?}");
    };
    lease
}

async fn unlocked(provider: &EtcdProvider, lease: &Lease) {
    let request = UnlockRequest::new();
    let answer = until_answered(|| provider.unlock(lease, &request)).await;
    assert_eq!(answer, Unlock::Unlocked);
}

fn since(moment: Moment) -> Duration {
    SystemClock.now().saturating_since(moment)
}

/// Whether the leader or another server stops: running leases continue, and new ones can be acquired, even by a client
/// that connects only now and tries the stopped server first.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_ends_no_lock() {
    let cluster = cluster().await;
    let long = Duration::from_secs(300);
    let leader = leader(&cluster).await;
    for stopped in [leader, (leader + 1) % 3] {
        let near = provider(&cluster, stopped).await;
        let far = provider(&cluster, (stopped + 1) % 3).await;
        let held = acquired(&near, &request("held", long)).await;
        cluster.stop(stopped);

        let lease = extended(&near, &held, long).await;
        let skipped = until_answered(|| async { far.attempt(&request("held", long)).await });
        assert!(matches!(skipped.await, Attempt::Skipped(_)));
        unlocked(&near, &lease).await;
        let next = acquired(&far, &request("held", long)).await;
        assert!(next.fencing_token() > held.fencing_token());
        unlocked(&far, &next).await;

        let new = provider(&cluster, stopped).await;
        let lease = acquired(&new, &request("new", long)).await;
        unlocked(&new, &lease).await;

        cluster.begin(stopped).unwrap();
        cluster.serves(stopped).await.unwrap();
    }
}

/// The pause is longer than a lease. Its holder extends the lease in the meantime, through servers that elect another
/// leader. When the old leader resumes, all leases in its state have expired by its clock, and it reports that to the
/// others. The lock must still belong to its holder, and no other owner may get it before the unlock.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_paused_ends_no_lease_that_was_extended() {
    let cluster = Arc::new(cluster().await);
    let leader = leader(&cluster).await;
    let holder = provider(&cluster, leader).await;
    let other = provider(&cluster, (leader + 1) % 3).await;
    let asked = SystemClock.now();
    let mut lease = acquired(&holder, &request("job", AMPLE)).await;
    let mut certain = asked + AMPLE;
    let token = lease.fencing_token();

    cluster.signal(leader, Signal::STOP);
    let paused = SystemClock.now();
    let mut resumed = None;
    while resumed.is_none_or(|moment| since(moment) < Duration::from_secs(3)) {
        if resumed.is_none() && since(paused) > AMPLE + Duration::from_secs(2) {
            cluster.signal(leader, Signal::CONT);
            resumed = Some(SystemClock.now());
        }
        let asked = SystemClock.now();
        match holder.extend(&lease, &ExtendRequest::new(AMPLE)).await {
            Ok(Extension::Extended(next)) => (lease, certain) = (next, asked + AMPLE),
            Ok(answer) => panic!("{answer:?}, before {certain:?}"),
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
        let attempt = other.attempt(&request("job", AMPLE)).await;
        if let Ok(Attempt::Acquired(stolen)) = attempt {
            panic!("{stolen:?} beside {lease:?}, which ends at {certain:?}");
        }
        assert!(SystemClock.now() < certain, "no extension came through");
        sleep(Duration::from_millis(200)).await;
    }
    unlocked(&holder, &lease).await;
    let next = acquired(&other, &request("job", LEASE)).await;
    assert!(next.fencing_token() > token);
    cluster.serves(leader).await.unwrap();
}

/// The new leader restarts all leases: the lock of a holder that died is freed no earlier than promised, and later by
/// up to the length of the lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stops_ends_a_dead_holders_lock_no_earlier() {
    let cluster = cluster().await;
    let leader = leader(&cluster).await;
    let other = provider(&cluster, (leader + 1) % 3).await;
    let asked = SystemClock.now();
    let abandoned = acquired(&other, &request("job", LEASE)).await;
    sleep(Duration::from_secs(2)).await;
    cluster.stop(leader);
    let next = found_async("the lock comes free", async || {
        match other.attempt(&request("job", LEASE)).await {
            Err(error) if error.is_retryable() => None,
            attempt => attempt.unwrap().acquired(),
        }
    });
    let next = next.await;
    assert!(
        since(asked) >= LEASE,
        "it came free after {:?}",
        since(asked)
    );
    assert!(next.fencing_token() > abandoned.fencing_token());
    let request = UnlockRequest::new();
    let lost = until_answered(|| other.unlock(&abandoned, &request)).await;
    assert_eq!(lost, Unlock::Lost);
}
