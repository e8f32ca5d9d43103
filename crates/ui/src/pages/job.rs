//! *Job*: one job, its lock, its slots and runs, and what operators did.

use std::time::SystemTime;

use askama::Template;
use axum::Extension;
use axum::extract::Query;
use axum::response::Response;
use serde::Deserialize;
use shedlock_core::{
    AuditRecord, AuditRequest, Error, LockName, LockRecord, LockState, RunRecord, RunState,
    RunsRequest,
};
use shedlock_journal::view::{CurrentJob, drift, run_states, taken_locks, took};

use shedlock_journal::{MissedSlots, missed_slots};

use super::audit::ActionRow;
use super::jobs::JobRow;
use super::locks::LockRow;
use super::runs::RunRow;
use super::{Frame, Link, Shared, given};
use crate::Access;
use crate::action::Action;
use crate::components::{Badge, Text, When, link};
use crate::failure::{Failure, render};
use crate::reading::{current, now_of};
use crate::slots::{self, SHOWN, SlotRow};
use crate::store::Store;

/// How many runs and actions are shown.
const LATEST: usize = 20;

#[derive(Deserialize)]
pub(crate) struct Parameters {
    store: Option<String>,
    name: String,
    /// The action that was just done.
    done: Option<String>,
    unrecorded: Option<String>,
}

#[derive(Template)]
#[template(path = "job.html")]
struct Page {
    frame: Frame,
    name: Text,
    job: Option<JobRow>,
    missed: Option<MissedSlots>,
    registered: Option<When>,
    /// How the registrations of two hosts differ.
    drift: Option<Text>,
    lock: Option<LockRow>,
    actions: Vec<Link>,
    slots: Vec<SlotLine>,
    runs: Vec<RunRow>,
    all_runs: String,
    audit: Vec<ActionRow>,
    done: &'static str,
    is_unrecorded: bool,
    no_journal: Option<Text>,
}

/// A slot beside what became of it.
struct SlotLine {
    slot: When,
    badge: Badge,
    started: Option<When>,
    took: String,
    attempt: String,
}

/// What is known about a job.
struct Seen {
    /// The time by the store's clock.
    now: SystemTime,
    lock: Option<LockRecord>,
    has_journal: bool,
    job: Option<CurrentJob>,
    missed: Option<MissedSlots>,
    latest: Vec<RunRecord>,
    runs: Vec<(RunRecord, RunState)>,
    audit: Vec<AuditRecord>,
}

