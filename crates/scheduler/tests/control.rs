//! The operations of a handle, and the errors at the start.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use common::{Fault, Log, Node, World, alone, block_on, cron, every, lock, secs, settle};
use shedlock_core::{Clock, Completion, Error, ErrorKind, LockConfig, LockName, LockProvider};
use shedlock_scheduler::{Handle, Job, Schedule, Scheduler};

#[test]
fn a_paused_job_rests_and_what_passed_is_not_made_up() {
    block_on(async {
        let (world, log, node) = alone();
        let handle = node.start([node.job(lock("10m"), every(60), secs(1))]);
        settle().await;
        handle.pause("job").await.unwrap();
        let paused = handle.jobs().await.unwrap();
        assert!(paused[0].paused && paused[0].next.is_none());
        world.run_until(secs(70)).await;
        handle.resume("job").await.unwrap();
        world.run_until(secs(119)).await;
        assert!(log.slots().is_empty());
        let next = handle.jobs().await.unwrap().remove(0).next.unwrap();
        assert_eq!(next, node.clock.system_time() + secs(1));
        world.run_until(secs(121)).await;
        assert_eq!(log.slots(), [120]);
        let unknown = handle.pause("other").await.unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "lock \"other\": this scheduler has no such job"
        );
    });
}

#[test]
fn a_run_that_is_asked_for_belongs_to_no_slot() {
    block_on(async {
        let (world, log, node) = alone();
        let handle = node.start([node.job(lock("10m"), every(60), secs(5))]);
        world.run_until(secs(10)).await;
        handle.run_now("job").await.unwrap();
        // Another one, requested while it runs, comes after it.
        handle.run_now("job").await.unwrap();
        handle.run_now("job").await.unwrap();
        world.run_until(secs(70)).await;
        assert_eq!(log.starts(), [secs(0), secs(10), secs(15), secs(60)]);
        assert_eq!(log.slots(), [0, 60]);
    });
}

#[test]
fn a_shutdown_gives_up_what_waits_and_a_second_one_draws_it_nearer() {
    block_on(async {
        let (world, log, first) = alone();
        let second = Node::new(&world, 1, &log);
        let running = first.start([first.job(lock("10m"), cron("0 0 * * *"), secs(500))]);
        world.run_until(secs(1)).await;
        // A job that is configured to wait for its lock gives up as well.
        let patient = lock("10m").lock_wait("1h");
        let waiting = second.start([second.job(patient, every(10), secs(1))]);
        world.run_until(secs(12)).await;
        let report = waiting.shutdown(secs(100)).await.unwrap();
        assert!(report.finished.is_empty() && report.cut.is_empty());
        let given_up = "missed: the scheduler was shutting down".to_owned();
        assert!(log.ticks().contains(&(Some(10), given_up)));
        // Later calls return the same report and nothing else.
        assert_eq!(waiting.shutdown(secs(0)).await.unwrap(), report);
        let over = waiting.jobs().await.unwrap_err();
        assert_eq!(over.kind(), ErrorKind::WrongContext);

        let patient = running.clone();
        let patient = tokio::spawn(async move { patient.shutdown(secs(400)).await });
        world.run_until(secs(20)).await;
        assert!(running.pause("job").await.is_err());
        let report = running.shutdown(secs(0)).await.unwrap();
        assert_eq!(report.cut.len(), 1);
        assert_eq!(patient.await.unwrap().unwrap(), report);
        let name = LockName::new("job").unwrap();
        let record = world.store.inspect(&name).await.unwrap().unwrap();
        assert_eq!(record.state, shedlock_core::LockState::Free);
    });
}

