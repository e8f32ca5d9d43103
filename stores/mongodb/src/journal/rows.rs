//! The journal's documents, and the updates that write them.
//!
//! All times are microseconds since 1970 in 64-bit integers: dates of MongoDB have only milliseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mongodb::bson::{Bson, Document, doc};
use shedlock_core::{
    Actor, AuditRecord, Error, JobRecord, LastRun, ReplacedRegistration, RunEnd, RunId, RunOutcome,
    RunRecord, Slot, TakenElsewhere,
};
use shedlock_journal::merge::Limits;
use shedlock_provider::{Result, conflict};
use shedlock_support::text::first_bytes;

use crate::codec::number;
use crate::store::LONGEST_NAME;

/// The most bytes of a schedule, an owner, a line of an error or a text of an audit record.
const LONGEST_TEXT: usize = 1_024;

/// How much of each text is kept.
pub(super) const LIMITS: Limits = Limits {
    name: LONGEST_NAME,
    text: LONGEST_TEXT,
    line: LONGEST_TEXT,
    word: LONGEST_TEXT,
    cut: first_bytes,
};

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// An instant. What was before 1970 is 1970.
pub(super) fn at(instant: SystemTime) -> i64 {
    micros(instant.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// The update that writes a job, unless it is no longer as it was read.
pub(super) fn job_update(read: Option<&Document>, job: &JobRecord) -> Document {
    let mut document = job_document(job);
    let query = unchanged(read, &document);
    // The query sets it.
    document.remove("_id");
    doc! { "q": query, "u": { "$set": document }, "upsert": read.is_none() }
}

/// The update that writes a run, unless it is no longer as it was read.
pub(super) fn run_update(read: Option<&Document>, run: &RunRecord) -> Document {
    let document = run_document(run);
    let query = unchanged(read, &document);
    doc! { "q": query, "u": document, "upsert": read.is_none() }
}

/// Matches a document if the fields that are written are as they were read. Null matches a missing field.
///
/// If there was none, it matches none: creating the document fails if another process has created it.
fn unchanged(read: Option<&Document>, written: &Document) -> Document {
    let was = |field: &String| read.and_then(|it| it.get(field)).cloned();
    let fields = written.iter().map(|(field, value)| match &**field {
        "_id" => (field.clone(), value.clone()),
        _ => (field.clone(), was(field).unwrap_or(Bson::Null)),
    });
    fields.collect()
}

/// The document of a job. Fields without a value are null.
fn job_document(job: &JobRecord) -> Document {
    let last = job.last_run.as_ref();
    doc! {
        "_id": &job.job,
        "registeredUs": at(job.registered),
        "registeredBy": &job.registered_by,
        "replaced": job.replaced.as_ref().map(replaced),
        "schedule": &job.schedule,
        "zone": &job.zone,
        "lockAtMostUs": job.lock_at_most_for.map(micros),
        "lastStartedUs": last.map(|it| at(it.started)),
        "lastName": last.map(|it| &*it.name),
        "lastOwner": last.map(|it| &*it.owner),
        "lastLockAtMostUs": last.and_then(|it| it.lock_at_most_for).map(micros),
        "lastSlotUs": last.and_then(|it| it.slot).map(Slot::as_micros),
        "lastLockStore": last.and_then(|it| it.lock_store.as_deref()),
        "lastOutcome": last.and_then(|it| it.outcome).map(RunOutcome::as_str),
        "lastSucceededUs": job.last_succeeded.map(at),
        "lastDurationUs": job.last_duration.map(micros),
        "lastFailedUs": job.last_failed.map(at),
        "lastError": &job.last_error,
        "nextSlotUs": job.next_slot.map(Slot::as_micros),
        "deadlineUs": job.deadline.map(at),
        "elsewhere": job.elsewhere.as_ref().map(elsewhere),
        "watchedElsewhere": job.is_watched_elsewhere,
    }
}

/// What another host had registered.
fn replaced(replaced: &ReplacedRegistration) -> Document {
    doc! {
        "by": &replaced.by,
        "atUs": at(replaced.at),
        "schedule": &replaced.schedule,
        "zone": &replaced.zone,
        "lockAtMostUs": replaced.lock_at_most_for.map(micros),
    }
}

/// The latest slot that ShedLock took.
fn elsewhere(taken: &TakenElsewhere) -> Document {
    doc! {
        "slotUs": taken.slot.as_micros(),
        "atUs": at(taken.at),
        "by": &taken.by,
        "slots": i64::from(taken.slots),
    }
}

/// The document of a run. Fields without a value are left out.
pub(crate) fn run_document(run: &RunRecord) -> Document {
    let end = run.end.as_ref();
    let error = end.and_then(|end| end.error.as_deref());
    let token = run.fencing_token.and_then(|it| i64::try_from(it).ok());
    let mut document = doc! {
        "_id": run.id.identity(),
        "job": &run.job,
        "name": &run.name,
        "owner": &run.owner,
        "startedUs": at(run.started),
    };
    let more = [
        ("slotUs", run.slot.map(|slot| slot.as_micros().into())),
        (
            "attempt",
            run.attempt.map(|attempt| i64::from(attempt).into()),
        ),
        ("fencingToken", token.map(Bson::from)),
        (
            "lockAtMostUs",
            run.lock_at_most_for.map(|it| micros(it).into()),
        ),
        ("lockStore", run.lock_store.as_deref().map(Bson::from)),
        ("ranForUs", end.map(|end| micros(end.ran_for).into())),
        ("outcome", end.map(|end| end.outcome.as_str().into())),
        ("error", error.map(Bson::from)),
    ];
    for (name, value) in more {
        document.extend(value.map(|value| (name.to_owned(), value)));
    }
    document
}

/// The update that adds an audit record.
pub(super) fn audit_update(record: &AuditRecord) -> Document {
    let document = doc! {
        "atUs": at(record.at),
        "actor": record.actor.user(),
        "isAuthenticated": record.actor.is_authenticated(),
        "action": &record.action,
        "name": &record.name,
        "detail": &record.detail,
        "reason": &record.reason,
        "untilUs": record.until.map(at),
        "lockStore": &record.lock_store,
    };
    let query = doc! { "_id": record.id.as_str() };
    doc! { "q": query, "u": { "$setOnInsert": document }, "upsert": true }
}

fn text(document: &Document, name: &str) -> Result<Option<String>> {
    match document.get(name) {
        None | Some(Bson::Null) => Ok(None),
        Some(Bson::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(foreign()),
    }
}

fn some_text(document: &Document, name: &str) -> Result<String> {
    text(document, name)?.ok_or_else(foreign)
}

fn integer<N: TryFrom<i64>>(document: &Document, name: &str) -> Result<Option<N>> {
    number(document, name).map_err(|_| foreign())
}

fn duration(document: &Document, name: &str) -> Result<Option<Duration>> {
    Ok(integer(document, name)?.map(Duration::from_micros))
}

fn instant(document: &Document, name: &str) -> Result<Option<SystemTime>> {
    Ok(duration(document, name)?.map(|since| UNIX_EPOCH + since))
}

fn slot(document: &Document, name: &str) -> Result<Option<Slot>> {
    let slot = integer(document, name)?.map(Slot::from_micros).transpose();
    slot.map_err(|error| foreign().with_source(error))
}

/// An outcome that only later releases have is none.
fn outcome(document: &Document, name: &str) -> Result<Option<RunOutcome>> {
    Ok(text(document, name)?.and_then(|word| RunOutcome::parse(&word)))
}

pub(crate) fn job(document: &Document) -> Result<JobRecord> {
    let registered = instant(document, "registeredUs")?.ok_or_else(foreign)?;
    let mut job = JobRecord::new(some_text(document, "_id")?, registered);
    job.schedule = text(document, "schedule")?;
    job.zone = text(document, "zone")?;
    job.lock_at_most_for = duration(document, "lockAtMostUs")?;
    if let Some(started) = instant(document, "lastStartedUs")? {
        let of = |name| some_text(document, name);
        let mut run = LastRun::new(of("lastName")?, of("lastOwner")?, started);
        run.lock_at_most_for = duration(document, "lastLockAtMostUs")?;
        run.slot = slot(document, "lastSlotUs")?;
        run.lock_store = text(document, "lastLockStore")?;
        run.outcome = outcome(document, "lastOutcome")?;
        job.last_run = Some(run);
    }
    job.last_succeeded = instant(document, "lastSucceededUs")?;
    job.last_failed = instant(document, "lastFailedUs")?;
    job.last_error = text(document, "lastError")?;
    job.last_duration = duration(document, "lastDurationUs")?;
    job.next_slot = slot(document, "nextSlotUs")?;
    job.deadline = instant(document, "deadlineUs")?;
    job.registered_by = text(document, "registeredBy")?;
    if let Ok(replaced) = document.get_document("replaced") {
        let at = instant(replaced, "atUs")?.ok_or_else(foreign)?;
        let mut found = ReplacedRegistration::new(some_text(replaced, "by")?, at);
        found.schedule = text(replaced, "schedule")?;
        found.zone = text(replaced, "zone")?;
        found.lock_at_most_for = duration(replaced, "lockAtMostUs")?;
        job.replaced = Some(found);
    }
    if let Ok(taken) = document.get_document("elsewhere") {
        let slot = slot(taken, "slotUs")?.ok_or_else(foreign)?;
        let at = instant(taken, "atUs")?.ok_or_else(foreign)?;
        let slots = integer(taken, "slots")?.unwrap_or_default();
        let mut found = TakenElsewhere::new(slot, at, slots);
        found.by = text(taken, "by")?;
        job.elsewhere = Some(found);
    }
    job.is_watched_elsewhere = document.get_bool("watchedElsewhere").unwrap_or(false);
    Ok(job)
}

pub(crate) fn run(document: &Document) -> Result<RunRecord> {
    let of = |name| some_text(document, name);
    let started = instant(document, "startedUs")?.ok_or_else(foreign)?;
    let mut run = RunRecord::new(of("job")?, of("name")?, of("owner")?, started);
    run.id = RunId::of(started, &of("_id")?);
    run.lock_at_most_for = duration(document, "lockAtMostUs")?;
    run.lock_store = text(document, "lockStore")?;
    run.slot = slot(document, "slotUs")?;
    run.attempt = integer(document, "attempt")?;
    run.fencing_token = integer(document, "fencingToken")?;
    let (ran_for, error) = (duration(document, "ranForUs")?, text(document, "error")?);
    let end = |outcome| RunEnd::new(ran_for.unwrap_or_default(), outcome, error);
    run.end = outcome(document, "outcome")?.map(end);
    Ok(run)
}

pub(crate) fn audit(document: &Document) -> Result<AuditRecord> {
    let of = |name| some_text(document, name);
    let at = instant(document, "atUs")?.ok_or_else(foreign)?;
    let is_authenticated = document.get_bool("isAuthenticated").unwrap_or(false);
    let actor = Actor::from_stored(of("actor")?, is_authenticated);
    let mut record = AuditRecord::new(at, 0, actor, of("action")?, of("name")?);
    record.id = RunId::from_text(of("_id")?);
    record.detail = of("detail")?;
    record.reason = text(document, "reason")?;
    record.until = instant(document, "untilUs")?;
    record.lock_store = text(document, "lockStore")?;
    Ok(record)
}

pub(super) fn foreign() -> Error {
    conflict("a document of the journal holds a value that shedlock never writes")
        .advise("check what wrote it, then fix or delete it")
}
