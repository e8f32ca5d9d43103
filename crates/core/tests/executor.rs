//! The executor on a clock that only the tests move.

mod common;

use std::sync::Arc;

use common::{Heard, Logs, bench, config, secs};
use std::time::{Duration, SystemTime};

use shedlock_core::{
    Attempt, ErrorKind, Executor, LockConfig, LockState, Outcome, Release, SkipReason, Slot,
    assert_locked, current_lock,
};
use shedlock_provider::MemoryProvider;

#[tokio::test]
async fn a_task_runs_under_its_lock_and_gives_it_back() {
    let bench = bench();
    let outcome = bench
        .executor
        .execute(&config("a"), async {
            let lock = current_lock().expect("the task holds it");
            assert_eq!(lock.name().as_str(), "a");
            assert!(lock.fencing_token().is_some());
            assert!(!lock.is_lost());
            assert_locked().unwrap();
            7
        })
        .await
        .unwrap();
    let Outcome::Executed {
        value: 7,
        release: Release::Released,
        ..
    } = outcome
    else {
        panic!("{outcome:?}")
    };
    assert_eq!(bench.state("a").await, Some(LockState::Free));
    assert!(current_lock().is_none());
    assert_eq!(assert_locked().unwrap_err().kind(), ErrorKind::NotLocked);
    let heard = bench.heard.take();
    assert_eq!(
        heard,
        [
            "attempt a",
            "acquired a",
            "started a",
            "finished a",
            "unlocked a"
        ]
    );
}

#[tokio::test]
async fn a_held_lock_is_a_skip_that_says_who_and_until_when() {
    let bench = bench();
    let Attempt::Acquired(held) = bench.executor.lock(&config("a")).await.unwrap() else {
        panic!("free")
    };
    bench.heard.take();
    let outcome = bench
        .executor
        .execute(&config("a"), async { unreachable!("held") })
        .await
        .unwrap()
        .map(|never: ()| never);
    let skip = outcome.skip().expect("held");
    assert_eq!(skip.reason, SkipReason::Held);
    assert_eq!(skip.owner.as_deref(), Some(held.owner().as_str()));
    assert_eq!(skip.until, held.locked_until());
    assert_eq!(bench.heard.take(), ["attempt a", "skipped a"]);
    assert!(matches!(held.unlock().await, Release::Released));
}

#[tokio::test]
async fn at_least_keeps_the_lock_and_names_it() {
    let bench = bench();
    let config = config("a").lock_at_least_for("2s");
    assert!(
        bench
            .executor
            .execute(&config, async {})
            .await
            .unwrap()
            .is_executed()
    );
    let outcome = bench.executor.execute(&config, async {}).await.unwrap();
    assert_eq!(
        outcome.skip().map(|skip| skip.reason),
        Some(SkipReason::AtLeast)
    );
    bench.clock.advance(secs(2));
    assert!(
        bench
            .executor
            .execute(&config, async {})
            .await
            .unwrap()
            .is_executed()
    );
}

