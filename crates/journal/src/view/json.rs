//! The objects of `docs/json.md`, which describes them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::{CurrentJob, instant, is_ahead};
use shedlock_core::{
    AuditRecord, Finding, LockRecord, ReplacedRegistration, RunRecord, RunState, Slot,
    TakenElsewhere,
};
use shedlock_support::redact;

use crate::MissedSlots;

/// Increases when a field changes its meaning or is removed. New fields do not count.
pub const VERSION: u32 = 1;

#[derive(Debug, Serialize)]
pub struct Lock<'a> {
    name: &'a str,
    state: &'static str,
    owner: Option<&'a str>,
    paused_by: Option<&'a str>,
    pause_reason: Option<&'a str>,
    locked_at: Option<String>,
    locked_until: Option<String>,
    fencing_token: Option<u64>,
    last_slot: Option<String>,
    last_slot_done: Option<String>,
    slot_attempts: Option<u32>,
    skipped_from: Option<String>,
    skipped_until: Option<String>,
    last_slot_ahead: Option<bool>,
    read_at: Option<String>,
}

impl<'a> Lock<'a> {
    pub fn of(record: &'a LockRecord) -> Self {
        Self {
            name: record.name.as_str(),
            state: record.state.as_str(),
            owner: record.owner.as_deref(),
            paused_by: record.pause().map(|pause| pause.by()),
            pause_reason: record.pause().map(|pause| pause.reason()),
            locked_at: record.locked_at.and_then(instant),
            locked_until: record.locked_until.and_then(instant),
            fencing_token: record.fencing_token,
            last_slot: record.last_slot.as_ref().map(Slot::to_string),
            last_slot_done: record.last_slot_done.as_ref().map(Slot::to_string),
            slot_attempts: record.slot_attempts,
            skipped_from: record.skipped_slots.map(|it| it.from.to_string()),
            skipped_until: record.skipped_slots.map(|it| it.until.to_string()),
            last_slot_ahead: is_ahead(record),
            read_at: record.read_at.and_then(instant),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Job<'a> {
    job: &'a str,
    state: &'static str,
    paused_until: Option<String>,
    schedule: Option<&'a str>,
    zone: Option<&'a str>,
    lock_at_most_for_seconds: Option<f64>,
    registered: Option<String>,
    registered_by: Option<&'a str>,
    /// What another host had registered before, if that differs.
    replaced: Option<Replaced<'a>>,
    last_started: Option<String>,
    last_succeeded: Option<String>,
    last_failed: Option<String>,
    last_error: Option<Cow<'a, str>>,
    last_outcome: Option<&'static str>,
    last_duration_seconds: Option<f64>,
    next_slot: Option<String>,
    deadline: Option<String>,
    is_overdue: bool,
    /// The latest slot that ShedLock for Java took.
    taken_elsewhere: Option<Elsewhere<'a>>,
    is_watched_elsewhere: bool,
    missed_slots: Option<BTreeMap<&'static str, u32>>,
}

/// A slot that ShedLock for Java took, and how many it took since the last known outcome.
#[derive(Debug, Serialize)]
pub struct Elsewhere<'a> {
    slot: Option<String>,
    by: Option<&'a str>,
    at: Option<String>,
    slots_without_outcome: u32,
}

impl<'a> Elsewhere<'a> {
    fn of(taken: &'a TakenElsewhere) -> Self {
        Self {
            slot: instant(taken.slot.instant()),
            by: taken.by.as_deref(),
            at: instant(taken.at),
            slots_without_outcome: taken.slots,
        }
    }
}

/// What a host had registered for a job until another host registered something else.
#[derive(Debug, Serialize)]
pub struct Replaced<'a> {
    by: &'a str,
    at: Option<String>,
    schedule: Option<&'a str>,
    zone: Option<&'a str>,
    lock_at_most_for_seconds: Option<f64>,
}

