//! Jobs that block, and jobs whose schedule could not be parsed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::sync::mpsc as blocking_channel;
use std::sync::{Arc, Mutex};

use common::{Node, alone, block_on, every, lock, seconds, secs, settle};
use shedlock_core::{
    ErrorKind, Executor, LockConfig, LockName, LockProvider, LockState, blocking, current_lock,
};
use shedlock_scheduler::{Job, Schedule};
use tokio::sync::mpsc;

#[test]
fn a_blocking_job_runs_under_its_lock_and_its_schedulers_executor() {
    block_on(async {
        let (world, log, node) = alone();
        let (done, mut runs) = mpsc::unbounded_channel();
        let job = Job::blocking(lock("10m"), every(60), move |run| {
            let held = current_lock().unwrap();
            assert_eq!(held.slot(), run.slot());
            let inner = LockConfig::new("inner").lock_at_most_for("1m");
            let executor = blocking::Executor::from_async(Executor::current().unwrap());
            let inner = executor.execute(&inner, || current_lock().unwrap());
            let inner = inner.unwrap().value().unwrap();
            done.send((held.name().to_string(), inner.name().to_string()))
                .unwrap();
            Err("no paper")
        });
        let handle = node.start([job]);
        world.run_until(secs(1)).await;
        let names = runs.recv().await.unwrap();
        assert_eq!(names, ("job".to_owned(), "inner".to_owned()));
        let report = handle.shutdown(secs(100)).await.unwrap();
        assert!(report.cut.is_empty());
        assert_eq!(log.ticks(), [(Some(0), "failed: no paper".to_owned())]);
    });
}

#[test]
fn a_job_that_is_a_future_runs_under_its_schedulers_executor() {
    block_on(async {
        let (world, log, node) = alone();
        let job = Job::new(lock("10m"), every(60), |_run| async {
            let inner = LockConfig::new("inner").lock_at_most_for("1m");
            let outcome = Executor::current()?.execute(&inner, async {}).await?;
            assert!(outcome.is_executed());
            Ok::<_, shedlock_core::Error>(())
        });
        node.start([job]);
        world.run_until(secs(1)).await;
        assert_eq!(log.ticks(), [(Some(0), "ran".to_owned())]);
    });
}

#[test]
fn a_shutdown_leaves_a_blocking_run_its_lock() {
    block_on(async {
        let (world, _log, node) = alone();
        let (started, mut runs) = mpsc::unbounded_channel();
        let (go_on, wait) = blocking_channel::channel();
        let wait = Mutex::new(wait);
        let job = Job::blocking(lock("10m"), every(60), move |_run| {
            started.send(()).unwrap();
            wait.lock().unwrap().recv()
        });
        let handle = node.start([job]);
        world.run_until(secs(1)).await;
        runs.recv().await.unwrap();

        let report = handle.shutdown(secs(0)).await.unwrap();
        assert_eq!(report.cut.len(), 1);
        assert!(!report.cut[0].unlocked);
        let name = LockName::new("job").unwrap();
        let state = async || world.store.inspect(&name).await.unwrap().unwrap().state;
        assert!(matches!(state().await, LockState::Held));

        go_on.send(()).unwrap();
        while state().await != LockState::Free {
            settle().await;
        }
    });
}

#[test]
fn a_schedule_that_cannot_be_read_is_refused_at_the_start() {
    block_on(async {
        let (_world, _log, node) = alone();
        let job = Job::new(
            lock("10m"),
            Schedule::cron_in("0 2 * * *", "Europe/Atlantis"),
            |_run| async { Ok::<_, String>(()) },
        );
        let error = node.scheduler([job]).start().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(
            error.to_string(),
            "lock \"job\": unknown time zone \"Europe/Atlantis\"; use a name from the IANA \
             database, like \"Europe/Berlin\" or \"UTC\""
        );
    });
}

#[test]
fn a_panic_of_a_blocking_job_gives_its_lock_back() {
    block_on(async {
        let (world, log, node) = alone();
        let ended = Arc::new(tokio::sync::Semaphore::new(0));
        let told = ended.clone();
        let job = Job::blocking(lock("10m"), every(60), move |_run| -> Result<(), String> {
            told.add_permits(1);
            panic!("on purpose");
        });
        let handle = node.start([job]);
        world.run_until(secs(1)).await;
        drop(ended.acquire().await.unwrap());
        handle.shutdown(secs(100)).await.unwrap();
        assert_eq!(log.ticks(), [(Some(0), "panicked".to_owned())]);
        let name = LockName::new("job").unwrap();
        let record = world.store.inspect(&name).await.unwrap().unwrap();
        assert_eq!(record.state, LockState::Free);
    });
}

#[test]
fn a_blocking_job_acquires_no_lock_before_it_has_a_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let (world, log, node) = alone();
        let (done, mut runs) = mpsc::unbounded_channel();
        let job = Job::blocking(lock("10m"), every(60), move |run| done.send(run.slot()));
        let handle = node.start([job]);
        let (go_on, wait) = blocking_channel::channel::<()>();
        let occupied = tokio::task::spawn_blocking(move || wait.recv().is_ok());
        world.run_until(secs(1)).await;
        let name = LockName::new("job").unwrap();
        let record = world.store.inspect(&name).await.unwrap();
        assert!(record.is_none(), "{record:?}");
        // Another replica, which has a free thread, runs the slot in the meantime.
        let other = Node::new(&world, 1, &log);
        let _other = other.start([other.job(lock("10m"), every(60), secs(1)).run_at_start()]);
        world.run_until(secs(30)).await;
        assert_eq!(log.slots(), [0]);
        go_on.send(()).unwrap();
        assert!(occupied.await.unwrap());
        world.run_until(secs(61)).await;
        drop(handle.shutdown(secs(100)).await.unwrap());
        assert_ne!(runs.recv().await.flatten().map(seconds), Some(0));
    });
}
