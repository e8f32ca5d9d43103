//! What no schedule, jitter, clock or store can make endless, and what a catch-up cannot starve.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Log, Node, World, alone, block_on, every, lock, millis, seconds, secs, settle};
use shedlock_core::{Clock, Completion, LockName, Retries};
use shedlock_scheduler::{Handle, Job, JobRun};

fn must_not_be_lost() -> shedlock_core::LockConfig {
    lock("1m").slot_completion(Completion::OnSuccess(Retries::new()))
}

type Slots = Arc<Mutex<Vec<Option<i64>>>>;

/// A job with a slot each second, each of whose runs takes this long.
fn each_second(node: &Node, runs: &Slots, run_time: Duration) -> Job {
    let (clock, runs) = (node.clock.clone(), runs.clone());
    Job::new(must_not_be_lost(), every(1), move |run: JobRun| {
        let (clock, runs) = (clock.clone(), runs.clone());
        async move {
            runs.lock().unwrap().push(run.slot().map(seconds));
            clock.sleep(run_time).await;
            Ok::<_, std::io::Error>(())
        }
    })
}

/// A node that has a minute of slots to make up for, and has begun with it.
async fn catching_up(run_time: Duration) -> (World, Log, Slots, Handle) {
    let (world, log, node) = alone();
    let runs = Slots::default();
    let handle = node.start([each_second(&node, &runs, millis(1))]);
    world.run_until(millis(1_500)).await;
    drop(handle.shutdown(secs(1)).await.unwrap());
    world.run_until(millis(61_500)).await;
    runs.lock().unwrap().clear();
    let later = Node::new(&world, 1, &log);
    let handle = later.start([each_second(&later, &runs, run_time)]);
    world.run_until(millis(62_400)).await;
    assert!(!runs.lock().unwrap().is_empty());
    (world, log, runs, handle)
}

#[test]
fn a_catch_up_stops_at_a_pause() {
    block_on(async {
        let (world, log, runs, handle) = catching_up(millis(100)).await;
        let before = runs.lock().unwrap().len();
        handle.pause("job").await.unwrap();
        world.run_until(secs(66)).await;
        let after = runs.lock().unwrap().len();
        assert_eq!(after, before, "runs that began after the pause");
        let ticks = log.ticks();
        let paused = |tick: &&(Option<i64>, String)| tick.1 == "missed: the job was paused";
        assert!(ticks.iter().any(|tick| paused(&tick)), "{ticks:?}");
        // Nothing is left out when it goes on.
        handle.resume("job").await.unwrap();
        world.run_until(secs(80)).await;
        let slots = runs.lock().unwrap().clone();
        assert_eq!(slots[..78], (2..80).map(Some).collect::<Vec<_>>());
    });
}

#[test]
fn a_catch_up_stops_at_a_shutdown() {
    block_on(async {
        let (world, log, runs, handle) = catching_up(millis(100)).await;
        let before = runs.lock().unwrap().len();
        let stopping = tokio::spawn(async move { handle.shutdown(secs(5)).await });
        world.run_until(secs(70)).await;
        let report = stopping.await.unwrap().unwrap();
        let after = runs.lock().unwrap().len();
        assert_eq!(after, before, "runs that began after the shutdown");
        assert!(report.cut.is_empty(), "{report:?}");
        let ticks = log.ticks();
        let told = "missed: the scheduler was shutting down";
        assert!(ticks.iter().any(|tick| tick.1 == told), "{ticks:?}");
    });
}

#[test]
fn a_catch_up_without_a_pause_for_breath_lets_its_shutdown_through() {
    block_on(async {
        // Its runs take no time at all, and its store answers at once.
        let (world, log, node) = alone();
        let runs = Slots::default();
        let handle = node.start([each_second(&node, &runs, Duration::ZERO)]);
        world.run_until(millis(1_500)).await;
        drop(handle.shutdown(secs(1)).await.unwrap());
        world.run_until(secs(20_000)).await;
        runs.lock().unwrap().clear();
        let later = Node::new(&world, 1, &log);
        let handle = later.start([each_second(&later, &runs, Duration::ZERO)]);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        drop(handle.shutdown(secs(1)).await.unwrap());
        let made_up = runs.lock().unwrap().len();
        assert!((1..1_000).contains(&made_up), "{made_up}");
    });
}

#[test]
fn a_run_that_is_asked_for_does_not_wait_for_a_catch_up() {
    block_on(async {
        let (world, _, runs, handle) = catching_up(millis(500)).await;
        let before = runs.lock().unwrap().len();
        handle.run_now("job").await.unwrap();
        world.run_for(millis(600)).await;
        let first = runs.lock().unwrap()[before..].to_vec();
        assert_eq!(first[0], None, "{first:?}");
        world.run_until(secs(150)).await;
        let mut slots = runs.lock().unwrap().clone();
        slots.retain(Option::is_some);
        assert_eq!(slots[..120], (2..122).map(Some).collect::<Vec<_>>());
    });
}

#[test]
fn slots_that_a_run_of_shedlock_covered_cost_no_attempt_each() {
    block_on(async {
        let (world, log, node) = alone();
        let runs = Slots::default();
        let handle = node.start([each_second(&node, &runs, millis(1))]);
        world.run_until(millis(1_500)).await;
        drop(handle.shutdown(secs(1)).await.unwrap());
        world.run_until(millis(20_000_500)).await;
        let name = LockName::new("job").unwrap();
        let now = node.clock.system_time();
        let store = &world.store;
        store.write_as_shedlock(&name, "java-host", now, now + millis(10));
        world.run_for(secs(5)).await;
        runs.lock().unwrap().clear();
        let later = Node::new(&world, 1, &log);
        let _handle = later.start([each_second(&later, &runs, millis(1))]);
        world.run_for(secs(3)).await;
        let slots = runs.lock().unwrap().clone();
        assert_eq!(slots, (20_001..20_009).map(Some).collect::<Vec<_>>());
        let attempts = later.store.attempts.load(Ordering::Relaxed);
        assert!(
            attempts < 20,
            "{attempts} attempts for {} runs",
            slots.len()
        );
        settle().await;
    });
}
