//! A bucket in memory, as ShedLock creates it: what is lost when the server restarts.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::time::Duration;

use common::{MINUTE, Own, give_back, take};
use shedlock_conformance::support::Warnings;
use shedlock_core::{
    ErrorKind, ExtendRequest, Extension, Failover, LockProvider, Unlock, UnlockRequest,
};
use shedlock_nats::NatsProvider;
use shedlock_rig::wait::sleep;

#[tokio::test]
async fn a_restart_frees_all_locks_and_a_warning_says_so() {
    let warnings = Warnings::collect();
    let server = Own::start("jetstream { store_dir: \"$DIR\" }").await;
    let url = format!(
        "nats://{}?storage=memory&response_timeout=1s",
        server.address()
    );
    let provider = NatsProvider::connect(&url).await.unwrap();
    provider.migrate().await.unwrap();
    provider.check().await.unwrap();
    assert_eq!(warnings.with("kept in memory").len(), 1);
    let declared = provider.capabilities();
    assert!(!declared.durable);
    assert_eq!(declared.failover, Failover::Never);

    let lease = take(&provider, "job").await;
    server.stop();
    server.begin().await;
    // The bucket is gone with its locks until it is created again.
    let error = loop {
        match provider.check().await {
            Err(error) if error.kind() == ErrorKind::Configuration => break error,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
            Ok(()) => panic!("a bucket in memory does not outlive its server"),
        }
        sleep(Duration::from_millis(50)).await;
    };
    assert!(error.message().contains("migrate"), "{error}");
    provider.migrate().await.unwrap();
    let next = take(&provider, "job").await;
    assert!(next.fencing_token() > lease.fencing_token());
    let longer = ExtendRequest::new(2 * MINUTE);
    let extended = provider.extend(&lease, &longer).await.unwrap();
    assert!(matches!(extended, Extension::Lost), "{extended:?}");
    let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Lost);
    give_back(&provider, &next).await;
}
