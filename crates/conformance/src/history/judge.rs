//! Was it lawful?

use std::collections::BTreeMap;
use std::time::Duration;

use super::lease::Life;
use super::{History, What, nanos};

/// What a history is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How much later than at-most a lock may come free: what the provider declares.
    pub granularity: Duration,
    /// Whether acquisitions carry fencing tokens.
    pub fencing: bool,
    /// How long a request may still be on its way after its sender was killed.
    pub flight: Duration,
    /// How far the speed of two clocks and a store that cuts its times may be apart over a lease.
    pub drift: Duration,
}

impl Rules {
    /// For a provider that declares these.
    pub fn new(granularity: Duration, fencing: bool) -> Self {
        Self {
            granularity,
            fencing,
            flight: Duration::from_secs(2),
            drift: Duration::from_millis(5),
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
    /// Attempts that were skipped.
    pub skips: usize,
    /// Leases that nobody unlocked: their holders were killed.
    pub abandoned: usize,
    /// Broken laws, each with its evidence. Empty for a lawful history.
    pub violations: Vec<String>,
}

impl History {
    /// Looks for leases that overlap, tokens and slots out of order, leases lost before their end,
    /// and skips while nobody can have held the lock.
    pub fn judge(&self, rules: &Rules) -> Findings {
        let mut findings = Findings {
            events: self.events.len(),
            ..Findings::default()
        };
        let mut lives = self.lives(rules);
        lives.sort_by_key(|life| life.asked);
        let mut names: BTreeMap<&str, Vec<&Life>> = BTreeMap::new();
        for life in &lives {
            names.entry(&life.name).or_default().push(life);
            for call in &life.lost_too_early {
                findings.violations.push(format!(
                    "lost ownership: {call} of {} at {} was answered with \"lost\" while its lease \
                     ran for certain",
                    life.owner, life.name
                ));
            }
        }
        for lives in names.values() {
            let held: Vec<&Life> = lives
                .iter()
                .copied()
                .filter(|life| life.acquired.is_some())
                .collect();
            findings.acquisitions += held.len();
            findings.abandoned += held.iter().filter(|l| l.release_asked.is_none()).count();
            overlaps(&held, nanos(rules.drift), &mut findings);
            overlaps_in_the_store(&held, &mut findings);
            if rules.fencing {
                tokens(&held, &mut findings);
            }
            slots(&held, &mut findings);
        }
        self.skips(&names, nanos(rules.drift), &mut findings);
        findings
    }

    fn lives(&self, rules: &Rules) -> Vec<Life> {
        let mut lives: BTreeMap<&str, Life> = BTreeMap::new();
        for event in &self.events {
            if let Some(life) = lives.get_mut(event.owner.as_str()) {
                life.see(event);
            } else if let Some(life) =
                Life::new(event, nanos(rules.granularity), nanos(rules.flight))
            {
                lives.insert(&event.owner, life);
            }
        }
        lives.into_values().collect()
    }

    /// A skip says "held": then somebody may have held it between question and answer.
    fn skips(&self, names: &BTreeMap<&str, Vec<&Life>>, drift: u64, findings: &mut Findings) {
        let names: BTreeMap<&str, Tide> = names
            .iter()
            .map(|(name, lives)| (*name, Tide::of(lives)))
            .collect();
        let mut asked: BTreeMap<&str, u64> = BTreeMap::new();
        for event in &self.events {
            match event.what {
                What::Asked { .. } => {
                    asked.insert(&event.owner, event.at);
                }
                What::Skipped { locked } => {
                    findings.skips += 1;
                    let Some(from) = asked.get(event.owner.as_str()) else {
                        continue;
                    };
                    let until = names
                        .get(event.name.as_str())
                        .and_then(|tide| tide.until(event.at));
                    let possible = until.is_some_and(|until| until.saturating_add(drift) >= *from);
                    if locked && !possible {
                        findings.violations.push(format!(
                            "taken for too long: {} was skipped at {} as locked, but every lease \
                             had ended by then",
                            event.owner, event.name
                        ));
                    }
                }
                _ => {}
            }
        }
    }
}

/// Until when a lock may have been held by any of those who had asked by then: looked up for each
/// skip, so that the history of hours can be judged.
struct Tide(Vec<(u64, u64)>);

impl Tide {
    /// Of the lives of one lock, in the order in which they asked.
    fn of(lives: &[&Life]) -> Self {
        let mut high = None;
        let marks = lives.iter().filter_map(|life| {
            high = high.max(life.possible_until);
            Some((life.asked, high?))
        });
        Self(marks.collect())
    }

    fn until(&self, by: u64) -> Option<u64> {
        let asked = self.0.partition_point(|(asked, _)| *asked <= by);
        Some(self.0[..asked].last()?.1)
    }
}

/// By our clock: from the answer to the earliest end. A lease whose answer came after its end was
/// never held: its owner counts from when it asked.
fn overlaps(held: &[&Life], drift: u64, findings: &mut Findings) {
    let mut held: Vec<(u64, &Life)> = held
        .iter()
        .filter_map(|life| Some((life.acquired?, *life)))
        .filter(|(from, life)| *from < life.excludes_until())
        .collect();
    held.sort_by_key(|(from, _)| *from);
    let mut longest: Option<&Life> = None;
    for (from, life) in held {
        if let Some(before) = longest
            && from.saturating_add(drift) < before.excludes_until()
        {
            findings.violations.push(format!(
                "overlap: {} held {} for certain until {} ns, {} was told that it holds it at \
                 {from} ns",
                before.owner,
                life.name,
                before.excludes_until(),
                life.owner
            ));
        }
        if longest.is_none_or(|before| before.excludes_until() < life.excludes_until()) {
            longest = Some(life);
        }
    }
}

/// By the store's clock, exactly: nothing is granted before the end of what nobody unlocked.
fn overlaps_in_the_store(held: &[&Life], findings: &mut Findings) {
    let mut held: Vec<(u64, &Life)> = held
        .iter()
        .filter_map(|life| Some((life.store_from?, *life)))
        .collect();
    held.sort_by_key(|(from, life)| (*from, life.token));
    for pair in held.windows(2) {
        let [(_, before), (from, life)] = pair else {
            continue;
        };
        if before.release_asked.is_none()
            && let Some(until) = before.store_until
            && *from < until
        {
            findings.violations.push(format!(
                "overlap in the store: {} held {} until {until}, {} was granted it at {from} \
                 (nanoseconds since 1970)",
                before.owner, life.name, life.owner
            ));
        }
    }
}

/// Unique, and larger for whoever asked after another had its answer.
fn tokens(held: &[&Life], findings: &mut Findings) {
    let mut seen: BTreeMap<u64, &Life> = BTreeMap::new();
    for life in held {
        let Some(token) = life.token else {
            findings.violations.push(format!(
                "no token: {} holds {} without one",
                life.owner, life.name
            ));
            continue;
        };
        if let Some(other) = seen.insert(token, life) {
            findings.violations.push(format!(
                "token twice: {token} of {} was given to {} and to {}",
                life.name, other.owner, life.owner
            ));
        }
    }
    ordered(held, |life| life.token, "token", findings);
}

/// Once each, and no older one for whoever asked after another had its answer.
fn slots(held: &[&Life], findings: &mut Findings) {
    let mut seen: BTreeMap<i64, &Life> = BTreeMap::new();
    for life in held {
        let Some(slot) = life.slot else { continue };
        if let Some(other) = seen.insert(slot, life) {
            findings.violations.push(format!(
                "slot twice: {slot} of {} was given to {} and to {}",
                life.name, other.owner, life.owner
            ));
        }
    }
    ordered(held, |life| life.slot, "slot", findings);
}

fn ordered<T: Ord + Copy + std::fmt::Display>(
    held: &[&Life],
    value: impl Fn(&Life) -> Option<T>,
    what: &str,
    findings: &mut Findings,
) {
    let mut answered: Vec<(u64, T, &Life)> = held
        .iter()
        .filter_map(|life| Some((life.acquired?, value(life)?, *life)))
        .collect();
    answered.sort_by_key(|(at, ..)| *at);
    let mut asked: Vec<(u64, T, &Life)> = held
        .iter()
        .filter_map(|life| Some((life.asked, value(life)?, *life)))
        .collect();
    asked.sort_by_key(|(at, ..)| *at);
    let mut before = answered.into_iter().peekable();
    let mut largest: Option<(T, &Life)> = None;
    for (at, value, life) in asked {
        while let Some((_, value, earlier)) = before.next_if(|(answered, ..)| *answered < at) {
            if largest.is_none_or(|(largest, _)| largest < value) {
                largest = Some((value, earlier));
            }
        }
        if let Some((largest, earlier)) = largest
            && value < largest
        {
            findings.violations.push(format!(
                "{what} goes back: {} got {largest} for {}, {} asked later and got {value}",
                earlier.owner, life.name, life.owner
            ));
        }
    }
}
