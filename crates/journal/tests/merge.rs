//! The rules by which entries change jobs and runs: the order of entries, their batches and their number do not matter.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use shedlock_core::{JobRecord, JournalEntry, RunEnd, RunOutcome, RunRecord, Slot};
use shedlock_journal::merge::{Batch, Changes, Known, Limits};

const LIMITS: Limits = Limits {
    name: 255,
    text: 255,
    line: 16,
    word: 16,
    cut: |text, longest| text.get(..longest).unwrap_or(text),
};

fn at(second: u64) -> SystemTime {
    // No whole microsecond: what is read back is not what was written.
    UNIX_EPOCH + Duration::from_nanos(1_800_000_000_000_000_123 + second * 1_000_000_000)
}

/// The entries of a run of one of two jobs: its start, its end, and for some a correction of a success.
fn entries_of(number: u64, job: bool, outcome: RunOutcome, takes: u64) -> Vec<JournalEntry> {
    let job = if job { "mail" } else { "post" };
    let start = RunRecord::new(job, job, format!("host/1/{number:016x}"), at(number * 10));
    let next = Slot::at(at(number * 10 + 5)).ok();
    let next = next.map(|slot| (slot, at(number * 10 + 7)));
    let ended = |outcome| {
        let mut run = start.clone();
        let text =
            (outcome != RunOutcome::Succeeded).then(|| format!("line {number} of many\nlines"));
        run.end = Some(RunEnd::new(Duration::from_millis(takes), outcome, text));
        JournalEntry::run(run, next.filter(|_| outcome == RunOutcome::Succeeded))
    };
    let mut entries = vec![JournalEntry::run(start.clone(), None), ended(outcome)];
    if outcome == RunOutcome::Succeeded && takes % 3 == 0 {
        entries.push(ended(RunOutcome::MaybeOverlapped));
    }
    entries
}

fn entries() -> impl Strategy<Value = Vec<JournalEntry>> {
    let outcome = prop::sample::select(vec![
        RunOutcome::Succeeded,
        RunOutcome::Failed,
        RunOutcome::Cancelled,
        RunOutcome::Panicked,
    ]);
    let runs = prop::collection::vec((any::<bool>(), outcome, 1..5_000_u64), 1..6);
    runs.prop_map(|runs| {
        let runs = (0..).zip(runs);
        let entries =
            runs.map(|(number, (job, outcome, takes))| entries_of(number, job, outcome, takes));
        entries.flatten().collect()
    })
}

/// What a store has after these entries, written in batches of this size.
fn recorded(entries: &[JournalEntry], size: usize) -> Known {
    let mut known = Known::default();
    for entries in entries.chunks(size) {
        write(&mut known, entries);
    }
    known
}

/// Returns how many rows have changed.
fn write(known: &mut Known, entries: &[JournalEntry]) -> usize {
    let batch = Batch::new(entries, LIMITS);
    let Changes { jobs, runs } = batch.changes(known, at(0));
    let count = jobs.len() + runs.len();
    let jobs = jobs.into_iter().map(|job| (job.job.clone(), job));
    known.jobs.extend(jobs);
    let runs = runs
        .into_iter()
        .map(|run| (run.id.identity().to_owned(), run));
    known.runs.extend(runs);
    count
}

proptest! {
    #[test]
    fn order_batches_and_repetition_do_not_matter(
        (entries, shuffled) in entries().prop_flat_map(|entries| {
            (Just(entries.clone()), Just(entries).prop_shuffle())
        }),
        size in 1..8_usize,
    ) {
        let once = recorded(&entries, entries.len());
        let mut again = recorded(&shuffled, size);
        prop_assert_eq!(&once.runs, &again.runs);
        prop_assert_eq!(&once.jobs, &again.jobs);
        prop_assert_eq!(write(&mut again, &entries), 0);
    }

    #[test]
    fn what_was_written_is_read_back_the_same(entries in entries()) {
        let known = recorded(&entries, entries.len());
        for JobRecord { last_failed, last_error, last_run, .. } in known.jobs.values() {
            let micros = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().subsec_nanos() % 1_000;
            prop_assert!(last_failed.is_none_or(|time| micros(time) == 0));
            prop_assert!(last_run.as_ref().is_none_or(|last| micros(last.started) == 0));
            prop_assert!(last_error.as_ref().is_none_or(|line| line.len() <= 16 && !line.contains('\n')));
        }
    }
}