/// It would wait for itself until the grace period is over.
#[test]
fn a_shutdown_inside_a_job_begins_and_is_not_awaited() {
    for blocks in [false, true] {
        block_on(async {
            let (_world, _log, node) = alone();
            let given: Arc<OnceLock<Handle>> = Arc::default();
            let said = Arc::new(OnceLock::new());
            let (inside, heard) = (given.clone(), said.clone());
            let stop = async move {
                let handle = inside.get().unwrap();
                let _ = heard.set(handle.shutdown(Duration::MAX).await);
            };
            let job = if blocks {
                let runtime = tokio::runtime::Handle::current();
                let stop = Mutex::new(Some(stop));
                Job::blocking(lock("10m"), every(60), move |_| {
                    let stop = stop.lock().unwrap().take().unwrap();
                    runtime.block_on(stop);
                    Ok::<_, Error>(())
                })
            } else {
                let stop = Mutex::new(Some(stop));
                Job::new(lock("10m"), every(60), move |_| {
                    let stop = stop.lock().unwrap().take().unwrap();
                    async move {
                        stop.await;
                        Ok::<_, Error>(())
                    }
                })
            };
            let handle = node.start([job]);
            given.set(handle.clone()).unwrap();
            handle.run_now("job").await.unwrap();
            while said.get().is_none() {
                settle().await;
            }
            let error = said.get().unwrap().as_ref().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WrongContext);
            // It has begun, and the job that called it has ended by itself.
            let report = handle.shutdown(Duration::MAX).await.unwrap();
            assert!(report.cut.is_empty(), "{report:?}");
            assert_eq!(report.finished.len(), 1);
        });
    }
}

#[test]
fn a_shutdown_does_not_wait_for_ever_for_a_store() {
    block_on(async {
        let world = World::before_midnight(secs(5));
        let log = Log::default();
        let clock = world.clock(0);
        let node = Node::with_faults(&world, 0, &log, move || {
            let down = clock.now().since_origin() > common::DAY + secs(1);
            if down {
                Fault::Unavailable
            } else {
                Fault::None
            }
        });
        let handle = node.start([node.job(lock("10m"), every(60), secs(50))]);
        world.run_until(secs(2)).await;
        let stopping = tokio::spawn(async move { handle.shutdown(secs(5)).await.unwrap() });
        world.run_until(secs(18)).await;
        let report = stopping.await.unwrap();
        assert_eq!(report.cut.len(), 1);
        assert!(!report.cut[0].unlocked);
    });
}

#[test]
fn a_job_that_must_not_be_lost_goes_on_at_once_when_it_is_resumed() {
    block_on(async {
        let world = World::before_midnight(secs(605));
        let log = Log::default();
        let clock = world.clock(0);
        let node = Node::with_faults(&world, 0, &log, move || {
            let outage = common::DAY..common::DAY + secs(10);
            if outage.contains(&clock.now().since_origin()) {
                Fault::Unavailable
            } else {
                Fault::None
            }
        });
        let kept = lock("10m").completion(Completion::on_success());
        let handle = node.start([node.job(kept, every(600), secs(1))]);
        world.run_until(secs(5)).await;
        handle.pause("job").await.unwrap();
        world.run_until(secs(60)).await;
        assert_eq!(log.slots(), [-600]);
        handle.resume("job").await.unwrap();
        world.run_until(secs(65)).await;
        assert_eq!(log.slots(), [-600, 0]);
        assert_eq!(log.starts()[1], secs(60));
    });
}

#[test]
fn what_was_missed_is_not_forgotten_while_the_job_is_paused() {
    block_on(async {
        let (world, log, first) = alone();
        let kept = || lock("10m").completion(Completion::on_success());
        let handle = first.start([first.job(kept(), every(600), secs(1))]);
        world.run_until(secs(2)).await;
        handle.shutdown(secs(1)).await.unwrap();
        world.run_until(secs(1_205)).await;
        let later = Node::new(&world, 1, &log);
        let handle = later.start([later.job(kept(), every(600), secs(1))]);
        // Before the store has answered what was missed.
        handle.pause("job").await.unwrap();
        world.run_until(secs(1_210)).await;
        assert_eq!(log.slots(), [0]);
        handle.resume("job").await.unwrap();
        world.run_until(secs(1_220)).await;
        assert_eq!(log.slots(), [0, 600, 1200]);
    });
}

/// The second one arrives with the first, or while the lock is given back.
#[test]
fn a_second_shutdown_leaves_the_store_its_time_to_unlock() {
    block_on(async {
        for later in [secs(0), secs(1)] {
            let world = World::before_midnight(secs(5));
            let log = Log::default();
            let clock = world.clock(0);
            let node = Node::with_faults(&world, 0, &log, move || {
                let is_slow = clock.now().since_origin() > common::DAY + secs(1);
                if is_slow {
                    Fault::SlowReply
                } else {
                    Fault::None
                }
            });
            let handle = node.start([node.job(lock("10m"), every(60), secs(50))]);
            world.run_until(secs(2)).await;
            let shutdown = |handle: Handle| async move { handle.shutdown(Duration::ZERO).await };
            let first = tokio::spawn(shutdown(handle.clone()));
            world.run_for(later).await;
            let second = tokio::spawn(shutdown(handle));
            world.run_until(secs(10)).await;
            let report = first.await.unwrap().unwrap();
            assert_eq!(report.cut.len(), 1);
            assert!(report.cut[0].unlocked, "{later:?} later: {report:?}");
            assert_eq!(second.await.unwrap().unwrap(), report);
        }
    });
}

