//! *Jobs*: a page of jobs with their last slots.

use std::time::SystemTime;

use askama::Template;
use axum::Extension;
use axum::extract::Query;
use axum::response::{IntoResponse as _, Redirect, Response};
use shedlock_core::{Error, JobRecord, RunRecord, Slot};
use shedlock_journal::view::{CurrentJob, took};
use shedlock_scheduler as scheduler;

use super::{Frame, Listed, ROWS, Shared, given};
use crate::Access;
use crate::components::{Bars, Pager, Text, When, link};
use crate::failure::{Failure, render};
use crate::reading::{self, latest_runs, now_of};
use crate::slots;
use crate::standing::Standing;
use crate::store::Store;

#[derive(Template)]
#[template(path = "jobs.html")]
struct Page {
    frame: Frame,
    rows: Vec<JobRow>,
    pager: Pager,
}

/// What the pages show of a job.
pub(crate) struct JobRow {
    pub(crate) url: String,
    pub(crate) name: Text,
    pub(crate) standing: Standing,
    pub(crate) reason: Text,
    pub(crate) schedule: Option<Schedule>,
    pub(crate) bars: Bars,
    pub(crate) succeeded: Option<When>,
    pub(crate) took: String,
    pub(crate) median: String,
    pub(crate) next: Option<When>,
    pub(crate) deadline: Option<When>,
    pub(crate) holder: Option<Text>,
}

/// A schedule in words and as it was configured.
pub(crate) struct Schedule {
    pub(crate) words: Option<String>,
    pub(crate) raw: Text,
    pub(crate) zone: Option<Text>,
}

impl Schedule {
    pub(crate) fn of(job: &JobRecord) -> Option<Self> {
        Some(Self {
            words: scheduler::schedule_in_words(job),
            raw: Text::of(job.schedule.as_deref()?),
            zone: job.zone.as_deref().map(Text::of),
        })
    }
}

impl JobRow {
    pub(crate) fn of(
        store: &Store,
        current: &CurrentJob,
        runs: &[RunRecord],
        now: SystemTime,
    ) -> Self {
        let job = &current.job;
        let zone = job.zone.as_deref();
        let when = |at: SystemTime| When::from_now(at, now).in_zone(at, zone);
        let standing = Standing::of(current, now);
        let lock = current.lock.as_ref();
        let held = lock.filter(|lock| lock.state.may_run());
        let next = match slots::next(job, now) {
            Some(next) => Some(next),
            None => job.next_slot.map(Slot::instant),
        };
        Self {
            url: link("job", &[("store", &store.name), ("name", &job.job)]),
            name: Text::of(&job.job),
            reason: Text::long(&standing.reason),
            standing,
            schedule: Schedule::of(job),
            bars: slots::bars(&slots::last(job, runs, lock, now)),
            succeeded: job.last_succeeded.map(|at| When::from_now(at, now)),
            took: job.last_duration.map(took).unwrap_or_default(),
            median: slots::median(runs).map(took).unwrap_or_default(),
            next: next.map(when),
            deadline: job.deadline.map(when),
            holder: held.and_then(|lock| Some(Text::of(lock.owner.as_deref()?))),
        }
    }
}

pub(crate) async fn jobs(
    dashboard: Shared,
    Extension(access): Extension<Access>,
    Query(parameters): Query<Listed>,
) -> Result<Response, Failure> {
    let store = dashboard.store(given(parameters.store.as_ref())).await?;
    let after = given(parameters.after.as_ref());
    let Some(rows) = store.read(read(store, after)).await? else {
        // The locks are all that there is.
        let url = link("locks", &[("store", &store.name)]);
        return Ok(Redirect::to(&url).into_response());
    };
    let page = |after: &str| link("jobs", &[("store", &store.name), ("after", after)]);
    Ok(render(&Page {
        frame: Frame::of("jobs", "Jobs", &dashboard, &access, Some(store)).live(),
        pager: Pager::of(after, &rows, |(name, _)| name, page),
        rows: rows.into_iter().map(|(_, row)| row).collect(),
    }))
}

/// A page of jobs by name. `None` if there is no journal.
async fn read(store: &Store, after: Option<&str>) -> Result<Option<Vec<(String, JobRow)>>, Error> {
    let now = now_of(store).await?;
    let Some(journal) = store.existing_journal().await? else {
        return Ok(None);
    };
    let jobs = reading::jobs(store, journal, (after, ROWS), now).await?;
    let runs = latest_runs(journal, &jobs).await?;
    let rows = jobs.iter().zip(&runs).map(|(current, runs)| {
        let name = &current.job.job;
        let row = JobRow::of(store, current, runs, now);
        (name.clone(), row)
    });
    Ok(Some(rows.collect()))
}
