//! Slots that must not be lost: how each ending of a task changes the record.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use common::{Bench, Fault, bench, secs};
use shedlock_core::{
    Attempt, Completion, Executor, HeldLock, LockConfig, LockName, LockProvider, LockRecord,
    LockState, Outcome, Release, Retries, SkipReason, Slot, SlotEnd, UnlockRequest, blocking,
    current_lock,
};

const BACKOFF: Duration = secs(4);

fn slot() -> Slot {
    Slot::from_micros(1_700_000_000_000_000).unwrap()
}

fn config() -> LockConfig {
    let retries = Retries::new().max_attempts(3).backoff(BACKOFF);
    LockConfig::new("job")
        .lock_at_most_for("10s")
        .slot(slot())
        .completion(Completion::OnSuccess(retries))
}

async fn record(bench: &Bench) -> LockRecord {
    let name = LockName::new("job").unwrap();
    bench.faulty.store.inspect(&name).await.unwrap().unwrap()
}

/// Checks that the slot is done and never taken again.
async fn is_done(bench: &Bench) {
    let record = record(bench).await;
    assert_eq!(record.last_slot_done, Some(slot()));
    assert_eq!(record.slot_attempts, None);
    assert_eq!(record.state, LockState::Free);
    assert_eq!(refused(bench).await, SkipReason::SlotTaken);
}

/// Checks that the slot is open and that the next attempt at it has this number.
async fn is_open(bench: &Bench, next: u32) {
    let record = record(bench).await;
    assert_eq!(record.last_slot, Some(slot()));
    assert_eq!(record.last_slot_done, None);
    assert_eq!(record.slot_attempts, Some(next - 1));
    assert_eq!(record.state, LockState::Free);
    assert_eq!(taken(bench).await.slot_attempt(), Some(next));
}

/// Checks that the slot has failed and is open after this pause.
async fn has_failed(bench: &Bench, pause: Duration, next: u32) {
    let record = record(bench).await;
    let until = record.locked_until.unwrap();
    let left = until.duration_since(record.read_at.unwrap()).unwrap();
    assert_eq!(left, pause);
    assert_eq!(refused(bench).await, SkipReason::BackingOff);
    bench.clock.advance(pause);
    is_open(bench, next).await;
}

/// An executor of another replica.
fn other(bench: &Bench) -> Executor {
    Executor::new(Arc::new(bench.faulty.store.another_client()))
        .clock(Arc::new(bench.clock.clone()))
}

async fn refused(bench: &Bench) -> SkipReason {
    match other(bench).lock(&config()).await.unwrap() {
        Attempt::Skipped(skip) => skip.reason,
        acquired => panic!("{acquired:?}"),
    }
}

async fn taken(bench: &Bench) -> HeldLock {
    held(&other(bench)).await
}

async fn held(executor: &Executor) -> HeldLock {
    match executor.lock(&config()).await.unwrap() {
        Attempt::Acquired(lock) => lock,
        skipped => panic!("{skipped:?}"),
    }
}

#[tokio::test]
async fn a_value_marks_the_slot_as_done() {
    let bench = bench();
    let outcome = bench.executor.execute(&config(), async { 1 }).await;
    assert!(outcome.unwrap().is_executed());
    is_done(&bench).await;
}

/// `execute` only requires that the task ends.
#[tokio::test]
async fn an_err_of_execute_is_a_value_like_any_other() {
    let bench = bench();
    let task = async { Err::<(), _>("no mail server") };
    let outcome = bench.executor.execute(&config(), task).await;
    assert!(outcome.unwrap().is_executed());
    is_done(&bench).await;
}

#[tokio::test]
async fn an_err_of_try_execute_marks_the_slot_as_failed() {
    let bench = bench();
    let task = async { Err::<(), _>("no mail server") };
    let outcome = bench.executor.try_execute(&config(), task).await.unwrap();
    assert_eq!(outcome.transpose().unwrap_err(), "no mail server");
    has_failed(&bench, BACKOFF, 2).await;
}

#[tokio::test]
async fn an_ok_of_try_execute_marks_the_slot_as_done() {
    let bench = bench();
    let task = async { Ok::<_, &str>(2) };
    let outcome = bench.executor.try_execute(&config(), task).await.unwrap();
    assert_eq!(outcome.value(), Some(Ok(2)));
    is_done(&bench).await;
}

#[tokio::test]
async fn pauses_grow_until_the_slot_is_given_up() {
    let bench = bench();
    for (attempt, pause) in [(1, BACKOFF), (2, 2 * BACKOFF), (3, 4 * BACKOFF)] {
        let task = async move {
            assert_eq!(current_lock().unwrap().slot_attempt(), Some(attempt));
            Err::<(), _>("no mail server")
        };
        let outcome = bench.executor.try_execute(&config(), task).await.unwrap();
        assert!(outcome.is_executed());
        bench.clock.advance(pause);
    }
    let record = record(&bench).await;
    assert_eq!(record.slot_attempts, Some(3));
    assert_eq!(record.last_slot_done, None);
    assert_eq!(refused(&bench).await, SkipReason::SlotGivenUp);
}

