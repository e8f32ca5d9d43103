//! Checks how long locks stay taken and how long tasks run.

use super::faults::Faults;
use super::lease::Life;
use super::{Findings, Rules, nanos};

/// After its unlock a lock stays taken until acquisition + at-least. Checked by the local clock,
/// from the earliest possible moment of the acquisition, and by the times that the store returns.
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
                    "{} should keep {} until {kept} ns, but {} was granted it at {at} ns",
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
    let mut longest: Option<(u64, &Life)> = None;
    for (from, life) in by_store {
        if let Some((kept, before)) = longest
            && from.saturating_add(drift) < kept
        {
            findings.violated(
                "at-least",
                &format!(
                    "{} should keep {} until {kept}, but {} was granted it at {from} (nanoseconds \
                     since 1970)",
                    before.owner, life.name, life.owner
                ),
            );
        }
        let kept = from.saturating_add(life.at_least);
        if !life.withdrawn && longest.is_none_or(|(longest, _)| longest < kept) {
            longest = Some((kept, life));
        }
    }
}

/// Checks that no task continued past its deadline, except while its process was stopped.
///
/// A task may pass its check in time and then be preempted before its next step. That one step is
/// then late, which is lawful, but it must be the last. After a whole process was stopped, the
/// first step on resuming may also have passed its check before the stop. If this happens
/// repeatedly, the task did not check.
pub(super) fn tasks(faults: &Faults, lives: &[Life], rules: &Rules, findings: &mut Findings) {
    let drift = nanos(rules.drift);
    let mut after_stops = Vec::new();
    for life in lives {
        let late: Vec<(u64, u64)> = life
            .late_steps
            .iter()
            .copied()
            .filter(|(at, until)| {
                *at > until.saturating_add(drift) && !faults.cover(life.process, *at)
            })
            .collect();
        match late[..] {
            [] => {}
            [(at, until)] => {
                if faults.stop_ends_between(life.process, until, at) {
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

/// How many tasks may do one late step when their process resumes.
const AFTER_STOPS_SUSPECTED: usize = 3;

fn outlived(life: &Life, at: u64, until: u64) -> String {
    format!(
        "the task of {} at {} did something at {at} ns, although it should have been stopped by \
         {until} ns, and its process was running",
        life.owner, life.name
    )
}
