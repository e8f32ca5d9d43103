//! Attempts over a store that fails, on a clock that only the tests move.

mod common;

use std::sync::Arc;

use common::{Bench, Fault, bench, config, secs};
use shedlock_core::{
    Attempt, AttemptRequest, ErrorKind, ForceUnlockRequest, ForcedUnlock, Lease, LockName,
    LockProvider, LockState, Owner, Unlock, UnlockRequest, admin,
};

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

/// Which frees a lock that its own holder does not know of yet.
#[tokio::test]
async fn a_forced_unlock_between_two_copies_of_an_attempt_does_not_cost_the_run() {
    for wait in [secs(0), secs(60)] {
        let bench = bench();
        bench.faulty.next([Fault::ReplyLost; 2]);
        let executor = bench.executor.clone();
        let config = config("a").lock_wait(wait);
        let task = tokio::spawn(async move { executor.execute(&config, async { 1 }).await });
        bench.settle().await;
        assert_eq!(bench.faulty.calls_of("attempt"), 2);
        let force = ForceUnlockRequest::new(LockName::new("a").unwrap());
        let forced = admin::force_unlock(&bench.faulty, &force).await.unwrap();
        assert!(matches!(forced, ForcedUnlock::Freed(_)), "{forced:?}");
        bench.pass(secs(30)).await;
        assert!(task.await.unwrap().unwrap().is_executed());
        bench.settle().await;
        assert_eq!(bench.state("a").await, Some(LockState::Free));
    }
}

#[tokio::test]
async fn an_attempt_that_stays_unknown_is_an_error_and_withdrawn_in_the_background() {
    let bench = bench();
    bench.faulty.next([Fault::ReplyLost; 4]);
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move { executor.execute(&config("a"), async { 1 }).await });
    bench.settle().await;
    bench.pass(secs(3)).await;
    let error = task.await.unwrap().unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
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
    let executor = bench.executor.clone().store_timeout(secs(2));
    let task = tokio::spawn(async move { executor.execute(&config("a"), async { 1 }).await });
    bench.settle().await;
    bench.pass(secs(3)).await;
    assert!(task.await.unwrap().unwrap().is_executed());
}

#[tokio::test]
async fn an_attempt_that_took_longer_than_its_lease_is_no_lease() {
    let bench = bench();
    bench.faulty.next([Fault::Late]);
    let executor = bench.executor.clone().store_timeout(secs(60));
    let error = executor
        .execute(&config("a").lock_at_most_for("11s"), async { 1 })
        .await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        error.to_string().contains("raise lock_at_most_for"),
        "{error}"
    );
    bench.settle().await;
    assert_eq!(bench.state("a").await, Some(LockState::Free));
}

#[tokio::test]
async fn nothing_is_asked_again_once_the_lease_would_be_over() {
    let bench = bench();
    bench.faulty.next([Fault::Hang; 4]);
    let executor = bench.executor.clone().store_timeout(secs(6));
    let task = tokio::spawn(async move { executor.execute(&config("a"), async { 1 }).await });
    bench.settle().await;
    bench.pass(secs(30)).await;
    assert!(task.await.unwrap().unwrap_err().is_outcome_unknown());
    assert_eq!(bench.faulty.calls_of("attempt"), 2);
}

#[tokio::test]
async fn a_dropped_attempt_is_withdrawn_in_the_background() {
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

/// A store that is never reached, through a pool whose connections are all in use.
#[tokio::test]
async fn withdrawals_of_one_name_do_not_pile_up_in_the_clients_pool() {
    let bench = bench();
    *bench.faulty.withdrawals.lock().unwrap() = Some(Fault::Hang);
    let idle = Arc::strong_count(&bench.faulty.hanging);
    let hour = config("a").lock_at_most_for("1h");
    for _ in 0..10 {
        bench.faulty.next([Fault::RequestLost; 4]);
        let (executor, hour) = (bench.executor.clone(), hour.clone());
        let task = tokio::spawn(async move { executor.execute(&hour, async {}).await });
        bench.settle().await;
        bench.pass(secs(3)).await;
        assert!(task.await.unwrap().unwrap_err().is_outcome_unknown());
    }
    bench.settle().await;
    let waiting = Arc::strong_count(&bench.faulty.hanging) - idle;
    assert_eq!(waiting, 1, "calls that wait for a connection");
    // When the store is available again, each attempt is withdrawn.
    *bench.faulty.withdrawals.lock().unwrap() = None;
    bench.pass(secs(60)).await;
    let executor = bench.executor.clone();
    let settled = tokio::spawn(async move { executor.settled().await });
    bench.settle().await;
    assert!(settled.is_finished());
}

fn request(owner: Owner) -> AttemptRequest {
    let name = LockName::new("a").expect("a name");
    AttemptRequest::new(name, owner, secs(3_600))
}

/// Takes the lock without the executor, as another process or a late copy of its own attempt would.
async fn taken(bench: &Bench, owner: Owner) -> Lease {
    let attempt = bench.faulty.store.attempt(&request(owner)).await;
    let lease = attempt.expect("memory answers").acquired();
    lease.expect("the lock was free")
}

async fn given_back(bench: &Bench, lease: Lease) {
    let unlock = UnlockRequest::new();
    let unlocked = bench.faulty.store.unlock(&lease, &unlock).await;
    assert_eq!(unlocked.expect("memory answers"), Unlock::Unlocked);
}

#[tokio::test]
async fn a_copy_that_arrives_after_its_attempt_was_granted_and_unlocked_keeps_no_lock() {
    let bench = bench();
    bench.faulty.next([Fault::RequestLost]);
    let executor = bench.executor.clone();
    let config = config("a").lock_at_most_for("1h");
    let task = tokio::spawn(async move { executor.lock(&config).await });
    bench.settle().await;
    bench.pass(secs(1)).await;
    let Attempt::Acquired(lock) = task.await.unwrap().unwrap() else {
        panic!("the lock was free")
    };
    let owner = lock.owner().clone();
    lock.unlock().await;
    let other = taken(&bench, Owner::generate()).await;
    given_back(&bench, other).await;
    let _late = taken(&bench, owner).await;
    bench.pass(secs(11)).await;
    assert_eq!(bench.state("a").await, Some(LockState::Free));
    bench.executor.settled().await;
}

#[tokio::test]
async fn a_copy_that_arrives_after_its_attempt_was_skipped_keeps_no_lock() {
    let bench = bench();
    // The first repetition follows at once, the next one after a pause.
    bench.faulty.next([Fault::RequestLost; 2]);
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move { executor.execute(&config("a"), async {}).await });
    bench.settle().await;
    let other = taken(&bench, Owner::generate()).await;
    bench.pass(secs(1)).await;
    let outcome = task.await.unwrap().unwrap();
    assert!(outcome.skip().is_some());
    given_back(&bench, other).await;
    let calls = bench.faulty.calls_of("withdraw");
    assert_eq!(calls, 0, "only past its timeout a withdrawal is final");
    bench.pass(secs(11)).await;
    assert_eq!(bench.faulty.calls_of("withdraw"), 1);
    bench.executor.settled().await;
}

