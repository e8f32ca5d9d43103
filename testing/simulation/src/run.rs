//! One run of the world, from a seed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shedlock_core::LockName;
use shedlock_proof::Mistake;
use shedlock_proof::history::{Findings, History, Rules, What};

use crate::chronicle::Chronicle;
use crate::liveness;
use crate::store::Store;
use crate::transition::{Counts, Transition};
use crate::workload::{Family, Plan, Process, Struck};
use crate::world::{Event, Network, Node, NodeClock, Strike, World, nanos};
use shedlock_proof::SeededRng;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// How much time passed in the world.
    pub time: Duration,
    /// How many leases were granted.
    pub acquisitions: u64,
    /// How many events there were.
    pub events: u64,
    /// What happened, and how often.
    pub counts: Counts,
    /// Two runs with the same fingerprint are identical, event by event.
    pub fingerprint: u64,
}

/// A run in which something was wrong.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// The seed that reproduces it.
    pub seed: u64,
    /// What the judge of histories found, and what is wrong with the run as a whole.
    pub findings: Findings,
    /// The plan, and everything that happened.
    pub trace: Vec<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plan = self.trace.first();
        let tail = self.trace.len().saturating_sub(TRACE).max(1);
        for line in plan.into_iter().chain(&self.trace[tail..]) {
            writeln!(f, "{line}")?;
        }
        write!(
            f,
            "{}\nto repeat it, set SHEDLOCK_SIMULATION_SEED={}",
            self.findings.violations.join("\n"),
            self.seed
        )
    }
}

/// Runs the world of this seed to its end, with one mistake in it if requested.
///
/// # Errors
/// What was wrong. The world then runs again to record a trace.
pub fn simulate(seed: u64, wrong: Option<Mistake>) -> Result<Report, Failure> {
    let mut run = Run::new(seed, wrong, false);
    run.go();
    let findings = run.judged();
    if findings.violations.is_empty() {
        return Ok(run.report(&findings));
    }
    let mut again = Run::new(seed, wrong, true);
    again.go();
    let mut trace = vec![format!("{:?}", again.plan)];
    trace.extend(again.chronicle.trace());
    Err(Failure {
        seed,
        findings,
        trace,
    })
}

/// The number of lines of the trace that are shown.
const TRACE: usize = 120;

/// More events than any run has whose clients pause before they retry. One event per
/// `SECONDS_AN_EVENT` is allowed in addition.
const MOST_EVENTS: u64 = 400_000;

/// A client that waits for a lease of a day retries every ten seconds.
const SECONDS_AN_EVENT: u64 = 4;

struct Run {
    plan: Arc<Plan>,
    world: World,
    chronicle: Chronicle,
    network: Network,
    store: Arc<Store>,
    nodes: Vec<Node>,
    processes: Vec<Option<Process>>,
    rng: SeededRng,
    /// When each node was stopped, and for how long in total.
    stopped_at: Vec<u64>,
    /// Processes that have shut down, to be started again.
    retired: Arc<Mutex<Vec<usize>>>,
    healed_at: Option<u64>,
    events: u64,
}

impl Run {
    fn new(seed: u64, wrong: Option<Mistake>, is_traced: bool) -> Self {
        let mut rng = SeededRng::new(seed);
        let plan = Arc::new(Plan::drawn(&mut rng, wrong));
        let world = World::default();
        let chronicle = Chronicle::new(&world, is_traced);
        let store = Arc::new(Store::new(&world, &chronicle, wrong));
        let network = Network::new(
            &world,
            &chronicle,
            store.clone(),
            rng.fork(),
            plan.faults,
            plan.nodes,
        );
        let nodes: Vec<Node> = (0..plan.nodes)
            .map(|number| {
                let drift = either_way(&mut rng, plan.drift);
                let offset = either_way(&mut rng, nanos(plan.wrong_by));
                let (fork, late) = (rng.fork(), plan.late_timers);
                Node::new(NodeClock::new(&world, number, fork, drift, offset, late))
            })
            .collect();
        Self {
            processes: vec![None; nodes.len()],
            stopped_at: vec![0; nodes.len()],
            plan,
            world,
            chronicle,
            network,
            store,
            nodes,
            rng,
            retired: Arc::default(),
            healed_at: None,
            events: 0,
        }
    }

    fn report(&self, findings: &Findings) -> Report {
        Report {
            time: self.plan.end(),
            acquisitions: findings.acquisitions as u64,
            events: self.events,
            counts: self.chronicle.counts(),
            fingerprint: self.world.fingerprint(),
        }
    }

    /// What the judge of histories finds, and what is wrong with the run as a whole.
    fn judged(&self) -> Findings {
        let rules = Rules {
            flight: self.plan.faults.longest,
            refuses_late: matches!(self.plan.family, Family::Conditional),
            drift: Duration::ZERO,
            skew: self.plan.slack(),
            lag: self.plan.lag(),
            withdrawal: self.plan.withdraws().then(|| self.plan.withdrawal()),
            // Records have whole milliseconds.
            ..Rules::new(Duration::from_millis(1), true)
        };
        let history = History::new(self.chronicle.history());
        let mut findings = history.judge(&rules);
        let complaint = self.chronicle.complaint();
        let complaint = complaint.or_else(|| self.lost_liveness(history.events()));
        findings.violations.extend(complaint);
        findings
    }

