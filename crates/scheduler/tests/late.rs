//! Ticks that cannot start on time, on a simulated clock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{Fault, Log, Node, World, alone, block_on, cron, every, lock, millis, secs};
use shedlock_core::{
    AttemptRequest, Clock, LockConfig, LockName, LockProvider, Owner, Slot, current_lock,
};
use shedlock_scheduler::{Job, LatePolicy};

/// Takes a slot as another replica would.
async fn take_slot(node: &Node, since_midnight: i64) {
    let instant = i64::try_from(common::MIDNIGHT).unwrap() + since_midnight;
    let slot = Slot::from_micros(instant * 1_000_000).unwrap();
    let name = LockName::new("job").unwrap();
    let request = AttemptRequest::new(name, Owner::generate(), millis(1)).with_slot(slot);
    let attempt = node.world.store.attempt(&request).await.unwrap();
    assert!(attempt.acquired().is_some());
}

#[test]
fn a_tick_that_finds_an_older_slot_running_elsewhere_is_tried_again() {
    block_on(async {
        let (world, log, first) = alone();
        let second = Node::new(&world, 1, &log);
        first.start([first.job(lock("10m"), cron("0 0 * * *"), secs(65))]);
        world.run_until(secs(1)).await;
        let running = second.start([second.job(lock("10m"), every(60), secs(1))]);
        world.run_until(secs(70)).await;
        assert_eq!(log.slots(), [0, 60]);
        let started = log.starts()[1];
        assert!((secs(65)..secs(69)).contains(&started), "{started:?}");
        // Bounded: the longest pause is a twentieth of the period.
        let attempts = second.store.attempts.load(Ordering::Relaxed);
        assert!((3..20).contains(&attempts), "{attempts} attempts");
        running.shutdown(secs(0)).await.unwrap();
    });
}

#[test]
fn a_tick_is_given_up_when_its_late_limit_is_over() {
    block_on(async {
        let (world, log, first) = alone();
        let second = Node::new(&world, 1, &log);
        first.start([first.job(lock("10m"), cron("0 0 * * *"), secs(65))]);
        world.run_until(secs(1)).await;
        let job = second.job(lock("10m"), every(60), secs(1));
        second.start([job.late(LatePolicy::Within(secs(3)))]);
        world.run_until(secs(75)).await;
        assert_eq!(log.slots(), [0]);
        let ticks = log.ticks();
        let (_, end) = ticks.iter().find(|(slot, _)| *slot == Some(60)).unwrap();
        assert!(end.starts_with("skipped: held by"), "{end}");
    });
}

/// A job every minute that finds out after this long that it cannot run here.
fn job_that_gives_its_slot_back(node: &Node, after: Duration) -> Job {
    let clock = node.clock.clone();
    Job::new(lock("10m"), every(60), move |_| {
        let clock = clock.clone();
        async move {
            clock.sleep(after).await;
            current_lock().unwrap().give_slot_back();
            Ok::<_, String>(())
        }
    })
}

#[test]
fn a_slot_that_is_given_back_is_not_left_to_the_next_start() {
    block_on(async {
        let (world, log, first) = alone();
        let second = Node::new(&world, 1, &log);
        let _first = first.start([job_that_gives_its_slot_back(&first, secs(2))]);
        world.run_until(secs(0)).await;
        let _second = second.start([second.job(lock("10m"), every(60), secs(1))]);
        world.run_until(secs(59)).await;
        assert_eq!(log.slots(), [0]);
        assert_eq!(log.starts(), [secs(3)], "a twentieth of the period later");
    });
}

#[test]
fn a_slot_that_is_given_back_runs_within_its_late_limit_or_not_at_all() {
    block_on(async {
        for (given_back, slots) in [(millis(500), vec![0]), (millis(1500), vec![])] {
            let (world, log, first) = alone();
            let second = Node::new(&world, 1, &log);
            let _first = first.start([job_that_gives_its_slot_back(&first, given_back)]);
            world.run_until(secs(0)).await;
            let job = second.job(lock("10m"), every(60), secs(1));
            let _second = second.start([job.late(LatePolicy::Within(secs(2)))]);
            world.run_until(secs(59)).await;
            assert_eq!(log.slots(), slots, "given back after {given_back:?}");
        }
    });
}

