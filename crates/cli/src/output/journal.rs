//! The jobs and runs of a journal.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use shedlock::{AuditRecord, JobRecord, MissedSlots, RunOutcome, RunRecord, RunState};

use super::columns::{self, Column};
use super::{instant, json, visible};
use crate::args::Format;
use shedlock_core::redact;

const fn column(title: &'static str, at_least: Option<usize>, leaves: u8) -> Column {
    Column {
        title,
        at_least,
        leaves,
    }
}

const JOBS: [Column; 7] = [
    column("JOB", Some(12), 0),
    column("LAST", None, 1),
    column("SUCCEEDED", None, 0),
    column("TOOK", None, 4),
    column("NEXT", None, 2),
    column("OVERDUE", None, 0),
    column("SCHEDULE", Some(9), 3),
];

/// Of runs and of actions.
const HISTORY: [Column; 6] = [
    column("TIME", None, 0),
    column("EVENT", None, 0),
    column("TOOK", None, 2),
    column("SLOT", None, 4),
    column("BY", Some(12), 3),
    column("DETAIL", Some(12), 1),
];

#[derive(Serialize)]
struct Jobs<'a> {
    version: u32,
    store: &'a str,
    jobs: Vec<Job<'a>>,
}

#[derive(Serialize)]
struct Job<'a> {
    job: &'a str,
    schedule: Option<&'a str>,
    zone: Option<&'a str>,
    lock_at_most_for_seconds: Option<f64>,
    registered: Option<String>,
    last_started: Option<String>,
    last_succeeded: Option<String>,
    last_failed: Option<String>,
    last_error: Option<Cow<'a, str>>,
    last_outcome: Option<&'static str>,
    last_duration_seconds: Option<f64>,
    next_slot: Option<String>,
    deadline: Option<String>,
    is_overdue: bool,
    missed_slots: Option<BTreeMap<&'static str, u32>>,
}

#[derive(Serialize)]
struct Runs<'a> {
    version: u32,
    store: &'a str,
    runs: Vec<Run<'a>>,
    actions: Vec<Action<'a>>,
}

#[derive(Serialize)]
struct Action<'a> {
    id: &'a str,
    at: Option<String>,
    action: &'a str,
    name: &'a str,
    by: &'a str,
    is_authenticated: bool,
    detail: Cow<'a, str>,
    reason: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct Run<'a> {
    id: &'a str,
    job: &'a str,
    name: &'a str,
    outcome: String,
    started: Option<String>,
    ran_for_seconds: Option<f64>,
    slot: Option<String>,
    slot_attempt: Option<u32>,
    fencing_token: Option<u64>,
    owner: &'a str,
    error: Option<Cow<'a, str>>,
}

/// These jobs, as they are now.
pub(crate) fn jobs(
    store: &str,
    jobs: &[(JobRecord, Option<MissedSlots>)],
    now: SystemTime,
    none: &str,
    width: Option<usize>,
    format: Format,
) -> String {
    match format {
        Format::Table if jobs.is_empty() => format!("{none}\n"),
        Format::Table => {
            let rows: Vec<_> = jobs.iter().map(|(job, _)| job_row(job, now)).collect();
            columns::lines(&JOBS, &rows, width)
        }
        Format::Json => json::text(&Jobs {
            version: json::VERSION,
            store,
            jobs: jobs
                .iter()
                .map(|(job, missed)| job_object(job, *missed, now))
                .collect(),
        }),
    }
}

/// These runs, with what is known about each, and these actions of operators.
pub(crate) fn history(
    store: &str,
    runs: &[(RunRecord, RunState)],
    actions: &[AuditRecord],
    width: Option<usize>,
    format: Format,
) -> String {
    match format {
        Format::Table if runs.is_empty() && actions.is_empty() => String::new(),
        Format::Table => {
            let runs = runs
                .iter()
                .map(|(run, state)| (run.started, run_row(run, *state)));
            let actions = actions.iter().map(|it| (it.at, action_row(it)));
            let mut rows: Vec<_> = runs.chain(actions).collect();
            rows.sort_by_key(|(at, _)| Reverse(*at));
            let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
            columns::lines(&HISTORY, &rows, width)
        }
        Format::Json => json::text(&Runs {
            version: json::VERSION,
            store,
            runs: runs
                .iter()
                .map(|(run, state)| run_object(run, *state))
                .collect(),
            actions: actions.iter().map(action_object).collect(),
        }),
    }
}

