//! An hour of a fleet: replicas that are restarted every minute, some of them killed, jobs that are
//! paused, and an outage of all replicas.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;
#[path = "drill.rs"]
mod drill;
mod mistakes;

use std::sync::Arc;
use std::time::Duration;

use common::{Fault, Flaky, NodeClock, World, block_on, secs};
use drill::{Draw, Drill, KINDS, Ledger};
use shedlock_core::{Clock, Executor};
use shedlock_scheduler::{Handle, Scheduler};

const REPLICAS: usize = 3;
const UNIT: Duration = secs(1);
const HOUR: Duration = secs(3_600);
/// A quiet period at the end, in which open slots can finish.
const QUIET: Duration = secs(420);
const OUTAGE: (Duration, Duration) = (secs(1_200), secs(1_380));

struct Replica {
    node: u64,
    ledger: Ledger,
    clock: NodeClock,
    handle: Option<Handle>,
}

impl Replica {
    /// Starts a replica whose clock is off by up to 400 ms.
    fn start(world: &World, ledger: &Ledger, draw: &mut Draw) -> Self {
        let clock = world.clock(i64::try_from(draw.below(800_000)).unwrap() - 400_000);
        let node = draw.below(u64::MAX);
        // Some replies take so long that a shutdown comes first.
        let mut calls = Draw::new(node);
        let store = Flaky::new(&world.store, &clock, move || match calls.below(12) {
            0 => Fault::SlowReply,
            _ => Fault::None,
        });
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let told = ledger.of_node(node, &shared);
        let executor = Executor::new(Arc::new(store)).listener(told.clone());
        let scheduler = Scheduler::new(executor)
            .clock(shared.clone())
            .observer(told)
            .seed(node)
            .jobs(
                KINDS
                    .iter()
                    .map(|kind| kind.job(UNIT, node, &shared, ledger)),
            );
        let handle = Some(scheduler.start().unwrap());
        Self {
            node,
            ledger: ledger.clone(),
            clock,
            handle,
        }
    }

    /// Stops the replica, either by a shutdown or as if its machine crashed.
    fn stop(&mut self, killed: bool, grace: Duration) {
        let Some(handle) = self.handle.take() else {
            return;
        };
        if killed {
            self.clock.kill();
            self.ledger.kills(self.node);
        } else {
            self.ledger.shuts_down(self.node, self.clock.now());
            tokio::spawn(async move { handle.shutdown(grace).await });
        }
    }
}

async fn hour(seed: u64) -> (Ledger, Drill) {
    let world = World::before_midnight(secs(90));
    let (ledger, mut draw) = (Ledger::default(), Draw::new(seed));
    let now = world.clock(0);
    let mut replicas: Vec<Replica> = (0..REPLICAS)
        .map(|_| Replica::start(&world, &ledger, &mut draw))
        .collect();
    world.run_until(Duration::ZERO).await;
    let from = now.system_time();
    let mut drill = Drill {
        unit: UNIT,
        from,
        until: from + HOUR,
        rests: vec![(None, from + OUTAGE.0, from + OUTAGE.1)],
        slack: UNIT,
        most_left_out: 25,
    };
    for minute in 0..60 {
        let begun = secs(60 * minute);
        if (OUTAGE.0..OUTAGE.1).contains(&begun) {
            for replica in &mut replicas {
                replica.stop(draw.below(2) == 0, secs(3));
            }
            world.run_until(begun + secs(60)).await;
            continue;
        }
        if begun == OUTAGE.1 {
            replicas.fill_with(|| Replica::start(&world, &ledger, &mut draw));
        }
        world.run_for(draw.up_to(UNIT, 20)).await;
        let restarted = &mut replicas[draw.index(REPLICAS)];
        restarted.stop(draw.below(4) == 0, draw.up_to(UNIT, 12));
        world.run_for(draw.up_to(UNIT, 9)).await;
        *restarted = Replica::start(&world, &ledger, &mut draw);
        if minute % 3 == 2 {
            let job = KINDS[draw.index(KINDS.len())].name;
            let begins = now.system_time();
            for replica in &replicas {
                replica.handle.as_ref().unwrap().pause(job).await.unwrap();
            }
            world.run_for(secs(1) + draw.up_to(UNIT, 24)).await;
            for replica in &replicas {
                replica.handle.as_ref().unwrap().resume(job).await.unwrap();
            }
            drill.rests.push((Some(job), begins, now.system_time()));
        }
        world.run_until(begun + secs(60)).await;
    }
    world.run_until(HOUR + QUIET).await;
    for replica in &mut replicas {
        replica.stop(false, secs(60));
    }
    world.run_for(secs(70)).await;
    (ledger, drill)
}

fn told(seed: u64) {
    let (ledger, drill) = block_on(hour(seed));
    if let Err(wrong) = drill.judge(&ledger) {
        panic!("seed {seed}: {wrong}");
    }
}

#[test]
fn an_hour_of_restarts_loses_and_doubles_nothing_seed_1() {
    told(1);
}

#[test]
fn an_hour_of_restarts_loses_and_doubles_nothing_seed_2() {
    told(2);
}

#[test]
fn an_hour_of_restarts_loses_and_doubles_nothing_seed_3() {
    told(3);
}
