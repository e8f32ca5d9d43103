//! The last slots of a job, and what became of each.

use std::time::{Duration, SystemTime};

use shedlock_core::{JobRecord, LockRecord, RunOutcome, RunRecord, RunState, Slot};
use shedlock_journal::view::{next_slot, second, took};
use shedlock_scheduler as scheduler;

use crate::components::{Badge, Bar, Bars};

/// How many slots are shown.
pub(crate) const SHOWN: usize = 30;

/// How many slots are computed at once at most to find the last ones.
const STEPS: usize = 2_000;

/// A slot, or a run of a job without a schedule.
#[derive(Clone, Debug)]
pub(crate) struct SlotRow<'a> {
    pub(crate) slot: Option<SystemTime>,
    pub(crate) run: Option<(&'a RunRecord, RunState)>,
    /// A slot without a run is missed once a run of it would be overdue.
    pub(crate) is_due: bool,
}

/// The first slot of a job after an instant.
pub(crate) fn next(job: &JobRecord, after: SystemTime) -> Option<SystemTime> {
    next_slot(job, after, scheduler::next_slot)
}

/// The last slots of this job, the earliest first. `runs` are its latest runs, the latest first, and
/// `lock` is the record of its lock.
pub(crate) fn last<'a>(
    job: &JobRecord,
    runs: &'a [RunRecord],
    lock: Option<&LockRecord>,
    now: SystemTime,
) -> Vec<SlotRow<'a>> {
    let with_state = |run: &'a RunRecord| {
        let record = lock.filter(|lock| lock.name.as_str() == run.name);
        (run, run.state(record, now))
    };
    let has_slots = job.schedule.is_some() && runs.iter().all(|run| run.slot.is_some());
    let expected = match has_slots {
        true => expected(job, runs, now),
        false => Vec::new(),
    };
    if expected.is_empty() {
        let rows = runs.iter().take(SHOWN).rev().map(|run| SlotRow {
            slot: run.slot.map(Slot::instant),
            run: Some(with_state(run)),
            is_due: false,
        });
        return rows.collect();
    }
    let allowance = job.deadline.zip(job.next_slot);
    let allowance = allowance.and_then(|(by, slot)| by.duration_since(slot.instant()).ok());
    let allowance = allowance.unwrap_or_default();
    let rows = expected.into_iter().map(|slot| {
        let of_slot = |run: &&RunRecord| run.slot.map(Slot::instant) == Some(slot);
        SlotRow {
            slot: Some(slot),
            run: runs.iter().find(of_slot).map(with_state),
            is_due: slot.checked_add(allowance).is_none_or(|end| end > now),
        }
    });
    rows.collect()
}

/// The slots that the schedule has had since the job was registered, or since its runs that are
/// known.
fn expected(job: &JobRecord, runs: &[RunRecord], now: SystemTime) -> Vec<SystemTime> {
    let Some(first) = next(job, now) else {
        return Vec::new();
    };
    let second = next(job, first).and_then(|second| second.duration_since(first).ok());
    let period = second.unwrap_or(Duration::MAX);
    let reach = period.saturating_mul(u32::try_from(SHOWN).unwrap_or(u32::MAX));
    let oldest = runs
        .last()
        .map_or(now, |run| run.slot.map_or(run.started, Slot::instant));
    let ago = |reach| now.checked_sub(reach).unwrap_or(SystemTime::UNIX_EPOCH);
    // A schedule that was changed had other slots before.
    let start = ago(reach).min(oldest).max(job.registered.min(oldest));
    let mut found = Vec::new();
    // The slots may lie further apart than the next two, and many may have passed since the latest run.
    for reach in (0..).map_while(|nth| reach.checked_mul(4_u32.checked_pow(nth)?)) {
        let from = ago(reach).max(start);
        let Some(slots) = between(job, from, now) else {
            break;
        };
        found = slots;
        if found.len() >= SHOWN || from == start {
            break;
        }
    }
    found.split_off(found.len().saturating_sub(SHOWN))
}

/// The slots of a job from one instant to another, both included; `None` if they are too many.
fn between(job: &JobRecord, from: SystemTime, to: SystemTime) -> Option<Vec<SystemTime>> {
    let mut after = from.checked_sub(Duration::from_micros(1)).unwrap_or(from);
    let mut slots = Vec::new();
    while let Some(slot) = next(job, after).filter(|slot| *slot > after && *slot <= to) {
        if slots.len() == STEPS {
            return None;
        }
        slots.push(slot);
        after = slot;
    }
    Some(slots)
}

