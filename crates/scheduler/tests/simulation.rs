//! Thousands of slots on five nodes, whose clocks, timers, tasks, stores and lives are drawn from a
//! seed. A failure names its seed; `SHEDLOCK_SIMULATION_SEED` runs it again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Fault, Log, Node, World, block_on, lock, secs};
use shedlock_scheduler::{LatePolicy, Overlap, Schedule};

const PERIOD: u64 = 10;
const NODES: usize = 5;

/// Chance with a seed (splitmix64).
#[derive(Clone)]
struct Chance(Arc<Mutex<u64>>);

impl Chance {
    fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed)))
    }

    fn below(&self, end: u64) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn up_to(&self, longest: Duration) -> Duration {
        let longest = u64::try_from(longest.as_micros()).unwrap();
        Duration::from_micros(self.below(longest + 1))
    }

    fn is_one_in(&self, many: u64) -> bool {
        many > 0 && self.below(many) == 0
    }
}

/// What the world does to the nodes.
#[derive(Clone, Copy)]
struct Bounds {
    slots: u64,
    lateness: Duration,
    /// To either side of the true time.
    offset: Duration,
    run_time: Duration,
    at_most: &'static str,
    /// One call in so many goes wrong.
    faults: u64,
    /// One node in each of so many slots: dies, or has its clock set.
    deaths: u64,
    clock_changes: u64,
}

struct Seen {
    /// Runs of each slot, by its number.
    runs: BTreeMap<i64, u32>,
    /// The fencing tokens in the order of their runs.
    tokens: Vec<u64>,
    ticks: BTreeMap<String, u32>,
}

fn simulate(seed: u64, bounds: Bounds) -> Seen {
    block_on(async {
        let chance = Chance::new(seed);
        let world = World::before_midnight(secs(5));
        let log = Log::default();
        let mut nodes: Vec<Node> = (0..NODES)
            .map(|number| node(&world, number, &log, &chance, bounds))
            .collect();
        for slot in 0..bounds.slots {
            world
                .run_until(secs(slot * PERIOD + chance.below(PERIOD)))
                .await;
            let at = usize::try_from(chance.below(NODES as u64)).unwrap();
            if chance.is_one_in(bounds.deaths) {
                nodes[at].clock.kill();
                nodes[at] = node(&world, at, &log, &chance, bounds);
            }
            if chance.is_one_in(bounds.clock_changes) {
                nodes[at].clock.set_offset(offset(&chance, bounds));
            }
        }
        world.run_until(secs((bounds.slots + 3) * PERIOD)).await;

        let mut runs = BTreeMap::new();
        for slot in log.slots() {
            *runs
                .entry(slot / i64::try_from(PERIOD).unwrap())
                .or_default() += 1;
        }
        let mut ticks = BTreeMap::new();
        for (_, end) in log.ticks() {
            let end = end.split(':').next().unwrap_or_default().to_owned();
            *ticks.entry(end).or_default() += 1;
        }
        Seen {
            runs,
            tokens: log.runs().iter().map(|run| run.token).collect(),
            ticks,
        }
    })
}

fn offset(chance: &Chance, bounds: Bounds) -> i64 {
    let either = i64::try_from(bounds.offset.as_micros()).unwrap();
    i64::try_from(chance.up_to(bounds.offset * 2).as_micros()).unwrap() - either
}

fn node(world: &World, number: usize, log: &Log, chance: &Chance, bounds: Bounds) -> Node {
    let faults = chance.clone();
    let node = Node::with_faults(world, number, log, move || {
        match faults.is_one_in(bounds.faults) {
            false => Fault::None,
            true if faults.is_one_in(2) => Fault::Unavailable,
            true => Fault::ReplyLost,
        }
    });
    node.clock.set_offset(offset(chance, bounds));
    let timers = chance.clone();
    node.clock
        .set_timer_lateness(move |_| timers.up_to(bounds.lateness));
    let run_times = chance.clone();
    let schedule = Schedule::every(Duration::from_secs(PERIOD)).unwrap();
    let mut job = node.job_of(lock(bounds.at_most), schedule, move || {
        run_times.up_to(bounds.run_time)
    });
    // Every policy has to keep the law that there are never two.
    if number % 2 == 1 && bounds.deaths > 0 {
        job = job.overlap(Overlap::Skip).late(LatePolicy::Within(secs(4)));
    }
    let scheduler = node.scheduler([job]).with_clock_check(secs(3));
    scheduler.start().unwrap();
    node
}

fn seeds(default: std::ops::Range<u64>) -> Vec<u64> {
    match std::env::var("SHEDLOCK_SIMULATION_SEED") {
        Ok(seed) => vec![seed.parse().expect("the seed is a number")],
        Err(_) => default.collect(),
    }
}

#[track_caller]
fn assert_never_two(seed: u64, seen: &Seen) {
    for (slot, runs) in &seen.runs {
        assert_eq!(*runs, 1, "seed {seed}: slot {slot}");
    }
    let grow = seen.tokens.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(grow, "seed {seed}: fencing tokens do not grow");
}

/// Lateness 2 s (twice: of the tick and of the task's own timer), clocks 2 s apart, tasks of 3 s:
/// 9 s of a period of 10 s.
#[test]
fn within_the_bound_every_slot_runs_exactly_once() {
    let bounds = Bounds {
        slots: 2_000,
        lateness: secs(2),
        offset: secs(1),
        run_time: secs(3),
        at_most: "30s",
        faults: 0,
        deaths: 0,
        clock_changes: 3,
    };
    for seed in seeds(0..5) {
        let seen = simulate(seed, bounds);
        assert_never_two(seed, &seen);
        for slot in 0..i64::try_from(bounds.slots).unwrap() {
            assert!(
                seen.runs.contains_key(&slot),
                "seed {seed}: no run of slot {slot}"
            );
        }
    }
}

#[test]
fn beyond_every_bound_no_slot_runs_twice() {
    let bounds = Bounds {
        slots: 2_000,
        lateness: secs(15),
        offset: secs(90),
        run_time: secs(25),
        at_most: "15s",
        faults: 10,
        deaths: 5,
        clock_changes: 5,
    };
    for seed in seeds(100..105) {
        let seen = simulate(seed, bounds);
        assert_never_two(seed, &seen);
        // It is no proof that nothing ever ran, and each thing that can happen did.
        let ran = seen.runs.len();
        assert!(ran > 200, "seed {seed}: only {ran} runs");
        // Nor is the bound there for nothing: beyond it slots are missed.
        assert!(ran < 2_000, "seed {seed}: no slot was missed");
        for end in [
            "ran",
            "taken by another replica",
            "lost its lease",
            "missed",
        ] {
            assert!(
                seen.ticks.contains_key(end),
                "seed {seed}: no {end:?} in {:?}",
                seen.ticks
            );
        }
    }
}
