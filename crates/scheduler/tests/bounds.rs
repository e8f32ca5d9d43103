//! No schedule, jitter, clock or store causes an endless loop, and no catch-up starves other work.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Log, Node, World, alone, block_on, every, lock, millis, seconds, secs, settle};
use proptest::prelude::*;
use shedlock_core::{
    Attempt, AttemptRequest, Clock, Completion, Error, ErrorKind, LockName, Retries, Skip,
    SkipReason, Slot,
};
use shedlock_scheduler::{Handle, Job, JobRun, Schedule};

fn must_not_be_lost() -> shedlock_core::LockConfig {
    lock("1m").completion(Completion::OnSuccess(Retries::new()))
}

type Slots = Arc<Mutex<Vec<Option<i64>>>>;

/// A job with a slot every second. Each of its runs takes this long.
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

/// A node that has a minute of slots to make up for, and has begun to do so.
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
        // No slot is left out when it continues.
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
fn a_run_that_is_cut_amid_a_catch_up_is_not_reported_as_another_slots() {
    block_on(async {
        let (world, log, runs, handle) = catching_up(secs(5)).await;
        let cut = runs.lock().unwrap()[0];
        let stopping = tokio::spawn(async move { handle.shutdown(secs(1)).await });
        world.run_for(secs(2)).await;
        let report = stopping.await.unwrap().unwrap();
        let slots: Vec<_> = report.cut.iter().map(|run| run.slot.map(seconds)).collect();
        assert_eq!(slots, [cut]);
        let ticks = log.ticks();
        let of_cut: Vec<_> = ticks.iter().filter(|tick| tick.0 == cut).collect();
        let told = "stopped by the shutdown; its lock was released";
        assert!(matches!(of_cut[..], [one] if one.1 == told), "{ticks:?}");
        let told = "missed: the scheduler was shutting down";
        assert!(ticks.iter().any(|tick| tick.1 == told), "{ticks:?}");
    });
}

#[test]
fn a_catch_up_without_a_pause_for_breath_lets_its_shutdown_through() {
    block_on(async {
        // Its runs take no time, and its store replies at once.
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

/// Draws a result that a store can return, whether correct or not.
fn contrary(state: &mut u64, request: &AttemptRequest) -> Result<Attempt, Error> {
    let mut draw = |below: u64| {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (*state >> 33) % below
    };
    let slot = request.slot.unwrap();
    let by = i64::try_from(draw(5) * 1_000_000).unwrap();
    let other = Slot::from_micros(slot.as_micros() + by - 2_000_000).unwrap();
    let reason = match draw(8) {
        0 => return Err(Error::new(ErrorKind::Unavailable, "away")),
        1 => return Err(Error::new(ErrorKind::SlotAhead, "ahead")),
        2 => SkipReason::Held,
        3 => SkipReason::Contended,
        4 => SkipReason::BackingOff,
        5 => SkipReason::SlotTaken,
        _ => SkipReason::SlotPending,
    };
    let skip = match draw(3) {
        0 => Skip::new(reason),
        _ => Skip::new(reason).with_last_slot(other),
    };
    let until = slot.instant() + millis(draw(3_000));
    Ok(Attempt::Skipped(match draw(2) {
        0 => skip,
        _ => skip.with_until(until),
    }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// `docs/decisions/0035-bounds-of-the-scheduler.md`: no more than a thousand per second, in
    /// addition to the first one for each slot.
    #[test]
    fn attempts_are_bounded_whatever_the_store_answers(
        period in prop_oneof![Just(1_u64), 2_u64..100, 100_u64..10_000],
        in_order in any::<bool>(),
        seed in any::<u64>(),
        only in prop_oneof![Just(None), (0_u8..2).prop_map(Some)],
    ) {
        const SECONDS: u64 = 3;
        block_on(async {
            let (world, _, mut node) = alone();
            let mut state = seed;
            node.store.answer_by(move |request| match only {
                None => contrary(&mut state, request),
                Some(0) => Ok(Attempt::Skipped(Skip::new(SkipReason::SlotTaken))),
                Some(_) => {
                    let last = Slot::from_micros(request.slot.unwrap().as_micros() - 1).unwrap();
                    let pending = Skip::new(SkipReason::SlotPending);
                    Ok(Attempt::Skipped(pending.with_last_slot(last)))
                }
            });
            let config = if in_order { must_not_be_lost() } else { lock("1m") };
            let schedule = Schedule::every(millis(period)).unwrap();
            let job = Job::new(config, schedule, |_| async { Ok::<_, String>(()) });
            let handle = node.start([job]);
            world.run_for(secs(SECONDS)).await;
            drop(handle.shutdown(secs(1)).await.unwrap());
            let attempts = node.store.attempts.load(Ordering::Relaxed);
            let most = SECONDS * (1_000 + 1_000 / period) + 10;
            assert!(attempts <= most, "{attempts} attempts, and {most} at most");
        });
    }
}
