//! The attribute without a provider, in a process that has not set one.
#![allow(clippy::unwrap_used, reason = "a test fails there, and says where")]
#![cfg(feature = "macros")]

mod support;

use std::sync::Arc;

use shedlock::{Error, ErrorKind, MemoryProvider, Outcome, scheduler_lock, with_provider};
use support::Log;

#[scheduler_lock(name = "job", lock_at_most_for = "1m")]
async fn result() -> Result<Outcome<u8>, Error> {
    Ok(1)
}

#[scheduler_lock(name = "job", lock_at_most_for = "1m")]
async fn option() -> Option<u8> {
    Some(1)
}

#[scheduler_lock(name = "job", lock_at_most_for = "1m")]
fn blocking() -> Option<u8> {
    Some(1)
}

#[tokio::test]
async fn a_missing_provider_is_a_clear_error() {
    let error = result().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(
        error
            .to_string()
            .starts_with("lock \"job\": no lock provider is set; "),
        "{error}"
    );
    let log = Log::start();
    assert_eq!(option().await, None);
    log.assert_one_error_with(&["no lock provider is set", "provider_none::option"]);
}

#[test]
fn a_missing_provider_is_a_clear_error_in_blocking_functions() {
    let log = Log::start();
    assert_eq!(blocking(), None);
    log.assert_one_error_with(&["no lock provider is set", "provider_none::blocking"]);
}

#[tokio::test]
async fn the_scope_in_which_the_function_is_polled_counts() {
    let future = result();
    let scoped = with_provider(Arc::new(MemoryProvider::new()), future);
    assert!(scoped.await.unwrap().is_executed());
}