impl<'a> Replaced<'a> {
    fn of(replaced: &'a ReplacedRegistration) -> Self {
        Self {
            by: &replaced.by,
            at: instant(replaced.at),
            schedule: replaced.schedule.as_deref(),
            zone: replaced.zone.as_deref(),
            lock_at_most_for_seconds: replaced.lock_at_most_for.map(seconds),
        }
    }
}

impl<'a> Job<'a> {
    pub fn of(current: &'a CurrentJob, missed: Option<MissedSlots>, now: SystemTime) -> Self {
        let job = &current.job;
        Self {
            job: &job.job,
            state: current.state(now).as_str(),
            paused_until: current.paused_until.and_then(instant),
            schedule: job.schedule.as_deref(),
            zone: job.zone.as_deref(),
            lock_at_most_for_seconds: job.lock_at_most_for.map(seconds),
            registered: instant(job.registered),
            registered_by: job.registered_by.as_deref(),
            replaced: job.replaced.as_ref().map(Replaced::of),
            last_started: job.last_run.as_ref().and_then(|run| instant(run.started)),
            last_succeeded: job.last_succeeded.and_then(instant),
            last_failed: job.last_failed.and_then(instant),
            last_error: job.last_error.as_deref().map(redact),
            last_outcome: current.last_run.map(RunState::as_str),
            last_duration_seconds: job.last_duration.map(seconds),
            next_slot: job.next_slot.and_then(|slot| instant(slot.instant())),
            deadline: job.deadline.and_then(instant),
            is_overdue: job.is_overdue(now),
            taken_elsewhere: job.elsewhere.as_ref().map(Elsewhere::of),
            is_watched_elsewhere: job.is_watched_elsewhere,
            missed_slots: missed.map(|missed| missed.by_reason().into()),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Run<'a> {
    id: &'a str,
    job: &'a str,
    name: &'a str,
    outcome: &'static str,
    started: Option<String>,
    ran_for_seconds: Option<f64>,
    slot: Option<String>,
    slot_attempt: Option<u32>,
    fencing_token: Option<u64>,
    lock_store: Option<&'a str>,
    owner: &'a str,
    error: Option<Cow<'a, str>>,
}

impl<'a> Run<'a> {
    pub fn of(run: &'a RunRecord, state: RunState) -> Self {
        let end = run.end.as_ref();
        Self {
            id: run.id.as_str(),
            job: &run.job,
            name: &run.name,
            outcome: state.as_str(),
            started: instant(run.started),
            ran_for_seconds: end.map(|end| seconds(end.ran_for)),
            slot: run.slot.and_then(|slot| instant(slot.instant())),
            slot_attempt: run.attempt,
            fencing_token: run.fencing_token,
            lock_store: run.lock_store.as_deref(),
            owner: &run.owner,
            error: end.and_then(|end| end.error.as_deref()).map(redact),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Action<'a> {
    id: &'a str,
    at: Option<String>,
    action: &'a str,
    name: &'a str,
    by: &'a str,
    is_authenticated: bool,
    detail: Cow<'a, str>,
    reason: Option<Cow<'a, str>>,
}

impl<'a> Action<'a> {
    pub fn of(action: &'a AuditRecord) -> Self {
        Self {
            id: action.id.as_str(),
            at: instant(action.at),
            action: &action.action,
            name: &action.name,
            by: action.actor.user(),
            is_authenticated: action.actor.is_authenticated(),
            detail: redact(&action.detail),
            reason: action.reason.as_deref().map(redact),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Found<'a> {
    check: &'a str,
    level: String,
    message: Cow<'a, str>,
    remedy: Option<Cow<'a, str>>,
}

impl<'a> Found<'a> {
    pub fn of(finding: &'a Finding) -> Self {
        Self {
            check: finding.check,
            level: finding.level.to_string(),
            message: redact(&finding.message),
            remedy: finding.remedy.as_deref().map(redact),
        }
    }
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
