//! The options of a job, on a simulated clock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{Log, Node, World, alone, block_on, cron, every, lock, millis, secs};
use shedlock_core::LockConfig;
use shedlock_scheduler::{Job, Overlap, Schedule, Trigger};

#[test]
fn a_day_of_a_nightly_and_a_ten_minute_job_on_three_nodes() {
    block_on(async {
        let world = World::before_midnight(secs(30));
        let (often, nightly) = (Log::default(), Log::default());
        for number in 0..3 {
            let node = Node::new(&world, number, &often);
            let ten_minutes = node.job(
                LockConfig::new("often").lock_at_most_for("5m"),
                cron("0 */10 * * * *"),
                secs(90),
            );
            let other = Node {
                log: nightly.clone(),
                ..Node::new(&world, number, &nightly)
            };
            let seoul = Schedule::cron_in("30 2 * * *", "Asia/Seoul").unwrap();
            let night = other.job(
                LockConfig::new("nightly").lock_at_most_for("2h"),
                seoul,
                secs(3_600),
            );
            for (node, job) in [(&node, ten_minutes), (&other, night)] {
                let scheduler = node.scheduler([job]).clock_check(secs(600));
                scheduler.start().unwrap();
            }
        }
        world.run_until(secs(86_400 - 1)).await;
        let all: Vec<i64> = (0..144).map(|tick| tick * 600).collect();
        assert_eq!(often.slots(), all);
        // 02:30 in Seoul is 17:30 UTC.
        assert_eq!(nightly.slots(), [63_000]);
    });
}

#[test]
fn one_slow_job_delays_no_other() {
    block_on(async {
        let (world, log, node) = alone();
        let slow = LockConfig::new("slow").lock_at_most_for("10m");
        let jobs = [
            node.job(slow, every(10), secs(500)),
            node.job(lock("10m"), every(10), millis(10)),
        ];
        node.start(jobs);
        world.run_until(secs(25)).await;
        assert_eq!(log.starts().iter().filter(|at| **at == secs(20)).count(), 1);
    });
}

#[test]
fn a_tick_waits_for_the_previous_run_and_older_ones_are_given_up() {
    block_on(async {
        let (world, log, node) = alone();
        let times = AtomicU64::new(0);
        let run_time = move || match times.fetch_add(1, Ordering::Relaxed) {
            0 => secs(35),
            _ => secs(1),
        };
        node.start([node
            .job_of(lock("10m"), every(10), run_time)
            .initial_delay("25s")]);
        world.run_until(secs(45)).await;
        assert_eq!(log.starts(), [secs(0), secs(35), secs(40)]);
        assert_eq!(log.slots(), [0, 30, 40]);
        let superseded = "missed: a newer slot was due".to_owned();
        assert!(log.ticks().contains(&(Some(10), superseded.clone())));
        assert!(log.ticks().contains(&(Some(20), superseded)));
    });
}

#[test]
fn a_job_that_does_not_queue_skips_on_its_own_node() {
    block_on(async {
        let (world, log, node) = alone();
        let job = node
            .job(lock("10m"), every(10), secs(15))
            .initial_delay("25s");
        node.start([job.overlap(Overlap::Skip)]);
        world.run_until(secs(45)).await;
        assert_eq!(log.slots(), [0, 20, 40]);
        let skipped = "missed: the previous run was still in progress".to_owned();
        assert!(log.ticks().contains(&(Some(10), skipped)));
    });
}

#[test]
fn replicas_that_start_one_after_the_other_run_at_start_once() {
    block_on(async {
        let (world, log, first) = alone();
        world.run_until(secs(5)).await;
        first.start([first.job(lock("10m"), every(60), secs(1)).run_at_start()]);
        world.run_until(secs(15)).await;
        let second = Node::new(&world, 1, &log);
        second.start([second.job(lock("10m"), every(60), secs(1)).run_at_start()]);
        world.run_until(secs(59)).await;
        assert_eq!((log.slots(), log.starts()), (vec![0], vec![secs(5)]));
        world.run_until(secs(65)).await;
        assert_eq!(log.slots(), [0, 60]);
    });
}

#[test]
fn a_fixed_delay_counts_from_the_end_of_the_run() {
    block_on(async {
        let (world, log, node) = alone();
        let delay = || Schedule::fixed_delay("10s").unwrap();
        let job = node.job(lock("10m"), delay(), secs(3)).initial_delay("30s");
        node.start([job]);
        world.run_until(secs(30)).await;
        assert_eq!(log.starts(), [secs(0), secs(13), secs(26)]);
        assert!(log.slots().is_empty());

        let (world, log, node) = alone();
        world.run_until(secs(0)).await;
        node.start([node.job(lock("10m"), delay(), secs(3))]);
        world.run_until(secs(20)).await;
        assert_eq!(log.starts(), [secs(10)]);
    });
}

#[test]
fn jitter_moves_the_start_and_not_the_slot() {
    block_on(async {
        let world = World::before_midnight(secs(30));
        let log = Log::default();
        for number in 0..4 {
            let node = Node::new(&world, number, &log);
            let job = node.job(lock("10m"), every(60), millis(1)).jitter("20s");
            let scheduler = node.scheduler([job]).clock_check(secs(60));
            scheduler.start().unwrap();
        }
        world.run_until(secs(60 * 50)).await;
        let runs = log.runs();
        let slots: Vec<i64> = (0..50).map(|tick| tick * 60).collect();
        assert_eq!(log.slots()[..50], slots);
        let late: Vec<_> = runs
            .iter()
            .map(|run| run.started - secs(common::seconds(run.slot.unwrap()).unsigned_abs()))
            .collect();
        assert!(late.iter().all(|late| *late <= secs(20)));
        assert!(late.iter().any(|late| *late > secs(3)));
        // Each node draws its jitter independently.
        assert!((0..4).all(|node| runs.iter().any(|run| run.node == node)));
    });
}

#[test]
fn a_task_that_fails_or_panics_harms_nothing() {
    block_on(async {
        let (world, log, node) = alone();
        let job = Job::new(lock("10m"), every(10), |run| async move {
            assert_eq!(run.job(), "job");
            assert_eq!(run.trigger(), Trigger::Schedule);
            match run.slot().map(common::seconds) {
                Some(0) => Err("out of paper"),
                Some(10) => std::panic::panic_any("a test's own panic"),
                _ => Ok(()),
            }
        });
        node.start([job.initial_delay("25s")]);
        std::panic::set_hook(Box::new(|_| {}));
        world.run_until(secs(25)).await;
        let _ = std::panic::take_hook();
        let expected = [(0, "failed: out of paper"), (10, "panicked"), (20, "ran")];
        let expected = expected.map(|(slot, end)| (Some(slot), end.to_owned()));
        assert_eq!(log.ticks(), expected);
    });
}

#[test]
fn an_observer_that_panics_harms_nothing() {
    #[derive(Debug)]
    struct Panics;
    impl shedlock_scheduler::Observer for Panics {
        fn on_tick(&self, _: &shedlock_scheduler::Tick<'_>) {
            std::panic::panic_any("a test's own panic");
        }
    }
    block_on(async {
        let (world, log, node) = alone();
        let job = node
            .job(lock("10m"), every(10), secs(1))
            .initial_delay("25s");
        let scheduler = node.scheduler([job]).observer(Arc::new(Panics));
        scheduler.start().unwrap();
        std::panic::set_hook(Box::new(|_| {}));
        world.run_until(secs(15)).await;
        let _ = std::panic::take_hook();
        assert_eq!(log.slots(), [0, 10]);
    });
}
