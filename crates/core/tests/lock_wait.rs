//! Waiting for a lock, on a clock that only the tests move.

#![allow(clippy::unwrap_used, reason = "a test fails there, and says where")]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Bench, Fault, bench, config, secs};
use shedlock_core::{
    Attempt, AttemptRequest, Clock, ErrorKind, Event, HeldLock, Listener, LockConfig, LockName,
    LockProvider, LockState, Outcome, Owner, SkipReason, Slot,
};
use tokio::task::JoinHandle;

type Ran = JoinHandle<Result<Outcome<u8>, shedlock_core::Error>>;

async fn hold(bench: &Bench) -> HeldLock {
    let Attempt::Acquired(held) = bench.executor.lock(&config("a")).await.unwrap() else {
        panic!("free")
    };
    bench.heard.take();
    held
}

/// Starts a task that waits for its lock.
fn start(bench: &Bench, config: LockConfig) -> Ran {
    let executor = bench.executor.clone();
    tokio::spawn(async move { executor.execute(&config, async { 1 }).await })
}

/// Moves the clock until the task is done. Returns how long that took.
async fn watch(bench: &Bench, task: &Ran) -> Duration {
    let began = bench.clock.now();
    bench.settle().await;
    while !task.is_finished() {
        bench.clock.advance(Duration::from_millis(10));
        bench.settle().await;
    }
    bench.clock.now().saturating_since(began)
}

/// Takes the lock as a process that then crashes.
async fn die_with(bench: &Bench, lock_at_most_for: Duration) {
    let name = LockName::new("a").unwrap();
    let request = AttemptRequest::new(name, Owner::generate(), lock_at_most_for);
    let attempt = bench.faulty.store.attempt(&request).await.unwrap();
    assert!(attempt.acquired().is_some());
}

#[tokio::test]
async fn a_lock_that_comes_free_within_the_wait_is_won() {
    let bench = bench();
    let held = hold(&bench).await;
    let task = start(&bench, config("a").lock_wait("6s"));
    bench.pass(secs(3)).await;
    assert!(!task.is_finished());
    let _ = held.unlock().await;
    bench.pass(secs(1)).await;
    assert!(task.await.unwrap().unwrap().is_executed());
    assert_eq!(bench.state("a").await, Some(LockState::Free));
    let heard = bench.heard.take();
    assert!(!heard.contains(&"skipped a".to_owned()), "{heard:?}");
}

#[tokio::test]
async fn the_last_skip_is_the_answer() {
    let bench = bench();
    let held = hold(&bench).await;
    let task = start(&bench, config("a").lock_wait("6s"));
    let waited = watch(&bench, &task).await;
    assert_eq!(waited, secs(6), "no longer, and to the end");
    let outcome = task.await.unwrap().unwrap();
    let skip = outcome.skip().expect("held all the time");
    assert_eq!(skip.reason, SkipReason::Held);
    assert_eq!(skip.owner.as_deref(), Some(held.owner().as_str()));
    let heard = bench.heard.take();
    let (last, before) = heard.split_last().unwrap();
    assert_eq!(last, "skipped a");
    // Pauses grow from 50 ms to a twentieth of 6 s, and each is between half of that and all of it.
    let attempts = bench.faulty.calls_of("attempt") - 1;
    assert!((20..=50).contains(&attempts), "{attempts}");
    let told = ["attempt a", "waiting a"].repeat(attempts);
    assert_eq!(before, &told[..told.len() - 1]);
}

/// Counts the waits for a lock, and those for a new reason.
#[derive(Debug, Default)]
struct Waits(Mutex<(u32, u32)>);

impl Listener for Waits {
    fn on_event(&self, event: &Event<'_>) {
        if let Event::Waiting { is_news, .. } = event {
            let mut waits = self.0.lock().unwrap();
            waits.0 += 1;
            waits.1 += u32::from(*is_news);
        }
    }
}

#[tokio::test]
async fn a_wait_is_news_only_for_another_reason() {
    let bench = bench();
    let _held = hold(&bench).await;
    let waits = Arc::new(Waits::default());
    let executor = bench.executor.clone().listener(waits.clone());
    let wait = config("a").lock_wait("6s");
    let task = tokio::spawn(async move { executor.execute(&wait, async { 1 }).await });
    watch(&bench, &task).await;
    let (all, news) = *waits.0.lock().unwrap();
    assert!(all > 10, "{all}");
    assert_eq!(news, 1);
}

#[tokio::test]
async fn no_wait_asks_once() {
    for config in [config("a"), config("a").lock_wait(Duration::ZERO)] {
        let bench = bench();
        let held = hold(&bench).await;
        let outcome = bench.executor.execute(&config, async {}).await.unwrap();
        assert!(outcome.is_skipped());
        assert_eq!(bench.faulty.calls_of("attempt"), 2);
        drop(held);
    }
}

#[tokio::test]
async fn it_wakes_when_a_dead_holders_lease_ends() {
    let bench = bench();
    die_with(&bench, secs(60)).await;
    let task = start(&bench, config("a").lock_wait("10m"));
    let waited = watch(&bench, &task).await;
    assert!(task.await.unwrap().unwrap().is_executed());
    let late = waited - secs(60);
    assert!(late <= Duration::from_millis(60), "{late:?}");
}

