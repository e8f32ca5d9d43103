//! What each replica of the drill runs, what is written down of it, and the verdict. The drill itself is
//! told twice: an hour in memory on a simulated clock here, and on PostgreSQL in `scenarios/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use shedlock_core::{Clock, Completion, LockConfig, Retries, Slot};
use shedlock_scheduler::{Job, JobRun, LatePolicy, Observer, Overlap, Schedule, Tick};

pub(crate) const MOST_ATTEMPTS: u32 = 4;

/// A job of the fleet; times are in units of the drill.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    period: u32,
    jitter: u32,
    /// The longest run.
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

    /// Fails now and then, and for one slot in fifty always.
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
            config = config.slot_completion(Completion::OnSuccess(retries));
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
                if fate.is_multiple_of(50) || drawn.is_multiple_of(11) {
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

    /// The slots from one instant to another.
    fn slots(&self, unit: Duration, from: SystemTime, until: SystemTime) -> BTreeSet<Slot> {
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
enum What {
    Began {
        attempt: Option<u32>,
    },
    Succeeded,
    /// How a tick ended, as the replica's observer has it.
    Told(String),
}

type Facts = Vec<(u64, What)>;

/// What became of the slots, on all replicas.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<BTreeMap<&'static str, BTreeMap<Slot, Facts>>>>);

impl Ledger {
    fn note(&self, job: &'static str, slot: Slot, node: u64, what: What) {
        let mut jobs = self.0.lock().expect("no test panics here");
        let slots = jobs.entry(job).or_default();
        slots.entry(slot).or_default().push((node, what));
    }

    fn of(&self, job: &str) -> BTreeMap<Slot, Facts> {
        let jobs = self.0.lock().expect("no test panics here");
        jobs.get(job).cloned().unwrap_or_default()
    }

    pub(crate) fn of_node(&self, node: u64) -> Arc<dyn Observer> {
        Arc::new(NodeLedger {
            node,
            ledger: self.clone(),
        })
    }
}

struct NodeLedger {
    node: u64,
    ledger: Ledger,
}

impl fmt::Debug for NodeLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeLedger")
    }
}

impl Observer for NodeLedger {
    fn on_tick(&self, tick: &Tick<'_>) {
        let kind = KINDS.iter().find(|kind| kind.name == tick.job);
        if let (Some(kind), Some(slot)) = (kind, tick.slot) {
            let end = What::Told(tick.end.to_string());
            self.ledger.note(kind.name, slot, self.node, end);
        }
    }
}

