//! How a task can end, and what happens to its lock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{Alive, Bench, Fault, Logs, bench, config, secs};
use shedlock_core::{Attempt, ErrorKind, Executor, LockState, Outcome, Release};
use tokio::task::JoinHandle;

type Ran = JoinHandle<Result<Outcome<u8>, shedlock_core::Error>>;

#[tokio::test]
async fn a_dropped_task_unlocks_in_the_background_with_at_least_honoured() {
    let bench = bench();
    let (alive, is_alive) = Alive::new();
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move {
        let config = config("a").lock_at_least_for("5s");
        executor
            .execute(&config, async move {
                let _alive = alive;
                std::future::pending::<()>().await;
            })
            .await
    });
    bench.settle().await;
    task.abort();
    bench.settle().await;
    assert!(!is_alive.load(Ordering::SeqCst));
    assert_eq!(bench.state("a").await, Some(LockState::AtLeast));
    assert_eq!(bench.faulty.calls_of("unlock"), 1);
}

#[tokio::test]
async fn a_task_that_is_cancelled_or_panics_is_reported_as_finished() {
    let bench = bench();
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move {
        let task = std::future::pending::<()>();
        executor.execute(&config("a"), task).await
    });
    bench.settle().await;
    task.abort();
    bench.settle().await;
    let heard = bench.heard.take();
    assert_eq!(heard[2..], ["started a", "finished a", "unlocked a"]);

    let executor = bench.executor.clone();
    let task = tokio::spawn(async move {
        let inside = executor.clone();
        let task = async move {
            let config = config("a");
            let again = inside.execute(&config, async { panic!("boom") });
            again.await.map(|_: Outcome<()>| ())
        };
        executor.execute(&config("a"), task).await.map(|_| ())
    });
    assert!(task.await.unwrap_err().is_panic());
    let heard = bench.heard.take();
    let tasks: Vec<_> = heard[2..].iter().map(String::as_str).collect();
    assert_eq!(
        tasks,
        [
            "started a",
            "started a",
            "finished a",
            "finished a",
            "unlocked a"
        ]
    );
}

#[tokio::test]
async fn a_panic_goes_on_after_the_lock_was_given_back() {
    let bench = bench();
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move {
        executor
            .execute(&config("a"), async { panic!("boom") })
            .await
            .map(|_: Outcome<()>| ())
    });
    let panic = task.await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"boom"));
    assert_eq!(bench.state("a").await, Some(LockState::Free));
}