#[tokio::test]
async fn bad_input_is_refused_before_any_io() {
    let bench = bench();
    for bad in [
        config(""),
        config("a").lock_at_least_for("11s"),
        config("a").lock_at_most_for("x"),
    ] {
        let error = bench.executor.execute(&bad, async {}).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    assert!(bench.faulty.calls.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_same_lock_on_the_same_provider_is_reentrant() {
    let bench = bench();
    let inner = bench.executor.clone();
    let other_provider = Executor::new(Arc::new(MemoryProvider::new()));
    let same_store = Executor::new(Arc::new(bench.faulty.store.another_client()));
    let outcome = bench
        .executor
        .execute(&config("a"), async move {
            let config_b = config("b");
            let b = inner.execute(&config_b, async {
                let again = inner.execute(&config("a"), async { 1 }).await.unwrap();
                assert!(matches!(
                    again,
                    Outcome::Executed {
                        release: Release::Reentrant,
                        ..
                    }
                ));
                assert_eq!(current_lock().unwrap().name().as_str(), "b");
            });
            assert!(b.await.unwrap().is_executed());
            let elsewhere = other_provider
                .execute(&config("a"), async { 1 })
                .await
                .unwrap();
            assert!(matches!(
                elsewhere,
                Outcome::Executed {
                    release: Release::Released,
                    ..
                }
            ));
            assert!(
                same_store
                    .execute(&config("a"), async { 1 })
                    .await
                    .unwrap()
                    .is_skipped()
            );
        })
        .await
        .unwrap();
    assert!(outcome.is_executed());
    assert_eq!(
        bench.heard.take(),
        [
            "attempt a",
            "acquired a",
            "started a",
            "attempt b",
            "acquired b",
            "started b",
            "started a",
            "finished a",
            "finished b",
            "unlocked b",
            "finished a",
            "unlocked a",
        ]
    );
}

#[tokio::test]
async fn the_longest_waits_and_tolerances_are_no_error_of_a_store() {
    let executor = Executor::new(Arc::new(MemoryProvider::new()));
    let config = LockConfig::new("a")
        .lock_at_most_for("1m")
        .slot(Slot::at(SystemTime::UNIX_EPOCH).unwrap())
        .slot_tolerance(Duration::MAX)
        .lock_wait(Duration::MAX)
        .max_run_time(Duration::MAX)
        .expect_every(Duration::MAX);
    assert!(
        executor
            .execute(&config, async {})
            .await
            .unwrap()
            .is_executed()
    );
}

#[test]
fn a_context_in_which_no_call_can_wait_is_refused_before_the_call() {
    let provider = Arc::new(MemoryProvider::new());
    let executor = Executor::new(provider.clone());
    let config = config("a");
    // As another executor polls it.
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut call = std::pin::pin!(executor.execute(&config, async {}));
    let std::task::Poll::Ready(Err(error)) = call.as_mut().poll(&mut context) else {
        panic!("there is no runtime")
    };
    assert_eq!(error.kind(), ErrorKind::WrongContext);
    assert!(
        error.to_string().contains("outside a tokio runtime"),
        "{error}"
    );
    let mut call = std::pin::pin!(executor.lock(&config));
    let std::task::Poll::Ready(Err(error)) = call.as_mut().poll(&mut context) else {
        panic!("there is no runtime")
    };
    assert_eq!(error.kind(), ErrorKind::WrongContext);

    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let error = runtime.block_on(executor.execute(&config, std::future::pending::<()>()));
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongContext);
    assert!(error.to_string().contains("has no timers"), "{error}");
    let name = shedlock_core::LockName::new("a").unwrap();
    assert!(!provider.delete(&name), "nothing was written");
}

/// Names that a program computes, each of which is a series of metrics and a job in the journal.
#[tokio::test]
async fn ten_thousand_names_without_a_job_are_warned_of_once() {
    let (logs, _guard) = Logs::of_thread();
    let warnings = || logs.text().matches("locks with different names").count();
    let run = async |executor: &Executor, config: LockConfig| {
        let outcome = executor.execute(&config, async {}).await.unwrap();
        assert!(outcome.is_executed());
    };
    let plain = Executor::new(Arc::new(MemoryProvider::new()));
    let listened = plain.clone().listener(Arc::new(Heard::default()));
    for nth in 0..9_999 {
        let name = format!("expire-{nth}");
        // Nothing keeps these.
        run(&plain, config(&name)).await;
        run(&listened, config(&name)).await;
        run(&listened, config(&format!("of-a-job-{nth}")).job("expire")).await;
    }
    run(&listened, config("expire-0")).await;
    run(&plain, config("another")).await;
    assert_eq!(warnings(), 0);
    for name in ["expire-9999", "expire-10000"] {
        run(&listened, config(name)).await;
        assert_eq!(warnings(), 1);
    }
}
