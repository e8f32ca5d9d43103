//! The executor on a clock that only the tests move.

mod common;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::{Fault, bench, config, secs};
use shedlock_core::{
    Acquisition, ErrorKind, Executor, ForceUnlockRequest, LockName, LockProvider, LockState,
    LostPolicy, LostReason, MemoryProvider, Outcome, Release, SkipReason, assert_locked,
    current_lock, extend_current,
};

/// True while the future that owns it has not been dropped.
struct Alive(Arc<AtomicBool>);

impl Alive {
    fn new() -> (Self, Arc<AtomicBool>) {
        let alive = Arc::new(AtomicBool::new(true));
        (Self(alive.clone()), alive)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

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
    let Acquisition::Acquired(held) = bench.executor.lock(&config("a")).await.unwrap() else {
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
async fn a_task_that_outlives_its_lease_is_dropped_before_the_lease_ends_in_the_store() {
    let bench = bench();
    let (alive, is_alive) = Alive::new();
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move {
        executor
            .execute(&config("a"), async move {
                let _alive = alive;
                std::future::pending::<()>().await;
            })
            .await
    });
    bench.settle().await;
    bench.clock.advance(Duration::from_millis(9_899));
    bench.settle().await;
    assert!(
        is_alive.load(Ordering::SeqCst),
        "the margin is a hundredth of 10 s"
    );
    bench.clock.advance(Duration::from_millis(1));
    bench.settle().await;
    assert!(!is_alive.load(Ordering::SeqCst));
    let outcome = task.await.unwrap().unwrap();
    let Outcome::Lost {
        value: None,
        reason: LostReason::DeadlinePassed,
        ..
    } = outcome
    else {
        panic!("{outcome:?}")
    };
    assert_eq!(
        bench.state("a").await,
        Some(LockState::Free),
        "given back at once"
    );
    let heard = bench.heard.take();
    assert_eq!(
        heard,
        [
            "attempt a",
            "acquired a",
            "started a",
            "lost a",
            "finished a",
            "unlocked a"
        ]
    );
}

#[tokio::test]
async fn a_process_that_slept_past_the_deadline_does_not_poll_the_task_again() {
    let bench = bench();
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = polls.clone();
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move {
        let task = async move {
            counted.fetch_add(1, Ordering::SeqCst);
            receiver.await.ok();
            counted.fetch_add(1, Ordering::SeqCst);
        };
        executor.execute(&config("a"), task).await
    });
    bench.settle().await;
    // Both happen while we "sleep": the task could go on, and its deadline passes.
    sender.send(()).unwrap();
    bench.clock.advance(secs(60));
    assert!(task.await.unwrap().unwrap().is_lost());
    assert_eq!(polls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn where_clients_judge_their_difference_is_taken_off_the_holders_side() {
    let bench = bench();
    let mut provider = bench.faulty.clone();
    provider.tolerated_skew = Some(secs(3));
    let executor = Executor::new(Arc::new(provider)).with_clock(Arc::new(bench.clock.clone()));
    let Acquisition::Acquired(lock) = executor.lock(&config("a")).await.unwrap() else {
        panic!("free")
    };
    assert_eq!(lock.time_left(), Duration::from_millis(6_900));
    let error = executor
        .lock(&config("b").lock_at_most_for("3s"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let shorter = shedlock_core::ExtendRequest::new(secs(2));
    assert_eq!(
        lock.extend(&shorter).await.unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    assert!(
        lock.time_left() > secs(6),
        "a refused extension changes nothing"
    );
}

#[tokio::test]
async fn a_value_that_came_too_late_is_kept_and_called_lost() {
    let bench = bench();
    let clock = bench.clock.clone();
    let outcome = bench
        .executor
        .execute(&config("a"), async move {
            clock.advance(secs(60));
            5
        })
        .await
        .unwrap();
    assert!(
        matches!(outcome, Outcome::Lost { value: Some(5), .. }),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn by_policy_a_late_task_goes_on() {
    let bench = bench();
    let executor = bench
        .executor
        .clone()
        .with_lost_policy(LostPolicy::Continue);
    let clock = bench.clock.clone();
    let outcome = executor
        .execute(&config("a"), async move {
            clock.advance(secs(60));
            tokio::task::yield_now().await;
            assert_eq!(assert_locked().unwrap_err().kind(), ErrorKind::Lost);
            5
        })
        .await
        .unwrap();
    assert!(
        matches!(outcome, Outcome::Lost { value: Some(5), .. }),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn an_extension_moves_the_deadline_and_not_the_origin_of_at_least() {
    let bench = bench();
    let clock = bench.clock.clone();
    let config = config("a").lock_at_least_for("8s");
    let outcome = bench
        .executor
        .execute(&config, async move {
            clock.advance(secs(9));
            extend_current("10s").await.unwrap();
            clock.advance(secs(9));
            tokio::task::yield_now().await;
            assert_locked().unwrap();
            extend_current("10s").await.unwrap();
        })
        .await
        .unwrap();
    assert!(outcome.is_executed(), "{outcome:?}");
    assert_eq!(
        bench.state("a").await,
        Some(LockState::Free),
        "at-least was over after 8 s"
    );
}

#[tokio::test]
async fn a_refused_extension_stops_the_task() {
    let bench = bench();
    let store = bench.faulty.clone();
    let outcome = bench
        .executor
        .execute(&config("a"), async move {
            let name = LockName::new("a").unwrap();
            store
                .force_unlock(&ForceUnlockRequest::new(name))
                .await
                .unwrap();
            let error = extend_current("10s").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Lost);
            tokio::task::yield_now().await;
            unreachable!("must not be polled again");
        })
        .await
        .unwrap()
        .map(|never: ()| never);
    let Outcome::Lost {
        value: None,
        reason: LostReason::NotHeldInStore,
        ..
    } = outcome
    else {
        panic!("{outcome:?}")
    };
}

#[tokio::test]
async fn an_extension_whose_answer_was_lost_counts_for_no_longer_than_either_way_allows() {
    let bench = bench();
    let Acquisition::Acquired(lock) = bench.executor.lock(&config("a")).await.unwrap() else {
        panic!("free")
    };
    bench.faulty.next([Fault::ReplyLost]);
    let shorter = shedlock_core::ExtendRequest::new(secs(1));
    assert!(lock.extend(&shorter).await.unwrap_err().is_unknown());
    assert!(
        lock.time_left() <= secs(1),
        "the store may have shortened it"
    );
    let longer = shedlock_core::ExtendRequest::new(secs(100));
    bench.faulty.next([Fault::ReplyLost]);
    assert!(lock.extend(&longer).await.unwrap_err().is_unknown());
    assert!(
        lock.time_left() <= secs(1),
        "the store may not have lengthened it"
    );
    lock.extend(&longer).await.unwrap();
    assert!(lock.time_left() > secs(90));
}

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

#[tokio::test]
async fn a_dropped_task_gives_its_lock_back_behind_with_at_least_honoured() {
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

#[tokio::test]
async fn an_unlock_that_was_overtaken_after_a_lost_answer_is_not_lost() {
    let bench = bench();
    let Acquisition::Acquired(lock) = bench.executor.lock(&config("a")).await.unwrap() else {
        panic!("free")
    };
    bench.faulty.next([Fault::ReplyLost]);
    let unlocking = tokio::spawn(lock.unlock());
    bench.settle().await;
    // The first unlock landed; somebody else takes the lock before the second is asked.
    let other = Executor::new(Arc::new(bench.faulty.store.another_client()));
    let Acquisition::Acquired(other) = other.lock(&config("a")).await.unwrap() else {
        panic!("the unlock had landed")
    };
    bench.pass(secs(1)).await;
    assert!(matches!(unlocking.await.unwrap(), Release::Released));
    assert_eq!(
        bench.state("a").await,
        Some(LockState::Held),
        "by the other one"
    );
    drop(other);
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
async fn spawned_tasks_do_not_hold_the_lock_unless_it_is_carried() {
    let bench = bench();
    let outcome = bench
        .executor
        .execute(&config("a"), async {
            assert!(
                tokio::spawn(async { current_lock() })
                    .await
                    .unwrap()
                    .is_none()
            );
            let lock = current_lock().unwrap();
            let carried = tokio::spawn(lock.scope(async { assert_locked().is_ok() }));
            assert!(carried.await.unwrap());
        })
        .await
        .unwrap();
    assert!(outcome.is_executed());
}

#[tokio::test]
async fn what_was_spawned_with_the_lock_is_gone_before_the_lock_is() {
    let bench = bench();
    let (alive, is_alive) = Alive::new();
    let outcome = bench
        .executor
        .execute(&config("a"), async move {
            let spawned = current_lock().unwrap().spawn(async move {
                let _alive = alive;
                assert_locked().unwrap();
                std::future::pending::<()>().await;
            });
            drop(spawned.unwrap());
            tokio::task::yield_now().await;
        })
        .await
        .unwrap();
    assert!(outcome.is_executed());
    assert!(!is_alive.load(Ordering::SeqCst));
}

#[tokio::test]
async fn what_was_spawned_is_stopped_when_the_lease_is_lost_or_the_task_dropped() {
    for is_dropped in [false, true] {
        let bench = bench();
        let (alive, is_alive) = Alive::new();
        let executor = bench.executor.clone();
        let task = tokio::spawn(async move {
            let config = config("a");
            let task = async move {
                let spawned = current_lock().unwrap().spawn(async move {
                    let _alive = alive;
                    std::future::pending::<()>().await;
                });
                drop(spawned.unwrap());
                std::future::pending::<()>().await;
            };
            executor.execute(&config, task).await
        });
        bench.settle().await;
        assert!(is_alive.load(Ordering::SeqCst));
        if is_dropped {
            task.abort();
        } else {
            bench.clock.advance(secs(10));
        }
        bench.settle().await;
        assert!(!is_alive.load(Ordering::SeqCst));
        assert_eq!(bench.state("a").await, Some(LockState::Free));
        assert!(task.is_finished());
    }
}

#[tokio::test]
async fn nothing_is_spawned_with_a_lock_that_is_over() {
    let bench = bench();
    let mut kept = None;
    let outcome = bench
        .executor
        .execute(&config("a"), async { kept = current_lock() })
        .await
        .unwrap();
    assert!(outcome.is_executed());
    let error = kept.unwrap().spawn(async {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotLocked);
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
    let executor = bench.executor.clone().with_listener(Arc::new(Rude));
    assert!(
        executor
            .execute(&config("a"), async {})
            .await
            .unwrap()
            .is_executed()
    );
    assert_eq!(bench.state("a").await, Some(LockState::Free));
}

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