/// Counts the attempts of a second replica at one slot that the first one runs for this long. Also
/// returns what the second one reports.
async fn attempts_beside(run_time: Duration, policy: LatePolicy) -> (u64, String) {
    let (world, log, first) = alone();
    let second_log = Log::default();
    let second = Node::new(&world, 1, &second_log);
    second.clock.set_timer_lateness(|_| millis(100));
    let _first = first.start([first.job(lock("10m"), every(60), run_time)]);
    let job = second.job(lock("10m"), every(60), secs(1)).late(policy);
    let _second = second.start([job]);
    world.run_until(secs(59)).await;
    assert_eq!(log.slots(), [0]);
    let attempts = second.store.attempts.load(Ordering::Relaxed);
    let mut ticks = second_log.ticks();
    assert_eq!(ticks.len(), 1, "{ticks:?}");
    (attempts, ticks.remove(0).1)
}

#[test]
fn a_slot_that_another_replica_runs_is_not_asked_for_again_and_again() {
    block_on(async {
        let taken = "taken by another replica".to_owned();
        let once = LatePolicy::Once;
        assert_eq!(attempts_beside(secs(50), once).await, (2, taken.clone()));
        // If the slot has run, there is no reason for another attempt.
        assert_eq!(attempts_beside(millis(1), once).await, (1, taken));
    });
}

#[test]
fn a_slot_that_another_replica_runs_delays_no_shutdown_and_no_run_that_is_asked_for() {
    block_on(async {
        let (world, log, first) = alone();
        let second = Node::new(&world, 1, &log);
        let _first = first.start([job_that_gives_its_slot_back(&first, millis(500))]);
        world.run_until(secs(0)).await;
        let handle = second.start([second.job(lock("10m"), every(60), millis(500))]);
        world.run_until(secs(1)).await;
        handle.run_now("job").await.unwrap();
        world.run_until(secs(2)).await;
        assert_eq!(log.starts(), [secs(1)]);
        world.run_until(secs(61)).await;
        let down = async { handle.shutdown(secs(10)).await.unwrap() };
        let (_, ()) = tokio::join!(down, world.run_until(secs(62)));
        assert!(
            log.ticks()
                .contains(&(Some(60), "taken by another replica".to_owned()))
        );
    });
}

/// A replica took the slot of 50 s before midnight. Then all replicas were down until 25 s after
/// midnight.
async fn restarted_after_an_outage(policy: LatePolicy) -> Log {
    let world = World::before_midnight(secs(50));
    let log = Log::default();
    let node = Node::new(&world, 0, &log);
    take_slot(&node, -50).await;
    world.run_until(secs(25)).await;
    node.start([node.job(lock("10m"), every(20), secs(1)).late(policy)]);
    world.run_until(secs(39)).await;
    log
}

#[test]
fn what_was_missed_while_all_were_down_runs_once_by_its_policy() {
    block_on(async {
        let log = restarted_after_an_outage(LatePolicy::Once).await;
        assert_eq!((log.slots(), log.starts()), (vec![20], vec![secs(25)]));
        let log = restarted_after_an_outage(LatePolicy::Within(secs(6))).await;
        assert_eq!(log.slots(), [20]);
        let log = restarted_after_an_outage(LatePolicy::Within(secs(4))).await;
        assert!(log.slots().is_empty());
    });
}

