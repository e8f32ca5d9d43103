//! The attribute without a provider, in a process that has set a global one. These tests have their own
//! file, because there is one global provider per process.
#![allow(clippy::unwrap_used, reason = "a test fails there, and says where")]
#![cfg(feature = "macros")]

mod support;

use std::sync::Arc;

use shedlock::{
    ErrorKind, ListRequest, LockProvider, MemoryProvider, Outcome, scheduler_lock,
    set_global_provider, with_provider, with_provider_blocking,
};

#[scheduler_lock(name = "{name}", lock_at_most_for = "1m")]
async fn asynchronous(name: &str) -> Outcome<()> {}

#[scheduler_lock(name = "{name}", lock_at_most_for = "1m")]
fn blocking(name: &str) -> Outcome<()> {}

#[scheduler_lock(name = "explicit", lock_at_most_for = "1m", provider = provider)]
async fn explicit(provider: &Arc<MemoryProvider>) -> Outcome<()> {}

async fn names(provider: &MemoryProvider) -> Vec<String> {
    let records = provider.list(&ListRequest::new()).await.unwrap();
    records.iter().map(|r| r.name.as_str().to_owned()).collect()
}

#[test]
fn the_nearest_provider_is_used() {
    let global = Arc::new(MemoryProvider::new());
    let scoped = Arc::new(MemoryProvider::new());
    let named = Arc::new(MemoryProvider::new());
    set_global_provider(global.clone()).unwrap();
    let again = set_global_provider(scoped.clone()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Configuration);

    assert!(blocking("blocking-global").is_executed());
    with_provider_blocking(scoped.clone(), || {
        assert!(blocking("blocking-scoped").is_executed());
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        assert!(asynchronous("async-global").await.is_executed());
        with_provider(scoped.clone(), async {
            assert!(asynchronous("async-scoped").await.is_executed());
            assert!(explicit(&named).await.is_executed());
        })
        .await;
        assert_eq!(names(&global).await, ["async-global", "blocking-global"]);
        assert_eq!(names(&scoped).await, ["async-scoped", "blocking-scoped"]);
        assert_eq!(names(&named).await, ["explicit"]);
    });
}
