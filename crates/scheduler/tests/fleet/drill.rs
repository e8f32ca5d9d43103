//! The jobs that each replica of the drill runs, and the record of what happens. The drill itself
//! exists twice: an hour in memory on a simulated clock here, and on PostgreSQL in
//! `testing/scenarios/`.

pub(crate) mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use shedlock_core::{Clock, Completion, Event, Listener, LockConfig, Moment, Retries, Slot};
use shedlock_scheduler::{Job, JobRun, LatePolicy, Observer, Overlap, Schedule, Tick};
use verdict::OfSlot;

pub(crate) const MOST_ATTEMPTS: u32 = 4;

/// A job of the fleet. Times are in units of the drill.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    period: u32,
    jitter: u32,
    /// The longest run time.
    takes: u32,
    late: Late,
    pub(crate) must_not_be_lost: bool,
}

#[derive(Clone, Copy)]
enum Late {
    Once,
    Within(u32),
    Skip,
}

pub(crate) const KINDS: [Kind; 6] = [
    kind("invoices", 20, 0, 6, Late::Once, true),
    kind("ledger", 15, 2, 9, Late::Once, true),
    kind("mails", 10, 0, 3, Late::Once, false),
    kind("report", 60, 15, 50, Late::Once, false),
    kind("clean", 10, 4, 14, Late::Skip, false),
    kind("ping", 3, 1, 1, Late::Within(4), false),
];

const fn kind(
    name: &'static str,
    period: u32,
    jitter: u32,
    takes: u32,
    late: Late,
    must_not_be_lost: bool,
) -> Kind {
    Kind {
        name,
        period,
        jitter,
        takes,
        late,
        must_not_be_lost,
    }
}

impl Kind {
    pub(crate) fn schedule(&self, unit: Duration) -> Schedule {
        Schedule::every(unit * self.period).expect("a grid of whole microseconds")
    }

    /// Fails occasionally, and for one slot in fifty always.
    pub(crate) fn job(
        &self,
        unit: Duration,
        node: u64,
        clock: &Arc<dyn Clock>,
        ledger: &Ledger,
    ) -> Job {
        let mut config = LockConfig::new(self.name).lock_at_most_for(unit * 70);
        if self.must_not_be_lost {
            let retries = Retries::new().max_attempts(MOST_ATTEMPTS).backoff(unit);
            config = config.completion(Completion::OnSuccess(retries));
        }
        let (clock, ledger) = (clock.clone(), ledger.clone());
        let (name, longest) = (self.name, unit * self.takes);
        let late = match self.late {
            Late::Once => LatePolicy::Once,
            Late::Within(limit) => LatePolicy::Within(unit * limit),
            Late::Skip => LatePolicy::Skip,
        };
        let overlap = match self.late {
            Late::Skip => Overlap::Skip,
            _ => Overlap::Queue,
        };
        Job::new(config, self.schedule(unit), move |run: JobRun| {
            let (clock, ledger) = (clock.clone(), ledger.clone());
            async move {
                let slot = run.slot().expect("only slots run here");
                let attempt = run.slot_attempt();
                let fate = mixed(slot.as_micros().unsigned_abs());
                let drawn = mixed(fate ^ node ^ u64::from(attempt.unwrap_or(0)));
                ledger.note(name, slot, node, What::Began { attempt });
                let takes =
                    longest.mul_f64(f64::from(u32::try_from(drawn % 1_000).unwrap_or(0)) / 1_000.0);
                clock.sleep_until(clock.now() + takes).await;
                if [fate % 50, drawn % 11].contains(&0) {
                    return Err("no luck");
                }
                ledger.note(name, slot, node, What::Succeeded);
                Ok(())
            }
        })
        .jitter(unit * self.jitter)
        .late(late)
        .overlap(overlap)
    }

    /// The slots between two instants.
    pub(crate) fn slots(
        &self,
        unit: Duration,
        from: SystemTime,
        until: SystemTime,
    ) -> BTreeSet<Slot> {
        let schedule = self.schedule(unit);
        let mut slots = BTreeSet::new();
        let mut at = from;
        while let Some(slot) = schedule
            .next_after(at)
            .filter(|slot| slot.instant() < until)
        {
            slots.insert(slot);
            at = slot.instant();
        }
        slots
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// A replica is about to attempt it.
    Asked {
        after_its_shutdown: bool,
    },
    Began {
        attempt: Option<u32>,
    },
    Succeeded,
    /// The executor's event.
    GivenUp,
    /// How a tick ended, according to the replica's observer.
    Told(String),
}

type Facts = Vec<(u64, What)>;

/// What happened to the slots, on all replicas.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    jobs: BTreeMap<&'static str, BTreeMap<Slot, Facts>>,
    /// The replicas that were killed.
    killed: BTreeSet<u64>,
    /// When each replica was asked to shut down.
    shutdowns: BTreeMap<u64, Moment>,
}

