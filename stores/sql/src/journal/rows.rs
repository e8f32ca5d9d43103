//! The journal's rows, and the values of its statements.

use std::time::{Duration, SystemTime};

use shedlock_core::{
    Actor, AuditRecord, JobChange, JobRecord, LastRun, ReplacedRegistration, RunEnd, RunId,
    RunOutcome, RunRecord, Slot, TakenElsewhere,
};
use shedlock_store::{Result, internal};

use super::Words;
use super::schema::{LONGEST_LINE, LONGEST_TEXT};
use crate::statement::{Cell, NONE, Row, Value};
use crate::verdict::instant;

/// As much of a name or an owner as the columns hold.
pub(super) fn fit(text: &str) -> &str {
    cut(text, LONGEST_TEXT)
}

/// The first characters of a text. Texts of a zero character are cut before it: PostgreSQL stores none.
fn cut(text: &str, longest: usize) -> &str {
    let end = text
        .char_indices()
        .nth(longest)
        .map_or(text.len(), |(at, _)| at);
    text[..end].split('\0').next().unwrap_or_default()
}

/// A text that may be missing.
pub(super) fn null(text: Option<&str>) -> &str {
    fit(text.unwrap_or_default())
}

pub(super) fn micros_of(duration: Option<Duration>) -> Value<'static> {
    Value::Integer(duration.map_or(NONE, super::micros))
}

pub(super) fn limit(rows: usize) -> Value<'static> {
    Value::Integer(i64::try_from(rows).unwrap_or(i64::MAX))
}

/// The words of the next slot and the deadline.
pub(super) fn next(next: Option<(Slot, SystemTime)>) -> [(&'static str, Value<'static>); 2] {
    let (slot, deadline) = next.map_or((NONE, NONE), |(slot, deadline)| {
        (slot.as_micros(), crate::call::micros(deadline))
    });
    [
        ("j_next", Value::Integer(slot)),
        ("j_deadline", Value::Integer(deadline)),
    ]
}

/// The words of a job with its schedule.
pub(super) fn change(change: &JobChange) -> Words<'_> {
    let replaced = change.replaced.as_ref();
    let mut words = vec![
        ("j_job", Value::Text(fit(&change.job))),
        ("j_schedule", Value::Text(null(change.schedule.as_deref()))),
        ("j_zone", Value::Text(null(change.zone.as_deref()))),
        ("j_at_most", micros_of(change.lock_at_most_for)),
        ("j_by", Value::Text(null(change.by.as_deref()))),
    ];
    words.extend(next(change.next));
    let of = |text: fn(&ReplacedRegistration) -> Option<&str>| {
        Value::Text(null(replaced.and_then(text)))
    };
    words.extend([
        ("j_other_by", of(|it| Some(&it.by))),
        ("j_other_schedule", of(|it| it.schedule.as_deref())),
        ("j_other_zone", of(|it| it.zone.as_deref())),
        (
            "j_other_at",
            Value::Integer(replaced.map_or(NONE, |it| crate::call::micros(it.at))),
        ),
        (
            "j_other_at_most",
            micros_of(replaced.and_then(|it| it.lock_at_most_for)),
        ),
    ]);
    words
}

/// The words of a run that starts. Those of its end are empty; later ones replace them.
pub(super) fn start_of(run: &RunRecord) -> Words<'_> {
    let token = run
        .fencing_token
        .and_then(|token| i64::try_from(token).ok());
    let mut words = vec![
        ("j_id", Value::Text(run.id.identity())),
        ("j_job", Value::Text(fit(&run.job))),
        ("j_name", Value::Text(fit(&run.name))),
        ("j_owner", Value::Text(fit(&run.owner))),
        (
            "j_slot",
            Value::Integer(run.slot.map_or(NONE, Slot::as_micros)),
        ),
        (
            "j_attempt",
            Value::Integer(run.attempt.map_or(NONE, i64::from)),
        ),
        ("j_token", Value::Integer(token.unwrap_or(NONE))),
        (
            "j_started",
            Value::Integer(crate::call::micros(run.started)),
        ),
        ("j_at_most", micros_of(run.lock_at_most_for)),
        ("j_lock_store", Value::Text(null(run.lock_store.as_deref()))),
    ];
    if run.end.is_none() {
        words.push(("j_outcome", Value::Text("")));
        words.push(("j_error", Value::Text("")));
    }
    words
}

