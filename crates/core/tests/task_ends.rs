//! Every task that starts is reported to end exactly once, with its outcome.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fmt;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use common::{bench, secs};
use shedlock_core::{
    Attempt, Error, ErrorKind, Event, Executor, HeldLock, Listener, LockConfig, SlotEnd,
    UnlockRequest, blocking, current_lock,
};
use shedlock_provider::MemoryProvider;

/// What tasks did, as listeners learn of it.
#[derive(Debug, Default)]
struct Ends(Mutex<Vec<String>>);

impl Ends {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Listener for Ends {
    fn on_event(&self, event: &Event<'_>) {
        let text = match event {
            Event::TaskStarted { is_reentrant, .. } => format!("start {is_reentrant}"),
            Event::TaskFinished { end, .. } => end.to_string(),
            _ => return,
        };
        self.0.lock().unwrap().push(text);
    }
}

fn config() -> LockConfig {
    LockConfig::new("a").lock_at_most_for("10s")
}

fn executor(ends: &Arc<Ends>) -> Executor {
    Executor::new(Arc::new(MemoryProvider::new())).listener(ends.clone())
}

/// An error with a cause that its alternate form shows.
struct Deep;

impl fmt::Display for Deep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if f.alternate() {
            "no mail: no route"
        } else {
            "no mail"
        })
    }
}

/// An error that cannot be formatted.
#[derive(Debug, PartialEq)]
enum Broken {
    Fails,
    Panics,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fails => {
                f.write_str("at ")?;
                Err(fmt::Error)
            }
            Self::Panics => panic!("no text"),
        }
    }
}

const STARTED: &str = "start false";

#[tokio::test]
async fn a_future_reports_how_it_ended() {
    let ends = Arc::new(Ends::default());
    let executor = executor(&ends);
    let config = config();

    let _ = executor.execute(&config, async { 1 }).await.unwrap();
    assert_eq!(ends.take(), [STARTED, "succeeded"]);

    let failed = executor.try_execute(&config, async { Err::<(), _>(Deep) });
    assert!(failed.await.unwrap().transpose().is_err());
    assert_eq!(ends.take(), [STARTED, "failed: no mail: no route"]);

    let marked = executor.execute(&config, async { current_lock().unwrap().fail_slot() });
    assert!(marked.await.unwrap().is_executed());
    assert_eq!(
        ends.take(),
        [STARTED, "failed: the task marked its run as failed"]
    );

    let cut = executor.execute(&config, async { current_lock().unwrap().leave_slot_open() });
    assert!(cut.await.unwrap().is_executed());
    assert_eq!(ends.take(), [STARTED, "cancelled"]);

    let panicking = executor.clone();
    let task = tokio::spawn(async move {
        let task = async { panic!("out of {}", "paper") };
        panicking
            .execute::<_>(&self::config(), task)
            .await
            .map(|_: shedlock_core::Outcome<()>| ())
    });
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(ends.take(), [STARTED, "panicked: out of paper"]);

    tokio::select! {
        biased;
        ended = executor.execute(&config, pending::<()>()) => panic!("{ended:?}"),
        () = tokio::task::yield_now() => {}
    }
    assert_eq!(ends.take(), [STARTED, "cancelled"]);
}

#[tokio::test]
async fn an_error_that_cannot_be_formatted_is_returned_all_the_same() {
    let ends = Arc::new(Ends::default());
    let executor = executor(&ends);
    let config = config();
    let cases = [
        (Broken::Fails, "failed: at "),
        (Broken::Panics, "failed: an error that cannot be formatted"),
    ];
    for (error, end) in cases {
        let again = || match error {
            Broken::Fails => Err::<(), _>(Broken::Fails),
            Broken::Panics => Err(Broken::Panics),
        };
        let failed = again();
        let failed = executor.try_execute(&config, async { failed });
        assert_eq!(failed.await.unwrap().value(), Some(again()));
        assert_eq!(ends.take(), [STARTED, end]);

        let failed = again();
        let failed = executor.try_execute_blocking(&config, || failed);
        assert_eq!(failed.await.unwrap().value(), Some(again()));
        assert_eq!(ends.take(), [STARTED, end]);

        let inside = executor.try_execute(&config, async { again() });
        let outside = executor.execute(&config, inside).await.unwrap();
        assert_eq!(outside.value().unwrap().unwrap().value(), Some(again()));
        assert_eq!(ends.take(), [STARTED, "start true", end, "succeeded"]);

        let Attempt::Acquired(lock) = executor.lock(&config).await.unwrap() else {
            panic!("the lock is free")
        };
        lock.fail_with(again().unwrap_err()).await;
        ends.take();
    }
    let source = Error::new(ErrorKind::Internal, "it failed").with_source(Wrapped(Broken::Fails));
    assert_eq!(format!("{source:#}"), "it failed: at");
}

#[derive(Debug)]
struct Wrapped(Broken);

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Wrapped {}

#[tokio::test]
async fn a_lost_lease_is_the_end_even_if_the_task_returned() {
    let bench = bench();
    let ends = Arc::new(Ends::default());
    let executor = bench.executor.clone().listener(ends.clone());
    for value in [Ok(1), Err("failed too")] {
        let clock = bench.clock.clone();
        let late = async move {
            clock.advance(secs(60));
            value
        };
        assert!(
            executor
                .try_execute(&config(), late)
                .await
                .unwrap()
                .is_lost()
        );
        assert_eq!(ends.take(), [STARTED, "lost: lock_at_most_for has passed"]);
    }
}