fn job_row(job: &JobRecord, now: SystemTime) -> [String; 7] {
    let since = |then: SystemTime| super::about(now.duration_since(then).unwrap_or_default());
    [
        shown(&job.job),
        or_none(job.last_outcome.map(RunOutcome::as_str)),
        job.last_succeeded
            .map_or_else(none, |then| format!("{} ago", since(then))),
        job.last_duration.map_or_else(none, took),
        job.next_slot
            .map_or_else(none, |slot| super::second(slot.instant())),
        if job.is_overdue(now) { "overdue" } else { "-" }.to_owned(),
        job.schedule.as_deref().map_or_else(none, shown),
    ]
}

fn run_row(run: &RunRecord, state: RunState) -> [String; 6] {
    let end = run.end.as_ref();
    let error = end.and_then(|end| end.error.as_deref());
    [
        super::second(run.started),
        state.to_string(),
        end.map_or_else(none, |end| took(end.ran_for)),
        run.slot
            .map_or_else(none, |slot| super::second(slot.instant())),
        shown(&run.owner),
        error.map_or_else(none, |error| shown(&redact(error))),
    ]
}

fn action_row(action: &AuditRecord) -> [String; 6] {
    let event = match &*action.action {
        "extend" => "extended",
        "pause" => "paused",
        "prune" => "pruned",
        "forget" => "forgotten",
        "resume" => "resumed",
        "slot-reset" => "slot reset",
        "unlock" => "freed",
        other => other,
    };
    let mut detail = redact(&action.detail).into_owned();
    if let Some(reason) = &action.reason {
        let gap = if detail.is_empty() { "" } else { " " };
        detail.push_str(&format!("{gap}({})", redact(reason)));
    }
    [
        super::second(action.at),
        shown(event),
        none(),
        none(),
        shown(action.actor.user()),
        if detail.is_empty() {
            none()
        } else {
            shown(&detail)
        },
    ]
}

fn job_object(job: &JobRecord, missed: Option<MissedSlots>, now: SystemTime) -> Job<'_> {
    Job {
        job: &job.job,
        schedule: job.schedule.as_deref(),
        zone: job.zone.as_deref(),
        lock_at_most_for_seconds: job.lock_at_most_for.map(seconds),
        registered: instant(job.registered),
        last_started: job.last_started.and_then(instant),
        last_succeeded: job.last_succeeded.and_then(instant),
        last_failed: job.last_failed.and_then(instant),
        last_error: job.last_error.as_deref().map(redact),
        last_outcome: job.last_outcome.map(RunOutcome::as_str),
        last_duration_seconds: job.last_duration.map(seconds),
        next_slot: job.next_slot.and_then(|slot| instant(slot.instant())),
        deadline: job.deadline.and_then(instant),
        is_overdue: job.is_overdue(now),
        missed_slots: missed.map(|missed| missed.by_reason().into()),
    }
}

fn run_object(run: &RunRecord, state: RunState) -> Run<'_> {
    let end = run.end.as_ref();
    Run {
        id: run.id.as_str(),
        job: &run.job,
        name: &run.name,
        outcome: state.to_string(),
        started: instant(run.started),
        ran_for_seconds: end.map(|end| seconds(end.ran_for)),
        slot: run.slot.and_then(|slot| instant(slot.instant())),
        slot_attempt: run.attempt,
        fencing_token: run.fencing_token,
        owner: &run.owner,
        error: end.and_then(|end| end.error.as_deref()).map(redact),
    }
}

fn action_object(action: &AuditRecord) -> Action<'_> {
    Action {
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

/// How long a run took. Tenths matter for short ones.
fn took(duration: Duration) -> String {
    if duration < Duration::from_secs(10) {
        return format!("{:.1}s", duration.as_secs_f64());
    }
    super::about(duration)
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn shown(text: &str) -> String {
    visible(text).into_owned()
}

fn or_none(text: Option<&str>) -> String {
    text.map_or_else(none, str::to_owned)
}

fn none() -> String {
    "-".to_owned()
}
