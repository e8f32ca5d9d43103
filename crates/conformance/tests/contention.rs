//! The contention self-test over correct stores and deliberately wrong ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use shedlock_conformance::contention::{self, CLIENTS, ROUNDS};
use shedlock_conformance::{BoxError, Stop, Verdict};

type Key = Arc<AtomicU32>;

async fn race<F>(claim: impl Fn(Key, u32) -> F + Send) -> Verdict
where
    F: Future<Output = Result<bool, BoxError>> + Send + 'static,
{
    let clients = vec![Key::default(); CLIENTS];
    contention::judge(ROUNDS, &clients, claim).await
}

fn message(verdict: Verdict) -> String {
    match verdict {
        Err(Stop::Failed(message)) => message,
        other => panic!("expected a failure, got {other:?}"),
    }
}

fn replace(key: &Key, old: u32, new: u32) -> bool {
    key.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst)
        .is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_compares_and_swaps_is_trusted() {
    let verdict = race(|key, round| async move { Ok(replace(&key, round - 1, round)) }).await;
    assert_eq!(verdict, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_looks_first_and_writes_later_is_not() {
    let verdict = race(|key, round| async move {
        let holds = key.load(Ordering::SeqCst) == round - 1;
        // An emulator may yield between its read and its write.
        tokio::task::yield_now().await;
        if holds {
            key.store(round, Ordering::SeqCst);
        }
        Ok(holds)
    });
    let message = message(verdict.await);
    assert!(
        message.contains("lets several writers win")
            && message.contains("of 8 clients")
            && message.contains("not a store for locks"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_forgets_what_it_answered_is_not() {
    let verdict = race(|key, round| async move {
        // The third write is acknowledged and then lost.
        Ok(replace(&key, round - 1, if round == 3 { 0 } else { round }))
    });
    let message = message(verdict.await);
    assert!(
        message.contains("in round 4 none of 8 clients won"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_fails_fails_the_test() {
    let message = message(race(|_, _| async { Err("connection refused".into()) }).await);
    assert!(
        message.contains("raw client") && message.contains("connection refused"),
        "{message}"
    );
}
