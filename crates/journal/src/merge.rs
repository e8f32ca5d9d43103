//! How entries change what a journal knows. Entries may arrive twice and in any order, so times only move forward, and
//! what describes the latest run, success or failure stays if a later one is known.

use std::time::SystemTime;

use shedlock_core::{
    JobChange, JobRecord, LastRun, RunEnd, RunOutcome, RunRecord, Slot, TakenElsewhere,
};

/// Changes a job as this registration says.
pub(crate) fn register(job: &mut JobRecord, change: &JobChange, now: SystemTime) {
    if job.schedule != change.schedule || job.zone != change.zone {
        (job.registered, job.next_slot, job.deadline) = (now, None, None);
    }
    job.schedule.clone_from(&change.schedule);
    job.zone.clone_from(&change.zone);
    job.lock_at_most_for = change.lock_at_most_for;
    job.registered_by.clone_from(&change.by);
    job.replaced.clone_from(&change.replaced);
    move_forward(job, change.next);
}

/// Adds a run to its job.
pub(crate) fn add_run(job: &mut JobRecord, run: &RunRecord, next: Option<(Slot, SystemTime)>) {
    let known = job.last_run.as_ref().map(|last| last.started);
    if run.is_elsewhere() {
        return add_elsewhere(job, run, next);
    }
    if known.is_none_or(|known| run.started > known) {
        let mut last = LastRun::new(&*run.name, &*run.owner, run.started);
        (last.lock_at_most_for, last.slot) = (run.lock_at_most_for, run.slot);
        last.lock_store.clone_from(&run.lock_store);
        job.last_run = Some(last);
    }
    let Some(end) = &run.end else { return };
    let is_known = end.outcome == RunOutcome::Succeeded || end.outcome.is_failure();
    let is_earlier = |it: &TakenElsewhere| it.at < run.started;
    if is_known && job.elsewhere.as_ref().is_some_and(is_earlier) {
        job.elsewhere = None;
    }
    let ended = run.started + end.ran_for;
    let is_it = |last: &&mut LastRun| last.name == run.name && last.owner == run.owner;
    if let Some(last) = job.last_run.as_mut().filter(is_it) {
        last.outcome = Some(joined(last.outcome, end.outcome));
    }
    if end.outcome == RunOutcome::Succeeded {
        if job.last_succeeded.is_none_or(|known| ended >= known) {
            job.last_succeeded = Some(ended);
            job.last_duration = Some(end.ran_for);
        }
        move_forward(job, next);
    }
    if end.outcome.is_failure() && job.last_failed.is_none_or(|known| ended >= known) {
        job.last_failed = Some(ended);
        let error = end.error.as_deref().and_then(|text| text.lines().next());
        job.last_error = error.map(str::to_owned);
    }
}

/// Adds a slot that ShedLock took. It moves the deadline, as far as that slot goes.
fn add_elsewhere(job: &mut JobRecord, run: &RunRecord, next: Option<(Slot, SystemTime)>) {
    move_forward(job, next);
    let last = job.elsewhere.as_ref();
    let is_later = last.map(|it| it.slot) < run.slot;
    let is_latest = job
        .last_run
        .as_ref()
        .is_none_or(|it| it.started < run.started);
    if let Some(slot) = run.slot.filter(|_| is_later && is_latest) {
        let slots = last.map_or(0, |it| it.slots).saturating_add(1);
        let by = Some(run.owner.clone()).filter(|host| !host.is_empty());
        let mut elsewhere = TakenElsewhere::new(slot, run.started, slots);
        elsewhere.by = by;
        job.elsewhere = Some(elsewhere);
    }
}

/// Moves the next slot and the deadline, but never back.
fn move_forward(job: &mut JobRecord, next: Option<(Slot, SystemTime)>) {
    if let Some((slot, deadline)) = next.filter(|(_, it)| job.deadline.is_none_or(|was| *it > was))
    {
        (job.next_slot, job.deadline) = (Some(slot), Some(deadline));
    }
}

/// Returns whether this end replaces what is known of the end of its run.
pub(crate) fn replaces(known: Option<&RunEnd>, end: &RunEnd) -> bool {
    let known = known.map(|known| known.outcome);
    known != Some(joined(known, end.outcome))
}

/// Returns the outcome that stays if `new` is recorded after `known`: the known one, unless it is a success and the
/// unlock found that the lease had been lost before, or may have been.
fn joined(known: Option<RunOutcome>, new: RunOutcome) -> RunOutcome {
    match known {
        Some(known) if known != RunOutcome::Succeeded || !new.corrects_success() => known,
        _ => new,
    }
}
