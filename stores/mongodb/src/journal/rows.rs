//! The journal's documents, and the updates that write them.
//!
//! All times are microseconds since 1970 in 64-bit integers: dates of MongoDB have only milliseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mongodb::bson::{Bson, Document, doc};
use shedlock_core::{
    Actor, AuditRecord, Error, JobChange, JobRecord, LastRun, ReplacedRegistration, RunEnd, RunId,
    RunOutcome, RunRecord, Slot, TakenElsewhere,
};
use shedlock_provider::{Result, conflict};

use crate::codec::number;
use crate::store::LONGEST_NAME;
use crate::update::{Now, literal, set};

/// The most bytes of a schedule, an owner, a line of an error or a text of an audit record.
const LONGEST_TEXT: usize = 1_024;

/// As much of a job's or lock's name as is kept.
pub(super) fn fit(name: &str) -> &str {
    cut(name, LONGEST_NAME)
}

fn cut(text: &str, longest: usize) -> &str {
    &text[..text.floor_char_boundary(longest)]
}

fn text_of(text: Option<&str>) -> Option<&str> {
    Some(cut(text?, LONGEST_TEXT)).filter(|text| !text.is_empty())
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// An instant. What was before 1970 is 1970.
pub(super) fn at(instant: SystemTime) -> i64 {
    micros(instant.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn field(name: &str) -> Bson {
    format!("${name}").into()
}

fn or(name: &str, value: impl Into<Bson>) -> Document {
    doc! { "$ifNull": [field(name), value.into()] }
}

/// The value of a field; null if it is missing.
fn kept(name: &str) -> Document {
    or(name, Bson::Null)
}

/// Sets the later one of two instants.
fn later(name: &str, instant: i64) -> Document {
    doc! { "$max": [field(name), instant] }
}

/// The update of a job with its schedule.
pub(super) fn change(change: &JobChange, now: Now) -> Document {
    let (schedule, zone) = (
        text_of(change.schedule.as_deref()),
        text_of(change.zone.as_deref()),
    );
    let (slot, deadline) = change.next.map_or((None, None), |(slot, deadline)| {
        (Some(slot.as_micros()), Some(at(deadline)))
    });
    let is_same = |name: &str, value: Option<&str>| {
        doc! { "$eq": [or(name, ""), literal(value.unwrap_or_default())] }
    };
    let same = doc! { "$and": [is_same("schedule", schedule), is_same("zone", zone)] };
    let stays = doc! { "$and": [
        same.clone(),
        { "$gte": [or("deadlineUs", -1_i64), deadline.unwrap_or(-1)] },
    ] };
    let text = |text: Option<&str>| text.map(literal);
    let fields = doc! {
        "registeredUs": { "$cond": [same, or("registeredUs", now.micros()), now.micros()] },
        "nextSlotUs": { "$cond": [stays.clone(), kept("nextSlotUs"), slot] },
        "deadlineUs": { "$cond": [stays, kept("deadlineUs"), deadline] },
        "lockAtMostUs": change.lock_at_most_for.map(micros),
        "registeredBy": text(text_of(change.by.as_deref())),
        "replaced": change.replaced.as_ref().map(replaced),
        "schedule": text(schedule),
        "zone": text(zone),
    };
    doc! { "q": { "_id": fit(&change.job) }, "u": set(fields), "upsert": true }
}

/// What another host had registered.
fn replaced(replaced: &ReplacedRegistration) -> Document {
    let fields = doc! {
        "by": cut(&replaced.by, LONGEST_TEXT),
        "atUs": at(replaced.at),
        "schedule": text_of(replaced.schedule.as_deref()),
        "zone": text_of(replaced.zone.as_deref()),
        "lockAtMostUs": replaced.lock_at_most_for.map(micros),
    };
    doc! { "$literal": fields }
}

/// The update of the job of a run.
pub(super) fn job_of(run: &RunRecord, next: Option<(Slot, SystemTime)>, now: Now) -> Document {
    let started = at(run.started);
    if run.is_elsewhere() {
        return elsewhere_of(run, next, now);
    }
    let is_last = doc! { "$gt": [started, or("lastStartedUs", -1_i64)] };
    let if_last = |name: &str, value: Bson| {
        doc! { "$cond": [is_last.clone(), value, kept(name)] }
    };
    let (name, owner) = (fit(&run.name), cut(&run.owner, LONGEST_TEXT));
    let at_most = run.lock_at_most_for.map(micros);
    let lock_store = text_of(run.lock_store.as_deref());
    let lock_store = lock_store.map_or(Bson::Null, |it| literal(it).into());
    let mut fields = doc! {
        "registeredUs": or("registeredUs", now.micros()),
        "lastStartedUs": later("lastStartedUs", started),
        "lastName": if_last("lastName", literal(name).into()),
        "lastOwner": if_last("lastOwner", literal(owner).into()),
        "lastLockAtMostUs": if_last("lastLockAtMostUs", at_most.into()),
        "lastSlotUs": if_last("lastSlotUs", run.slot.map(Slot::as_micros).into()),
        "lastLockStore": if_last("lastLockStore", lock_store),
        "lastOutcome": if_last("lastOutcome", Bson::Null),
    };
    if let Some(end) = &run.end {
        if end.outcome == RunOutcome::Succeeded || end.outcome.is_failure() {
            let is_earlier = doc! { "$lt": [or("elsewhere.atUs", i64::MAX), started] };
            fields.insert(
                "elsewhere",
                doc! { "$cond": [is_earlier, Bson::Null, kept("elsewhere")] },
            );
        }
        let ended = at(run.started + end.ran_for);
        let if_latest = |last: &str, name: &str, value: Bson| {
            let is_latest = doc! { "$gte": [ended, or(last, -1_i64)] };
            doc! { "$cond": [is_latest, value, kept(name)] }
        };
        // The fields are those before the update.
        let is_it = doc! { "$and": [
            { "$eq": [kept("lastName"), literal(name)] },
            { "$eq": [kept("lastOwner"), literal(owner)] },
            replaces("lastOutcome", end.outcome),
        ] };
        let outcome: Bson = literal(end.outcome.as_str()).into();
        let is_it = doc! { "$or": [is_last, is_it] };
        let last = doc! { "$cond": [is_it, outcome, kept("lastOutcome")] };
        fields.insert("lastOutcome", last);
        if end.outcome == RunOutcome::Succeeded {
            let took = micros(end.ran_for).into();
            let took = if_latest("lastSucceededUs", "lastDurationUs", took);
            fields.insert("lastDurationUs", took);
            fields.insert("lastSucceededUs", later("lastSucceededUs", ended));
            fields.extend(moved(next));
        }
        if end.outcome.is_failure() {
            let line = end.error.as_deref().and_then(|error| error.lines().next());
            let line = text_of(line).map_or(Bson::Null, |line| literal(line).into());
            let line = if_latest("lastFailedUs", "lastError", line);
            fields.insert("lastError", line);
            fields.insert("lastFailedUs", later("lastFailedUs", ended));
        }
    }
    doc! { "q": { "_id": fit(&run.job) }, "u": set(fields), "upsert": true }
}

/// The next slot and the deadline, unless a later deadline is known.
fn moved(next: Option<(Slot, SystemTime)>) -> Document {
    let Some((slot, deadline)) = next else {
        return doc! {};
    };
    let moves = doc! { "$gt": [at(deadline), or("deadlineUs", -1_i64)] };
    doc! {
        "nextSlotUs": { "$cond": [moves.clone(), slot.as_micros(), kept("nextSlotUs")] },
        "deadlineUs": { "$cond": [moves, at(deadline), kept("deadlineUs")] },
    }
}

/// The update of a job of which ShedLock took a slot.
fn elsewhere_of(run: &RunRecord, next: Option<(Slot, SystemTime)>, now: Now) -> Document {
    let (slot, started) = (run.slot.map(Slot::as_micros), at(run.started));
    let is_later = doc! { "$and": [
        { "$gt": [slot, or("elsewhere.slotUs", -1_i64)] },
        { "$gt": [started, or("lastStartedUs", -1_i64)] },
    ] };
    let by = text_of(Some(&run.owner)).map_or(Bson::Null, |by| literal(by).into());
    let taken = doc! {
        "slotUs": slot,
        "atUs": started,
        "by": by,
        "slots": { "$add": [or("elsewhere.slots", 0_i64), 1_i64] },
    };
    let mut fields = doc! {
        "registeredUs": or("registeredUs", now.micros()),
        "elsewhere": { "$cond": [is_later, taken, kept("elsewhere")] },
    };
    fields.extend(moved(next));
    doc! { "q": { "_id": fit(&run.job) }, "u": set(fields), "upsert": true }
}

/// The update of a job whose outcome Java watches, or not.
pub(super) fn watched(job: &str, elsewhere: bool) -> Document {
    let update = doc! { "$set": { "watchedElsewhere": elsewhere } };
    doc! { "q": { "_id": fit(job) }, "u": update }
}

/// Whether an end replaces what is known: nothing, or a success of which the unlock found that the lease had been lost
/// before, or may have been.
fn replaces(known: &str, outcome: RunOutcome) -> Document {
    let replaced: Vec<&str> = match outcome.corrects_success() {
        true => vec!["", RunOutcome::Succeeded.as_str()],
        false => vec![""],
    };
    doc! { "$in": [or(known, ""), replaced] }
}

/// The update of a run. Its start stays as it was recorded first.
pub(super) fn run_update(run: &RunRecord) -> Document {
    let mut document = run_document(run);
    // The query sets it.
    document.remove("_id");
    let update: Bson = match &run.end {
        None => doc! { "$setOnInsert": document }.into(),
        Some(end) => {
            let started = document.remove("startedUs").unwrap_or(Bson::Null);
            let start = doc! { "_id": run.id.identity(), "startedUs": or("startedUs", started) };
            let document = doc! { "$mergeObjects": [start, { "$literal": document }] };
            let is_new = replaces("outcome", end.outcome);
            vec![doc! { "$replaceWith": { "$cond": [is_new, document, "$$ROOT"] } }].into()
        }
    };
    doc! { "q": { "_id": run.id.identity() }, "u": update, "upsert": true }
}

/// The document of a run. Fields without a value are left out.
pub(crate) fn run_document(run: &RunRecord) -> Document {
    let end = run.end.as_ref();
    let error = end.and_then(|end| end.error.as_deref());
    let error = error.map(|error| cut(error, RunEnd::LONGEST_ERROR));
    let token = run.fencing_token.and_then(|it| i64::try_from(it).ok());
    let mut document = doc! {
        "_id": run.id.identity(),
        "job": fit(&run.job),
        "name": fit(&run.name),
        "owner": cut(&run.owner, LONGEST_TEXT),
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
        (
            "lockStore",
            text_of(run.lock_store.as_deref()).map(Bson::from),
        ),
        ("ranForUs", end.map(|end| micros(end.ran_for).into())),
        ("outcome", end.map(|end| end.outcome.as_str().into())),
        ("error", error.filter(|it| !it.is_empty()).map(Bson::from)),
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
        "actor": cut(record.actor.user(), LONGEST_TEXT),
        "isAuthenticated": record.actor.is_authenticated(),
        "action": cut(&record.action, LONGEST_TEXT),
        "name": fit(&record.name),
        "detail": cut(&record.detail, LONGEST_TEXT),
        "reason": text_of(record.reason.as_deref()),
        "untilUs": record.until.map(at),
        "lockStore": text_of(record.lock_store.as_deref()),
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