/// What was done to the fleet.
pub(crate) struct Drill {
    pub(crate) unit: Duration,
    pub(crate) from: SystemTime,
    pub(crate) until: SystemTime,
    /// When jobs were not fired, and which: all of them where none is named.
    pub(crate) rests: Vec<(Option<&'static str>, SystemTime, SystemTime)>,
    /// By how much ticks may be off their slots, besides jitter.
    pub(crate) slack: Duration,
    /// In percent: how many may not run, for whatever reason. On a busy machine many are too late.
    pub(crate) most_left_out: u32,
}

impl Drill {
    /// Each slot that must not be lost is done once, or was given up after its attempts; no other runs
    /// twice; and for each that did not run there is a tick that says why, or it was paused.
    pub(crate) fn judge(&self, ledger: &Ledger) -> Result<(), String> {
        for kind in &KINDS {
            let facts = ledger.of(kind.name);
            let (mut done, mut left_out) = (0_u32, 0_u32);
            for slot in kind.slots(self.unit, self.from, self.until) {
                let facts = facts.get(&slot).map(Vec::as_slice).unwrap_or_default();
                let is_done = if kind.must_not_be_lost {
                    done_or_given_up(facts)
                } else {
                    self.ran_or_explained(kind, slot, facts)
                };
                match is_done {
                    Ok(true) => done += 1,
                    Ok(false) => left_out += 1,
                    Err(wrong) => {
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

    fn ran_or_explained(
        &self,
        kind: &Kind,
        slot: Slot,
        facts: &[(u64, What)],
    ) -> Result<bool, &'static str> {
        let began = facts
            .iter()
            .filter(|fact| matches!(fact.1, What::Began { .. }));
        match began.count() {
            0 => {}
            1 => return Ok(true),
            _ => return Err("ran more than once"),
        }
        let says_why = |fact: &(u64, What)| match &fact.1 {
            What::Told(end) => end != "ran" && end != "taken by another replica",
            _ => false,
        };
        let at = slot.instant();
        let rested = self.rests.iter().any(|(job, from, until)| {
            let is_its = job.is_none_or(|job| job == kind.name);
            let starts_by = at + self.unit * kind.jitter + self.slack;
            is_its && starts_by >= *from && at <= *until + self.slack
        });
        if rested || facts.iter().any(says_why) {
            Ok(false)
        } else {
            Err("not run, for no reason")
        }
    }
}

/// A success that its replica could not report (it was killed, or its lease was lost) may be repeated.
fn done_or_given_up(facts: &[(u64, What)]) -> Result<bool, &'static str> {
    let succeeded: Vec<u64> = facts
        .iter()
        .filter(|fact| fact.1 == What::Succeeded)
        .map(|fact| fact.0)
        .collect();
    let reported = |node: &&u64| facts.contains(&(**node, What::Told("ran".to_owned())));
    let attempts = facts.iter().filter_map(|fact| match fact.1 {
        What::Began { attempt } => attempt,
        _ => None,
    });
    match succeeded.iter().filter(reported).count() {
        0 | 1 if !succeeded.is_empty() => Ok(true),
        0 if attempts.max() == Some(MOST_ATTEMPTS) => Ok(false),
        0 => Err("neither done nor given up"),
        _ => Err("done more than once"),
    }
}

pub(crate) fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The chance that a drill is drawn from.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mixed(self.0.wrapping_mul(0x1000_0000_01b3)) % end
    }

    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// Up to so many units.
    pub(crate) fn up_to(&mut self, unit: Duration, most: u32) -> Duration {
        let thousandths = u32::try_from(self.below(1_000)).unwrap_or(0);
        unit * most * thousandths / 1_000
    }
}

/// The verdict finds each of the mistakes that it is there for.
#[test]
fn a_verdict_finds_what_is_lost_doubled_or_unexplained() {
    let from = std::time::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let judged = |job: &'static str, change: &dyn Fn(&Ledger, Slot)| {
        let (ledger, unit) = (Ledger::default(), Duration::from_secs(1));
        let until = from + unit * 600;
        let mut changed = None;
        for kind in &KINDS {
            for slot in kind.slots(unit, from, until) {
                let attempt = kind.must_not_be_lost.then_some(1);
                if kind.name == job && changed.is_none() {
                    changed = Some(slot);
                    change(&ledger, slot);
                    continue;
                }
                ledger.note(kind.name, slot, 1, What::Began { attempt });
                ledger.note(kind.name, slot, 1, What::Succeeded);
            }
        }
        let rests = Vec::new();
        let slack = unit;
        let drill = Drill {
            unit,
            from,
            until,
            rests,
            slack,
            most_left_out: 50,
        };
        drill.judge(&ledger).err()
    };
    let told = |end: &str| What::Told(end.to_owned());
    let began = |attempt| What::Began { attempt };
    let finds = |job, facts: &[(u64, What)], wrong: &str| {
        let found = judged(job, &|ledger, slot| {
            for (node, what) in facts {
                ledger.note(job, slot, *node, what.clone());
            }
        });
        match found {
            Some(found) => assert!(!wrong.is_empty() && found.contains(wrong), "{found}"),
            None => assert_eq!(wrong, "", "{facts:?}"),
        }
    };
    finds(
        "mails",
        &[(1, began(None)), (2, began(None))],
        "more than once",
    );
    finds(
        "mails",
        &[(1, told("taken by another replica"))],
        "no reason",
    );
    finds("mails", &[(1, told("missed: too late"))], "");
    finds("ledger", &[], "neither");
    finds("ledger", &[(1, began(Some(3)))], "neither");
    finds("ledger", &[(1, began(Some(MOST_ATTEMPTS)))], "");
    let done = |node| [(node, What::Succeeded), (node, told("ran"))];
    finds("ledger", &[done(1), done(2)].concat(), "more than once");
    finds("ledger", &done(1), "");
}
