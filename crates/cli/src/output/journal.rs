//! The jobs and runs of a journal.

use std::cmp::Reverse;
use std::time::SystemTime;

use serde::Serialize;
use shedlock::{AuditRecord, MissedSlots, RunRecord, RunState};

use super::columns::{self, Column};
use super::{json, visible};
use crate::args::Format;
use shedlock_journal::view::json::{Action, Job, Run};
use shedlock_journal::view::{CurrentJob, JobState, done, drift, elsewhere_in_words, shedlock_on};
use shedlock_support::redact;

const fn column(title: &'static str, at_least: Option<usize>, leaves: u8) -> Column {
    Column {
        title,
        at_least,
        leaves,
    }
}

const JOBS: [Column; 7] = [
    column("JOB", Some(12), 0),
    column("STATE", None, 0),
    column("LAST RUN", None, 4),
    column("SUCCEEDED", None, 0),
    column("TOOK", None, 3),
    column("NEXT", None, 2),
    column("SCHEDULE", Some(9), 1),
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
struct Runs<'a> {
    version: u32,
    store: &'a str,
    runs: Vec<Run<'a>>,
    actions: Vec<Action<'a>>,
}

/// These jobs, as they are now.
pub(crate) fn jobs(
    store: &str,
    jobs: &[(CurrentJob, Option<MissedSlots>)],
    now: SystemTime,
    none: &str,
    width: Option<usize>,
    format: Format,
) -> String {
    match format {
        Format::Table if jobs.is_empty() => format!("{none}\n"),
        Format::Table => {
            let rows: Vec<_> = jobs.iter().map(|(job, _)| job_row(job, now)).collect();
            let mut lines = columns::lines(&JOBS, &rows, width);
            let taken = jobs.iter().filter_map(|(job, _)| {
                let words = elsewhere_in_words(&job.job)?;
                (job.state(now) == JobState::Unverified)
                    .then(|| format!("{}: {words}", job.job.job))
            });
            for taken in taken {
                lines.push_str(&format!("{}\n", visible(&taken)));
            }
            for drift in jobs.iter().filter_map(|(job, _)| drift(&job.job, now)) {
                lines.push_str(&format!("{}\n", visible(&drift)));
            }
            lines
        }
        Format::Json => json::text(&Jobs {
            version: json::VERSION,
            store,
            jobs: jobs
                .iter()
                .map(|(job, missed)| Job::of(job, *missed, now))
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
                .map(|(run, state)| Run::of(run, *state))
                .collect(),
            actions: actions.iter().map(Action::of).collect(),
        }),
    }
}

fn job_row(current: &CurrentJob, now: SystemTime) -> [String; 7] {
    let job = &current.job;
    let since = |then: SystemTime| super::about(now.duration_since(then).unwrap_or_default());
    let schedule = job.schedule.as_deref().map(|schedule| match &job.zone {
        Some(zone) => shown(&format!("{schedule} {zone}")),
        None => shown(schedule),
    });
    [
        shown(&job.job),
        current.state(now).as_str().to_owned(),
        or_none(current.last_run.map(RunState::as_str)),
        job.last_succeeded
            .map_or_else(none, |then| format!("{} ago", since(then))),
        job.last_duration.map_or_else(none, super::took),
        job.next_slot
            .map_or_else(none, |slot| super::second(slot.instant())),
        schedule.unwrap_or_else(none),
    ]
}

fn run_row(run: &RunRecord, state: RunState) -> [String; 6] {
    let end = run.end.as_ref();
    let error = end.and_then(|end| end.error.as_deref());
    let elsewhere = run.is_elsewhere().then(|| {
        let by = shedlock_on(Some(&*run.owner).filter(|host| !host.is_empty()));
        format!("taken by {by}; how its task ended is not known")
    });
    [
        super::second(run.started),
        state.as_str().to_owned(),
        end.filter(|_| elsewhere.is_none())
            .map_or_else(none, |end| super::took(end.ran_for)),
        run.slot
            .map_or_else(none, |slot| super::second(slot.instant())),
        shown(&run.owner),
        elsewhere.unwrap_or_else(|| error.map_or_else(none, |error| shown(&redact(error)))),
    ]
}

fn action_row(action: &AuditRecord) -> [String; 6] {
    let mut detail = redact(&action.detail).into_owned();
    if let Some(reason) = &action.reason {
        let gap = if detail.is_empty() { "" } else { " " };
        detail.push_str(&format!("{gap}({})", redact(reason)));
    }
    [
        super::second(action.at),
        shown(done(action)),
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

fn shown(text: &str) -> String {
    visible(text).into_owned()
}

fn or_none(text: Option<&str>) -> String {
    text.map_or_else(none, str::to_owned)
}

fn none() -> String {
    "-".to_owned()
}
