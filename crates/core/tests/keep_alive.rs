//! Keep-alive and the maximum run time, on a clock that only the tests move.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Bench, Fault, bench, config, secs};
use shedlock_core::{
    Attempt, ErrorKind, Executor, ForceUnlockRequest, LockName, LockState, LostReason, Outcome,
    admin, current_lock,
};
use tokio::task::JoinHandle;

type Ran = JoinHandle<Result<Outcome<u8>, shedlock_core::Error>>;

/// Starts a task of this length under a lease of 9 s that is kept alive.
fn start(bench: &Bench, length: Duration) -> Ran {
    let (executor, clock) = (bench.executor.clone(), bench.clock.clone());
    tokio::spawn(async move {
        let config = config("a").lock_at_most_for("9s").keep_alive();
        let task = async {
            shedlock_core::Clock::sleep_until(&clock, shedlock_core::Clock::now(&clock) + length)
                .await;
            1
        };
        executor.execute(&config, task).await
    })
}

#[tokio::test]
async fn a_task_much_longer_than_its_lease_keeps_it_and_gives_it_back() {
    let bench = bench();
    let task = start(&bench, secs(100));
    bench.settle().await;
    for _ in 0..99 {
        bench.pass(secs(1)).await;
        assert_eq!(bench.state("a").await, Some(LockState::Held));
    }
    bench.pass(secs(2)).await;
    assert!(task.await.unwrap().unwrap().is_executed());
    assert_eq!(bench.state("a").await, Some(LockState::Free));
    let extensions = bench.faulty.calls_of("extend");
    assert!(
        (30..=40).contains(&extensions),
        "a third of 9 s each time: {extensions}"
    );
    bench.pass(secs(20)).await;
    assert_eq!(
        bench.faulty.calls_of("extend"),
        extensions,
        "it ended with the task"
    );
}

#[tokio::test]
async fn where_the_clients_clocks_judge_it_asks_no_more_often_than_it_has_to() {
    let mut bench = bench();
    // Only about 4 s of the 9 s are usable. Measured by the whole lease, a third of it would count
    // as passed from the start.
    bench.faulty.tolerated_skew = Some(secs(5));
    bench.executor =
        Executor::new(Arc::new(bench.faulty.clone())).clock(Arc::new(bench.clock.clone()));
    let task = start(&bench, secs(100));
    bench.settle().await;
    for _ in 0..101 {
        bench.pass(secs(1)).await;
    }
    assert!(task.await.unwrap().unwrap().is_executed());
    let extensions = bench.faulty.calls_of("extend");
    assert!(
        (70..=100).contains(&extensions),
        "a third of 3.9 s each time: {extensions}"
    );
}

#[tokio::test]
async fn a_store_that_is_down_for_less_than_the_lease_loses_nothing() {
    let bench = bench();
    let task = start(&bench, secs(60));
    bench.settle().await;
    for fault in [
        Fault::Unavailable,
        Fault::RequestLost,
        Fault::ReplyLost,
        Fault::Hang,
    ] {
        bench.faulty.next([fault; 3]);
        for _ in 0..12 {
            bench.pass(secs(1)).await;
            assert_eq!(bench.state("a").await, Some(LockState::Held), "{fault:?}");
        }
    }
    bench.pass(secs(20)).await;
    assert!(task.await.unwrap().unwrap().is_executed());
}

/// As when privileges are revoked, and granted again soon.
#[tokio::test]
async fn a_refusal_that_a_person_repairs_within_the_lease_loses_nothing() {
    let bench = bench();
    let task = start(&bench, secs(60));
    bench.settle().await;
    for _ in 0..4 {
        bench.faulty.next([Fault::Refused; 3]);
        for _ in 0..12 {
            bench.pass(secs(1)).await;
            assert_eq!(bench.state("a").await, Some(LockState::Held));
        }
    }
    // Once at a third, and then at each sixth.
    let extensions = bench.faulty.calls_of("extend");
    assert!((20..=30).contains(&extensions), "{extensions}");
    bench.pass(secs(20)).await;
    assert!(task.await.unwrap().unwrap().is_executed());
}

