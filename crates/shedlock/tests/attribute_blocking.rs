//! The attribute on blocking functions, over an in-memory store.
#![allow(clippy::unwrap_used, reason = "a test fails there, and says where")]
#![cfg(feature = "macros")]

mod support;

use std::time::Duration;

use shedlock::{Error, ErrorKind, Executor, Outcome, blocking, scheduler_lock};
use support::{Log, Store, broken};

#[scheduler_lock(name = "job", lock_at_most_for = "1m", provider = executor)]
fn nothing(executor: &Executor, runs: &mut u32) {
    *runs += 1;
}

#[scheduler_lock(name = "job", lock_at_most_for = "1m", provider = executor)]
fn borrowed<'a>(executor: &Executor, text: &'a str) -> Option<&'a str> {
    text.get(1..)
}

#[scheduler_lock(name = "job-{id}", lock_at_most_for = "1m", provider = executor)]
fn outcome(executor: &Executor, id: u8) -> Result<Outcome<u8>, Error> {
    shedlock::assert_locked()?;
    Ok(id)
}

fn hold(store: &Store, name: &'static str) {
    let store = store.clone();
    blocking::block_on(async move { store.hold(name).await }).unwrap();
}

#[test]
fn a_free_lock_is_taken_and_a_held_one_skips() {
    let store = Store::new();
    let executor = &store.executor;
    let mut runs = 0;
    nothing(executor, &mut runs);
    assert_eq!(runs, 1);
    assert_eq!(borrowed(executor, "text"), Some("ext"));
    assert_eq!(outcome(executor, 3).unwrap().value(), Some(3));

    hold(&store, "job");
    hold(&store, "job-4");
    nothing(executor, &mut runs);
    assert_eq!(runs, 1);
    assert_eq!(borrowed(executor, "text"), None);
    assert!(outcome(executor, 4).unwrap().is_skipped());
}

#[test]
fn a_store_error_is_returned_or_logged() {
    let executor = &Executor::new(broken());
    let error = outcome(executor, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let log = Log::start();
    assert_eq!(borrowed(executor, "text"), None);
    log.assert_one_error_with(&["connection refused", "attribute_blocking::borrowed"]);
}

#[scheduler_lock(name = "late", lock_at_most_for = "1m", provider = &store.executor)]
fn late(store: &Store) -> Result<Option<u8>, Error> {
    store.clock.advance(Duration::from_secs(61));
    Ok(Some(9))
}

#[test]
fn a_value_that_came_after_the_lease_is_kept_and_the_loss_logged() {
    let store = Store::new();
    let log = Log::start();
    assert_eq!(late(&store).unwrap(), Some(9));
    log.assert_one_error_with(&["late", "lease was lost before the task ended"]);
}

#[tokio::test]
async fn inside_a_runtime_it_is_an_error() {
    let store = Store::new();
    let error = outcome(&store.executor, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongContext);
    assert_eq!(error.lock(), Some("job-1"));

    let log = Log::start();
    let mut runs = 0;
    nothing(&store.executor, &mut runs);
    assert_eq!(runs, 0);
    log.assert_one_error_with(&[
        "a blocking lock call in an async runtime",
        "function=\"attribute_blocking::nothing\"",
    ]);
    assert!(store.names().await.is_empty(), "the store got no request");
}

#[tokio::test]
async fn on_a_thread_for_blocking_work_it_runs_where_that_is_said() {
    let store = Store::new();
    let executor = store.executor.clone();
    let ran = tokio::task::spawn_blocking(move || blocking::allow(|| outcome(&executor, 1)));
    assert_eq!(ran.await.unwrap().unwrap().value(), Some(1));
}

#[test]
#[should_panic(expected = "in the body")]
fn a_panic_passes() {
    #[scheduler_lock(name = "panics", lock_at_most_for = "1m", provider = executor)]
    fn panics(executor: &Executor) {
        panic!("in the body");
    }
    panics(&Store::new().executor);
}