#[test]
fn late_ticks_are_skipped_where_they_are_not_wanted() {
    block_on(async {
        for (asleep, expected) in [(9, vec![0, 60]), (11, vec![60])] {
            let (world, log, node) = alone();
            let at_midnight = move |at| match at == common::DAY {
                true => secs(asleep),
                false => secs(0),
            };
            node.clock.set_timer_lateness(at_midnight);
            node.start([node
                .job(lock("10m"), every(60), secs(1))
                .late(LatePolicy::Skip)]);
            world.run_until(secs(70)).await;
            assert_eq!(log.slots(), expected, "{asleep} s asleep");
        }
    });
}

#[test]
fn a_job_that_never_ran_has_missed_nothing() {
    block_on(async {
        let (world, log, node) = alone();
        world.run_until(secs(25)).await;
        node.start([node.job(lock("10m"), every(20), secs(1))]);
        world.run_until(secs(39)).await;
        assert!(log.slots().is_empty());
    });
}

#[test]
fn what_was_missed_is_found_once_the_store_answers() {
    block_on(async {
        let world = World::before_midnight(secs(50));
        let log = Log::default();
        let mut failures = 3;
        let node = Node::with_faults(&world, 0, &log, move || {
            failures -= 1;
            if failures >= 0 {
                Fault::Unavailable
            } else {
                Fault::None
            }
        });
        take_slot(&node, -50).await;
        world.run_until(secs(25)).await;
        node.start([node.job(lock("10m"), every(20), secs(1))]);
        world.run_until(secs(39)).await;
        // After 1 s, 2 s and 4 s.
        assert_eq!((log.slots(), log.starts()), (vec![20], vec![secs(32)]));
    });
}

#[test]
fn a_store_that_is_away_is_asked_again() {
    block_on(async {
        let world = World::before_midnight(secs(5));
        let log = Log::default();
        let clock = world.clock(0);
        let node = Node::with_faults(&world, 0, &log, move || {
            let down = clock.now().since_origin() < common::DAY + secs(7);
            if down {
                Fault::Unavailable
            } else {
                Fault::None
            }
        });
        node.start([node.job(lock("10m"), every(60), secs(1))]);
        world.run_until(secs(59)).await;
        assert_eq!(log.slots(), [0]);
        assert!((secs(7)..secs(11)).contains(&log.starts()[0]));
    });
}

#[test]
fn what_was_missed_runs_after_a_run_that_was_asked_for() {
    block_on(async {
        let world = World::before_midnight(secs(50));
        let log = Log::default();
        let mut is_first = true;
        let node = Node::with_faults(&world, 0, &log, move || {
            let fault = if is_first {
                Fault::Unavailable
            } else {
                Fault::None
            };
            is_first = false;
            fault
        });
        take_slot(&node, -50).await;
        world.run_until(secs(25)).await;
        let handle = node.start([node.job(lock("10m"), every(20), secs(3))]);
        // The store's first reply arrives while this run is in progress.
        common::settle().await;
        handle.run_now("job").await.unwrap();
        world.run_until(secs(39)).await;
        assert_eq!(log.starts(), [secs(25), secs(28)]);
        assert_eq!(log.slots(), [20]);
    });
}

#[test]
fn records_that_cannot_be_read_keep_no_other_job_from_its_missed_slot() {
    block_on(async {
        let (world, log, node) = alone();
        take_slot(&node, -3_600).await;
        world.run_until(secs(25)).await;
        let unreadable = (0..40).map(|number| {
            let name = format!("unreadable-{number}");
            let lock = LockConfig::new(name).lock_at_most_for("10m");
            node.job(lock, every(3_600), secs(1))
        });
        let job = node.job(lock("10m"), every(3_600), secs(1));
        let handle = node.start(unreadable.chain([job]));
        world.run_until(secs(35)).await;
        assert_eq!(log.slots(), [0]);
        // The queries are repeated, but not without a pause.
        let before = node.clock.sleeps();
        world.run_until(secs(1_000)).await;
        let sleeps = node.clock.sleeps() - before;
        assert!(sleeps < 10_000, "{sleeps}");
        drop(handle.shutdown(secs(1)).await.unwrap());
    });
}
