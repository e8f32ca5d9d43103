//! A user on a node that wants locks, again and again.

use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{
    Attempt, Clock, Completion, Error, Executor, LockConfig, LostPolicy, Outcome, Release,
    SkipReason, Slot, SlotEnd, UnlockRequest,
};
use shedlock_scheduler::Schedule;

use super::body::{Body, Ends, Failed};
use super::plan::{LockPlan, Plan};
use crate::chronicle::Chronicle;
use crate::transition::Transition;
use crate::world::NodeClock;
use shedlock_proof::SeededRng;

/// Acquires one lock after the other, each time in a different way.
pub(crate) struct Actor {
    pub(crate) plan: Arc<Plan>,
    pub(crate) executor: Executor,
    pub(crate) clock: NodeClock,
    pub(crate) chronicle: Chronicle,
    pub(crate) rng: SeededRng,
}

/// How a lock is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Execute,
    KeepAlive,
    Extend,
    Spawn,
    GoOn,
    Bounded,
    Wait,
    Nested,
    Abort,
    ByHand,
}

const WAYS: [Way; 10] = [
    Way::Execute,
    Way::KeepAlive,
    Way::Extend,
    Way::Spawn,
    Way::GoOn,
    Way::Bounded,
    Way::Wait,
    Way::Nested,
    Way::Abort,
    Way::ByHand,
];

impl Actor {
    pub(crate) async fn run(mut self) {
        let plan = self.plan.clone();
        let mut number = self.rng.below(plan.locks.len() as u64);
        let mut open = None;
        loop {
            let lock = &plan.locks[usize::try_from(number).unwrap_or(0) % plan.locks.len()];
            let pause = self.rng.heavy(lock.at_most / 200, lock.at_most * 2);
            self.clock.sleep(pause).await;
            open = self.use_once(lock, open.take()).await;
            if open.is_none() {
                number += 1;
            }
        }
    }

    /// Uses a lock; returns a slot that has to run before others, if there is one.
    async fn use_once(&mut self, lock: &LockPlan, open: Option<Slot>) -> Option<Slot> {
        let way = *self.rng.pick(&WAYS);
        let (config, body) = self.drawn(lock, way, open);
        if way == Way::ByHand {
            self.by_hand(&config, &body).await;
            return None;
        }
        let executor = match way {
            Way::GoOn => self.executor.clone().lost_policy(LostPolicy::Continue),
            _ => self.executor.clone(),
        };
        let inner = (way == Way::Nested).then(|| (executor.clone(), config.clone()));
        let takes = body.takes;
        let chronicle = self.chronicle.clone();
        // In a separate task, which may be aborted and may panic.
        let mut running = tokio::spawn(async move {
            let task = async move {
                if let Some((executor, config)) = inner {
                    // The same lock again: it is already held.
                    let again = executor.execute(&config, async {}).await;
                    assert!(matches!(again, Ok(Outcome::Executed { .. })), "{again:?}");
                }
                body.run().await
            };
            executor.try_execute(&config, task).await
        });
        if way == Way::Abort {
            let patience = self.rng.heavy(Duration::from_millis(1), takes * 2);
            tokio::select! {
                biased;
                _ = &mut running => {}
                () = self.clock.sleep(patience) => {
                    chronicle.count(Transition::TaskDropped);
                    running.abort();
                }
            }
            return None;
        }
        match running.await {
            Ok(outcome) => self.note(outcome),
            Err(_) => {
                chronicle.count(Transition::TaskPanicked);
                None
            }
        }
    }

    fn note(&self, outcome: Result<Outcome<Result<(), Failed>>, Error>) -> Option<Slot> {
        match outcome {
            Ok(Outcome::Executed {
                release: Release::Failed(_),
                ..
            }) => self.chronicle.count(Transition::UnlockFailed),
            Ok(Outcome::Executed { .. }) => self.chronicle.count(Transition::TaskFinished),
            Ok(Outcome::Lost { value: None, .. }) => {
                self.chronicle.count(Transition::TaskCancelled)
            }
            Ok(Outcome::Skipped(skip)) => {
                let first = matches!(
                    skip.reason,
                    SkipReason::SlotPending | SkipReason::BackingOff
                );
                return skip.last_slot.filter(|_| first);
            }
            Err(error) => self
                .chronicle
                .note(|| format!("an actor gets the error: {error}")),
            _ => {}
        }
        None
    }

    fn drawn(&mut self, lock: &LockPlan, way: Way, open: Option<Slot>) -> (LockConfig, Body) {
        let rng = &mut self.rng;
        let at_most = lock.at_most;
        let mut config = LockConfig::new(lock.name.as_str())
            .lock_at_most_for(at_most)
            .lock_at_least_for(lock.at_least);
        if let Some((period, completion)) = lock.slots {
            let schedule = Schedule::every(period).expect("whole seconds are a period");
            let now = self.clock.system_time();
            let slot = match open {
                Some(open) => open,
                None => schedule
                    .slot_at(now, Schedule::SLOT_TOLERANCE)
                    .expect("a grid has always a slot"),
            };
            config = config.slot(slot).completion(completion);
        }
        let mut takes = rng.heavy(at_most / 100, at_most);
        match way {
            Way::KeepAlive => {
                takes *= 2;
                config = config.keep_alive();
            }
            Way::Bounded => config = config.keep_alive().max_run_time(takes / 2 + at_most / 100),
            Way::Wait => config = config.lock_wait(at_most.min(Duration::from_secs(120))),
            Way::Execute if rng.one_in(4) => takes *= 2,
            _ => {}
        }
        let is_slot = matches!(lock.slots, Some((_, Completion::OnSuccess(_))));
        let body = Body {
            chronicle: self.chronicle.clone(),
            clock: self.clock.clone(),
            takes,
            steps: u32::try_from(1 + rng.below(4)).unwrap_or(1),
            extends: (way == Way::Extend).then(|| {
                let less = if rng.flip() { at_most } else { at_most / 4 };
                let mut lengths =
                    [at_most, less.max(Duration::from_secs(5))].map(|more| more.max(lock.at_least));
                if rng.flip() {
                    lengths.reverse();
                }
                lengths
            }),
            spawns: way == Way::Spawn,
            ignores_loss: way == Way::GoOn,
            ends: match rng.below(12) {
                0 => Ends::InPanic,
                1 | 2 => Ends::InError,
                3 if is_slot => Ends::InError,
                4 => Ends::BeforeItBegins,
                5 => Ends::Cut,
                _ => Ends::Well,
            },
        };
        (config, body)
    }

    /// Work that is not a single future.
    async fn by_hand(&mut self, config: &LockConfig, body: &Body) {
        let Ok(Attempt::Acquired(lock)) = self.executor.lock(config).await else {
            return;
        };
        if body.ends == Ends::BeforeItBegins {
            let _ = lock
                .unlock_with(&UnlockRequest::new().with_slot_end(SlotEnd::NotStarted))
                .await;
            return;
        }
        let running = self.chronicle.starts(lock.owner().as_str());
        for _ in 0..body.steps {
            self.clock.sleep(body.takes / body.steps).await;
            if lock.is_lost() {
                break;
            }
            running.works();
        }
        match self.rng.below(4) {
            0 => drop(lock),
            1 => drop(lock.fail().await),
            _ if body.ends == Ends::Cut => {
                drop(
                    lock.unlock_with(&UnlockRequest::new().with_slot_end(SlotEnd::Cut))
                        .await,
                );
            }
            _ => drop(lock.unlock().await),
        }
    }
}
