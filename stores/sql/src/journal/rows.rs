//! The journal's rows, and the values of its statements.

use std::time::{Duration, SystemTime};

use shedlock_core::{
    Actor, AuditRecord, JobChange, JobRecord, LastRun, ReplacedRegistration, RunEnd, RunId,
    RunOutcome, RunRecord, Slot, TakenElsewhere,
};
use shedlock_provider::{Result, internal};

use super::schema::{LONGEST_LINE, LONGEST_TEXT};
use crate::call::floor_micros;
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
fn null(text: Option<&str>) -> &str {
    fit(text.unwrap_or_default())
}

/// The words of a statement, and their values.
#[derive(Debug, Default)]
pub(super) struct Words<'a>(pub(super) Vec<(&'static str, Value<'a>)>);

impl<'a> Words<'a> {
    /// The word that nearly all statements have.
    pub(super) fn of_job(job: &'a str) -> Self {
        Self::default().text("j_job", fit(job))
    }

    pub(super) fn text(mut self, word: &'static str, text: &'a str) -> Self {
        self.0.push((word, Value::Text(text)));
        self
    }

    pub(super) fn number(mut self, word: &'static str, number: impl Into<Option<i64>>) -> Self {
        let number = number.into().unwrap_or(NONE);
        self.0.push((word, Value::Integer(number)));
        self
    }

    pub(super) fn time(self, word: &'static str, time: Option<SystemTime>) -> Self {
        self.number(word, time.map(crate::call::micros))
    }

    fn duration(self, word: &'static str, duration: Option<Duration>) -> Self {
        self.number(word, duration.map(floor_micros))
    }

    pub(super) fn limit(self, rows: usize) -> Self {
        self.number("j_limit", i64::try_from(rows).unwrap_or(i64::MAX))
    }

    /// The next slot and the deadline.
    fn next(self, next: Option<(Slot, SystemTime)>) -> Self {
        self.number("j_next", next.map(|(slot, _)| slot.as_micros()))
            .time("j_deadline", next.map(|(_, deadline)| deadline))
    }

    /// A job with its schedule.
    pub(super) fn of_change(change: &'a JobChange) -> Self {
        let replaced = change.replaced.as_ref();
        let of = |text: fn(&ReplacedRegistration) -> Option<&str>| null(replaced.and_then(text));
        Self::of_job(&change.job)
            .text("j_schedule", null(change.schedule.as_deref()))
            .text("j_zone", null(change.zone.as_deref()))
            .duration("j_at_most", change.lock_at_most_for)
            .text("j_by", null(change.by.as_deref()))
            .next(change.next)
            .text("j_other_by", of(|it| Some(&it.by)))
            .text("j_other_schedule", of(|it| it.schedule.as_deref()))
            .text("j_other_zone", of(|it| it.zone.as_deref()))
            .time("j_other_at", replaced.map(|it| it.at))
            .duration(
                "j_other_at_most",
                replaced.and_then(|it| it.lock_at_most_for),
            )
    }

    /// A run, with its end if it has one.
    pub(super) fn of_run(run: &'a RunRecord, next: Option<(Slot, SystemTime)>) -> Self {
        let token = run.fencing_token.and_then(|it| i64::try_from(it).ok());
        let words = Self::of_job(&run.job)
            .text("j_id", run.id.identity())
            .text("j_name", fit(&run.name))
            .text("j_owner", fit(&run.owner))
            .number("j_slot", run.slot.map(Slot::as_micros))
            .number("j_attempt", run.attempt.map(i64::from))
            .number("j_token", token)
            .time("j_started", Some(run.started))
            .duration("j_at_most", run.lock_at_most_for)
            .text("j_lock_store", null(run.lock_store.as_deref()));
        let Some(end) = &run.end else {
            return words.text("j_outcome", "").text("j_error", "");
        };
        let error = end.error.as_deref().unwrap_or_default();
        let line = error.lines().next().unwrap_or_default();
        let has_succeeded = end.outcome == RunOutcome::Succeeded;
        words
            .duration("j_ran_for", Some(end.ran_for))
            .time("j_ended", Some(run.started + end.ran_for))
            .text("j_outcome", end.outcome.as_str())
            .text("j_error", cut(error, RunEnd::LONGEST_ERROR))
            .text("j_line", cut(line, LONGEST_LINE))
            .number("j_succeeded", i64::from(has_succeeded))
            .number("j_failed", i64::from(end.outcome.is_failure()))
            .next(next)
    }

    pub(super) fn of_audit(record: &'a AuditRecord) -> Self {
        let reason = record.reason.as_deref().unwrap_or_default();
        Self::default()
            .text("j_id", record.id.as_str())
            .time("j_at", Some(record.at))
            .text("j_actor", fit(record.actor.user()))
            .number(
                "j_authenticated",
                i64::from(record.actor.is_authenticated()),
            )
            .text("j_action", cut(&record.action, 16))
            .text("j_name", fit(&record.name))
            .text("j_detail", cut(&record.detail, LONGEST_LINE))
            .text("j_reason", cut(reason, LONGEST_LINE))
            .time("j_until", record.until)
            .text("j_lock_store", null(record.lock_store.as_deref()))
    }
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