#[tokio::test]
async fn a_panic_marks_the_slot_as_failed() {
    let bench = bench();
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move {
        let outcome = executor.execute(&config(), async { panic!("boom") }).await;
        outcome.map(|_: Outcome<()>| ())
    });
    assert!(task.await.unwrap_err().is_panic());
    has_failed(&bench, BACKOFF, 2).await;
}

#[tokio::test]
async fn a_dropped_future_leaves_the_slot_open() {
    let bench = bench();
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move { executor.execute(&config(), pending::<()>()).await });
    bench.settle().await;
    task.abort();
    bench.settle().await;
    is_open(&bench, 2).await;
}

#[tokio::test]
async fn a_run_that_takes_too_long_has_failed() {
    let bench = bench();
    let executor = bench.executor.clone();
    let config = config().max_run_time("5s");
    let task = tokio::spawn(async move { executor.execute(&config, pending::<()>()).await });
    bench.settle().await;
    bench.clock.advance(secs(5));
    assert!(task.await.unwrap().unwrap().is_lost());
    has_failed(&bench, BACKOFF, 2).await;
}

/// The unlock arrives too late to mark the slot: others take it over as after a crash.
#[tokio::test]
async fn a_lost_lease_leaves_the_slot_open() {
    let bench = bench();
    let clock = bench.clock.clone();
    let task = async move {
        clock.advance(secs(60));
        "late"
    };
    let outcome = bench.executor.execute(&config(), task).await.unwrap();
    assert!(outcome.is_lost());
    is_open(&bench, 2).await;
}

#[tokio::test]
async fn a_stale_runner_does_not_affect_its_successor() {
    let bench = bench();
    let late = held(&bench.executor).await;
    bench.clock.advance(secs(60));
    let second = taken(&bench).await;
    assert!(matches!(late.unlock().await, Release::Lost));
    assert_eq!(record(&bench).await.slot_attempts, Some(2));
    assert_eq!(record(&bench).await.last_slot_done, None);
    assert!(matches!(second.unlock().await, Release::Released));
    is_done(&bench).await;
}

#[tokio::test]
async fn an_explicit_lock_reports_its_slot_when_it_is_given_back() {
    let bench = bench();
    held(&bench.executor).await.fail().await;
    has_failed(&bench, BACKOFF, 2).await;

    let bench = common::bench();
    drop(held(&bench.executor).await);
    bench.settle().await;
    is_open(&bench, 2).await;

    let bench = common::bench();
    let lock = held(&bench.executor).await;
    lock.unlock_with(&UnlockRequest::new()).await;
    is_open(&bench, 2).await;

    let bench = common::bench();
    let lock = held(&bench.executor).await;
    lock.unlock_with(&UnlockRequest::new().with_slot_end(SlotEnd::Cut))
        .await;
    is_open(&bench, 1).await;

    let bench = common::bench();
    let lock = held(&bench.executor).await;
    lock.unlock_with(&UnlockRequest::new().with_slot_end(SlotEnd::NotStarted))
        .await;
    is_open(&bench, 1).await;

    let bench = common::bench();
    held(&bench.executor).await.unlock().await;
    is_done(&bench).await;
}

#[tokio::test]
async fn a_task_can_report_its_slot_itself() {
    let bench = bench();
    let task = async {
        let lock = current_lock().unwrap();
        assert!(!lock.leaves_slot_open());
        lock.fail_slot();
        assert!(lock.leaves_slot_open());
    };
    let outcome = bench.executor.execute(&config(), task).await;
    assert!(outcome.unwrap().is_executed());
    has_failed(&bench, BACKOFF, 2).await;

    let bench = common::bench();
    let task = async { current_lock().unwrap().leave_slot_open() };
    let outcome = bench.executor.execute(&config(), task).await;
    assert!(outcome.unwrap().is_executed());
    is_open(&bench, 1).await;
}

/// As a shutdown does that gives tasks some time, and then drops them.
#[tokio::test]
async fn a_task_that_leaves_its_slot_open_and_is_then_dropped_made_no_attempt() {
    let bench = bench();
    let task = async {
        current_lock().unwrap().leave_slot_open();
        pending::<()>().await;
    };
    let executor = bench.executor.clone();
    let run = tokio::spawn(async move { executor.execute(&config(), task).await });
    bench.settle().await;
    run.abort();
    bench.settle().await;
    is_open(&bench, 1).await;
}

