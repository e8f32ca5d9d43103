//! A run that never started does not use up its slot, and a slot that no replica runs any more is
//! reported.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Bench, Fault, bench, secs};
use shedlock_core::{
    Attempt, Clock, Completion, Event, Executor, Listener, LockConfig, LockName, LockProvider,
    LockRecord, ManualClock, Outcome, Retries, SkipReason, Slot, SlotEnd, SlotState, current_lock,
};

fn slot(bench: &Bench) -> Slot {
    Slot::at(bench.clock.system_time() - secs(3)).unwrap()
}

fn plain(bench: &Bench) -> LockConfig {
    LockConfig::new("job")
        .lock_at_most_for("10s")
        .slot(slot(bench))
}

fn not_lost(bench: &Bench, attempts: u32) -> LockConfig {
    let retries = Retries::new().max_attempts(attempts);
    plain(bench).completion(Completion::OnSuccess(retries))
}

async fn record(bench: &Bench) -> LockRecord {
    let name = LockName::new("job").unwrap();
    bench.faulty.store.inspect(&name).await.unwrap().unwrap()
}

async fn reason(executor: &Executor, config: &LockConfig) -> SkipReason {
    match executor.lock(config).await.unwrap() {
        Attempt::Skipped(skip) => skip.reason,
        acquired => panic!("{acquired:?}"),
    }
}

#[test]
fn a_slot_is_given_back_once_and_only_by_the_lease_that_has_it() {
    let slot = |seconds: i64| Slot::from_micros(seconds * 1_000_000).unwrap();
    let state = |last, done, attempts| SlotState::new(Some(slot(last)), done, attempts);
    let not_started = |state: SlotState| state.ended(slot(5), SlotEnd::NotStarted);
    let cut = |state: SlotState| state.ended(slot(5), SlotEnd::Cut);

    for end in [SlotEnd::NotStarted, SlotEnd::Cut] {
        let ended = |state: SlotState| state.ended(slot(5), end);
        assert_eq!(ended(state(5, None, Some(2))), state(5, None, Some(1)));
        assert_eq!(ended(state(5, None, Some(0))), state(5, None, Some(0)));
        for another in [state(4, None, Some(2)), state(6, None, None)] {
            assert_eq!(ended(another), another);
        }
    }
    let taken = state(5, Some(slot(4)), None);
    let back = not_started(taken);
    assert_eq!(back.last, Some(slot(5).just_before()));
    assert_eq!(back.last.unwrap().as_micros(), 4_999_999);
    assert_eq!(back.done, Some(slot(4)));
    assert_eq!(not_started(back), back);
    assert_eq!(cut(taken), taken, "its task ran");
    let done = state(5, Some(slot(5)), None);
    assert_eq!(not_started(done), done);
    // The first possible slot has none before it.
    assert_eq!(slot(0).just_before(), slot(0));
}

/// Pauses the process right before a task, until its own deadline has passed, but not the lease in
/// the store.
#[derive(Debug)]
struct StoppedBeforeTheTask(ManualClock);

impl Listener for StoppedBeforeTheTask {
    fn on_event(&self, event: &Event<'_>) {
        if matches!(event, Event::TaskStarted { .. }) {
            self.0.advance(Duration::from_millis(9_950));
        }
    }
}

#[tokio::test]
async fn a_task_that_was_never_polled_leaves_its_slot_to_others() {
    for completes in [false, true] {
        let bench = bench();
        let config = if completes {
            not_lost(&bench, 1)
        } else {
            plain(&bench)
        };
        let stopped = Arc::new(StoppedBeforeTheTask(bench.clock.clone()));
        let stopped = bench.executor.clone().listener(stopped);
        let kept = config.clone().lock_at_least_for("10s");
        let outcome = stopped.execute(&kept, async { 1 }).await.unwrap();
        assert!(matches!(outcome, Outcome::Lost { value: None, .. }));
        let run = bench.executor.execute(&config, async { 1 }).await.unwrap();
        assert_eq!(
            run.value(),
            Some(1),
            "the slot and its attempt are as before"
        );
    }
}

#[tokio::test]
async fn a_slot_that_must_not_be_lost_does_not_disappear_after_polite_shutdowns() {
    let bench = bench();
    let config = not_lost(&bench, 2);
    for _ in 0..5 {
        let cut = async { current_lock().unwrap().leave_slot_open() };
        let outcome = bench.executor.execute(&config, cut).await.unwrap();
        assert!(outcome.is_executed(), "{outcome:?}");
    }
    let run = bench.executor.execute(&config, async { 1 }).await.unwrap();
    assert_eq!(run.value(), Some(1));
}