impl SlotRow<'_> {
    pub(crate) fn badge(&self) -> Badge {
        match &self.run {
            Some((_, state)) => Badge::of_run(*state),
            None if self.is_due => Badge {
                class: "idle",
                word: "due",
            },
            None => Badge {
                class: "missed",
                word: "missed",
            },
        }
    }
}

/// These slots as bars: their height is how long the run took.
pub(crate) fn bars(rows: &[SlotRow<'_>]) -> Bars {
    let lasted = |row: &SlotRow<'_>| {
        let (run, _) = row.run?;
        Some(run.end.as_ref()?.ran_for)
    };
    let longest = rows.iter().filter_map(lasted).max().unwrap_or_default();
    let bars = rows.iter().map(|row| {
        let badge = row.badge();
        let started = row.run.map(|(run, _)| run.started);
        let at = row.slot.or(started).map_or_else(String::new, second);
        let took = lasted(row).map(|it| format!(" in {}", took(it)));
        Bar {
            class: badge.class,
            size: lasted(row).map_or(0.0, |it| {
                it.as_secs_f64() / longest.as_secs_f64().max(0.001)
            }),
            title: format!("{at}: {}{}", badge.word, took.unwrap_or_default()),
        }
    });
    let bars: Vec<_> = bars.collect();
    Bars::of(bars, label(rows))
}

/// The number of slots of each kind, as words for a screen reader.
fn label(rows: &[SlotRow<'_>]) -> String {
    if rows.is_empty() {
        return "no runs yet".to_owned();
    }
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for row in rows {
        let word = row.badge().word;
        match counts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => counts.push((word, 1)),
        }
    }
    let counts: Vec<_> = counts
        .iter()
        .map(|(word, n)| format!("{n} {word}"))
        .collect();
    format!("the last {}: {}", rows.len(), counts.join(", "))
}

/// The median duration of the successful runs among these.
pub(crate) fn median(runs: &[RunRecord]) -> Option<Duration> {
    let ends = runs.iter().filter_map(|run| run.end.as_ref());
    let ends = ends.filter(|end| end.outcome == RunOutcome::Succeeded);
    let mut lasted: Vec<_> = ends.map(|end| end.ran_for).collect();
    lasted.sort();
    lasted.get(lasted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use shedlock_core::RunEnd;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn slots_without_a_run_are_missed_or_still_due() {
        let mut job = JobRecord::new("minutely", at(590));
        job.schedule = Some("* * * * *".to_owned());
        job.zone = Some("UTC".to_owned());
        job.next_slot = Slot::at(at(660)).ok();
        job.deadline = Some(at(690));
        let mut run = RunRecord::new("minutely", "minutely", "h/1/ff", at(601));
        run.slot = Slot::at(at(600)).ok();
        run.end = Some(RunEnd::new(
            Duration::from_secs(2),
            RunOutcome::Succeeded,
            None,
        ));
        let runs = [run];
        let rows = last(&job, &runs, None, at(729));
        let words: Vec<_> = rows.iter().map(|row| row.badge().word).collect();
        assert_eq!(words, ["succeeded", "missed", "due"]);
        assert_eq!(label(&rows), "the last 3: 1 succeeded, 1 missed, 1 due");
        assert_eq!(median(&runs), Some(Duration::from_secs(2)));
    }

    /// A job whose runs ended two weeks ago, with slots each minute, or each minute of an hour a day.
    #[test]
    fn the_last_slots_are_shown_after_a_long_time_without_runs() {
        const DAY: u64 = 86_400;
        for (schedule, last_of_all) in [("* * * * *", 20 * DAY), ("* 9 * * *", 19 * DAY + 35_940)] {
            let mut job = JobRecord::new("minutely", at(0));
            job.schedule = Some(schedule.to_owned());
            job.zone = Some("UTC".to_owned());
            let runs: Vec<_> = (0..30)
                .map(|number| {
                    let slot = 6 * DAY + 35_940 - 60 * number;
                    let mut run = RunRecord::new("minutely", "minutely", "h/1/ff", at(slot));
                    run.slot = Slot::at(at(slot)).ok();
                    run
                })
                .collect();
            let rows = last(&job, &runs, None, at(20 * DAY + 30));
            let slots: Vec<_> = rows.iter().filter_map(|row| row.slot).collect();
            let expected = (0..30).rev().map(|nth| at(last_of_all - 60 * nth));
            assert_eq!(slots, expected.collect::<Vec<_>>(), "{schedule}");
        }
    }
}