/// The words of an end.
pub(super) fn ended(started: SystemTime, end: &RunEnd) -> Words<'_> {
    let error = end.error.as_deref().unwrap_or_default();
    let is = |condition: bool| Value::Integer(i64::from(condition));
    let ended = started + end.ran_for;
    vec![
        ("j_ran_for", Value::Integer(super::micros(end.ran_for))),
        ("j_ended", Value::Integer(crate::call::micros(ended))),
        ("j_outcome", Value::Text(end.outcome.as_str())),
        ("j_error", Value::Text(cut(error, RunEnd::LONGEST_ERROR))),
        (
            "j_line",
            Value::Text(cut(error.lines().next().unwrap_or_default(), LONGEST_LINE)),
        ),
        ("j_succeeded", is(end.outcome == RunOutcome::Succeeded)),
        ("j_failed", is(end.outcome.is_failure())),
    ]
}

pub(super) fn audit_words(record: &AuditRecord) -> Words<'_> {
    let reason = record.reason.as_deref().unwrap_or_default();
    let is_authenticated = i64::from(record.actor.is_authenticated());
    vec![
        ("j_id", Value::Text(record.id.as_str())),
        ("j_at", Value::Integer(crate::call::micros(record.at))),
        ("j_actor", Value::Text(fit(record.actor.user()))),
        ("j_authenticated", Value::Integer(is_authenticated)),
        ("j_action", Value::Text(cut(&record.action, 16))),
        ("j_name", Value::Text(fit(&record.name))),
        ("j_detail", Value::Text(cut(&record.detail, LONGEST_LINE))),
        ("j_reason", Value::Text(cut(reason, LONGEST_LINE))),
        (
            "j_until",
            Value::Integer(record.until.map_or(NONE, crate::call::micros)),
        ),
        (
            "j_lock_store",
            Value::Text(null(record.lock_store.as_deref())),
        ),
    ]
}

/// The columns of a row, in their order.
struct Cells(std::vec::IntoIter<Cell>);

impl Cells {
    fn text(&mut self) -> Option<String> {
        match self.0.next() {
            Some(Cell::Text(text)) => text,
            _ => None,
        }
    }

    fn number(&mut self) -> Option<i64> {
        match self.0.next() {
            Some(Cell::Number(number)) => number,
            _ => None,
        }
    }

    fn time(&mut self) -> Option<SystemTime> {
        self.number().map(instant)
    }

    fn duration(&mut self) -> Option<Duration> {
        let micros = self.number()?;
        Some(Duration::from_micros(
            u64::try_from(micros).unwrap_or_default(),
        ))
    }

    fn slot(&mut self) -> Option<Slot> {
        Slot::from_micros(self.number()?).ok()
    }

    fn outcome(&mut self) -> Option<RunOutcome> {
        RunOutcome::parse(&self.text()?)
    }
}

/// The number of a row with one column.
pub(super) fn only_number(row: &Row) -> Option<i64> {
    match row.cells.first() {
        Some(Cell::Number(number)) => *number,
        _ => None,
    }
}

/// The id and the start of a run.
pub(super) fn place(row: &Row) -> Option<(&str, i64)> {
    match &row.cells[..] {
        [Cell::Text(id), Cell::Number(started)] => Some((id.as_deref()?, (*started)?)),
        _ => None,
    }
}

/// The start of the run with this id.
pub(super) fn started_of(id: Option<&RunId>) -> Value<'static> {
    Value::Integer(id.map_or(NONE, |id| crate::call::micros(id.started())))
}

/// The text of a row with one column.
pub(super) fn only_text(row: &Row) -> Option<&str> {
    match row.cells.first() {
        Some(Cell::Text(text)) => text.as_deref(),
        _ => None,
    }
}