#[tokio::test]
async fn a_task_that_did_nothing_gives_its_slot_back() {
    let bench = bench();
    let nothing = async { current_lock().unwrap().give_slot_back() };
    let outcome = bench.executor.execute(&plain(&bench), nothing).await;
    assert!(outcome.unwrap().is_executed());
    let earlier = Slot::at(slot(&bench).instant() - secs(1)).unwrap();
    let refused = reason(&bench.executor, &plain(&bench).slot(earlier)).await;
    assert_eq!(
        refused,
        SkipReason::SlotTaken,
        "the slots before it are past"
    );
    let run = bench.executor.execute(&plain(&bench), async { 1 }).await;
    assert_eq!(run.unwrap().value(), Some(1));
}

/// The store granted the lock, but its reply was lost, and the caller no longer waits for it.
#[tokio::test]
async fn a_withdrawn_attempt_leaves_its_slot_to_others() {
    for completes in [false, true] {
        let bench = bench();
        let config = if completes {
            not_lost(&bench, 1)
        } else {
            plain(&bench)
        };
        bench.faulty.next([Fault::ReplyLost; 4]);
        let executor = bench.executor.clone();
        let (asked, asking) = (config.clone(), executor.clone());
        let task = tokio::spawn(async move { asking.execute(&asked, pending::<()>()).await });
        bench.settle().await;
        task.abort();
        bench.settle().await;
        bench.faulty.next([]);
        for _ in 0..20 {
            bench.pass(secs(2)).await;
        }
        executor.settled().await;
        let run = executor.execute(&config, async { 1 }).await.unwrap();
        assert_eq!(run.value(), Some(1));
    }
}

/// Records what happens to slots.
#[derive(Debug, Default)]
struct Seen(Mutex<Vec<String>>);

impl Listener for Seen {
    fn on_event(&self, event: &Event<'_>) {
        let line = match event {
            Event::SlotGivenUp { slot, .. } => format!("given up {slot}"),
            Event::Skipped { skip, .. } => format!("{:?}", skip.reason),
            _ => return,
        };
        self.0.lock().unwrap().push(line);
    }
}

#[tokio::test]
async fn a_slot_that_is_given_up_is_seen_by_its_last_runner_and_by_all_who_come_later() {
    let bench = bench();
    let seen = Arc::new(Seen::default());
    let executor = bench.executor.clone().listener(seen.clone());
    let config = not_lost(&bench, 1);
    let failing = async { Err::<(), _>("no mail server") };
    let _ = executor.try_execute(&config, failing).await.unwrap();
    let given_up = format!("given up {}", slot(&bench));
    assert_eq!(*seen.0.lock().unwrap(), std::slice::from_ref(&given_up));
    assert!(
        !bench
            .executor
            .execute(&config, async {})
            .await
            .unwrap()
            .is_executed()
    );
    // The executor does not wait for it.
    let config = config.lock_wait("1h");
    assert_eq!(reason(&executor, &config).await, SkipReason::SlotGivenUp);
    let expected = [given_up.clone(), given_up, "SlotGivenUp".to_owned()];
    assert_eq!(*seen.0.lock().unwrap(), expected);
    assert_eq!(record(&bench).await.slot_attempts, Some(1));
}

#[tokio::test]
async fn a_last_slot_ahead_of_the_clock_is_not_taken_for_another_replicas_run() {
    let bench = bench();
    let far = Slot::at(bench.clock.system_time() + Duration::from_secs(86_400)).unwrap();
    let poison = plain(&bench).slot(far).slot_tolerance(secs(2 * 86_400));
    let outcome = bench.executor.execute(&poison, async {}).await.unwrap();
    assert!(outcome.is_executed());
    assert_eq!(
        reason(&bench.executor, &plain(&bench)).await,
        SkipReason::LastSlotAhead
    );
    // A slot within the tolerance may belong to a replica whose clock is ahead.
    bench.clock.advance(Duration::from_secs(86_400 - 30));
    assert_eq!(
        reason(&bench.executor, &plain(&bench)).await,
        SkipReason::SlotTaken
    );
}
