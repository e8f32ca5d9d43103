//! A primary monitored by sentinels: what a failover does to locks.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::time::Duration;

use common::info;
use common::watched::{PASSWORD, SENTINELS_PASSWORD, Watched};
use redis::ConnectionAddr;
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use shedlock_core::{
    Attempt, AttemptRequest, Error, ErrorKind, ExtendRequest, Extension, Lease, LockName,
    LockProvider, Owner, Unlock, UnlockRequest,
};
use shedlock_redis::RedisProvider;
use shedlock_rig::wait::answered;

const MINUTE: Duration = Duration::from_secs(60);

fn request(name: &str) -> AttemptRequest {
    AttemptRequest::new(LockName::new(name).unwrap(), Owner::generate(), MINUTE)
}

/// Repeats the attempt until the failover has ended. All errors until then must be retryable.
async fn taken(provider: &RedisProvider, name: &str) -> Lease {
    let request = request(name);
    let attempt = async || provider.attempt(&request).await;
    let attempt = answered("the failover ends", Error::is_retryable, attempt).await;
    attempt.acquired().expect("the lock should be free")
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_that_were_replicated_outlive_a_failover() {
    let watched = Watched::start(3).await.unwrap();
    let provider = RedisProvider::connect(&watched.url()).await.unwrap();
    let held = taken(&provider, "held").await;
    let done = taken(&provider, "done").await;
    let unlocked = provider.unlock(&done, &UnlockRequest::new()).await.unwrap();
    assert_eq!(unlocked, Unlock::Unlocked);
    watched.is_replicated().await.unwrap();

    watched.primary.stop();
    let next = taken(&provider, "done").await;
    let promoted = watched.replica.admin().unwrap();
    let promoted = info(&promoted, "replication").await.unwrap();
    assert!(promoted.contains("role:master"), "{promoted}");
    assert!(next.fencing_token() > done.fencing_token(), "{next:?}");

    // The provider continues with the new primary, which has the lease and its holder.
    let other = provider.attempt(&request("held")).await.unwrap();
    let Attempt::Skipped(skip) = other else {
        panic!("the lease was replicated: {other:?}");
    };
    assert_eq!(skip.owner.as_deref(), Some(held.owner().as_str()));
    let longer = ExtendRequest::new(2 * MINUTE);
    let extended = provider.extend(&held, &longer).await.unwrap();
    assert!(matches!(extended, Extension::Extended(_)), "{extended:?}");
    let unlocked = provider.unlock(&held, &UnlockRequest::new()).await.unwrap();
    assert_eq!(unlocked, Unlock::Unlocked);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_in_a_url_are_reported() {
    let watched = Watched::start(1).await.unwrap();
    let url = watched.url();
    for (wrong, kind) in [
        (url.replace("mymaster", "yours"), ErrorKind::Unavailable),
        (url.replace("word@", "hunter2@"), ErrorKind::Configuration),
        (url.replace("%26see", "hunter2"), ErrorKind::Configuration),
    ] {
        let error = RedisProvider::connect(&wrong).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }

    // The user's own client.
    for (leads_to, is_right) in [
        (SentinelServerType::Master, true),
        (SentinelServerType::Replica, false),
    ] {
        let port = watched.sentinels[0].port();
        let sentinel = ConnectionAddr::Tcp("127.0.0.1".to_owned(), port);
        let client = SentinelClientBuilder::new([sentinel], "mymaster", leads_to)
            .unwrap()
            .set_client_to_redis_password(PASSWORD)
            .set_client_to_sentinel_password(SENTINELS_PASSWORD);
        let provider = RedisProvider::builder(client.build().unwrap());
        let provider = provider.build().unwrap();
        let checked = provider.check().await;
        assert_eq!(checked.is_ok(), is_right, "{checked:?}");
        let name = if is_right { "primary" } else { "replica" };
        let attempt = provider.attempt(&request(name)).await;
        assert_eq!(attempt.is_ok(), is_right, "{attempt:?}");
    }
}
