//! Both sides of the bound within which every slot runs: thousands of slots on five nodes, whose
//! clocks, timers, tasks, stores and crashes are drawn from a seed. A failure prints the seed. The
//! workspace's `simulation` tests what else may go wrong, and in which order.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Fault, Log, Node, RunSeen, World, block_on, lock, seconds, secs};
use shedlock_core::{Completion, Retries};
use shedlock_scheduler::{Job, JobRun, LatePolicy, Overlap, Schedule};

const PERIOD: u64 = 10;
const NODES: usize = 5;

/// A shared generator with a seed.
#[derive(Clone)]
struct SeededRng(Arc<Mutex<fastrand::Rng>>);

impl SeededRng {
    fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    fn below(&self, end: u64) -> u64 {
        self.0.lock().unwrap().u64(..end)
    }

    fn up_to(&self, longest: Duration) -> Duration {
        let longest = u64::try_from(longest.as_micros()).unwrap();
        Duration::from_micros(self.below(longest + 1))
    }

    fn is_one_in(&self, many: u64) -> bool {
        many > 0 && self.below(many) == 0
    }
}

/// The conditions that the world imposes on the nodes.
#[derive(Clone, Copy)]
struct Bounds {
    slots: u64,
    lateness: Duration,
    /// The maximum clock offset, ahead of or behind the true time.
    offset: Duration,
    run_time: Duration,
    at_most: &'static str,
    /// One call in this many fails.
    faults: u64,
    /// In one of this many slots, a node crashes (`deaths`) or has its clock set (`clock_changes`).
    deaths: u64,
    clock_changes: u64,
    /// If set, slots are open until they are done, and one run in this many fails. Otherwise slots
    /// are used up when they are taken.
    must_not_be_lost: Option<u64>,
}

struct Seen {
    /// The number of runs of each slot.
    runs: BTreeMap<i64, u32>,
    /// The slots of the successful runs, in the order in which the runs ended.
    successes: Vec<i64>,
    failures: u32,
    /// The fencing tokens, in the order of their runs.
    tokens: Vec<u64>,
    ticks: BTreeMap<String, u32>,
}

fn simulate(seed: u64, bounds: Bounds) -> Seen {
    block_on(async {
        let rng = SeededRng::new(seed);
        let world = World::before_midnight(secs(5));
        let log = Log::default();
        let ends = Ends::default();
        let mut nodes: Vec<Node> = (0..NODES)
            .map(|number| node(&world, number, &log, &ends, &rng, bounds))
            .collect();
        for slot in 0..bounds.slots {
            world
                .run_until(secs(slot * PERIOD + rng.below(PERIOD)))
                .await;
            let at = usize::try_from(rng.below(NODES as u64)).unwrap();
            if rng.is_one_in(bounds.deaths) {
                nodes[at].clock.kill();
                nodes[at] = node(&world, at, &log, &ends, &rng, bounds);
            }
            if rng.is_one_in(bounds.clock_changes) {
                nodes[at].clock.set_offset(offset(&rng, bounds));
            }
        }
        // Time to work off a backlog.
        let rest = if bounds.must_not_be_lost.is_some() {
            200
        } else {
            3
        };
        world.run_until(secs((bounds.slots + rest) * PERIOD)).await;

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
        let ends = ends.lock().unwrap();
        let number = |slot: &i64| slot / i64::try_from(PERIOD).unwrap();
        Seen {
            runs,
            successes: ends
                .iter()
                .filter(|end| end.1)
                .map(|end| number(&end.0))
                .collect(),
            failures: u32::try_from(ends.iter().filter(|end| !end.1).count()).unwrap(),
            tokens: log.runs().iter().map(|run| run.token).collect(),
            ticks,
        }
    })
}

fn offset(rng: &SeededRng, bounds: Bounds) -> i64 {
    let either = i64::try_from(bounds.offset.as_micros()).unwrap();
    i64::try_from(rng.up_to(bounds.offset * 2).as_micros()).unwrap() - either
}

/// Slots of runs that ended by themselves, in seconds since midnight, and whether the runs
/// succeeded.
type Ends = Arc<Mutex<Vec<(i64, bool)>>>;

fn node(
    world: &World,
    number: usize,
    log: &Log,
    ends: &Ends,
    rng: &SeededRng,
    bounds: Bounds,
) -> Node {
    let faults = rng.clone();
    let node = Node::with_faults(world, number, log, move || {
        match faults.is_one_in(bounds.faults) {
            false => Fault::None,
            true if faults.is_one_in(2) => Fault::Unavailable,
            true => Fault::ReplyLost,
        }
    });
    node.clock.set_offset(offset(rng, bounds));
    let timers = rng.clone();
    node.clock
        .set_timer_lateness(move |_| timers.up_to(bounds.lateness));
    let run_times = rng.clone();
    let schedule = Schedule::every(Duration::from_secs(PERIOD)).unwrap();
    let mut job = match bounds.must_not_be_lost {
        None => node.job_of(lock(bounds.at_most), schedule, move || {
            run_times.up_to(bounds.run_time)
        }),
        Some(failures) => in_order(&node, schedule, ends, rng, bounds, failures),
    };
    // Every policy must guarantee that no slot runs twice.
    if number % 2 == 1 && bounds.deaths > 0 && bounds.must_not_be_lost.is_none() {
        job = job.overlap(Overlap::Skip).late(LatePolicy::Within(secs(4)));
    }
    let scheduler = node.scheduler([job]).clock_check(secs(3));
    scheduler.start().unwrap();
    node
}