#[tokio::test]
async fn a_store_that_is_down_for_longer_stops_the_task_before_the_lease_ends_there() {
    let bench = bench();
    let task = start(&bench, secs(100));
    bench.settle().await;
    bench.pass(secs(4)).await;
    assert_eq!(bench.faulty.calls_of("extend"), 1);
    bench.faulty.next([Fault::RequestLost; 1_000]);
    let mut waited = 0;
    while !task.is_finished() {
        assert_eq!(
            bench.state("a").await,
            Some(LockState::Held),
            "after {waited} steps"
        );
        bench.clock.advance(Duration::from_millis(10));
        bench.settle().await;
        waited += 1;
    }
    let outcome = task.await.unwrap().unwrap();
    let Outcome::Lost {
        value: None,
        reason: LostReason::DeadlinePassed,
        ..
    } = outcome
    else {
        panic!("{outcome:?}")
    };
}

#[tokio::test]
async fn a_lock_that_was_freed_by_force_stops_its_task_at_the_next_extension() {
    let bench = bench();
    let task = start(&bench, secs(100));
    bench.settle().await;
    let name = LockName::new("a").unwrap();
    admin::force_unlock(&bench.faulty, &ForceUnlockRequest::new(name))
        .await
        .unwrap();
    bench.pass(secs(4)).await;
    let outcome = task.await.unwrap().unwrap();
    assert!(
        matches!(
            outcome,
            Outcome::Lost {
                reason: LostReason::NotHeldInStore,
                ..
            }
        ),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn the_longest_run_bounds_a_task_that_hangs() {
    let bench = bench();
    let executor = bench.executor.clone();
    let task = tokio::spawn(async move {
        let config = config("a").keep_alive().max_run_time("25s");
        executor
            .execute(&config, std::future::pending::<()>())
            .await
    });
    bench.settle().await;
    bench.pass(Duration::from_millis(24_900)).await;
    assert!(!task.is_finished());
    bench.pass(Duration::from_millis(200)).await;
    let outcome = task.await.unwrap().unwrap();
    assert!(
        matches!(
            outcome,
            Outcome::Lost {
                reason: LostReason::RanTooLong,
                ..
            }
        ),
        "{outcome:?}"
    );
    assert_eq!(bench.state("a").await, Some(LockState::Free));
}

#[tokio::test]
async fn a_task_that_extends_further_by_itself_is_not_cut_back() {
    let bench = bench();
    let (executor, clock) = (bench.executor.clone(), bench.clock.clone());
    let task = tokio::spawn(async move {
        let config = config("a").lock_at_most_for("9s").keep_alive();
        let task = async {
            current_lock().unwrap().extend("1h").await.unwrap();
            let until = shedlock_core::Clock::now(&clock) + secs(60);
            shedlock_core::Clock::sleep_until(&clock, until).await;
            current_lock().unwrap().time_left()
        };
        executor.execute(&config, task).await
    });
    bench.settle().await;
    bench.pass(secs(61)).await;
    let left = task.await.unwrap().unwrap().value().unwrap();
    assert!(left > secs(3_000), "{left:?}");
    assert_eq!(bench.faulty.calls_of("extend"), 1);
}

#[tokio::test]
async fn an_explicit_lock_is_kept_alive_until_it_is_unlocked() {
    let bench = bench();
    let kept = config("a").keep_alive();
    let Attempt::Acquired(lock) = bench.executor.lock(&kept).await.unwrap() else {
        panic!("free")
    };
    bench.settle().await;
    bench.pass(secs(50)).await;
    assert!(!lock.is_lost());
    drop(lock.unlock().await);
    let extensions = bench.faulty.calls_of("extend");
    bench.pass(secs(50)).await;
    assert_eq!(bench.faulty.calls_of("extend"), extensions);
    assert_eq!(bench.state("a").await, Some(LockState::Free));
}

#[tokio::test]
async fn a_release_that_is_dropped_continues_in_the_background() {
    let bench = bench();
    let Attempt::Acquired(lock) = bench.executor.lock(&config("a")).await.unwrap() else {
        panic!("free")
    };
    bench.faulty.next([Fault::Unavailable]);
    let unlocking = tokio::spawn(lock.unlock());
    bench.settle().await;
    assert_eq!(bench.faulty.calls_of("unlock"), 1, "it waits to ask again");
    unlocking.abort();
    bench.settle().await;
    assert_eq!(bench.state("a").await, Some(LockState::Free));
}

#[tokio::test]
async fn a_longest_run_of_zero_is_refused() {
    let bench = bench();
    let error = bench
        .executor
        .execute(&config("a").max_run_time("0s"), async {})
        .await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
}
