//! How long locks stay taken, and how long tasks run.

use std::collections::BTreeMap;

use super::lease::Life;
use super::{Event, Findings, Rules, What, nanos};

/// After its unlock a lock stays taken until acquisition + at-least: by our clock from the earliest
/// moment at which it can have been acquired, and by the store's from what it says.
pub(super) fn at_least(held: &[&Life], rules: &Rules, findings: &mut Findings) {
    let drift = nanos(rules.drift + rules.skew);
    let mut by_answer: Vec<(u64, &Life)> = held
        .iter()
        .filter_map(|life| Some((life.acquired?, *life)))
        .collect();
    by_answer.sort_by_key(|(at, _)| *at);
    for (i, (answered, life)) in by_answer.iter().enumerate() {
        let kept = life.asked.saturating_add(life.at_least);
        let next = by_answer[i + 1..]
            .iter()
            .take_while(|(at, _)| at.saturating_add(drift) < kept)
            .find(|(_, next)| next.asked > *answered);
        if let Some((at, next)) = next
            && !life.withdrawn
        {
            findings.violated(
                "at-least",
                &format!(
                    "{} was to keep {} until {kept} ns, {} was told that it holds it at {at} ns",
                    life.owner, life.name, next.owner
                ),
            );
        }
    }
    let mut by_store: Vec<(u64, &Life)> = held
        .iter()
        .filter_map(|life| Some((life.store_from?, *life)))
        .collect();
    by_store.sort_by_key(|(from, life)| (*from, life.token));
    for pair in by_store.windows(2) {
        let [(begun, life), (from, next)] = pair else {
            continue;
        };
        let kept = begun.saturating_add(life.at_least);
        if from.saturating_add(drift) < kept && !life.withdrawn {
            findings.violated(
                "at-least",
                &format!(
                    "{} was to keep {} until {kept}, {} was granted it at {from} (nanoseconds since \
                     1970)",
                    life.owner, life.name, next.owner
                ),
            );
        }
    }
}

/// A skip says "locked": then somebody may have held it between question and answer. It says that the
/// slot is taken: then somebody may have won that slot, or a later one.
pub(super) fn skips(
    events: &[Event],
    names: &BTreeMap<&str, Vec<&Life>>,
    rules: &Rules,
    findings: &mut Findings,
) {
    let names: BTreeMap<&str, (Tide, Tide)> = names
        .iter()
        .map(|(name, lives)| (*name, (Tide::of_leases(lives), Tide::of_slots(lives))))
        .collect();
    let mut asked: BTreeMap<&str, (u64, Option<i64>)> = BTreeMap::new();
    for event in events {
        let (locked, slot_taken) = match event.what {
            What::Asked { slot, .. } => {
                asked.insert(&event.owner, (event.at, slot));
                continue;
            }
            What::Skipped { locked, slot_taken } => (locked, slot_taken),
            _ => continue,
        };
        findings.skips += 1;
        let Some((from, slot)) = asked.get(event.owner.as_str()) else {
            continue;
        };
        let Some((leases, slots)) = names.get(event.name.as_str()) else {
            continue;
        };
        let until = leases.highest_by(event.at);
        let from = i128::from(*from) - i128::from(nanos(rules.drift));
        if locked && until.is_none_or(|until| until < from) {
            findings.violated(
                "taken for too long",
                &format!(
                    "{} was skipped at {} as locked at {} ns, but every lease had ended by then",
                    event.owner, event.name, event.at
                ),
            );
        }
        if let Some(slot) = slot
            && slot_taken
            && slots
                .highest_by(event.at)
                .is_none_or(|last| last < i128::from(*slot))
        {
            findings.violated(
                "slot refused",
                &format!(
                    "{} was told that slot {slot} of {} is taken, but nobody can have had it or a \
                     later one",
                    event.owner, event.name
                ),
            );
        }
    }
}

/// The highest of what those brought who had asked by then: looked up for each skip, so that the
/// history of hours can be judged.
struct Tide(Vec<(u64, i128)>);

impl Tide {
    /// Until when a lock may have been held, from its lives in the order in which they asked.
    fn of_leases(lives: &[&Life]) -> Self {
        Self::of(lives, |life| life.possible_until.map(i128::from))
    }

    /// Which slot of it may have been taken.
    fn of_slots(lives: &[&Life]) -> Self {
        Self::of(lives, |life| {
            life.slot.filter(|_| life.may_have_won()).map(i128::from)
        })
    }

    fn of(lives: &[&Life], value: impl Fn(&Life) -> Option<i128>) -> Self {
        let mut high = None;
        let marks = lives.iter().filter_map(|life| {
            high = high.max(value(life));
            Some((life.asked, high?))
        });
        Self(marks.collect())
    }

    fn highest_by(&self, moment: u64) -> Option<i128> {
        let asked = self.0.partition_point(|(asked, _)| *asked <= moment);
        Some(self.0[..asked].last()?.1)
    }
}

/// Outside of the windows in which its process was stopped, no task went on past its deadline.
///
/// Who was let on in time may be put aside by the machine before it does its one thing, which comes
/// late then, and lawfully: the next one has to be the last. And where a whole process was stopped, the
/// thing that comes first when it goes on may have been let on before; where that happens again and
/// again, it was not.
pub(super) fn tasks(events: &[Event], lives: &[Life], rules: &Rules, findings: &mut Findings) {
    let stops = Stops::of(events);
    let drift = nanos(rules.drift);
    let mut after_stops = Vec::new();
    for life in lives {
        let late: Vec<(u64, u64)> = life
            .late_steps
            .iter()
            .copied()
            .filter(|(at, until)| {
                *at > until.saturating_add(drift) && !stops.cover(life.process, *at)
            })
            .collect();
        match late[..] {
            [] => {}
            [(at, until)] => {
                if stops.end_between(life.process, until, at) {
                    after_stops.push(outlived(life, at, until));
                }
            }
            [_, (at, until), ..] => findings.violated("outlived", &outlived(life, at, until)),
        }
    }
    if after_stops.len() >= AFTER_STOPS_SUSPECTED {
        findings.violated("outlived", &after_stops[0]);
    }
}

/// How many tasks may do one thing too many when their process goes on.
const AFTER_STOPS_SUSPECTED: usize = 3;

fn outlived(life: &Life, at: u64, until: u64) -> String {
    format!(
        "the task of {} at {} did something at {at} ns, though it should have been stopped by \
         {until} ns, and its process was not",
        life.owner, life.name
    )
}

/// When processes were stopped from outside.
struct Stops(BTreeMap<u32, Vec<(u64, u64)>>);

impl Stops {
    fn of(events: &[Event]) -> Self {
        let mut stops: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        for event in events {
            let of_process = stops.entry(event.process);
            match event.what {
                What::Stopped => of_process.or_default().push((event.at, u64::MAX)),
                What::GoesOn => {
                    if let Some((_, until)) = of_process.or_default().last_mut() {
                        *until = (*until).min(event.at);
                    }
                }
                _ => {}
            }
        }
        Self(stops)
    }

    /// Whether one was over in this time.
    fn end_between(&self, process: u32, from: u64, to: u64) -> bool {
        self.0
            .get(&process)
            .is_some_and(|stops| stops.iter().any(|(_, end)| (from..=to).contains(end)))
    }

    fn cover(&self, process: u32, moment: u64) -> bool {
        self.0.get(&process).is_some_and(|stops| {
            stops
                .iter()
                .any(|(from, to)| (*from..=*to).contains(&moment))
        })
    }
}
