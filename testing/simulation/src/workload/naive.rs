//! Clients that make the model's mistakes, in place of the runtime.

use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{
    Attempt, AttemptRequest, Clock, LockName, LockProvider, Moment, Owner, UnlockRequest,
};

use super::plan::Plan;
use crate::Wrong;
use crate::ledger::Ledger;
use crate::world::NodeClock;
use shedlock_proof::SeededRng;

/// A small runtime that is correct except for one mistake.
pub(crate) struct Naive {
    pub(crate) plan: Arc<Plan>,
    pub(crate) provider: Arc<dyn LockProvider>,
    pub(crate) clock: NodeClock,
    pub(crate) ledger: Ledger,
    pub(crate) rng: SeededRng,
    pub(crate) wrong: Wrong,
}

impl Naive {
    pub(crate) async fn run(mut self) {
        let plan = self.plan.clone();
        loop {
            for lock in &plan.locks {
                let pause = self.rng.heavy(lock.at_most / 200, lock.at_most);
                self.clock.sleep(pause).await;
                self.use_once(&lock.name, lock.at_most).await;
            }
        }
    }

    async fn use_once(&mut self, name: &str, at_most: Duration) {
        let Ok(name) = LockName::new(name) else {
            return;
        };
        let rng = self.clock.random();
        let Ok(owner) = Owner::parse(&format!("naive/1/{rng:016x}")) else {
            return;
        };
        let request = AttemptRequest::new(name, owner, at_most);
        let first_asked = self.clock.now();
        let mut last_asked = first_asked;
        let mut answer = self.provider.attempt(&request).await;
        for _ in 0..3 {
            if answer.is_ok() {
                break;
            }
            last_asked = self.clock.now();
            answer = self.provider.attempt(&request).await;
        }
        let Ok(Attempt::Acquired(lease)) = answer else {
            return;
        };
        let from = match self.wrong {
            Wrong::DeadlineFromReply => self.clock.now(),
            Wrong::DeadlineFromLastAsk => last_asked,
            _ => first_asked,
        };
        self.work(lease.owner().as_str(), from, at_most).await;
        // It tries once and does not retry.
        let _ = self.provider.unlock(&lease, &UnlockRequest::new()).await;
    }

    async fn work(&mut self, owner: &str, from: Moment, at_most: Duration) {
        let deadline = from + (at_most - at_most / 50);
        if self.clock.now() >= deadline {
            return;
        }
        let running = self.ledger.starts(owner);
        let steps = 1 + self.rng.below(8);
        for _ in 0..steps {
            self.clock.sleep(at_most / 6).await;
            let looks = self.wrong != Wrong::NoLookAfterPause;
            if looks && self.clock.now() >= deadline {
                return;
            }
            running.works();
            if self.clock.now() >= deadline {
                return;
            }
        }
    }
}
