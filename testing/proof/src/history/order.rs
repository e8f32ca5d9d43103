//! Checks that tokens and slots are unique and in order.

use std::collections::BTreeMap;

use super::Findings;
use super::lease::Life;

/// Tokens are unique, and grow from one owner to any owner that sent its request after the first
/// one's reply.
pub(super) fn tokens(held: &[&Life], findings: &mut Findings) {
    let mut seen: BTreeMap<u64, &Life> = BTreeMap::new();
    for life in held {
        let Some(token) = life.token else {
            if life.host.is_some() || life.pause.is_some() {
                continue;
            }
            findings.violated(
                "no token",
                &format!("{} holds {} without a token", life.owner, life.name),
            );
            continue;
        };
        if let Some(other) = seen.insert(token, life) {
            findings.violated(
                "token twice",
                &format!(
                    "{token} of {} was given to {} and to {}",
                    life.name, other.owner, life.owner
                ),
            );
        }
    }
    ordered(held, |life| life.token, "token goes back", findings);
}

/// A slot that is used up when taken runs once, unless it was given back unused, and no older slot
/// is granted to an owner that sent its request after another one's reply. An open slot runs at
/// most the allowed number of times, not after it is done, and before any later slot.
pub(super) fn slots(lives: &[&Life], held: &[&Life], findings: &mut Findings) {
    let mut slots: BTreeMap<i64, Runs<'_>> = BTreeMap::new();
    for life in lives {
        if let Some(slot) = life.slot {
            slots.entry(slot).or_default().add(life);
        }
    }
    for (slot, runs) in &mut slots {
        runs.granted.sort_by_key(|life| life.acquired);
        runs.judge(*slot, findings);
    }
    slots.retain(|_, runs| !runs.granted.is_empty());
    for ((slot, runs), later) in slots.iter().zip(slots.values().skip(1)) {
        passed_over(*slot, runs, later, findings);
    }
    ordered(held, |life| life.slot, "slot goes back", findings);
}

/// All owners that got one slot of one lock, in the order in which they were granted it.
#[derive(Default)]
struct Runs<'a> {
    granted: Vec<&'a Life>,
    /// Owners that may have been granted it, with an unknown outcome.
    unknown: usize,
}

impl<'a> Runs<'a> {
    fn add(&mut self, life: &'a Life) {
        if life.acquired.is_some() {
            self.granted.push(life);
        } else if life.may_have_won() {
            self.unknown += 1;
        }
    }

    fn judge(&self, slot: i64, findings: &mut Findings) {
        let done = self
            .granted
            .iter()
            .filter_map(|life| Some((life.slot_done?.1?, *life)))
            .min_by_key(|(at, _)| *at);
        for (earlier, later) in self.granted.iter().zip(self.granted.iter().skip(1)) {
            let is_open = earlier.slot_attempts.is_some() && later.slot_attempts.is_some();
            findings.runs_again += usize::from(is_open);
            let was_done = done.is_some_and(|(at, _)| at < later.asked);
            // Only the last holder may give the slot back: a second or late return gives back
            // another owner's slot.
            let was_unused = earlier
                .slot_given_back
                .is_some_and(|(at, unused)| unused && Some(at) < later.acquired);
            if was_done || !(is_open || was_unused) {
                findings.violated(
                    "slot twice",
                    &format!(
                        "{slot} of {} was given to {} and to {}",
                        later.name, earlier.owner, later.owner
                    ),
                );
            }
        }
        let uncounted = |life: &&&Life| life.slot_given_back.is_some();
        let counted = self.granted.len() - self.granted.iter().filter(uncounted).count();
        if let Some(last) = self.granted.last()
            && let Some(attempts) = last.slot_attempts
            && counted > usize::try_from(attempts).unwrap_or(usize::MAX)
        {
            findings.violated(
                "slot run too often",
                &format!(
                    "{slot} of {} was granted {counted} times, not counting those that gave it \
                     back; {attempts} were allowed",
                    last.name,
                ),
            );
        }
    }

    /// Whether a later slot had to wait: this slot was begun before the other request, is certainly
    /// not done by then, and can be tried again.
    fn holds_up(&self, later: &Life) -> bool {
        let begun = self
            .granted
            .iter()
            .any(|life| life.acquired.is_some_and(|at| at < later.asked));
        let may_be_done = self.granted.iter().any(|life| life.slot_done.is_some());
        let left = self.granted.last().and_then(|life| life.slot_attempts);
        let used = self.granted.len() + self.unknown;
        begun
            && !may_be_done
            && left.is_some_and(|left| used < usize::try_from(left).unwrap_or(usize::MAX))
    }
}

/// An open slot must not be passed over for the next one.
fn passed_over(slot: i64, runs: &Runs<'_>, later: &Runs<'_>, findings: &mut Findings) {
    let first = later.granted.first().filter(|life| runs.holds_up(life));
    if let Some(life) = first {
        findings.violated(
            "slot passed over",
            &format!(
                "{} got a later slot of {} although {slot} was begun and is neither done nor \
                 given up",
                life.owner, life.name
            ),
        );
    }
}

fn ordered<T: Ord + Copy + std::fmt::Display>(
    held: &[&Life],
    value: impl Fn(&Life) -> Option<T>,
    law: &str,
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
            findings.violated(
                law,
                &format!(
                    "{} got {largest} for {}, but {} requested it later and got {value}",
                    earlier.owner, life.name, life.owner
                ),
            );
        }
    }
}
