//! Jitter never costs a slot, however long it is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::{Log, MIDNIGHT, Node, World, alone, block_on, cron, every, lock, millis, secs};
use proptest::prelude::*;
use shedlock_core::{Clock, ErrorKind};
use shedlock_scheduler::Schedule;

#[test]
fn a_jitter_that_reaches_the_next_slot_is_refused() {
    block_on(async {
        let (_, _, node) = alone();
        for (schedule, jitter, is_refused) in [
            (cron("* * * * * *"), secs(10), true),
            (cron("* * * * *"), secs(59), false),
            (cron("* * * * *"), secs(60), true),
            (cron("*/10 9-17 * * MON-FRI"), secs(600), true),
            (cron("0,50 9-17 * * *"), secs(600), true),
            (cron("0,50 9-17 * * *"), secs(599), false),
            (cron("0 0,23 * * *"), secs(3_600), true),
            (cron("0 2 * * *"), secs(86_400), true),
            (cron("0 2 * * *"), secs(86_399), false),
            // The gap between days is not examined, so these are clamped.
            (cron("0 2 1,2 * *"), secs(90_000), false),
            (cron("0 0,23 1 * *"), secs(3_601), false),
            (every(10), secs(10), true),
        ] {
            let job = node.job(lock("10m"), schedule.clone(), secs(1));
            let started = node.scheduler([job.jitter(jitter)]).start();
            let kind = started.err().map(|error| error.kind());
            let expected = is_refused.then_some(ErrorKind::InvalidInput);
            assert_eq!(kind, expected, "{schedule} with {jitter:?}");
        }
    });
}

/// The jitter is longer than some gaps between slots and shorter than others.
#[test]
fn a_jitter_longer_than_a_gap_costs_no_slot() {
    for seed in 0..8 {
        block_on(async {
            let world = World::before_midnight(secs(30));
            let log = Log::default();
            let node = Node::new(&world, 0, &log);
            let schedule = cron("0 0 1,2,3 * *");
            let job = node.job(lock("10m"), schedule, secs(1)).jitter("60h");
            let scheduler = node.scheduler([job]).seed(seed);
            let _handle = scheduler.clock_check(secs(3_600)).start().unwrap();
            world.run_until(secs(3 * 86_400)).await;
            let slots = log.slots();
            assert_eq!(slots[..2], [0, 86_400], "seed {seed}: {:?}", log.ticks());
        });
    }
}

fn field(most: u8) -> impl Strategy<Value = String> {
    let one = 0..=most;
    prop_oneof![
        2 => Just("*".to_owned()),
        1 => (2..=most).prop_map(|step| format!("*/{step}")),
        2 => proptest::collection::btree_set(one.clone(), 1..5).prop_map(|all| {
            let all: Vec<String> = all.into_iter().map(|value| value.to_string()).collect();
            all.join(",")
        }),
        1 => (one.clone(), one).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
    ]
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let cron = (
        prop_oneof![Just("0".to_owned()), field(59)],
        field(59),
        field(2),
    );
    prop_oneof![
        3 => cron.prop_map(|(second, minute, hour)| {
            Schedule::cron(&format!("{second} {minute} {hour} * * *")).unwrap()
        }),
        1 => (200_u64..600_000).prop_map(|period| Schedule::every(millis(period)).unwrap()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// On a node whose clock is off and whose timers are late, each slot of an hour runs, or a tick
    /// gives the reason why not. A node whose timers are in time leaves none out.
    #[test]
    fn every_slot_of_an_hour_runs_or_is_explained(
        schedule in schedule(),
        jitter in 0_u64..5_000,
        share in 1_u32..100,
        seed in any::<u64>(),
        offset in -2_000_000_i64..2_000_000,
        lateness in prop_oneof![Just(0_u64), 1_u64..3_000],
    ) {
        // The longest jitter that is accepted, or nearly.
        let shortest = schedule.shortest_gap().unwrap_or(secs(3_600));
        let jitter = millis(jitter).max(shortest / 100 * share);
        let jitter = jitter.min(shortest - Duration::from_micros(1));
        block_on(async {
            let world = World::before_midnight(secs(5));
            let log = Log::default();
            let node = Node::new(&world, 0, &log);
            node.clock.set_offset(offset);
            if lateness > 0 {
                let mut state = seed;
                node.clock.set_timer_lateness(move |_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    millis((state >> 33) % lateness)
                });
            }
            let job = node.job(lock("1m"), schedule.clone(), Duration::ZERO).jitter(jitter);
            let scheduler = node.scheduler([job]).seed(seed);
            let handle = scheduler.start().unwrap();
            let from = node.clock.system_time();
            world.run_for(secs(3_605)).await;
            drop(handle.shutdown(secs(1)).await.unwrap());
            let mut expected = BTreeSet::new();
            let mut at = from;
            while let Some(slot) = schedule.next_after(at) {
                // Slots that jitter may still delay are not due yet.
                if slot.instant() + jitter + secs(4) > from + secs(3_605) {
                    break;
                }
                expected.insert(slot.as_micros() / 1_000 - i64::try_from(MIDNIGHT * 1_000).unwrap());
                at = slot.instant();
            }
            let told: BTreeSet<i64> = log.ended_slots();
            let silent: Vec<_> = expected.difference(&told).collect();
            assert!(silent.is_empty(), "{schedule}, {jitter:?}: {silent:?}");
            if lateness == 0 {
                let left_out = log.ticks().into_iter().find(|tick| tick.1 != "ran");
                assert!(left_out.is_none(), "{schedule}, {jitter:?}: {left_out:?}");
            }
        });
    }
}
