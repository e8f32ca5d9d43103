//! A bucket in memory, as ShedLock creates it: what is lost when the server restarts.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{MINUTE, Own, give_back, take};
use shedlock_conformance::support::Warnings;
use shedlock_core::{
    ErrorKind, ExtendRequest, Extension, Failover, LockProvider, Unlock, UnlockRequest,
};
use shedlock_nats::NatsProvider;
use shedlock_rig::wait::found_async;

#[tokio::test]
async fn a_restart_frees_all_locks_and_a_warning_says_so() {
    let warnings = Warnings::collect();
    let server = Own::start("jetstream { store_dir: \"$DIR\" }").await;
    let url = format!(
        "nats://{}?storage=memory&response_timeout=10s",
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
    let found = found_async("the server is back", async || {
        let error = provider.check().await.unwrap_err();
        (!error.is_retryable()).then_some(error)
    });
    let error = found.await;
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
    assert!(error.to_string().contains("migrate"), "{error}");
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
