//! A process: providers, executors, a scheduler, and their users.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use shedlock_core::PrefixProvider;
use shedlock_core::{
    Clock, Executor, ForceUnlockRequest, LockConfig, LockName, LockProvider, admin,
};
use shedlock_provider::Versioned as Engine;
use shedlock_scheduler::{Handle, Job, JobRun, Schedule, Scheduler};

use super::actor::Actor;
use super::body::{Body, Ends};
use super::counting::Counting;
use super::plan::{Family, JobPlan, Plan};
use crate::chronicle::{Calls, Chronicle};
use crate::store::{Conditional, Versioned, Watched};
use crate::transition::Transition;
use crate::world::{Network, NodeClock, World};
use shedlock_proof::{Mistake, Mistaken, Recorded, SeededRng, Surroundings};

/// One lifetime of a process on a node.
#[derive(Clone)]
pub(crate) struct Process {
    plan: Arc<Plan>,
    world: World,
    chronicle: Chronicle,
    clock: NodeClock,
    provider: Arc<dyn LockProvider>,
    rng: Arc<Mutex<SeededRng>>,
    scheduler: Arc<Mutex<Option<Handle>>>,
}

/// A caller that waits for a run polls every ten seconds.
const LONGEST_RUN: Duration = Duration::from_secs(300);

/// How often a lease looks at the wall clock: as often as once a second would be too many events.
const WALL_CLOCK_CHECK: Duration = Duration::from_secs(300);

const MOMENT: Duration = Duration::from_millis(20);

/// How long after its grace period a shutdown may take: to release locks, and to get the replies.
const RELEASE_TIME: Duration = Duration::from_secs(11);

impl Process {
    pub(crate) fn new(
        plan: &Arc<Plan>,
        world: &World,
        chronicle: &Chronicle,
        network: &Network,
        node: usize,
        clock: &NodeClock,
        mut rng: SeededRng,
    ) -> Self {
        let link = network.link(node, plan.time_limit);
        let client: Arc<dyn LockProvider> = match plan.family {
            Family::Conditional => Arc::new(Conditional::new(link, clock)),
            Family::Versioned(flavour) => {
                let engine = Engine::new(Versioned::new(link, flavour))
                    .with_tolerated_skew(plan.tolerated_skew)
                    .with_clock(Arc::new(clock.clone()));
                Arc::new(engine.provider())
            }
        };
        let watched = Watched::new(client, chronicle);
        let calls = Calls {
            chronicle: chronicle.clone(),
            node,
        };
        let recorded = Recorded::new(Arc::new(watched), calls, Duration::ZERO);
        let mut provider: Arc<dyn LockProvider> = Arc::new(recorded);
        if plan.has_prefix {
            let prefixed = PrefixProvider::new(provider, "team:");
            provider = Arc::new(prefixed.expect("the prefix can begin a name"));
        }
        Self {
            plan: plan.clone(),
            world: world.clone(),
            chronicle: chronicle.clone(),
            clock: clock.clone(),
            provider,
            rng: Arc::new(Mutex::new(rng.fork())),
            scheduler: Arc::default(),
        }
    }

    /// Starts everything that runs in the process.
    pub(crate) async fn run(self) {
        let (provider, clock) = self.with_its_mistake();
        let executor = Executor::new(provider)
            .clock(clock)
            .wall_clock_check(WALL_CLOCK_CHECK)
            .store_timeout(self.plan.store_timeout)
            .listener(Arc::new(Counting(self.chronicle.clone())));
        self.schedule(&executor);
        let actor = Actor {
            plan: self.plan.clone(),
            executor,
            clock: self.clock.clone(),
            chronicle: self.chronicle.clone(),
            rng: self.fork(),
        };
        actor.run().await;
    }

