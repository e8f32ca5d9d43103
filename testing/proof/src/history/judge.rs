//! Checks whether a history is lawful.

use std::collections::BTreeMap;
use std::time::Duration;

use super::faults::Faults;
use super::lease::Life;
use super::pauses::Operators;
use super::{History, What, exact, exclusion, hosts, limits, order, skips, withdrawals};

/// The parameters by which a history is judged.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How much later than at-most a lock may become free, as the provider declares.
    pub granularity: Duration,
    /// Whether acquisitions carry fencing tokens.
    pub fencing: bool,
    /// How long a request may be in flight when nothing holds it up. Events that hold it up are in
    /// the history.
    pub flight: Duration,
    /// Whether the store refuses an attempt that arrives after its timeout by the store's clock.
    /// Then no copy of it can be granted afterwards, even without a withdrawal.
    pub refuses_late: bool,
    /// The tolerance over a lease for two clocks running at different speeds and a store that
    /// truncates times.
    pub drift: Duration,
    /// The clock skew between clients whose clocks judge leases. At-least may end this much earlier
    /// by the local clock, and a lock may become free this much later.
    pub skew: Duration,
    /// How long a client may be shown an outdated record.
    pub lag: Duration,
    /// How long after its timeout an attempt that may have won is withdrawn at the latest, while its
    /// process runs. `None` if that is not certain.
    pub withdrawal: Option<Duration>,
    /// How soon after a forward jump of its wall clock a process stops the tasks whose leases end with
    /// that jump (law 15): the jump counts as elapsed time. `None` if this is not judged.
    pub jumps: Option<Duration>,
}

impl Rules {
    /// The rules for a provider that declares these values.
    pub fn new(granularity: Duration, fencing: bool) -> Self {
        Self {
            granularity,
            fencing,
            flight: Duration::from_secs(2),
            refuses_late: true,
            drift: Duration::from_millis(5),
            skew: Duration::ZERO,
            lag: Duration::ZERO,
            withdrawal: None,
            jumps: None,
        }
    }
}

/// All laws that a violation may name.
pub const LAWS: [&str; 30] = [
    "overlap",
    "overlap in the store",
    "overlapped success",
    "lost ownership",
    "revived",
    "unlocked too late",
    "at-least",
    "shortened",
    "taken for too long",
    "owner returns",
    "not withdrawn",
    "unknown owner",
    "slot refused",
    "token twice",
    "token goes back",
    "no token",
    "slot twice",
    "slot goes back",
    "slot passed over",
    "slot run too often",
    "overlap with a pause",
    "pause lost",
    "pause forced",
    "slot of a pause",
    "outlived",
    "not the owner",
    "not given back",
    "ran twice",
    "slot used up",
    "slot given back",
];

/// What a history contains.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Findings {
    /// Lines of the logs.
    pub events: usize,
    /// Attempts that were granted.
    pub acquisitions: usize,
    /// The number of these that were granted to ShedLock for Java.
    pub shedlocks: usize,
    /// Pauses that held a lock.
    pub pauses: usize,
    /// Attempts that were skipped.
    pub skips: usize,
    /// Runs of open slots after the first run of each slot.
    pub runs_again: usize,
    /// Leases that were not unlocked because their holders were killed.
    pub abandoned: usize,
    /// Broken laws: for each, the law, a colon, and the evidence. Empty for a lawful history.
    pub violations: Vec<String>,
}

impl Findings {
    /// Whether this law was broken.
    pub fn convict_of(&self, law: &str) -> bool {
        let mut laws = self.violations.iter().filter_map(|it| it.split_once(':'));
        laws.any(|(broken, _)| broken == law)
    }

    pub(super) fn violated(&mut self, law: &str, evidence: &str) {
        debug_assert!(LAWS.contains(&law), "{law:?} is not in the list of laws");
        self.violations.push(format!("{law}: {evidence}"));
    }
}