pub(crate) async fn job(
    dashboard: Shared,
    Extension(access): Extension<Access>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Failure> {
    let store = dashboard.store(given(parameters.store.as_ref())).await?;
    let name = LockName::new(&parameters.name)?;
    let seen = store.read(see(store, &name)).await?;
    let now = seen.now;
    let is_known = seen.lock.is_some() || seen.job.is_some() || !seen.runs.is_empty();
    let done = given(parameters.done.as_ref()).and_then(|it| Action::parse(it).ok());
    if !is_known && seen.audit.is_empty() && done.is_none() {
        return Err(Failure::not_found(format!(
            "there is no job or lock {:?} in {}; look at its spelling",
            name.as_str(),
            store.name
        )));
    }
    let lock = seen.lock.as_ref();
    let job = seen.job.as_ref();
    let slots = job.filter(|it| it.job.schedule.is_some()).map(|it| {
        let rows = slots::last(&it.job, &seen.latest, lock, now);
        rows.iter()
            .rev()
            .filter_map(|row| SlotLine::of(row, it.job.zone.as_deref()))
            .collect()
    });
    let may_act = access.actor().is_some();
    let frame = Frame::of("job", name.as_str(), &dashboard, &access, Some(store));
    Ok(render(&Page {
        name: Text::of(name.as_str()),
        job: job.map(|it| JobRow::of(store, it, &seen.latest, now)),
        missed: seen.missed,
        registered: job.map(|it| When::of(it.job.registered)),
        drift: job
            .and_then(|it| drift(&it.job, now))
            .map(|it| Text::long(&it)),
        lock: lock.map(|lock| LockRow::of(store, lock)),
        actions: match may_act {
            true => actions(store, &name, lock).await,
            false => Vec::new(),
        },
        slots: slots.unwrap_or_default(),
        runs: seen
            .runs
            .iter()
            .map(|(run, state)| RunRow::of(store, run, *state))
            .collect(),
        all_runs: link("runs", &[("store", &store.name), ("job", name.as_str())]),
        audit: seen
            .audit
            .iter()
            .map(|it| ActionRow::of(store, it))
            .collect(),
        done: done.map_or("", Action::done),
        is_unrecorded: parameters.unrecorded.is_some(),
        no_journal: (!seen.has_journal).then(|| Text::long(&store.why_no_journal())),
        frame: frame.live(),
    }))
}

async fn see(store: &Store, name: &LockName) -> Result<Seen, Error> {
    let provider = &*store.provider;
    let now = now_of(store).await?;
    let lock = provider.inspect(name).await?;
    let mut seen = Seen {
        now,
        lock,
        has_journal: false,
        job: None,
        missed: None,
        latest: Vec::new(),
        runs: Vec::new(),
        audit: Vec::new(),
    };
    let Some(journal) = store.existing_journal().await? else {
        return Ok(seen);
    };
    seen.has_journal = true;
    let of_job = RunsRequest::new().with_job(name.as_str()).with_limit(SHOWN);
    seen.latest = journal.runs(&of_job).await?;
    if seen.latest.is_empty() {
        let of_name = RunsRequest::new().with_name(name.as_str());
        seen.latest = journal.runs(&of_name.with_limit(SHOWN)).await?;
    }
    let runs = seen.latest.iter().take(LATEST).cloned().collect();
    seen.runs = run_states(provider, runs, now).await?;
    let of_lock = AuditRequest::new().with_name(name.as_str());
    seen.audit = journal.audit(&of_lock.with_limit(LATEST)).await?;
    if let Some(job) = journal.job(name.as_str()).await? {
        seen.missed = missed_slots(journal, &job, now, slots::next).await?;
        // Of a template, the locks of all its names count.
        let taken = taken_locks(provider).await?;
        let current = current(store, journal, vec![job], &taken, now).await?;
        seen.job = current.into_iter().next();
    }
    Ok(seen)
}

/// What an operator can do to this lock now.
async fn actions(store: &Store, name: &LockName, lock: Option<&LockRecord>) -> Vec<Link> {
    let is_run_here = store.scheduler_of(name.as_str()).await.is_some();
    let can = |action: &Action| match (action, lock.map(|lock| lock.state)) {
        (Action::Pause, state) => state != Some(LockState::Paused),
        (Action::Resume, state) => state == Some(LockState::Paused),
        (Action::Unlock, state) => {
            matches!(
                state,
                Some(LockState::Held | LockState::Taken | LockState::AtLeast)
            )
        }
        (Action::Extend, state) => state == Some(LockState::Held),
        (Action::SlotReset, _) => lock.is_some_and(|lock| lock.last_slot.is_some()),
        (Action::RunNow, state) => is_run_here && matches!(state, None | Some(LockState::Free)),
    };
    let possible = Action::ALL.into_iter().filter(can);
    let links = possible.map(|action| {
        let of = [
            ("store", &*store.name),
            ("name", name.as_str()),
            ("do", action.word()),
        ];
        Link {
            url: link("act", &of),
            text: format!("{}…", action.title()),
            is_here: false,
        }
    });
    links.collect()
}

impl SlotLine {
    /// `None` for a run that belongs to no slot.
    fn of(row: &SlotRow<'_>, zone: Option<&str>) -> Option<Self> {
        let slot = row.slot?;
        let run = row.run.map(|(run, _)| run);
        let end = run.and_then(|run| run.end.as_ref());
        Some(Self {
            slot: When::of(slot).in_zone(slot, zone),
            badge: row.badge(),
            started: run.map(|run| When::of(run.started)),
            took: end.map(|end| took(end.ran_for)).unwrap_or_default(),
            attempt: run
                .and_then(|run| run.attempt)
                .map(|it| it.to_string())
                .unwrap_or_default(),
        })
    }
}