    /// The lock or the slot that was left out after all faults were repaired, if there is one.
    fn lost_liveness(&self, events: &[shedlock_proof::history::Event]) -> Option<String> {
        if self.plan.wrong.is_some() {
            // A deliberately wrong protocol gives no guarantees.
            return None;
        }
        let healed_at = self.healed_at.unwrap_or(u64::MAX);
        let recovered = healed_at.saturating_add(nanos(self.plan.recovery()));
        let locks = self.plan.locks.iter().map(|lock| &lock.name);
        let jobs = self.plan.jobs.iter().map(|job| &job.lock.name);
        let names = locks.chain(jobs).map(|name| self.plan.named(name));
        liveness::unused_since(events, healed_at, names)
            .or_else(|| liveness::skipped_slot(events, recovered, &self.plan.grids()))
    }

    /// Records what the store's clock shows.
    fn note_the_time(&self) {
        let calendar = self.world.calendar();
        let since = calendar.duration_since(std::time::UNIX_EPOCH);
        let shows = nanos(since.unwrap_or_default());
        self.chronicle
            .write(None, "", "", What::StoreClock { shows });
    }

    fn go(&mut self) {
        self.note_the_time();
        for number in 0..self.nodes.len() {
            let at = self.rng.up_to(Duration::from_secs(5));
            self.world.after(at, Event::Strike(Strike::Restart(number)));
        }
        for (struck, _) in self.plan.struck.clone() {
            self.plan_next(struck);
        }
        self.world
            .after(self.plan.rough, Event::Strike(Strike::Heal));
        let end = nanos(self.plan.end());
        let most = MOST_EVENTS + self.plan.end().as_secs() / SECONDS_AN_EVENT;
        while let Some(event) = self.world.next(end) {
            self.events += 1;
            self.happens(event);
            if self.events > most {
                let what = format!("pauses: still running after {} events", self.events);
                self.chronicle.complain(what);
            }
            if self.chronicle.complaint().is_some() {
                break;
            }
        }
        self.note_the_time();
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Wake(node, waker) => {
                waker.wake();
                self.nodes[node].turn();
            }
            Event::Arrive(node, act) => {
                act();
                if let Some(node) = node {
                    self.nodes[node].turn();
                }
            }
            Event::Strike(strike) => self.strike(strike),
        }
        let retired = {
            let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *retired)
        };
        for node in retired {
            self.chronicle.happened_to(node, What::GoesOn);
            self.nodes[node].kill();
            let pause = self.rng.up_to(self.plan.longest_outage);
            self.world
                .after(pause, Event::Strike(Strike::Restart(node)));
        }
    }

    /// Schedules the next strike of this kind, until all faults are repaired.
    fn plan_next(&mut self, struck: Struck) {
        let Some((_, pause)) = self.plan.struck.iter().find(|(kind, _)| *kind == struck) else {
            return;
        };
        let pause = self.rng.up_to(*pause * 2);
        let node = usize::try_from(self.rng.below(self.nodes.len() as u64)).unwrap_or(0);
        let strike = match struck {
            Struck::Crash => Strike::Crash(node),
            Struck::Stop => Strike::Stop(node),
            Struck::Retire => Strike::Retire(node),
            Struck::Jump => Strike::Jump(node),
            Struck::Part => Strike::Part(node),
            Struck::Store => Strike::StoreDown,
            Struck::Force => Strike::Force,
            Struck::Delete => Strike::Delete,
        };
        self.world.after(pause, Event::Strike(strike));
    }

    fn strike(&mut self, strike: Strike) {
        self.chronicle.note(|| format!("strikes: {strike:?}"));
        let outage = self.rng.up_to(self.plan.longest_outage);
        let is_healed = self.healed_at.is_some();
        match strike {
            Strike::Restart(node) => self.start(node),
            Strike::Resume(node) => self.resume(node),
            Strike::Join(node) => self.network.part(node, false),
            Strike::StoreUp => self.network.set_store_down(false),
            Strike::Heal => self.heal(),
            _ if is_healed => {}
            Strike::Crash(node) => {
                self.plan_next(Struck::Crash);
                if !self.nodes[node].is_up() {
                    return;
                }
                self.chronicle.count(Transition::Crashed);
                if self.chronicle.holds(node) {
                    self.chronicle.count(Transition::CrashedHolding);
                }
                self.chronicle.happened_to(node, What::GoesOn);
                self.nodes[node].kill();
                self.processes[node] = None;
                self.after(outage, Strike::Restart(node));
            }
            Strike::Stop(node) if self.rng.one_in(4) => {
                self.plan_next(Struck::Stop);
                self.network.stop_in_next_call(node);
            }
            Strike::Stop(node) | Strike::StopInCall(node) => {
                if matches!(strike, Strike::Stop(_)) {
                    self.plan_next(Struck::Stop);
                }
                if !self.nodes[node].is_up() || self.nodes[node].is_stopped {
                    return;
                }
                self.chronicle.count(Transition::Stopped);
                self.chronicle.happened_to(node, What::Stopped);
                self.nodes[node].is_stopped = true;
                self.stopped_at[node] = self.world.now();
                let shortest = Duration::from_millis(1);
                let pause = match self.rng.flip() {
                    true => self.rng.heavy(shortest, self.plan.longest_stop),
                    false => self.rng.up_to(self.plan.longest_stop),
                };
                self.after(pause, Strike::Resume(node));
            }
            Strike::Retire(node) => {
                self.plan_next(Struck::Retire);
                self.retire(node);
            }
            Strike::Jump(node) => {
                self.plan_next(Struck::Jump);
                self.chronicle.count(Transition::ClockJumped);
                let offset = either_way(&mut self.rng, nanos(self.plan.wrong_by));
                self.nodes[node].clock.set_offset(offset);
            }
            Strike::Part(node) => {
                self.plan_next(Struck::Part);
                self.chronicle.count(Transition::Parted);
                self.network.part(node, true);
                self.after(outage, Strike::Join(node));
            }
            Strike::StoreDown => {
                self.plan_next(Struck::Store);
                self.chronicle.count(Transition::StoreRestarted);
                self.network.set_store_down(true);
                let length = self
                    .rng
                    .heavy(Duration::from_millis(1), Duration::from_secs(5));
                if matches!(self.plan.family, Family::Versioned(flavour) if flavour.loses_tail) {
                    self.store.lose_tail(length);
                }
                self.after(outage, Strike::StoreUp);
            }
            Strike::Delete => {
                self.plan_next(Struck::Delete);
                let number = self.rng.below(self.plan.locks.len() as u64);
                let lock = &self.plan.locks[usize::try_from(number).unwrap_or(0)];
                if let Ok(name) = LockName::new(self.plan.named(&lock.name)) {
                    self.store.delete(&name);
                }
            }
            Strike::Force => {
                self.plan_next(Struck::Force);
                let node = self.rng.below(self.nodes.len() as u64);
                let node = usize::try_from(node).unwrap_or(0);
                if let Some(process) = &self.processes[node] {
                    self.nodes[node].spawn(process.clone().force());
                    self.nodes[node].turn();
                }
            }
        }
    }

    fn after(&self, pause: Duration, strike: Strike) {
        self.world.after(pause, Event::Strike(strike));
    }

    fn start(&mut self, number: usize) {
        if self.nodes[number].is_up() {
            return;
        }
        let node = &mut self.nodes[number];
        node.clock = node.clock.of_next_process();
        let process = Process::new(
            &self.plan,
            &self.world,
            &self.chronicle,
            &self.network,
            number,
            &node.clock,
            self.rng.fork(),
        );
        self.processes[number] = Some(process.clone());
        node.start(process.run());
    }

    fn resume(&mut self, number: usize) {
        if !self.nodes[number].is_stopped {
            return;
        }
        if self.chronicle.ran_out(number, self.stopped_at[number]) {
            self.chronicle.count(Transition::StoppedPastDeadline);
        }
        self.chronicle.happened_to(number, What::GoesOn);
        self.nodes[number].is_stopped = false;
        self.nodes[number].turn();
    }

    fn retire(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        let Some(process) = self.processes[number].clone() else {
            return;
        };
        if !node.is_up() || node.is_retiring {
            return;
        }
        node.is_retiring = true;
        let retired = self.retired.clone();
        let longest = self.plan.rough / 100;
        let grace = match self.rng.one_in(3) {
            true => Duration::ZERO,
            false => self.rng.heavy(Duration::from_secs(1), longest),
        };
        // A process that is stopped in the meantime cannot be judged.
        let is_judged = self
            .plan
            .struck
            .iter()
            .all(|(kind, _)| *kind != Struck::Stop);
        let done = move || {
            let mut retired = retired.lock().unwrap_or_else(PoisonError::into_inner);
            retired.push(number);
        };
        node.spawn(process.retire(grace, is_judged, done));
        node.turn();
    }

    fn heal(&mut self) {
        let now = self.world.now();
        self.healed_at = Some(now);
        self.chronicle.heals();
        self.network.heal();
        for number in 0..self.nodes.len() {
            self.resume(number);
            self.start(number);
            let node = &self.nodes[number];
            node.clock.be_punctual();
            let nearly = self.plan.wrong_by.min(Duration::from_millis(100));
            node.clock
                .set_right(either_way(&mut self.rng, nanos(nearly)));
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            node.kill();
        }
    }
}

fn either_way(rng: &mut SeededRng, by: u64) -> i64 {
    let drawn = rng.below(2 * by + 1);
    i64::try_from(drawn).unwrap_or(0) - i64::try_from(by).unwrap_or(0)
}
