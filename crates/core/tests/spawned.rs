//! Tasks that are spawned with the lock.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Alive, bench, config, secs};
use shedlock_core::{ErrorKind, LockState, Outcome, assert_locked, current_lock};
use tokio::sync::Notify;

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
async fn what_was_spawned_is_not_polled_again_past_the_deadline() {
    let bench = bench();
    let (polled, woken) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counts, waits) = (polled.clone(), woken.clone());
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move {
        let task = async {
            let spawned = current_lock().unwrap().spawn(async move {
                loop {
                    counts.fetch_add(1, Ordering::SeqCst);
                    waits.notified().await;
                }
            });
            let _: Result<(), _> = spawned.unwrap().await;
            std::future::pending::<()>().await;
        };
        executor.execute(&config("a"), task).await
    });
    bench.settle().await;
    woken.notify_one();
    bench.settle().await;
    assert_eq!(polled.load(Ordering::SeqCst), 2);
    // As after a long pause of the process: the task is woken before anything has read the clock.
    woken.notify_one();
    bench.clock.advance(secs(10));
    bench.settle().await;
    assert_eq!(polled.load(Ordering::SeqCst), 2);
    assert!(task.await.unwrap().unwrap().is_lost());
}

#[tokio::test]
async fn a_lock_that_was_given_back_counts_as_held_by_no_one() {
    let bench = bench();
    let ended = Arc::new(Notify::new());
    let (executor, is_over) = (bench.executor.clone(), ended.clone());
    let outcome = bench
        .executor
        .execute(&config("a"), async move {
            let lock = current_lock().unwrap();
            // Not spawned by the lock, so nothing stops it.
            let left_behind = lock.clone().scope(async move {
                is_over.notified().await;
                let error = assert_locked().unwrap_err();
                let again = executor.execute(&config("a"), async {}).await.unwrap();
                let spawned = lock.spawn(async {}).unwrap_err();
                (
                    error.kind(),
                    lock.is_lost(),
                    spawned.kind(),
                    matches!(again, Outcome::Skipped(_)),
                )
            });
            Some(tokio::spawn(left_behind))
        })
        .await
        .unwrap();
    let left_behind = outcome.value().flatten().unwrap();
    // Another process holds the lock now.
    let other = bench.executor.lock(&config("a")).await.unwrap();
    ended.notify_one();
    let (asserted, is_lost, spawned, is_skipped) = left_behind.await.unwrap();
    assert_eq!(asserted, ErrorKind::NotLocked);
    assert!(is_lost);
    assert_eq!(spawned, ErrorKind::NotLocked);
    assert!(is_skipped, "it ran as if it were inside the lock");
    drop(other);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_spawned_while_the_lock_is_given_back_never_runs_without_it() {
    for _ in 0..300 {
        let bench = bench();
        let executor = bench.executor.clone();
        let spawner = executor
            .execute(&config("a"), async {
                let lock = current_lock().unwrap();
                let spawner = async move {
                    let mut refused = 0;
                    while refused < 3 {
                        let spawned = lock.spawn(std::future::ready(assert_locked().is_ok()));
                        match spawned {
                            Ok(task) => drop(task.await),
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::NotLocked);
                                refused += 1;
                            }
                        }
                    }
                };
                Some(tokio::spawn(spawner))
            })
            .await
            .unwrap();
        spawner.value().flatten().unwrap().await.unwrap();
        assert_eq!(bench.state("a").await, Some(LockState::Free));
    }
}