#[tokio::test]
async fn a_failing_unlock_is_asked_again_and_never_takes_the_value_away() {
    let bench = bench();
    let faulty = bench.faulty.clone();
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move {
        let broken = faulty.clone();
        let task = async move {
            broken.next([Fault::Unavailable, Fault::ReplyLost]);
            3
        };
        executor.execute(&config("a"), task).await
    });
    bench.settle().await;
    bench.pass(secs(1)).await;
    let outcome = task.await.unwrap().unwrap();
    let Outcome::Executed {
        value: 3,
        release: Release::Released,
        ..
    } = outcome
    else {
        panic!("{outcome:?}")
    };
    assert_eq!(bench.faulty.calls_of("unlock"), 3);

    let faulty = bench.faulty.clone();
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move {
        let broken = faulty.clone();
        let task = async move {
            broken.next([Fault::Unavailable; 50]);
            4
        };
        executor.execute(&config("b"), task).await
    });
    bench.settle().await;
    bench.pass(secs(20)).await;
    bench.pass(secs(20)).await;
    let outcome = task.await.unwrap().unwrap();
    let Outcome::Executed {
        value: 4,
        release: Release::Failed(error),
        ..
    } = outcome
    else {
        panic!("{outcome:?}")
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

/// Runs a task that ends while the store fails in this way, under a lease of an hour.
fn ends_during(bench: &Bench, faults: impl IntoIterator<Item = Fault>) -> Ran {
    let (broken, executor) = (bench.faulty.clone(), bench.executor.clone());
    let faults: Vec<_> = faults.into_iter().collect();
    tokio::spawn(async move {
        let task = async move {
            broken.next(faults);
            5
        };
        let config = config("a").lock_at_most_for("1h");
        executor.execute(&config, task).await
    })
}

fn failed(outcome: Outcome<u8>) -> ErrorKind {
    match outcome {
        Outcome::Executed {
            value: 5,
            release: Release::Failed(error),
            ..
        } => error.kind(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_value_waits_no_longer_than_ten_seconds_for_an_unlock_that_goes_on() {
    for (fault, kind) in [
        (Fault::Unavailable, ErrorKind::Unavailable),
        (Fault::RequestLost, ErrorKind::OutcomeUnknown),
    ] {
        let bench = bench();
        let task = ends_during(&bench, [fault; 30]);
        bench.settle().await;
        bench.pass(Duration::from_millis(8_900)).await;
        assert!(!task.is_finished(), "{fault:?}");
        bench.pass(secs(2)).await;
        let asked = bench.faulty.calls_of("unlock");
        assert_eq!(failed(task.await.unwrap().unwrap()), kind);
        assert_eq!(bench.state("a").await, Some(LockState::Held));
        for _ in 0..6 {
            bench.pass(secs(10)).await;
        }
        assert_eq!(bench.state("a").await, Some(LockState::Free), "{fault:?}");
        assert_eq!(bench.heard.take().last().unwrap(), "unlocked a");
        let in_all = bench.faulty.calls_of("unlock");
        assert!(asked < in_all && in_all == 31, "{asked} of {in_all}");
    }
}

#[tokio::test]
async fn an_unlock_that_hangs_past_the_end_of_its_lease_has_failed() {
    let bench = bench();
    let (broken, executor) = (bench.faulty.clone(), bench.executor.clone());
    let task = tokio::spawn(async move {
        let task = async move {
            broken.next([Fault::Hang]);
            5
        };
        let config = config("a").lock_at_most_for("5s");
        executor.execute(&config, task).await
    });
    bench.settle().await;
    bench.pass(secs(11)).await;
    failed(task.await.unwrap().unwrap());
    // The lease is over, and nothing goes on.
    bench.pass(secs(60)).await;
    assert_eq!(bench.heard.take().last().unwrap(), "unlock failed a");
    assert_eq!(bench.faulty.calls_of("unlock"), 1);
}

#[tokio::test]
async fn an_unlock_that_hangs_holds_no_value_up() {
    let bench = bench();
    let task = ends_during(&bench, [Fault::Hang]);
    bench.settle().await;
    bench.pass(secs(11)).await;
    assert_eq!(
        failed(task.await.unwrap().unwrap()),
        ErrorKind::OutcomeUnknown
    );
    bench.settle().await;
    // The call that hung took effect. The one in the background finds a lock that is free: it is not lost.
    let heard = bench.heard.take();
    assert_eq!(heard.last().unwrap(), "unlocked a", "{heard:?}");
    assert_eq!(bench.faulty.calls_of("unlock"), 2);
}

#[tokio::test]
async fn a_refused_unlock_returns_the_value_at_once_and_is_tried_at_each_sixth_of_the_lease() {
    let bench = bench();
    let task = ends_during(&bench, [Fault::Refused; 4]);
    bench.settle().await;
    assert_eq!(
        failed(task.await.unwrap().unwrap()),
        ErrorKind::Configuration
    );
    // In the background once more at once, and then after 10 and after 20 minutes.
    for minutes in [9, 2, 7] {
        bench.pass(secs(minutes * 60)).await;
        assert_eq!(bench.state("a").await, Some(LockState::Held));
    }
    assert_eq!(bench.faulty.calls_of("unlock"), 3);
    bench.pass(secs(13 * 60)).await;
    assert_eq!(bench.state("a").await, Some(LockState::Free));
    assert_eq!(bench.faulty.calls_of("unlock"), 5);
}

#[tokio::test]
async fn an_unlock_that_was_overtaken_after_a_lost_answer_is_no_success() {
    let bench = bench();
    let Attempt::Acquired(lock) = bench.executor.lock(&config("a")).await.unwrap() else {
        panic!("free")
    };
    bench.faulty.next([Fault::ReplyLost]);
    let unlocking = tokio::spawn(lock.unlock());
    bench.settle().await;
    // The first unlock took effect. Another process takes the lock before the second one is sent.
    let other = Executor::new(Arc::new(bench.faulty.store.another_client()));
    let Attempt::Acquired(other) = other.lock(&config("a")).await.unwrap() else {
        panic!("the unlock had landed")
    };
    bench.pass(secs(1)).await;
    // The record does not show that the other one came later.
    assert!(matches!(unlocking.await.unwrap(), Release::MaybeOverlapped));
    assert_eq!(
        bench.state("a").await,
        Some(LockState::Held),
        "by the other one"
    );
    drop(other);
}

#[tokio::test]
async fn a_panicking_listener_harms_nothing() {
    #[derive(Debug)]
    struct Rude;
    impl shedlock_core::Listener for Rude {
        fn on_event(&self, _: &shedlock_core::Event<'_>) {
            panic!("rude");
        }
    }
    let bench = bench();
    let executor = bench.executor.clone().listener(Arc::new(Rude));
    assert!(
        executor
            .execute(&config("a"), async {})
            .await
            .unwrap()
            .is_executed()
    );
    assert_eq!(bench.state("a").await, Some(LockState::Free));
}

/// Returns the logs that `run` writes.
fn logs_of(run: impl FnOnce()) -> String {
    let (logs, _guard) = Logs::of_thread();
    run();
    logs.text()
}

/// A runtime on this thread, so that its logs are captured.
fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.build().unwrap()
}

/// Starts a task that never ends by itself, and lets it take its lock.
fn start(runtime: &tokio::runtime::Runtime, bench: &common::Bench) -> JoinHandle<()> {
    let executor = bench.executor.clone();
    let task = runtime.spawn(async move {
        let endless = std::future::pending::<()>();
        let ended = executor.execute(&config("a"), endless).await;
        panic!("ended by itself: {ended:?}");
    });
    runtime.block_on(bench.settle());
    task
}

#[test]
fn a_runtime_that_is_dropped_leaves_the_lock_to_its_end_and_says_so() {
    let bench = bench();
    let logs = logs_of(|| {
        let runtime = runtime();
        drop(start(&runtime, &bench));
        drop(runtime);
    });
    assert!(
        logs.contains("the runtime shut down before the unlock"),
        "{logs}"
    );
    let later = runtime();
    assert_eq!(later.block_on(bench.state("a")), Some(LockState::Held));
    bench.clock.advance(secs(10));
    assert_eq!(later.block_on(bench.state("a")), Some(LockState::Free));
}

#[test]
fn a_task_whose_end_is_awaited_before_the_runtime_shuts_down_gives_its_lock_back() {
    let bench = bench();
    let logs = logs_of(|| {
        let runtime = runtime();
        let task = start(&runtime, &bench);
        runtime.block_on(async {
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
            bench.settle().await;
        });
        drop(runtime);
    });
    assert!(!logs.contains("shut down"), "{logs}");
    let later = runtime();
    assert_eq!(later.block_on(bench.state("a")), Some(LockState::Free));
}
