//! Leases that end before their tasks, on a clock that only the tests move.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Alive, Fault, bench, config, secs};
use shedlock_core::{
    Attempt, ErrorKind, Executor, ForceUnlockRequest, LockName, LockState, LostPolicy, LostReason,
    Outcome, admin, assert_locked, current_lock, extend_current,
};

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
    // Both happen while the task "sleeps": it could continue, and its deadline passes.
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
    let executor = Executor::new(Arc::new(provider)).clock(Arc::new(bench.clock.clone()));
    let Attempt::Acquired(lock) = executor.lock(&config("a")).await.unwrap() else {
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
async fn a_lock_that_the_deadline_margin_leaves_no_time_for_is_refused() {
    let bench = bench();
    for margin in [secs(10), secs(60), Duration::MAX] {
        let executor = bench.executor.clone().deadline_margin(margin);
        let error = executor.lock(&config("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains("deadline margin"), "{error}");
    }
    assert_eq!(bench.faulty.calls_of("attempt"), 0);
    let executor = bench.executor.clone().deadline_margin(secs(9));
    let Attempt::Acquired(lock) = executor.lock(&config("a")).await.unwrap() else {
        panic!("free")
    };
    assert_eq!(lock.time_left(), secs(1));
}

/// Another server, whose clock is ahead, ends the lease that much earlier.
#[tokio::test]
async fn a_server_that_is_ahead_of_the_one_that_granted_a_lease_finds_its_holder_gone() {
    let bench = bench();
    let mut provider = bench.faulty.clone();
    provider.server_skew = secs(3);
    let executor = Executor::new(Arc::new(provider.clone()));
    let executor = executor.clock(Arc::new(bench.clock.clone()));
    let Attempt::Acquired(lock) = executor.lock(&config("a")).await.unwrap() else {
        panic!("free")
    };
    assert_eq!(lock.time_left(), Duration::from_millis(6_900));
    let error = executor
        .lock(&config("b").lock_at_most_for("3s"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    // If clients' clocks judge as well, both skews count.
    provider.tolerated_skew = Some(secs(2));
    let executor = Executor::new(Arc::new(provider));
    let executor = executor.clock(Arc::new(bench.clock.clone()));
    let Attempt::Acquired(lock) = executor.lock(&config("c")).await.unwrap() else {
        panic!("free")
    };
    assert_eq!(lock.time_left(), Duration::from_millis(4_900));
}

#[tokio::test]
async fn a_callback_that_holds_its_own_lock_does_not_outlive_it() {
    let bench = bench();
    let kept = Arc::new(());
    let held = kept.clone();
    let task = async move {
        let lock = current_lock().unwrap();
        let inside = lock.clone();
        lock.on_lost(move || drop((inside, held)));
    };
    let outcome = bench.executor.execute(&config("a"), task).await;
    assert!(outcome.unwrap().is_executed());
    assert_eq!(Arc::strong_count(&kept), 1, "the callback is still there");
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
    let executor = bench.executor.clone().lost_policy(LostPolicy::Continue);
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
            admin::force_unlock(&store, &ForceUnlockRequest::new(name))
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
async fn an_extension_never_shortens_a_lease() {
    let bench = bench();
    let Attempt::Acquired(lock) = bench.executor.lock(&config("a")).await.unwrap() else {
        panic!("free")
    };
    let shorter = shedlock_core::ExtendRequest::new(secs(1));
    lock.extend(&shorter).await.unwrap();
    assert!(lock.time_left() > secs(9), "the store keeps the later end");
    bench.faulty.next([Fault::ReplyLost]);
    assert!(
        lock.extend(&shorter)
            .await
            .unwrap_err()
            .is_outcome_unknown()
    );
    assert!(lock.time_left() > secs(9));
    let longer = shedlock_core::ExtendRequest::new(secs(100));
    bench.faulty.next([Fault::ReplyLost]);
    assert!(lock.extend(&longer).await.unwrap_err().is_outcome_unknown());
    assert!(
        lock.time_left() <= secs(10),
        "the store may not have lengthened it"
    );
    lock.extend(&longer).await.unwrap();
    assert!(lock.time_left() > secs(90));
}