pub(super) fn job(row: Row) -> Result<JobRecord> {
    let mut cells = Cells(row.cells.into_iter());
    let name = cells.text().ok_or_else(incomplete)?;
    let (schedule, zone, at_most) = (cells.text(), cells.text(), cells.duration());
    let registered = cells.time().ok_or_else(incomplete)?;
    let mut job = JobRecord::new(name, registered);
    (job.schedule, job.zone, job.lock_at_most_for) = (schedule, zone, at_most);
    let started = cells.time();
    let (name, owner) = (cells.text(), cells.text());
    let (at_most, slot) = (cells.duration(), cells.slot());
    let (lock_store, outcome) = (cells.text(), cells.outcome());
    if let (Some(started), Some(name), Some(owner)) = (started, name, owner) {
        let mut run = LastRun::new(name, owner, started);
        (run.lock_at_most_for, run.slot) = (at_most, slot);
        (run.lock_store, run.outcome) = (lock_store, outcome);
        job.last_run = Some(run);
    }
    job.last_succeeded = cells.time();
    job.last_failed = cells.time();
    job.last_error = cells.text();
    job.last_duration = cells.duration();
    job.next_slot = cells.slot();
    job.deadline = cells.time();
    job.registered_by = cells.text();
    if let (Some(by), Some(at)) = (cells.text(), cells.time()) {
        let mut replaced = ReplacedRegistration::new(by, at);
        (replaced.schedule, replaced.zone) = (cells.text(), cells.text());
        replaced.lock_at_most_for = cells.duration();
        job.replaced = Some(replaced);
    } else {
        for _ in 0..3 {
            let _ = cells.0.next();
        }
    }
    let (slot, at, by, slots) = (cells.slot(), cells.time(), cells.text(), cells.number());
    if let (Some(slot), Some(at)) = (slot, at) {
        let slots = u32::try_from(slots.unwrap_or_default()).unwrap_or(u32::MAX);
        let mut taken = TakenElsewhere::new(slot, at, slots);
        taken.by = by;
        job.elsewhere = Some(taken);
    }
    job.is_watched_elsewhere = cells.number() == Some(1);
    Ok(job)
}

pub(super) fn run(row: Row) -> Result<RunRecord> {
    let mut cells = Cells(row.cells.into_iter());
    let mut text = || cells.text().ok_or_else(incomplete);
    let (id, job, name, owner) = (text()?, text()?, text()?, text()?);
    let slot = cells.slot();
    let attempt = cells
        .number()
        .and_then(|attempt| u32::try_from(attempt).ok());
    let token = cells.number().and_then(|token| u64::try_from(token).ok());
    let started = cells.time().ok_or_else(incomplete)?;
    let mut run = RunRecord::new(job, name, owner, started);
    (run.id, run.slot) = (RunId::of(started, &id), slot);
    run.lock_at_most_for = cells.duration();
    run.lock_store = cells.text();
    (run.attempt, run.fencing_token) = (attempt, token);
    let ran_for = cells.duration().unwrap_or_default();
    if let Some(outcome) = cells.outcome() {
        run.end = Some(RunEnd::new(ran_for, outcome, cells.text()));
    }
    Ok(run)
}

pub(super) fn audit(row: Row) -> Result<AuditRecord> {
    let mut cells = Cells(row.cells.into_iter());
    let id = cells.text().ok_or_else(incomplete)?;
    let at = cells.time().ok_or_else(incomplete)?;
    let user = cells.text().unwrap_or_default();
    let actor = Actor::from_stored(user, cells.number() == Some(1));
    let action = cells.text().unwrap_or_default();
    let mut record = AuditRecord::new(at, 0, actor, action, cells.text().unwrap_or_default());
    record.id = RunId::from_text(id);
    record.detail = cells.text().unwrap_or_default();
    record.reason = cells.text();
    record.until = cells.time();
    record.lock_store = cells.text();
    Ok(record)
}

fn incomplete() -> shedlock_core::Error {
    internal("a row of the journal lacks a value that it always has")
}
