//! The journal's rows, and the values of its statements.

use std::time::{Duration, SystemTime};

use shedlock_core::{
    Actor, AuditRecord, JobRecord, LastRun, ReplacedRegistration, RunEnd, RunId, RunOutcome,
    RunRecord, Slot, TakenElsewhere,
};
use shedlock_journal::merge::Limits;
use shedlock_provider::{Result, internal};

use super::schema::{AUDIT, ColumnOf, JOB, LONGEST_LINE, LONGEST_TEXT, RUN};
use crate::call::{floor_micros, micros};
use crate::statement::{Cell, NONE, Row, Value};
use crate::verdict::instant;

/// What the columns hold.
pub(super) const LIMITS: Limits = Limits {
    name: LONGEST_TEXT,
    text: LONGEST_TEXT,
    line: LONGEST_LINE,
    word: 16,
    cut,
};

/// The first characters of a text. Texts of a zero character are cut before it: PostgreSQL stores none.
fn cut(text: &str, longest: usize) -> &str {
    let end = text
        .char_indices()
        .nth(longest)
        .map_or(text.len(), |(at, _)| at);
    text[..end].split('\0').next().unwrap_or_default()
}

fn text(text: Option<&str>) -> Value<'_> {
    Value::Text(text.unwrap_or_default())
}

fn number(number: Option<i64>) -> Value<'static> {
    Value::Integer(number.unwrap_or(NONE))
}

fn time(time: Option<SystemTime>) -> Value<'static> {
    number(time.map(micros))
}

fn duration(duration: Option<Duration>) -> Value<'static> {
    number(duration.map(floor_micros))
}

fn slot(slot: Option<Slot>) -> Value<'static> {
    number(slot.map(Slot::as_micros))
}

/// The words of a statement, without their `j_`, and their values.
#[derive(Debug, Default)]
pub(super) struct Words<'a>(pub(super) Vec<(&'static str, Value<'a>)>);

impl<'a> Words<'a> {
    /// The word that nearly all statements have.
    pub(super) fn of_job(job: &'a str) -> Self {
        Self::default().text("job", LIMITS.name(job))
    }

    pub(super) fn text(mut self, word: &'static str, text: &'a str) -> Self {
        self.0.push((word, Value::Text(text)));
        self
    }

    pub(super) fn number(mut self, word: &'static str, number: i64) -> Self {
        self.0.push((word, Value::Integer(number)));
        self
    }

    pub(super) fn time(mut self, word: &'static str, of: Option<SystemTime>) -> Self {
        self.0.push((word, time(of)));
        self
    }

    pub(super) fn limit(self, rows: usize) -> Self {
        self.number("limit", i64::try_from(rows).unwrap_or(i64::MAX))
    }

    /// The values of a row, in the order of its columns.
    fn row<const N: usize>(columns: &[ColumnOf; N], values: [Value<'a>; N]) -> Self {
        let names = columns.iter().map(|(name, ..)| *name);
        Self(names.zip(values).collect())
    }

    pub(super) fn of_job_row(job: &'a JobRecord) -> Self {
        let (last, replaced) = (job.last_run.as_ref(), job.replaced.as_ref());
        let elsewhere = job.elsewhere.as_ref();
        let values = [
            Value::Text(&job.job),
            text(job.schedule.as_deref()),
            text(job.zone.as_deref()),
            duration(job.lock_at_most_for),
            time(Some(job.registered)),
            time(last.map(|it| it.started)),
            text(last.map(|it| &*it.name)),
            text(last.map(|it| &*it.owner)),
            duration(last.and_then(|it| it.lock_at_most_for)),
            slot(last.and_then(|it| it.slot)),
            text(last.and_then(|it| it.lock_store.as_deref())),
            text(last.and_then(|it| Some(it.outcome?.as_str()))),
            time(job.last_succeeded),
            time(job.last_failed),
            text(job.last_error.as_deref()),
            duration(job.last_duration),
            slot(job.next_slot),
            time(job.deadline),
            text(job.registered_by.as_deref()),
            text(replaced.map(|it| &*it.by)),
            time(replaced.map(|it| it.at)),
            text(replaced.and_then(|it| it.schedule.as_deref())),
            text(replaced.and_then(|it| it.zone.as_deref())),
            duration(replaced.and_then(|it| it.lock_at_most_for)),
            slot(elsewhere.map(|it| it.slot)),
            time(elsewhere.map(|it| it.at)),
            text(elsewhere.and_then(|it| it.by.as_deref())),
            number(elsewhere.map(|it| i64::from(it.slots))),
            Value::Integer(i64::from(job.is_watched_elsewhere)),
        ];
        Self::row(&JOB, values)
    }

    pub(super) fn of_run_row(run: &'a RunRecord) -> Self {
        let (token, end) = (run.fencing_token, run.end.as_ref());
        let values = [
            Value::Text(run.id.identity()),
            Value::Text(&run.job),
            Value::Text(&run.name),
            Value::Text(&run.owner),
            slot(run.slot),
            number(run.attempt.map(i64::from)),
            number(token.and_then(|it| i64::try_from(it).ok())),
            time(Some(run.started)),
            duration(run.lock_at_most_for),
            text(run.lock_store.as_deref()),
            duration(end.map(|it| it.ran_for)),
            text(end.map(|it| it.outcome.as_str())),
            text(end.and_then(|it| it.error.as_deref())),
        ];
        Self::row(&RUN, values)
    }

    pub(super) fn of_audit_row(record: &'a AuditRecord) -> Self {
        let values = [
            Value::Text(record.id.as_str()),
            time(Some(record.at)),
            Value::Text(record.actor.user()),
            Value::Integer(i64::from(record.actor.is_authenticated())),
            Value::Text(&record.action),
            Value::Text(&record.name),
            Value::Text(&record.detail),
            text(record.reason.as_deref()),
            time(record.until),
            text(record.lock_store.as_deref()),
        ];
        Self::row(&AUDIT, values)
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

/// The numbers of a row with two of them.
pub(super) fn numbers(row: &Row) -> Option<(i64, i64)> {
    match row.cells[..] {
        [Cell::Number(first), Cell::Number(second)] => Some((first?, second?)),
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
    if let Some(started) = started {
        let (name, owner) = (name.unwrap_or_default(), owner.unwrap_or_default());
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