#[tokio::test]
async fn an_attempt_that_stays_unknown_is_withdrawn_once_more_when_no_copy_can_arrive() {
    let bench = bench();
    bench.faulty.next([Fault::RequestLost; 4]);
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move { executor.execute(&config("a"), async {}).await });
    bench.settle().await;
    bench.pass(secs(3)).await;
    assert!(task.await.unwrap().unwrap_err().is_outcome_unknown());
    bench.settle().await;
    assert_eq!(bench.faulty.calls_of("withdraw"), 1);
    let executor = bench.executor.clone();
    let settled = tokio::spawn(async move { executor.settled().await });
    bench.settle().await;
    assert!(!settled.is_finished());
    bench.pass(secs(11)).await;
    assert_eq!(bench.faulty.calls_of("withdraw"), 2);
    settled.await.unwrap();
}

/// The server that refuses a copy as too late may have a slow clock.
#[tokio::test]
async fn a_withdrawal_is_not_final_while_a_slow_server_may_grant_a_copy() {
    let mut bench = bench();
    bench.faulty.server_skew = secs(3);
    bench.executor = shedlock_core::Executor::new(Arc::new(bench.faulty.clone()))
        .clock(Arc::new(bench.clock.clone()));
    bench.faulty.next([Fault::RequestLost; 4]);
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move { executor.execute(&config("a"), async {}).await });
    bench.settle().await;
    bench.pass(secs(3)).await;
    assert!(task.await.unwrap().unwrap_err().is_outcome_unknown());
    bench.settle().await;
    assert_eq!(bench.faulty.calls_of("withdraw"), 1);
    bench.pass(secs(10)).await;
    assert_eq!(bench.faulty.calls_of("withdraw"), 1);
    bench.pass(secs(3)).await;
    assert_eq!(bench.faulty.calls_of("withdraw"), 2);
    bench.executor.settled().await;
}

#[tokio::test]
async fn a_withdrawal_goes_on_while_the_store_is_away() {
    let bench = bench();
    bench.faulty.next([Fault::RequestLost; 4]);
    bench.faulty.next([Fault::Unavailable; 4]);
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move { executor.execute(&config("a"), async {}).await });
    bench.settle().await;
    bench.pass(secs(3)).await;
    assert!(task.await.unwrap().unwrap_err().is_outcome_unknown());
    for _ in 0..10 {
        bench.pass(secs(2)).await;
    }
    assert_eq!(bench.faulty.calls_of("withdraw"), 6, "4 failed, 2 answered");
    bench.executor.settled().await;
}

#[tokio::test]
async fn a_withdrawal_is_final_only_past_the_timeout_of_a_request_that_was_sent_late() {
    let bench = bench();
    bench.faulty.next([Fault::StoppedThenLost]);
    let other = taken(&bench, Owner::generate()).await;
    let executor = bench.executor.clone();
    let config = config("a").lock_at_most_for("1h");
    let task = tokio::spawn(async move { executor.execute(&config, async {}).await });
    bench.settle().await;
    bench.pass(secs(1)).await;
    assert!(task.await.unwrap().unwrap().skip().is_some());
    given_back(&bench, other).await;
    // The request was sent 8 s after the call began, and may arrive until 10 s later.
    bench.pass(secs(8)).await;
    assert_eq!(bench.faulty.calls_of("withdraw"), 0);
    bench.pass(secs(2)).await;
    assert_eq!(bench.faulty.calls_of("withdraw"), 1);
    bench.executor.settled().await;
}
