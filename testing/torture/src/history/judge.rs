//! Was it lawful?

use std::collections::BTreeMap;
use std::time::Duration;

use super::faults::Faults;
use super::lease::Life;
use super::{History, exclusion, hosts, limits, order, skips};

/// What a history is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How much later than at-most a lock may come free: what the provider declares.
    pub granularity: Duration,
    /// Whether acquisitions carry fencing tokens.
    pub fencing: bool,
    /// How long a request may be on its way while nothing holds it up: what does is in the history.
    pub flight: Duration,
    /// Whether the store refuses an attempt that comes after its timeout by the store's clock, so
    /// that no copy of it can be granted after that, even if no one withdraws it.
    pub refuses_late: bool,
    /// How far the speed of two clocks and a store that cuts its times may be apart over a lease.
    pub drift: Duration,
    /// How far the clocks of clients are apart that judge leases: at-least may end that much earlier
    /// by our clock, and a lock come free that much later.
    pub skew: Duration,
}

impl Rules {
    /// For a provider that declares these.
    pub fn new(granularity: Duration, fencing: bool) -> Self {
        Self {
            granularity,
            fencing,
            flight: Duration::from_secs(2),
            refuses_late: true,
            drift: Duration::from_millis(5),
            skew: Duration::ZERO,
        }
    }
}

/// What a history contains.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Findings {
    /// Lines of the logs.
    pub events: usize,
    /// Attempts that were granted.
    pub acquisitions: usize,
    /// Of these, those to ShedLock for Java.
    pub shedlocks: usize,
    /// Attempts that were skipped.
    pub skips: usize,
    /// Runs of slots that stay open until they are done, after the first of each.
    pub runs_again: usize,
    /// Leases that nobody unlocked: their holders were killed.
    pub abandoned: usize,
    /// Broken laws, each with its evidence: which law, a colon, and what shows it. Empty for a lawful
    /// history.
    pub violations: Vec<String>,
}

impl Findings {
    pub(super) fn violated(&mut self, law: &str, evidence: &str) {
        self.violations.push(format!("{law}: {evidence}"));
    }
}

impl History {
    /// Looks for what must not be:
    ///
    /// | violation | what it means |
    /// |---|---|
    /// | `overlap`, `overlap in the store` | two held one lock at once, by our clock or by the store's |
    /// | `lost ownership` | an unlock or extension was refused while its lease ran for certain |
    /// | `revived`, `unlocked too late` | one worked though its lease was over |
    /// | `at-least` | a lock that was to be kept was granted |
    /// | `shortened` | an extension moved the end of a lease to an earlier instant, or a skip reports such an end |
    /// | `taken for too long` | a skip as locked though every lease had ended, or that of the holder which it names |
    /// | `owner returns` | an owner holds a lock again that it had given back, when no copy of its attempt may come any more |
    /// | `unknown owner` | a skip names a holder that never asked for the lock |
    /// | `slot refused` | a skip as taken though nobody can have had the slot or a later one |
    /// | `token twice`, `token goes back`, `no token` | fencing tokens do not grow |
    /// | `slot twice`, `slot goes back` | a slot had two runs, or came after a later one |
    /// | `slot passed over`, `slot run too often` | the same of slots that stay open until they are done |
    /// | `outlived` | a task did something past its deadline, or after its unlock, and its process was not stopped |
    ///
    /// Leases of ShedLock's [a little less](super#shedlock-for-java-among-them).
    pub fn judge(&self, rules: &Rules) -> Findings {
        let mut findings = Findings {
            events: self.events.len(),
            ..Findings::default()
        };
        let faults = Faults::of(&self.events);
        let mut lives = self.lives(rules, &faults);
        lives.sort_by_key(|life| life.asked);
        hosts::weaken(&mut lives, rules, &faults);
        let mut names: BTreeMap<&str, Vec<&Life>> = BTreeMap::new();
        for life in &lives {
            names.entry(&life.name).or_default().push(life);
            for (law, evidence) in &life.broken {
                findings.violated(law, evidence);
            }
        }
        for lives in names.values() {
            let held: Vec<&Life> = lives
                .iter()
                .copied()
                .filter(|life| life.acquired.is_some())
                .collect();
            findings.acquisitions += held.len();
            findings.shedlocks += held.iter().filter(|life| life.host.is_some()).count();
            findings.abandoned += held.iter().filter(|l| l.release_asked.is_none()).count();
            exclusion::judge(&held, rules, &mut findings);
            limits::at_least(&held, rules, &mut findings);
            if rules.fencing {
                order::tokens(&held, &mut findings);
            }
            order::slots(lives, &held, &mut findings);
        }
        skips::judge(&self.events, &names, rules, &mut findings);
        limits::tasks(&faults, &lives, rules, &mut findings);
        findings
    }

    fn lives(&self, rules: &Rules, faults: &Faults) -> Vec<Life> {
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
            for crash in faults.crashes() {
                life.store_crashed(*crash);
            }
        }
        lives
    }
}
