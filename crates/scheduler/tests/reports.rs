//! Reports of users, with their exact times, on a simulated clock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{DAY, Log, Node, World, block_on, cron, lock, millis, secs};
use shedlock_core::LockConfig;
use shedlock_scheduler::Schedule;

/// Two replicas, and a job every ten minutes that takes 1.544 s, with `lock_at_least_for` 1.5 s and
/// `lock_at_most_for` 3 s. The first replica starts it at 00:00:00.129. The timer of the other one
/// is 2.55 s later, at 00:00:02.679.
fn slow_midnight(schedule: impl Fn() -> Schedule, until: u64) -> Log {
    block_on(async {
        let world = World::before_midnight(secs(60));
        let log = Log::default();
        for (number, late) in [(0, 129), (1, 2_679)] {
            let node = Node::new(&world, number, &log);
            node.clock
                .set_timer_lateness(move |at| if at == DAY { millis(late) } else { secs(0) });
            let config = lock("3s").lock_at_least_for("1.5s");
            node.start([node.job(config, schedule(), millis(1_544))]);
        }
        world.run_until(secs(until)).await;
        log
    })
}

#[test]
fn the_slow_midnight_with_slots_is_one_run() {
    let log = slow_midnight(|| cron("*/10 * * * *"), 300);
    assert_eq!(log.slots(), [0]);
    assert_eq!(log.starts(), [millis(129)]);
    assert!(
        log.ticks()
            .contains(&(Some(0), "taken by another replica".to_owned()))
    );
}

#[test]
fn the_slow_midnight_without_slots_is_two_runs() {
    // The old behaviour: each replica has a separate timer, and only the lock separates the runs.
    let log = slow_midnight(|| Schedule::fixed_delay("60s").unwrap(), 20);
    assert_eq!(log.starts(), [millis(129), millis(2_679)]);
}

#[test]
fn the_tick_after_a_late_start_is_not_swallowed() {
    block_on(async {
        let world = World::before_midnight(secs(60));
        let log = Log::default();
        let node = Node::new(&world, 0, &log);
        // Nine jobs run before it, so it starts at 00:01:34. `lock_at_least_for` lasts until
        // 00:10:34.
        let late = |at| if at == DAY { secs(94) } else { secs(0) };
        node.clock.set_timer_lateness(late);
        let config = lock("10m").lock_at_least_for("9m");
        node.start([node.job(config, cron("*/10 * * * *"), secs(30))]);
        world.run_until(secs(1_100)).await;
        assert_eq!(log.slots(), [0, 600]);
        assert_eq!(log.starts(), [secs(94), secs(634)]);
    });
}

#[test]
fn clocks_a_second_apart_are_one_run() {
    block_on(async {
        let world = World::before_midnight(secs(60));
        let log = Log::default();
        for (number, offset) in [(0, 0), (1, -1_000_000)] {
            let node = Node::new(&world, number, &log);
            node.clock.set_offset(offset);
            node.start([node.job(lock("10m"), cron("0 0 * * *"), millis(100))]);
        }
        world.run_until(secs(60)).await;
        assert_eq!(log.slots(), [0]);
        assert_eq!(log.starts(), [secs(0)]);
    });
}

/// Blue is asked to stop while its task runs. Green has already started.
fn blue_and_green(grace: u64) -> (Log, shedlock_scheduler::ShutdownReport) {
    block_on(async {
        let world = World::before_midnight(secs(30));
        let log = Log::default();
        let config = || LockConfig::new("job").lock_at_most_for("10m");
        let blue = Node::new(&world, 0, &log);
        let old = blue.start([blue.job(config(), cron("* * * * *"), secs(20))]);
        world.run_until(secs(5)).await;
        let green = Node::new(&world, 1, &log);
        green.start([green.job(config(), cron("* * * * *"), secs(20))]);

        let stopping = tokio::spawn(async move { old.shutdown(secs(grace)).await.unwrap() });
        world.run_until(secs(100)).await;
        (log, stopping.await.unwrap())
    })
}

#[test]
fn blue_finishes_and_green_runs_the_next_tick() {
    let (log, report) = blue_and_green(30);
    assert_eq!(report.finished.len(), 1);
    assert!(report.finished[0].unlocked);
    assert!(report.cut.is_empty());
    let nodes: Vec<_> = log
        .runs()
        .iter()
        .map(|run| (run.node, run.started))
        .collect();
    assert_eq!(nodes, [(0, secs(0)), (1, secs(60))]);
}

#[test]
fn blue_is_cut_where_the_grace_is_too_short_and_its_lock_is_free() {
    let (log, report) = blue_and_green(3);
    assert!(report.finished.is_empty());
    assert_eq!(report.cut.len(), 1);
    assert!(report.cut[0].unlocked);
    assert!(log.ticks().contains(&(
        Some(0),
        "stopped by the shutdown; its lock was released".to_owned()
    )));
    // The slot is used up, since it runs at most once. The next one is green's.
    let nodes: Vec<_> = log
        .runs()
        .iter()
        .map(|run| (run.node, run.started))
        .collect();
    assert_eq!(nodes, [(0, secs(0)), (1, secs(60))]);
}