/// The slot belongs to the outer task, which also decides how it ends.
#[tokio::test]
async fn an_inner_err_does_not_fail_the_slot_of_the_outer_task() {
    let bench = bench();
    let executor = bench.executor.clone();
    let task = async move {
        let inner = async { Err::<(), _>("inner") };
        let same = executor.try_execute(&config(), inner).await;
        assert_eq!(same.unwrap().value(), Some(Err("inner")));
        let closure = || Err::<(), _>("inner");
        let blocking = executor.try_execute_blocking(&config(), closure).await;
        assert_eq!(blocking.unwrap().value(), Some(Err("inner")));
        // The other lock has a separate slot.
        let another = LockConfig::new("another").lock_at_most_for("10s");
        let another = executor.try_execute(&another, async { Err::<(), _>("inner") });
        assert_eq!(another.await.unwrap().value(), Some(Err("inner")));
        Ok::<_, &str>(())
    };
    let outcome = bench.executor.try_execute(&config(), task).await.unwrap();
    assert_eq!(outcome.value(), Some(Ok(())));
    is_done(&bench).await;
}

#[tokio::test]
async fn closures_on_a_thread_report_the_same() {
    let bench = bench();
    let task = || Err::<(), _>("no mail server");
    let outcome = bench.executor.try_execute_blocking(&config(), task).await;
    assert_eq!(outcome.unwrap().value(), Some(Err("no mail server")));
    has_failed(&bench, BACKOFF, 2).await;

    let bench = common::bench();
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move {
        let task = || -> Result<(), String> { panic!("boom") };
        executor.try_execute_blocking(&config(), task).await
    });
    assert!(task.await.unwrap_err().is_panic());
    has_failed(&bench, BACKOFF, 2).await;

    let bench = common::bench();
    let task = || Ok::<_, &str>(());
    let outcome = bench.executor.try_execute_blocking(&config(), task).await;
    assert_eq!(outcome.unwrap().value(), Some(Ok(())));
    is_done(&bench).await;
}

#[test]
fn closures_on_this_thread_report_the_same() {
    let run = |check: &dyn Fn(&blocking::Executor)| {
        let bench = bench();
        check(&blocking::Executor::from_async(bench.executor.clone()));
        bench
    };
    let wait = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();

    let failed = run(&|executor| {
        let task = || {
            let inner = executor.try_execute(&config(), || Err::<(), _>("inner"));
            assert_eq!(inner.unwrap().value(), Some(Err("inner")));
            assert!(!current_lock().unwrap().leaves_slot_open());
            Err::<(), _>("outer")
        };
        let outcome = executor.try_execute(&config(), task).unwrap();
        assert_eq!(outcome.value(), Some(Err("outer")));
    });
    wait.block_on(has_failed(&failed, BACKOFF, 2));

    let done = run(&|executor| {
        let outcome = executor
            .try_execute(&config(), || Ok::<_, &str>(1))
            .unwrap();
        assert_eq!(outcome.value(), Some(Ok(1)));
    });
    wait.block_on(is_done(&done));

    let panicked = run(&|executor| {
        let task = || -> Result<(), String> { panic!("boom") };
        let panic = AssertUnwindSafe(|| executor.try_execute(&config(), task));
        assert!(std::panic::catch_unwind(panic).is_err());
    });
    wait.block_on(has_failed(&panicked, BACKOFF, 2));
}

/// Dropping an unlock in progress does not change the end of the slot that it reports.
#[tokio::test]
async fn an_unlock_that_no_one_waits_for_any_more_still_reports_that_the_slot_is_done() {
    let bench = bench();
    let faulty = bench.faulty.clone();
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move {
        let task = async move { faulty.next([Fault::Unavailable]) };
        executor.execute(&config(), task).await
    });
    bench.settle().await;
    // It waits before the next try.
    assert_eq!(bench.faulty.calls_of("unlock"), 1);
    task.abort();
    bench.settle().await;
    assert_eq!(bench.faulty.calls_of("unlock"), 2);
    is_done(&bench).await;
}

/// The slot was used up when it was taken: nothing that the task reports opens it again.
#[tokio::test]
async fn other_slots_are_used_up_whatever_is_reported() {
    let bench = bench();
    let config = config().completion(Completion::WhenTaken);
    let task = async {
        current_lock().unwrap().fail_slot();
        Err::<(), _>("no mail server")
    };
    let outcome = bench.executor.try_execute(&config, task).await.unwrap();
    assert!(outcome.is_executed());
    let record = record(&bench).await;
    assert_eq!(record.state, LockState::Free);
    assert_eq!((record.slot_attempts, record.last_slot_done), (None, None));
    assert_eq!(refused(&bench).await, SkipReason::SlotTaken);
}