#[test]
fn jobs_that_cannot_run_are_refused_before_anything_starts() {
    let (_, _, node) = alone();
    let message = |jobs: Vec<Job>| {
        let _runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        node.scheduler(jobs).start().unwrap_err().to_string()
    };
    let job = || node.job(lock("10m"), every(60), secs(1));
    assert!(message(vec![job(), job()]).contains("two jobs have this name"));
    assert!(message(vec![job().jitter("60s")]).contains("reaches the next slot"));
    assert!(message(vec![job().initial_delay("soon")]).contains("cannot read \"soon\""));
    let unnamed = node.job(
        LockConfig::new("").lock_at_most_for("1m"),
        every(60),
        secs(1),
    );
    assert!(message(vec![unnamed]).contains("empty or blank"));
    let endless = node.job(LockConfig::new("job"), every(60), secs(1));
    assert!(message(vec![endless]).contains("lock_at_most_for is not set"));
    assert!(message(vec![job()]).contains("needs a tokio runtime"));
    let kept = lock("10m").completion(Completion::on_success());
    let without_slots = node.job(kept, Schedule::fixed_delay("1m").unwrap(), secs(1));
    assert!(message(vec![without_slots]).contains("no slots that can be lost"));
    let never = Scheduler::new(node.executor()).clock_check(secs(0));
    assert!(never.start().is_err());
    assert!(Schedule::fixed_delay("0s").is_err());
    assert!(Schedule::every("0s").is_err());
}

#[test]
fn a_pause_during_the_initial_delay_does_not_forget_it() {
    block_on(async {
        let (world, log, node) = alone();
        let name = |name: &str| LockConfig::new(name).lock_at_most_for("10m");
        let slots = node.job(name("slots"), every(10), secs(1));
        let delay = Schedule::fixed_delay("1h").unwrap();
        let delay = node.job(name("delay"), delay, secs(1));
        let long = node.job(name("long"), every(10), secs(1));
        let jobs = [slots.initial_delay("1m"), delay.initial_delay("1m")];
        let long = long.initial_delay("10m").run_at_start();
        let handle = node.start(jobs.into_iter().chain([long]));
        settle().await;
        for job in ["slots", "delay", "long"] {
            handle.pause(job).await.unwrap();
        }
        world.run_for(secs(5)).await;
        handle.resume("slots").await.unwrap();
        world.run_for(secs(54)).await;
        // Not before its minute has passed.
        assert!(log.runs().is_empty(), "{:?}", log.runs());
        world.run_for(secs(12)).await;
        assert_eq!(log.slots(), [30, 40]);
        // A delay that ended while the job was paused has ended.
        handle.resume("delay").await.unwrap();
        handle.resume("long").await.unwrap();
        world.run_for(secs(1)).await;
        assert_eq!(log.runs().len(), 3);
        handle.pause("slots").await.unwrap();
        world.run_until(secs(569)).await;
        assert_eq!(log.runs().len(), 3);
        world.run_until(secs(571)).await;
        assert_eq!(log.slots(), [30, 40, 570]);
    });
}

#[test]
fn delays_below_a_millisecond_are_refused() {
    let refused = Schedule::fixed_delay(std::time::Duration::from_nanos(1));
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("shorter than 1ms")
    );
}

#[test]
fn a_runtime_without_timers_is_refused() {
    let provider = Arc::new(shedlock::MemoryProvider::new());
    let executor = shedlock_core::Executor::new(provider);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let scheduler = shedlock_scheduler::Scheduler::new(executor);
    let error = runtime.block_on(async { scheduler.start().unwrap_err() });
    assert_eq!(error.kind(), ErrorKind::WrongContext);
    assert!(error.to_string().contains("has no timers"), "{error}");
}
