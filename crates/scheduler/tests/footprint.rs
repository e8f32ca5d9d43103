//! The memory cost of idle jobs. This test is alone in its file because it counts the bytes of its
//! whole process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::alloc::System;
use std::time::Duration;

use cap::Cap;
use common::{Log, Node, World, block_on, secs};
use shedlock_core::LockConfig;
use shedlock_scheduler::{Job, Schedule};

#[global_allocator]
static ALLOCATED: Cap<System> = Cap::new(System, usize::MAX);

const JOBS: usize = 20_000;

fn jobs(schedule: impl Fn(usize) -> Schedule) -> impl Iterator<Item = Job> {
    (0..JOBS).map(move |number| {
        let config = LockConfig::new(format!("a-job-with-a-name-{number}"))
            .lock_at_most_for(Duration::from_secs(600));
        Job::new(config, schedule(number), |_| async { Ok::<_, String>(()) })
    })
}

#[test]
fn idle_jobs_are_small_and_sleep() {
    block_on(async {
        let world = World::before_midnight(secs(3_600));
        let log = Log::default();
        let node = Node::new(&world, 0, &log);
        let before = ALLOCATED.allocated();
        let daily = |number: usize| {
            let (minute, hour) = (number % 60, number / 60 % 22 + 1);
            Schedule::cron_in(&format!("{minute} {hour} * * *"), "UTC").unwrap()
        };
        let _handle = node.start(jobs(daily));
        world.run_until(secs(0)).await;
        let each = (ALLOCATED.allocated() - before) / JOBS;
        assert!(each < 1_024, "{each} bytes a job");

        // One task reads the clock once a second for all of them.
        let sleeps = node.clock.sleeps();
        world.run_until(secs(3_000)).await;
        let sleeps = node.clock.sleeps() - sleeps;
        assert!(sleeps <= 3_001, "{sleeps} wake-ups in 3000 s");
        assert!(log.ticks().is_empty());

        // Jobs that are not due by the calendar cause no clock checks at all.
        let node = Node::new(&world, 1, &log);
        let _handle = node.start(jobs(|_| Schedule::fixed_delay("1h").unwrap()));
        common::settle().await;
        let sleeps = node.clock.sleeps();
        world.run_until(secs(3_000 + 1_800)).await;
        assert_eq!(node.clock.sleeps(), sleeps);
    });
}
