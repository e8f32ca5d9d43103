//! Calendars that are set while the scheduler runs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{Fault, Log, Node, World, alone, block_on, every, lock, secs};
use shedlock_scheduler::LatePolicy;

#[test]
fn a_calendar_that_is_set_back_neither_loses_nor_doubles() {
    block_on(async {
        let (world, log, node) = alone();
        // Half a minute ahead, which the store tolerates, so slots are taken early.
        node.clock.set_offset(30_000_000);
        node.start([node.job(lock("10m"), every(60), secs(1))]);
        world.run_until(secs(40)).await;
        assert_eq!(log.starts(), [secs(0), secs(30)]);
        node.clock.set_offset(0);
        world.run_until(secs(125)).await;
        assert_eq!(log.slots(), [0, 60, 120]);
        assert_eq!(log.starts()[2], secs(120));
    });
}

#[test]
fn slots_that_the_store_refused_as_ahead_run_when_the_calendar_is_put_right() {
    block_on(async {
        let (world, log, node) = alone();
        node.clock.set_offset(3_600_000_000);
        node.start([node.job(lock("10m"), every(60), secs(1))]);
        world.run_until(secs(100)).await;
        assert!(log.slots().is_empty());
        node.clock.set_offset(0);
        world.run_until(secs(185)).await;
        assert_eq!(log.slots(), [120, 180]);
    });
}

#[test]
fn a_calendar_that_is_set_forward_runs_the_newest_slot_at_once() {
    block_on(async {
        let (world, log, node) = alone();
        node.clock.set_offset(-7_200_000_000);
        let start = log.slots().len();
        node.start([node.job(lock("10m"), every(600), secs(1))]);
        world.run_until(secs(60)).await;
        node.clock.set_offset(0);
        world.run_until(secs(62)).await;
        assert_eq!(log.slots()[start..], [-7_200, 0]);
    });
}

#[test]
fn a_slot_that_comes_again_while_its_first_attempt_is_on_its_way_is_not_lost() {
    block_on(async {
        let world = World::before_midnight(secs(30));
        let log = Log::default();
        let mut is_first = true;
        let node = Node::with_faults(&world, 0, &log, move || {
            let fault = if is_first { Fault::Slow } else { Fault::None };
            is_first = false;
            fault
        });
        // Midnight comes 5 s early, and its attempt completes 4 s after the true one.
        node.clock.set_offset(5_000_000);
        let job = node.job(lock("10m"), every(60), secs(1));
        // Far from the previous slot, which a start would look for.
        node.start([job.initial_delay("20s").late(LatePolicy::Within(secs(10)))]);
        world.run_for(secs(26)).await;
        node.clock.set_offset(0);
        world.run_until(secs(50)).await;
        assert_eq!((log.slots(), log.starts()), (vec![0], vec![secs(4)]));
    });
}