impl Ledger {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().expect("no test panics here")
    }

    pub(crate) fn note(&self, job: &'static str, slot: Slot, node: u64, what: What) {
        let mut book = self.book();
        let slots = book.jobs.entry(job).or_default();
        let facts = slots.entry(slot).or_default();
        // A replica that waits repeats its attempts.
        let last = facts.iter().rev().find(|fact| fact.0 == node);
        if last.is_none_or(|last| last.1 != what) {
            facts.push((node, what));
        }
    }

    fn of(&self, job: &str) -> BTreeMap<Slot, Facts> {
        self.book().jobs.get(job).cloned().unwrap_or_default()
    }

    /// Records that a replica is killed.
    pub(crate) fn kills(&self, node: u64) {
        self.book().killed.insert(node);
    }

    /// Records that a replica is asked to shut down, which it does before the clock moves on.
    #[allow(dead_code, reason = "real clocks do move on")]
    pub(crate) fn shuts_down(&self, node: u64, at: Moment) {
        self.book().shutdowns.insert(node, at);
    }

    pub(crate) fn of_node(&self, node: u64, clock: &Arc<dyn Clock>) -> Arc<NodeLedger> {
        Arc::new(NodeLedger {
            node,
            clock: clock.clone(),
            ledger: self.clone(),
        })
    }
}

/// The ledger of one replica.
pub(crate) struct NodeLedger {
    node: u64,
    clock: Arc<dyn Clock>,
    ledger: Ledger,
}

impl NodeLedger {
    pub(crate) fn note(&self, job: &str, slot: Option<Slot>, what: What) {
        let kind = KINDS.iter().find(|kind| kind.name == job);
        if let (Some(kind), Some(slot)) = (kind, slot) {
            self.ledger.note(kind.name, slot, self.node, what);
        }
    }
}

impl fmt::Debug for NodeLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeLedger")
    }
}

impl Observer for NodeLedger {
    fn on_tick(&self, tick: &Tick<'_>) {
        self.note(tick.job, tick.slot, What::Told(tick.end.to_string()));
    }
}

impl Listener for NodeLedger {
    fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::SlotGivenUp { name, slot, .. } => {
                self.note(name.as_str(), Some(*slot), What::GivenUp);
            }
            Event::Attempt { request, .. } => {
                let told = self.ledger.book().shutdowns.get(&self.node).copied();
                let after_its_shutdown = told.is_some_and(|told| self.clock.now() > told);
                let asked = What::Asked { after_its_shutdown };
                self.note(request.name.as_str(), request.slot, asked);
            }
            _ => {}
        }
    }
}

/// What happened to the fleet.
pub(crate) struct Drill {
    pub(crate) unit: Duration,
    pub(crate) from: SystemTime,
    pub(crate) until: SystemTime,
    /// When jobs were not fired, and which jobs; all of them if none is named.
    pub(crate) rests: Vec<(Option<&'static str>, SystemTime, SystemTime)>,
    /// How far ticks may deviate from their slots, in addition to jitter.
    pub(crate) slack: Duration,
    /// The percentage of slots that may not run, for whatever reason. On a busy machine many are
    /// too late.
    pub(crate) most_left_out: u32,
}

impl Drill {
    /// Returns an error unless all rules hold. Each slot that must not be lost is done once, or was
    /// given up after its attempts, with an event that reports this. No other slot runs twice, or
    /// is used up without a run. For each slot that did not run there is a tick that gives the
    /// reason, or the job was paused. No replica begins anything after it was asked to shut down.
    pub(crate) fn judge(&self, ledger: &Ledger) -> Result<(), String> {
        for kind in &KINDS {
            let facts = ledger.of(kind.name);
            let (mut done, mut left_out) = (0_u32, 0_u32);
            for slot in kind.slots(self.unit, self.from, self.until) {
                let of_slot = OfSlot {
                    drill: self,
                    kind,
                    slot,
                    facts: facts.get(&slot).map(Vec::as_slice).unwrap_or_default(),
                    killed: &ledger.book().killed,
                };
                match of_slot.is_done() {
                    Ok(true) => done += 1,
                    Ok(false) => left_out += 1,
                    Err(wrong) => {
                        let facts = of_slot.facts;
                        return Err(format!("{} of {slot}: {wrong}: {facts:?}", kind.name));
                    }
                }
            }
            if done == 0 || left_out * 100 > self.most_left_out * (done + left_out) {
                let name = kind.name;
                return Err(format!("{name}: {done} done, {left_out} left out"));
            }
        }
        Ok(())
    }
}

/// A random number for this seed.
fn mixed(seed: u64) -> u64 {
    fastrand::Rng::with_seed(seed).u64(..)
}

/// The random numbers of a drill.
pub(crate) struct Draw(fastrand::Rng);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end)
    }

    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// Returns a random duration of up to this many units.
    pub(crate) fn up_to(&mut self, unit: Duration, most: u32) -> Duration {
        let thousandths = u32::try_from(self.below(1_000)).unwrap_or(0);
        unit * most * thousandths / 1_000
    }
}