/// A job whose slots must not be lost. Some of its runs fail or panic.
fn in_order(
    node: &Node,
    schedule: Schedule,
    ends: &Ends,
    rng: &SeededRng,
    bounds: Bounds,
    failures: u64,
) -> Job {
    let retries = Retries::new().max_attempts(u32::MAX).backoff(secs(1));
    let config =
        lock(bounds.at_most).completion(Completion::OnSuccess(retries.max_backoff(secs(20))));
    let (log, ends, rng) = (node.log.clone(), ends.clone(), rng.clone());
    let (world, clock, number) = (node.world.clone(), node.clock.clone(), node.number);
    Job::new(config, schedule, move |run: JobRun| {
        let (log, ends, rng) = (log.clone(), ends.clone(), rng.clone());
        let (world, clock) = (world.clone(), clock.clone());
        async move {
            log.push(RunSeen {
                node: number,
                slot: run.slot(),
                started: world.since_midnight(),
                token: run.fencing_token().expect("memory has tokens"),
            });
            clock.sleep(rng.up_to(bounds.run_time)).await;
            let succeeds = !rng.is_one_in(failures);
            let slot = run.slot().expect("a schedule has slots");
            ends.lock().unwrap().push((seconds(slot), succeeds));
            assert!(
                succeeds || rng.is_one_in(2),
                "one failure in two is a panic"
            );
            if succeeds { Ok(()) } else { Err("no luck") }
        }
    })
}

#[track_caller]
fn assert_never_two(seed: u64, seen: &Seen) {
    for (slot, runs) in &seen.runs {
        assert_eq!(*runs, 1, "seed {seed}: slot {slot}");
    }
    let grow = seen.tokens.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(grow, "seed {seed}: fencing tokens do not grow");
}

/// Lateness of 2 s (twice: of the tick and of the task's own timer), clocks 2 s apart, tasks of 3
/// s: 9 s of a period of 10 s.
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
        must_not_be_lost: None,
    };
    for seed in 0..5 {
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
        must_not_be_lost: None,
    };
    for seed in 100..105 {
        let seen = simulate(seed, bounds);
        assert_never_two(seed, &seen);
        // The result would be meaningless if nothing ran or if some kind of event never happened.
        let ran = seen.runs.len();
        assert!(ran > 200, "seed {seed}: only {ran} runs");
        // The bound is necessary: beyond it, slots are missed.
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

/// Holds whatever happens, from the first slot that was taken.
#[track_caller]
fn assert_each_done_in_order(seed: u64, bounds: Bounds, seen: &Seen) {
    let grow = seen.tokens.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(grow, "seed {seed}: fencing tokens do not grow");
    let mut done = seen.successes.clone();
    assert!(
        done.windows(2).all(|pair| pair[0] <= pair[1]),
        "seed {seed}: slots were not done in order: {done:?}"
    );
    done.dedup();
    let first = done.first().copied().unwrap_or(i64::MAX);
    assert!(
        first <= 2,
        "seed {seed}: the first slot that was done is {first}"
    );
    let last = i64::try_from(bounds.slots).unwrap();
    for (slot, found) in (first..last).zip(&done) {
        assert_eq!(slot, *found, "seed {seed}: slot {slot} was never done");
    }
    let count = i64::try_from(done.len()).unwrap();
    assert!(
        count >= last - first,
        "seed {seed}: only {count} slots were done"
    );
}

#[test]
fn what_must_not_be_lost_is_done_in_order_within_the_bound() {
    let bounds = Bounds {
        slots: 1_000,
        lateness: secs(2),
        offset: secs(1),
        run_time: secs(3),
        at_most: "30s",
        faults: 0,
        deaths: 0,
        clock_changes: 3,
        must_not_be_lost: Some(0),
    };
    for seed in 200..204 {
        let seen = simulate(seed, bounds);
        assert_each_done_in_order(seed, bounds, &seen);
        // Nothing failed and no node crashed, so no slot runs twice.
        assert_never_two(seed, &seen);
    }
}

#[test]
fn what_must_not_be_lost_is_done_in_order_beyond_every_bound() {
    let bounds = Bounds {
        slots: 1_000,
        lateness: secs(5),
        offset: secs(50),
        run_time: secs(8),
        at_most: "15s",
        faults: 10,
        deaths: 6,
        clock_changes: 5,
        must_not_be_lost: Some(4),
    };
    for seed in 300..306 {
        let seen = simulate(seed, bounds);
        assert_each_done_in_order(seed, bounds, &seen);
        assert!(
            seen.failures > 50,
            "seed {seed}: only {} failures",
            seen.failures
        );
        let repeated = seen.successes.len() > bounds.slots.try_into().unwrap();
        let taken_over = seen.runs.values().any(|runs| *runs > 1);
        assert!(
            taken_over || repeated,
            "seed {seed}: nothing was taken over"
        );
    }
}