    /// The provider and the clock of its executors, with the mistake in them if it is one of the
    /// clock.
    fn with_its_mistake(&self) -> (Arc<dyn LockProvider>, Arc<dyn Clock>) {
        let of_the_clock = |it: &Mistake| it.is_of_the_clock();
        let clock: Arc<dyn Clock> = Arc::new(self.clock.clone());
        let Some(wrong) = self.plan.wrong.filter(of_the_clock) else {
            return (self.provider.clone(), clock);
        };
        let surroundings = Surroundings {
            clock: Arc::clone(&clock),
            ..Surroundings::new(self.fork().number())
        };
        let mistaken = Mistaken::new(Some(wrong), self.provider.clone(), surroundings);
        let clock = mistaken.clock().unwrap_or(clock);
        (Arc::new(mistaken), clock)
    }

    fn schedule(&self, executor: &Executor) {
        if self.plan.jobs.is_empty() {
            return;
        }
        let jobs = self.plan.jobs.iter().map(|job| self.job(job));
        let started = Scheduler::new(executor.clone())
            .clock(Arc::new(self.clock.clone()))
            .clock_check(self.plan.clock_check)
            .seed(self.fork().number())
            .jobs(jobs)
            .start();
        *self.scheduler.lock().expect("nothing panics with it") =
            Some(started.expect("the plan's jobs are right"));
    }

    fn job(&self, plan: &JobPlan) -> Job {
        let lock = &plan.lock;
        let (period, completion) = lock.slots.expect("a job has slots");
        let mut config = LockConfig::new(lock.name.as_str())
            .lock_at_most_for(lock.at_most)
            .completion(completion);
        if plan.keeps_alive {
            config = config.keep_alive();
        }
        let schedule = match &plan.cron {
            Some(cron) => Schedule::cron(cron),
            None => Schedule::every(period),
        };
        let (process, plan) = (self.clone(), plan.clone());
        Job::new(config, schedule, move |_: JobRun| {
            let mut rng = process.fork();
            let fails = rng.one_in(plan.fails);
            let body = Body {
                chronicle: process.chronicle.clone(),
                clock: process.clock.clone(),
                takes: match rng.one_in(20) && !process.chronicle.is_healed() {
                    true => rng.up_to((period + period / 4).min(6 * LONGEST_RUN)),
                    false => rng.heavy(MOMENT, (period / 8).min(LONGEST_RUN)),
                },
                steps: u32::try_from(1 + rng.below(3)).unwrap_or(1),
                extends: None,
                spawns: rng.one_in(8),
                ignores_loss: false,
                ends: match fails {
                    true if rng.one_in(3) => Ends::InPanic,
                    true => Ends::InError,
                    false => Ends::Well,
                },
            };
            body.run()
        })
    }

    fn fork(&self) -> SeededRng {
        self.rng.lock().expect("nothing panics with it").fork()
    }

    /// Shuts down its scheduler, and calls `done` when it has.
    pub(crate) async fn retire(self, grace: Duration, is_judged: bool, done: impl FnOnce()) {
        let handle = self
            .scheduler
            .lock()
            .expect("nothing panics with it")
            .take();
        if let Some(handle) = handle {
            let before = self.world.now();
            let report = handle.shutdown(grace).await;
            let took = Duration::from_nanos(self.world.now() - before);
            self.chronicle.count(Transition::ShutDown);
            let limit = grace + RELEASE_TIME + grace / 100 + self.plan.late_timers.1 * 2;
            if is_judged && took > limit {
                let what = format!("shutdown: with a grace period of {grace:?}, it took {took:?}");
                self.chronicle.complain(what);
            }
            if report.is_ok_and(|report| !report.cut.is_empty()) {
                self.chronicle.count(Transition::RunCut);
            }
        }
        done();
    }

    /// An operator frees a lock from here.
    pub(crate) async fn force(self) {
        let number = self.fork().below(self.plan.locks.len() as u64);
        let number = usize::try_from(number).unwrap_or(0);
        let Ok(name) = LockName::new(self.plan.locks[number].name.as_str()) else {
            return;
        };
        let request = ForceUnlockRequest::new(name);
        // If the store cannot be reached, nothing is done.
        let _ = admin::force_unlock(&*self.provider, &request).await;
    }
}
