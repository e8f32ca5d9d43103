//! The forms that block.

mod common;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{bench, config, secs};
use shedlock_core::{
    ErrorKind, LockState, MemoryProvider, Outcome, Release, assert_locked, current_lock,
};

#[tokio::test]
async fn a_blocking_task_sees_that_its_lease_is_lost() {
    let bench = bench();
    let clock = bench.clock.clone();
    let called = Arc::new(AtomicBool::new(false));
    let callback = called.clone();
    let outcome = bench
        .executor
        .execute_blocking(&config("a"), move || {
            let lock = current_lock().unwrap();
            lock.on_lost(move || callback.store(true, Ordering::SeqCst));
            assert!(!lock.is_lost());
            clock.advance(secs(60));
            assert!(lock.is_lost());
            9
        })
        .await
        .unwrap();
    assert!(
        matches!(outcome, Outcome::Lost { value: Some(9), .. }),
        "{outcome:?}"
    );
    assert!(called.load(Ordering::SeqCst));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocking_task_keeps_its_lock_when_nobody_waits_for_it_any_more() {
    let bench = bench();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move {
        executor
            .execute_blocking(&config("a"), move || wait.recv().unwrap())
            .await
    });
    while bench.heard.0.lock().unwrap().len() < 3 {
        tokio::task::yield_now().await;
    }
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(bench.state("a").await, Some(LockState::Held));
    go.send(()).unwrap();
    while bench.state("a").await != Some(LockState::Free) {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_panic_in_a_blocking_task_goes_on_after_the_lock_was_given_back() {
    let store = MemoryProvider::new();
    let executor = shedlock_core::blocking::Executor::new(Arc::new(store.clone()));
    let ran = std::panic::catch_unwind(AssertUnwindSafe(|| {
        executor.execute(&config("a"), || -> () { panic!("boom") })
    }));
    assert!(ran.is_err());
    assert!(executor.execute(&config("a"), || ()).unwrap().is_executed());
}

#[test]
fn blocking_calls_inside_a_runtime_are_errors_and_run_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let executor = shedlock_core::blocking::Executor::new(Arc::new(MemoryProvider::new()));
    runtime.block_on(async {
        let error = executor
            .execute(&config("a"), || -> () { panic!("must not run") })
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongContext);
        let error = shedlock_core::blocking::block_on(async {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongContext);
    });
}

#[test]
fn blocking_locks_nest_and_are_reentrant() {
    let executor = shedlock_core::blocking::Executor::new(Arc::new(MemoryProvider::new()));
    let outcome = executor
        .execute(&config("a"), || {
            assert_locked().unwrap();
            let again = executor.execute(&config("a"), || 1).unwrap();
            assert!(matches!(
                again,
                Outcome::Executed {
                    release: Release::Reentrant,
                    ..
                }
            ));
            executor.execute(&config("b"), || 2).unwrap().value()
        })
        .unwrap();
    assert_eq!(outcome.value(), Some(Some(2)));
}