impl History {
    /// Checks the history for violations:
    ///
    /// | violation | what it means |
    /// |---|---|
    /// | `overlap`, `overlap in the store` | two owners held one lock at the same time, by the local clock or by the store's |
    /// | `overlapped success` | a run counted as a success, although another owner was granted the lock before its end |
    /// | `lost ownership` | an unlock or extension was refused while its lease certainly ran |
    /// | `revived`, `unlocked too late` | an extension or unlock succeeded although its lease had ended |
    /// | `at-least` | a lock was granted while at-least still kept it |
    /// | `shortened` | an extension moved the end of a lease to an earlier instant, or a skip reports such an end |
    /// | `taken for too long` | an attempt was skipped as locked although every lease had ended, or that of the named holder |
    /// | `owner returns` | an owner holds a lock again that it had given back, when no copy of its attempt can arrive any more |
    /// | `not withdrawn` | an attempt that may still win was withdrawn too early or not at all, although its process was neither killed nor stopped |
    /// | `unknown owner` | a skip names a holder that never attempted the lock |
    /// | `slot refused` | an attempt was skipped as taken although no one can have had the slot or a later one |
    /// | `token twice`, `token goes back`, `no token` | fencing tokens do not grow |
    /// | `slot twice`, `slot goes back` | a slot had two runs, or ran after a later one |
    /// | `slot passed over`, `slot run too often` | the same for slots that stay open until they are done |
    /// | `overlap with a pause` | an owner was granted a lock while a pause held it, or the reverse |
    /// | `pause lost` | a resumption found no pause although one must have held the lock |
    /// | `pause forced` | a forced unlock freed a pause |
    /// | `slot of a pause` | a slot that a pause covers was run after it, although no resumption caught up |
    /// | `outlived` | a task did something past its deadline, or after its unlock, although its process was not stopped |
    ///
    /// These are found only in a history of the store's own steps:
    ///
    /// | violation | what it means |
    /// |---|---|
    /// | `not the owner` | a call changed a lease of another owner, or a lease changed without a call |
    /// | `not given back` | a holder was notified that its lock was given back, but its lease had not ended |
    /// | `ran twice` | two tasks began under one lease |
    /// | `slot used up` | a lease whose task never began used up its slot, or an attempt at it |
    /// | `slot given back` | a slot that is used up when taken was given back although its task ran |
    ///
    /// Leases of ShedLock are checked for [fewer properties](super#shedlock-for-java-among-them).
    pub fn judge(&self, rules: &Rules) -> Findings {
        let mut findings = Findings {
            events: self.events.len(),
            ..Findings::default()
        };
        if exact::judge(&self.events, rules, &mut findings) {
            return findings;
        }
        let faults = Faults::of(&self.events);
        let operators = Operators::of(&self.events, rules, &faults);
        let mut lives = self.lives(rules, &faults, &operators);
        lives.sort_by_key(|life| life.asked);
        hosts::weaken(&mut lives, rules, &faults);
        let mut names: BTreeMap<&str, Vec<&Life>> = BTreeMap::new();
        for life in &lives {
            names.entry(&life.name).or_default().push(life);
            for (law, evidence) in &life.broken {
                findings.violated(law, evidence);
            }
            for (_, evidence) in &life.losses {
                findings.violated("lost ownership", evidence);
            }
        }
        for lives in names.values() {
            let held: Vec<&Life> = lives
                .iter()
                .copied()
                .filter(|life| life.acquired.is_some())
                .collect();
            let tasks = held.iter().filter(|life| life.pause.is_none());
            findings.acquisitions += tasks.clone().count();
            findings.shedlocks += held.iter().filter(|life| life.host.is_some()).count();
            findings.abandoned += tasks.filter(|l| l.release_asked.is_none()).count();
            exclusion::judge(&held, rules, &mut findings);
            limits::at_least(&held, rules, &mut findings);
            if rules.fencing {
                order::tokens(&held, &mut findings);
            }
            order::slots(lives, &held, &mut findings);
            operators.judge(lives, &faults, &mut findings);
        }
        skips::judge(&self.events, &names, rules, &mut findings);
        for event in self.events.iter().filter(|it| it.what == What::Forced) {
            let evidence = format!("{} no longer holds {}", event.owner, event.name);
            findings.violated("pause forced", &evidence);
        }
        limits::tasks(&faults, &lives, rules, &mut findings);
        withdrawals::judge(&self.events, &lives, &faults, rules, &mut findings);
        findings
    }

    fn lives(&self, rules: &Rules, faults: &Faults, operators: &Operators<'_>) -> Vec<Life> {
        let mut lives: BTreeMap<&str, Life> = BTreeMap::new();
        for event in &self.events {
            if let Some(life) = lives.get_mut(event.owner.as_str()) {
                life.see(event, faults);
            } else if let Some(life) = Life::new(event, rules, faults) {
                lives.insert(&event.owner, life);
            }
        }
        let mut lives: Vec<Life> = lives.into_values().collect();
        for life in &mut lives {
            life.end(faults);
        }
        operators.end_lives(&mut lives);
        for life in &mut lives {
            for crash in faults.crashes() {
                life.store_crashed(*crash);
            }
        }
        lives
    }
}
