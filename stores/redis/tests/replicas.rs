//! What a failover loses, and what waiting for replicas prevents.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::pair::Pair;
use redis::Client;
use shedlock_conformance::support::Warnings;
use shedlock_core::{
    Attempt, AttemptRequest, Completion, Error, ErrorKind, ExtendRequest, Extension, Failover,
    Lease, LockName, LockProvider, LockState, Owner, Retries, Slot, SlotEnd, Unlock, UnlockRequest,
};
use shedlock_redis::{Connections, RedisProvider};
use shedlock_rig::Signal;
use shedlock_rig::wait::answered;

const MINUTE: Duration = Duration::from_secs(60);

fn request(name: &str) -> AttemptRequest {
    AttemptRequest::new(LockName::new(name).unwrap(), Owner::generate(), MINUTE)
}

/// Repeats the attempt until the replica confirms it in time, if it must.
async fn take(provider: &RedisProvider, request: &AttemptRequest) -> Lease {
    let attempt = async || provider.attempt(request).await;
    let attempt = confirmed(attempt).await;
    attempt.acquired().expect("the lock should be free")
}

async fn confirmed<T>(call: impl AsyncFnMut() -> Result<T, Error>) -> T {
    answered("the replica confirms", Error::is_retryable, call).await
}

async fn at(server: &common::own::Own, options: &str) -> RedisProvider {
    let url = format!("{}?{options}", server.url());
    RedisProvider::connect(&url).await.unwrap()
}

/// A slot at the server's current time.
async fn tick(provider: &RedisProvider) -> Slot {
    let lease = take(provider, &request("clock")).await;
    let now = lease.acquired_at().unwrap();
    let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
    Slot::at(now).unwrap()
}

/// Shows what the documentation says.
#[tokio::test(flavor = "multi_thread")]
async fn without_waiting_a_failover_forgets_a_lease_and_a_slot() {
    let pair = Pair::start().await.unwrap();
    let before = at(&pair.primary, "").await;
    assert_eq!(before.capabilities().failover, Failover::MayForget);
    let asked = request("job").with_slot(tick(&before).await);
    pair.cut().await.unwrap();
    let first = take(&before, &asked).await;

    pair.primary.stop();
    pair.promote().await.unwrap();
    let after = at(&pair.replica, "").await;
    let slot = asked.slot.unwrap();
    let second = take(&after, &request("job").with_slot(slot)).await;
    // Two holders, and one slot that runs twice. The tokens distinguish them if the servers' clocks
    // agree:
    assert!(second.fencing_token() > first.fencing_token());
}

#[tokio::test]
async fn replicas_that_are_not_waited_for_bring_one_warning() {
    let pair = Pair::start().await.unwrap();
    for (options, warnings) in [("", 1), ("wait_replicas=1", 0)] {
        let log = Warnings::collect();
        let provider = at(&pair.primary, options).await;
        provider.check().await.unwrap();
        let logged = log.with("set wait_replicas=1 in the URL");
        assert_eq!(logged.len(), warnings, "{logged:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_waiting_a_lease_that_was_granted_outlives_a_failover() {
    let pair = Pair::start().await.unwrap();
    let before = at(&pair.primary, "wait_replicas=1").await;
    let declared = before.capabilities().failover;
    assert_eq!(declared, Failover::Confirmed { servers: 1 });
    let asked = request("job").with_slot(tick(&before).await);
    let lease = take(&before, &asked).await;
    let longer = ExtendRequest::new(2 * MINUTE);
    let extended = confirmed(async || before.extend(&lease, &longer).await).await;
    let Extension::Extended(lease) = extended else {
        panic!("no other owner has taken it: {extended:?}");
    };

    pair.primary.stop();
    pair.promote().await.unwrap();
    let after = at(&pair.replica, "").await;
    let other = after.attempt(&request("job")).await.unwrap();
    let Attempt::Skipped(skip) = other else {
        panic!("the lease is known: {other:?}");
    };
    assert_eq!(skip.until, lease.locked_until());
    let unlocked = after.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
    let again = request("job").with_slot(asked.slot.unwrap());
    let again = after.attempt(&again).await.unwrap();
    assert!(matches!(again, Attempt::Skipped(_)), "{again:?}");
}

/// For each kind of connection: from a URL, and over the user's own connections.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_confirmed_is_undone_or_reported() {
    let pair = Pair::start().await.unwrap();
    let client = Client::open(pair.primary.url()).unwrap();
    let config = redis::aio::ConnectionManagerConfig::new()
        .set_response_timeout(Some(Duration::from_secs(5)));
    let ways: [Connections; 2] = [
        client.clone().into(),
        client.get_connection_manager_lazy(config).unwrap().into(),
    ];
    for (i, way) in ways.into_iter().enumerate() {
        let provider = RedisProvider::builder(way)
            .environment(format!("way-{i}"))
            .wait_replicas(1)
            .wait_timeout(Duration::from_secs(1));
        not_confirmed(&pair, provider.build().unwrap()).await;
    }
}

async fn not_confirmed(pair: &Pair, provider: RedisProvider) {
    let slot = tick(&provider).await;
    let held = take(&provider, &request("held").with_slot(slot)).await;
    let open = Completion::OnSuccess(Retries::default());
    let unlocks = request("unlocks").with_slot(slot).with_completion(open);
    let unlocks = take(&provider, &unlocks).await;
    pair.replica.signal(Signal::STOP);

    // As if it had never been requested, including its slot.
    let asked = request("job").with_slot(slot);
    let error = provider.attempt(&asked).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    let record = provider.inspect(&asked.name).await.unwrap().unwrap();
    assert_eq!(record.state, LockState::Free, "{record:?}");
    assert_eq!(record.last_slot, None, "{record:?}");

    // A call that took effect on the primary is reported as unknown, and can be repeated.
    let longer = ExtendRequest::new(2 * MINUTE);
    let error = provider.extend(&held, &longer).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error:?}");
    let done = UnlockRequest::new().with_slot_end(SlotEnd::done(true));
    let error = provider.unlock(&unlocks, &done).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error:?}");
    // It does no harm if a replica misses the release of a lock.
    let unlocked = provider.unlock(&held, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);

    pair.replica.signal(Signal::CONT);
    pair.has_caught_up().await.unwrap();
    let unlocked = confirmed(async || provider.unlock(&unlocks, &done).await).await;
    assert_eq!(unlocked, Unlock::Unlocked);
    let lease = take(&provider, &asked).await;
    assert!(lease.fencing_token() > held.fencing_token());
}

/// Repeated over another connection, which has written nothing that replicas could miss.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_attempt_is_confirmed_again() {
    let pair = Pair::start().await.unwrap();
    let plain = at(&pair.primary, "").await;
    let asked = request("job");
    let lease = take(&plain, &asked).await;
    pair.replica.signal(Signal::STOP);
    let again = Arc::new(at(&pair.primary, "wait_replicas=1&wait_timeout=1s").await);
    let error = again.attempt(&asked).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error:?}");
    pair.replica.signal(Signal::CONT);
    pair.has_caught_up().await.unwrap();
    let confirmed = take(&again, &asked).await;
    assert_eq!(confirmed.fencing_token(), lease.fencing_token());
}