#[tokio::test]
async fn a_blocking_task_reports_how_it_ended() {
    let ends = Arc::new(Ends::default());
    let executor = executor(&ends);
    let config = config();

    let _ = executor.execute_blocking(&config, || 1).await.unwrap();
    assert_eq!(ends.take(), [STARTED, "succeeded"]);
    let failed = executor.try_execute_blocking(&config, || Err::<(), _>(Deep));
    assert!(failed.await.unwrap().transpose().is_err());
    assert_eq!(ends.take(), [STARTED, "failed: no mail: no route"]);
    let panicking = executor.clone();
    let task = tokio::spawn(async move {
        let task = || std::panic::panic_any(7_u8);
        panicking
            .execute_blocking::<()>(&self::config(), task)
            .await
            .map(drop)
    });
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(ends.take(), [STARTED, "panicked: the panic has no text"]);
}

#[test]
fn a_task_without_a_runtime_reports_how_it_ended() {
    let ends = Arc::new(Ends::default());
    let executor = blocking::Executor::from_async(executor(&ends));
    let config = config();

    let _ = executor.execute(&config, || 1).unwrap();
    assert_eq!(ends.take(), [STARTED, "succeeded"]);
    let failed = executor
        .try_execute(&config, || Err::<(), _>("no mail"))
        .unwrap();
    assert!(failed.transpose().is_err());
    assert_eq!(ends.take(), [STARTED, "failed: no mail"]);
    let panicking = AssertUnwindSafe(|| executor.execute(&config, || panic!("out of paper")));
    assert!(catch_unwind(panicking).is_err());
    assert_eq!(ends.take(), [STARTED, "panicked: out of paper"]);
}

#[tokio::test]
async fn a_reentrant_task_reports_its_own_end() {
    let ends = Arc::new(Ends::default());
    let executor = executor(&ends);
    let (inner, config) = (executor.clone(), config());
    let outcome = executor.try_execute(&config, async {
        let failed = inner.try_execute(&config, async { Err::<(), _>("inner") });
        assert!(failed.await.unwrap().transpose().is_err());
        Ok::<_, String>(())
    });
    assert!(outcome.await.unwrap().is_executed());
    assert_eq!(
        ends.take(),
        [STARTED, "start true", "failed: inner", "succeeded"]
    );
}

async fn held(executor: &Executor) -> HeldLock {
    match executor.lock(&config()).await.unwrap() {
        Attempt::Acquired(lock) => lock,
        skipped => panic!("{skipped:?}"),
    }
}

#[tokio::test]
async fn a_lock_without_a_task_reports_how_it_was_given_back() {
    let ends = Arc::new(Ends::default());
    let executor = executor(&ends);

    held(&executor).await.unlock().await;
    assert_eq!(ends.take(), [STARTED, "succeeded"]);
    held(&executor).await.fail_with("exit code 3").await;
    assert_eq!(ends.take(), [STARTED, "failed: exit code 3"]);
    held(&executor).await.fail().await;
    assert_eq!(
        ends.take(),
        [STARTED, "failed: the task marked its run as failed"]
    );
    for end in [SlotEnd::Cut, SlotEnd::NotStarted] {
        let request = UnlockRequest::new().with_slot_end(end);
        held(&executor).await.unlock_with(&request).await;
        assert_eq!(ends.take(), [STARTED, "cancelled"]);
    }
    drop(held(&executor).await);
    assert_eq!(ends.take(), [STARTED, "cancelled"]);
    executor.settled().await;
    // The lock is given back in the background.
    let lock = loop {
        if let Attempt::Acquired(lock) = executor.lock(&config()).await.unwrap() {
            break lock;
        }
        tokio::task::yield_now().await;
    };
    lock.unlock().await;
}

#[tokio::test]
async fn every_listener_is_notified_even_if_another_one_panics() {
    #[derive(Debug)]
    struct Panics;
    impl Listener for Panics {
        fn on_event(&self, _: &Event<'_>) {
            panic!("a listener that panics");
        }
    }
    let first = Arc::new(Ends::default());
    let second = Arc::new(Ends::default());
    let executor = executor(&first)
        .listener(Arc::new(Panics))
        .listener(second.clone());
    assert!(
        executor
            .execute(&config(), async {})
            .await
            .unwrap()
            .is_executed()
    );
    assert_eq!(first.take(), [STARTED, "succeeded"]);
    assert_eq!(second.take(), [STARTED, "succeeded"]);
}

#[tokio::test]
async fn events_carry_the_job_of_a_computed_name() {
    #[derive(Debug, Default)]
    struct Jobs(Mutex<Vec<String>>);
    impl Listener for Jobs {
        fn on_event(&self, event: &Event<'_>) {
            let job = event.job().to_owned();
            self.0
                .lock()
                .unwrap()
                .push(format!("{job} {}", event.lock_name()));
        }
    }
    let jobs = Arc::new(Jobs::default());
    let executor = executor(&Arc::new(Ends::default())).listener(jobs.clone());
    let config = LockConfig::new("expire-acme")
        .job("expire-{tenant}")
        .lock_at_most_for("1m");
    let inner = (executor.clone(), config.clone());
    let outcome = executor.execute(&config, async move {
        let (executor, config) = inner;
        executor.execute(&config, async {}).await
    });
    assert!(outcome.await.unwrap().is_executed());
    let jobs = std::mem::take(&mut *jobs.0.lock().unwrap());
    assert_eq!(jobs.len(), 7, "{jobs:?}");
    assert!(
        jobs.iter().all(|job| job == "expire-{tenant} expire-acme"),
        "{jobs:?}"
    );
}
