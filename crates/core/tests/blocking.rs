//! The blocking API.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Alive, Bench, Fault, bench, config, secs};
use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Error, ErrorKind, Executor, LockProvider, LockState,
    LostReason, Outcome, Release, assert_locked, blocking, current_lock, delegate,
};
use shedlock_provider::MemoryProvider;

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

#[test]
fn a_closure_is_not_started_after_its_lease_was_lost() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        let bench = bench();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let other = tokio::task::spawn_blocking(move || wait.recv());
        let executor = bench.executor.clone();
        let run = tokio::spawn(async move {
            let config = config("a").lock_wait("1s");
            let started = || -> () { panic!("started without the lock") };
            executor.execute_blocking(&config, started).await
        });
        while bench.state("a").await != Some(LockState::Held) {
            tokio::task::yield_now().await;
        }
        bench.clock.advance(secs(60));
        go.send(()).unwrap();
        other.await.unwrap().unwrap();
        let outcome = run.await.unwrap().unwrap();
        assert!(
            matches!(outcome, Outcome::Lost { value: None, .. }),
            "{outcome:?}"
        );
    });
}

/// A provider whose client resolves a host name for each attempt, on a thread for blocking work.
#[derive(Debug, Default)]
struct Resolving {
    inner: MemoryProvider,
}

impl LockProvider for Resolving {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(async move {
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            self.inner.attempt(request).await
        })
    }

    delegate!(inner except attempt);
}

#[test]
fn a_thread_that_is_reserved_for_a_closure_does_not_keep_its_attempt_waiting() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.max_blocking_threads(1).enable_all().build();
    let executor = Executor::new(Arc::new(Resolving::default()));
    let config = config("a");
    let ran = runtime
        .unwrap()
        .block_on(executor.execute_blocking(&config, || 9));
    assert_eq!(ran.unwrap().value(), Some(9));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocking_task_keeps_its_lock_when_no_one_waits_for_it_any_more() {
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
    let executor = blocking::Executor::new(Arc::new(store.clone()));
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
    let executor = blocking::Executor::new(Arc::new(MemoryProvider::new()));
    runtime.block_on(async {
        let error = executor
            .execute(&config("a"), || -> () { panic!("must not run") })
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongContext);
        let error = blocking::block_on(async {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongContext);
    });
}

#[test]
fn blocking_locks_nest_and_are_reentrant() {
    let executor = blocking::Executor::new(Arc::new(MemoryProvider::new()));
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

/// An executor on the calling thread.
fn on_this_thread(bench: &Bench) -> blocking::Executor {
    blocking::Executor::from_async(bench.executor.clone())
}

/// Waits until the listener has received this many of these events. They come from another thread.
fn wait_for(bench: &Bench, event: &str, times: usize) {
    let heard = || {
        let events = bench.heard.0.lock().unwrap();
        events.iter().filter(|heard| *heard == event).count()
    };
    while heard() < times {
        std::thread::yield_now();
    }
}

#[test]
fn a_blocking_task_much_longer_than_its_lease_keeps_it() {
    let bench = bench();
    let outcome = on_this_thread(&bench).execute(&config("a").keep_alive(), || {
        for times in 1..=6 {
            bench.clock.advance(secs(5));
            wait_for(&bench, "extended a", times);
            assert_locked().unwrap();
        }
    });
    let outcome = outcome.unwrap();
    assert!(outcome.is_executed(), "{outcome:?}");
    let calls = bench.faulty.calls.lock().unwrap().clone();
    assert_eq!(calls.iter().filter(|call| **call == "unlock").count(), 1);
}

#[test]
fn a_blocking_task_sees_that_it_ran_too_long() {
    let bench = bench();
    let config = config("a").keep_alive().max_run_time("7s");
    let outcome = on_this_thread(&bench).execute(&config, || {
        bench.clock.advance(secs(7));
        current_lock().unwrap().is_lost()
    });
    match outcome.unwrap() {
        Outcome::Lost {
            value: Some(true),
            reason: LostReason::RanTooLong,
            ..
        } => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_failing_unlock_of_a_blocking_task_is_asked_again_and_keeps_its_value() {
    let bench = bench();
    let clock = bench.clock.clone();
    let over = Arc::new(AtomicBool::new(false));
    let is_over = over.clone();
    // The pauses between retries use the clock. It is no faster than time itself: a caller waits for 10 s at most.
    let time = std::thread::spawn(move || {
        while !is_over.load(Ordering::SeqCst) {
            clock.advance(secs(1) / 1_000);
            std::thread::park_timeout(secs(1) / 1_000);
        }
    });
    let outcome = on_this_thread(&bench).execute(&config("a").lock_at_most_for("100h"), || {
        bench.faulty.next([Fault::Unavailable, Fault::ReplyLost]);
        7
    });
    over.store(true, Ordering::SeqCst);
    time.join().unwrap();
    match outcome.unwrap() {
        Outcome::Executed {
            value: 7,
            release: Release::Released,
            ..
        } => {}
        other => panic!("{other:?}"),
    }
    let calls = bench.faulty.calls.lock().unwrap().clone();
    assert_eq!(calls, ["attempt", "unlock", "unlock", "unlock"]);
}

#[tokio::test]
async fn what_a_blocking_task_spawned_with_the_lock_is_gone_before_the_lock_is() {
    let bench = bench();
    let (alive, is_alive) = Alive::new();
    let config = config("a");
    let outcome = bench.executor.execute_blocking(&config, move || {
        let spawned = current_lock().unwrap().spawn(async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        });
        drop(spawned.unwrap());
    });
    assert!(outcome.await.unwrap().is_executed());
    assert!(!is_alive.load(Ordering::SeqCst));
}

#[test]
fn the_same_name_on_another_provider_is_another_lock() {
    let (here, there) = (bench(), bench());
    let outcome = on_this_thread(&here).execute(&config("a"), || {
        let inner = on_this_thread(&there).execute(&config("a"), || ());
        match inner.unwrap() {
            Outcome::Executed { release, .. } => release,
            other => panic!("{other:?}"),
        }
    });
    let inner = outcome.unwrap().value().unwrap();
    assert!(matches!(inner, Release::Released), "{inner:?}");
    let calls = there.faulty.calls.lock().unwrap().clone();
    assert_eq!(calls, ["attempt", "unlock"]);
}