#[tokio::test]
async fn a_slot_that_was_taken_is_not_waited_for() {
    let bench = bench();
    let slot = Slot::at(bench.clock.system_time()).unwrap();
    let config = config("a").slot(slot).lock_wait("1h");
    let first = bench.executor.execute(&config, async {}).await.unwrap();
    assert!(first.is_executed());
    let second = bench.executor.execute(&config, async {}).await.unwrap();
    assert_eq!(second.skip().unwrap().reason, SkipReason::SlotTaken);
    assert_eq!(bench.faulty.calls_of("attempt"), 2);

    // The same holds if the lock was free when the wait began.
    let held = hold(&bench).await;
    let later = Slot::at(bench.clock.system_time() + secs(1)).unwrap();
    let waiting = start(&bench, config.clone().slot(later));
    bench.settle().await;
    let _ = held.unlock().await;
    let taken = bench.executor.execute(&config.slot(later), async {}).await;
    assert!(taken.unwrap().is_executed());
    bench.pass(secs(1)).await;
    let skipped = waiting.await.unwrap().unwrap();
    assert_eq!(skipped.skip().unwrap().reason, SkipReason::SlotTaken);
}

#[tokio::test]
async fn a_store_that_comes_back_within_the_wait_is_no_error() {
    let bench = bench();
    // Unavailable for longer than any single lease lasts.
    let down = [Fault::Unavailable; 9];
    bench.faulty.next(down);
    let task = start(&bench, config("a").lock_wait("60s"));
    let waited = watch(&bench, &task).await;
    assert!(task.await.unwrap().unwrap().is_executed());
    assert!(waited > secs(20), "{waited:?}");
    assert_eq!(bench.faulty.calls_of("withdraw"), 0, "nothing was sent");
}

#[tokio::test]
async fn a_store_that_stays_away_is_an_error_when_the_wait_is_over() {
    let bench = bench();
    bench.faulty.next([Fault::Unavailable; 1_000]);
    let task = start(&bench, config("a").lock_wait("30s"));
    assert_eq!(watch(&bench, &task).await, secs(30));
    let error = task.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn an_answer_that_was_lost_is_asked_for_with_the_same_owner() {
    let bench = bench();
    let slot = Slot::at(bench.clock.system_time()).unwrap();
    bench.faulty.next([Fault::ReplyLost]);
    bench.faulty.next([Fault::Unavailable; 4]);
    let task = start(&bench, config("a").slot(slot).lock_wait("60s"));
    watch(&bench, &task).await;
    // With another owner, the attempt would have found the slot taken by its own predecessor.
    assert!(task.await.unwrap().unwrap().is_executed());
}

/// The first owner is not asked again once the lease that it may have won would be over. The wait goes on with another one.
#[tokio::test]
async fn the_wait_outlasts_the_lease_of_an_attempt_without_a_reply() {
    let bench = bench();
    bench.faulty.next([Fault::ReplyLost]);
    bench.faulty.next([Fault::Unavailable; 1_000]);
    let task = start(&bench, config("a").lock_wait("60s"));
    assert_eq!(watch(&bench, &task).await, secs(60));
    assert!(task.await.unwrap().unwrap_err().is_retryable());

    let bench = self::bench();
    let slot = Slot::at(bench.clock.system_time()).unwrap();
    bench.faulty.next([Fault::ReplyLost]);
    bench.faulty.next([Fault::Unavailable; 10]);
    let task = start(&bench, config("a").slot(slot).lock_wait("5m"));
    let waited = watch(&bench, &task).await;
    assert!(task.await.unwrap().unwrap().is_executed());
    assert!(waited > secs(10), "within the first lease: {waited:?}");
}

#[tokio::test]
async fn any_other_error_ends_the_waiting() {
    let bench = bench();
    let slot = Slot::at(bench.clock.system_time() + secs(3_600)).unwrap();
    let config = config("a").slot(slot).lock_wait("1h");
    let error = bench.executor.execute(&config, async {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SlotAhead);
    assert_eq!(bench.faulty.calls_of("attempt"), 1);

    let unreadable = common::config("a").lock_wait("soon");
    let error = bench.executor.execute(&unreadable, async {}).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(bench.faulty.calls_of("attempt"), 1, "before any I/O");
}

#[tokio::test]
async fn a_dropped_wait_leaves_nothing_behind() {
    let bench = bench();
    let held = hold(&bench).await;
    let task = start(&bench, config("a").lock_wait("1h"));
    bench.pass(secs(2)).await;
    task.abort();
    let _ = held.unlock().await;
    bench.pass(secs(5)).await;
    assert_eq!(bench.state("a").await, Some(LockState::Free));
    let attempts = bench.faulty.calls_of("attempt");
    bench.pass(secs(60)).await;
    assert_eq!(bench.faulty.calls_of("attempt"), attempts);
    assert_eq!(bench.faulty.calls_of("withdraw"), 0);
}

#[tokio::test]
async fn every_form_waits() {
    let bench = bench();
    let held = hold(&bench).await;
    let config = config("a").lock_wait("9s");
    let (executor, patient) = (bench.executor.clone(), config.clone());
    let blocking = tokio::spawn(async move { executor.execute_blocking(&patient, || 1).await });
    bench.pass(secs(1)).await;
    let _ = held.unlock().await;
    bench.pass(secs(1)).await;
    // The closure runs on a separate thread.
    assert!(blocking.await.unwrap().unwrap().is_executed());

    let held = hold(&bench).await;
    let executor = bench.executor.clone();
    let lock = tokio::spawn(async move { executor.lock(&config).await });
    bench.pass(secs(1)).await;
    let _ = held.unlock().await;
    bench.pass(secs(1)).await;
    assert!(matches!(lock.await.unwrap().unwrap(), Attempt::Acquired(_)));
}
