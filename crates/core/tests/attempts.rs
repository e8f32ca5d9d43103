//! Attempts over a store that fails, on a clock that only the tests move.

mod common;

use common::{Fault, bench, config, secs};
use shedlock_core::{ErrorKind, LockState};

#[tokio::test]
async fn an_attempt_whose_answer_was_lost_finds_itself() {
    let bench = bench();
    bench.faulty.next([Fault::ReplyLost]);
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move { executor.execute(&config("a"), async { 1 }).await });
    bench.settle().await;
    bench.pass(secs(1)).await;
    assert!(task.await.unwrap().unwrap().is_executed());
    assert_eq!(bench.faulty.calls_of("attempt"), 2);
}

#[tokio::test]
async fn an_attempt_that_stays_unknown_is_an_error_and_withdrawn_behind() {
    let bench = bench();
    bench.faulty.next([Fault::ReplyLost; 4]);
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move { executor.execute(&config("a"), async { 1 }).await });
    bench.settle().await;
    bench.pass(secs(3)).await;
    let error = task.await.unwrap().unwrap_err();
    assert!(error.is_unknown(), "{error}");
    assert_eq!(error.lock(), Some("a"));
    bench.settle().await;
    assert_eq!(
        bench.state("a").await,
        Some(LockState::Free),
        "long before the 10 s are over"
    );
}

#[tokio::test]
async fn a_store_that_cannot_be_asked_is_an_error_at_once() {
    let bench = bench();
    bench.faulty.next([Fault::Unavailable]);
    let error = bench
        .executor
        .execute(&config("a"), async { 1 })
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.to_string(), "lock \"a\" in faulty: refused");
    bench.settle().await;
    assert_eq!(bench.faulty.calls_of("attempt"), 1);
    assert_eq!(bench.faulty.calls_of("withdraw"), 0, "nothing was written");
}

#[tokio::test]
async fn a_store_that_never_answers_is_given_up_and_asked_again() {
    let bench = bench();
    bench.faulty.next([Fault::Hang]);
    let executor = bench.executor.clone().with_store_timeout(secs(2));
    let task = tokio::spawn(async move { executor.execute(&config("a"), async { 1 }).await });
    bench.settle().await;
    bench.pass(secs(3)).await;
    assert!(task.await.unwrap().unwrap().is_executed());
}

#[tokio::test]
async fn an_attempt_that_took_longer_than_its_lease_is_no_lease() {
    let bench = bench();
    bench.faulty.next([Fault::Late]);
    let executor = bench.executor.clone().with_store_timeout(secs(60));
    let error = executor
        .execute(&config("a").lock_at_most_for("11s"), async { 1 })
        .await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        error.message().contains("raise lock_at_most_for"),
        "{error}"
    );
    bench.settle().await;
    assert_eq!(bench.state("a").await, Some(LockState::Free));
}

#[tokio::test]
async fn nothing_is_asked_again_once_the_lease_would_be_over() {
    let bench = bench();
    bench.faulty.next([Fault::Hang; 4]);
    let executor = bench.executor.clone().with_store_timeout(secs(6));
    let task = tokio::spawn(async move { executor.execute(&config("a"), async { 1 }).await });
    bench.settle().await;
    bench.pass(secs(30)).await;
    assert!(task.await.unwrap().unwrap_err().is_unknown());
    assert_eq!(bench.faulty.calls_of("attempt"), 2);
}

#[tokio::test]
async fn a_dropped_attempt_is_withdrawn_behind() {
    let bench = bench();
    bench.faulty.next([Fault::Hang]);
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move { executor.execute(&config("a"), async { 1 }).await });
    bench.settle().await;
    assert_eq!(bench.state("a").await, Some(LockState::Held));
    task.abort();
    bench.settle().await;
    assert_eq!(bench.state("a").await, Some(LockState::Free));
}
