//! *Runs*: the runs of all jobs, with filters in the URL.

use std::time::SystemTime;

use askama::Template;
use axum::Extension;
use axum::extract::Query;
use axum::response::Response;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Deserialize;
use shedlock_core::{RunId, RunOutcome, RunRecord, RunState, RunsRequest, Slot};
use shedlock_journal::view::took;

use super::{Frame, ROWS, Shared, given};
use crate::Access;
use crate::components::{Badge, Pager, Text, When, link};
use crate::failure::{Failure, render};
use crate::reading;
use crate::store::Store;

/// The runs that are wanted.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Filter {
    store: Option<String>,
    job: Option<String>,
    name: Option<String>,
    /// An outcome, or `open` for runs without an end.
    outcome: Option<String>,
    since: Option<String>,
    /// The last run of the previous page.
    before: Option<String>,
}

#[derive(Template)]
#[template(path = "runs.html")]
struct Page {
    frame: Frame,
    rows: Vec<RunRow>,
    job: String,
    name: String,
    since: String,
    outcomes: Vec<Choice>,
    store: String,
    is_filtered: bool,
    pager: Pager,
    no_journal: Option<Text>,
}

struct Choice {
    value: &'static str,
    text: &'static str,
    is_chosen: bool,
}

/// What the pages show of a run.
pub(crate) struct RunRow {
    pub(crate) url: String,
    pub(crate) job: Text,
    /// The lock, if it is not named after the job.
    pub(crate) name: Option<Text>,
    pub(crate) badge: Badge,
    pub(crate) started: When,
    pub(crate) took: String,
    pub(crate) slot: Option<When>,
    pub(crate) attempt: String,
    pub(crate) token: String,
    pub(crate) owner: Text,
    pub(crate) error: Option<Text>,
}

impl RunRow {
    pub(crate) fn of(store: &Store, run: &RunRecord, state: RunState) -> Self {
        let end = run.end.as_ref();
        let error = end.and_then(|end| end.error.as_deref());
        Self {
            url: link("job", &[("store", &store.name), ("name", &run.job)]),
            job: Text::of(&run.job),
            name: (run.name != run.job).then(|| Text::of(&run.name)),
            badge: Badge::of_run(state),
            started: When::of(run.started),
            took: end.map(|end| took(end.ran_for)).unwrap_or_default(),
            slot: run.slot.map(Slot::instant).map(When::of),
            attempt: run.attempt.map(|it| it.to_string()).unwrap_or_default(),
            token: run
                .fencing_token
                .map(|it| it.to_string())
                .unwrap_or_default(),
            owner: Text::of(&run.owner),
            error: error.map(Text::long),
        }
    }
}

impl Filter {
    pub(crate) fn store(&self) -> Option<&str> {
        given(self.store.as_ref())
    }

    pub(crate) fn request(&self) -> Result<RunsRequest, Failure> {
        let mut request = RunsRequest::new();
        if let Some(job) = given(self.job.as_ref()) {
            request = request.with_job(job);
        }
        if let Some(name) = given(self.name.as_ref()) {
            request = request.with_name(name);
        }
        match given(self.outcome.as_ref()) {
            None => {}
            Some("open") => request = request.open_only(),
            Some(word) => {
                let outcome = RunOutcome::parse(word).ok_or_else(|| {
                    Failure::bad(format!(
                        "{word:?} is not an outcome; choose one of the list"
                    ))
                })?;
                request = request.with_outcome(outcome);
            }
        }
        if let Some(since) = given(self.since.as_ref()) {
            request = request.with_since(instant_of(since)?);
        }
        if let Some(before) = given(self.before.as_ref()) {
            request = request.with_before(RunId::from_text(before));
        }
        Ok(request)
    }

    /// The URL of another page of the same runs.
    fn url(&self, before: &str) -> String {
        let value = |it: &Option<String>| given(it.as_ref()).unwrap_or_default().to_owned();
        let [store, job, name] = [&self.store, &self.job, &self.name].map(value);
        let [outcome, since] = [&self.outcome, &self.since].map(value);
        let parameters = [
            ("store", &*store),
            ("job", &job),
            ("name", &name),
            ("outcome", &outcome),
            ("since", &since),
            ("before", before),
        ];
        link("runs", &parameters)
    }

    fn outcomes(&self) -> Vec<Choice> {
        let chosen = given(self.outcome.as_ref()).unwrap_or_default();
        let known = RunOutcome::ALL.map(|it| (it.as_str(), it.as_str()));
        let all = [("", "all"), ("open", "without an end")]
            .into_iter()
            .chain(known);
        let choices = all.map(|(value, text)| Choice {
            value,
            text,
            is_chosen: value == chosen,
        });
        choices.collect()
    }
}

/// The instant of a time with its zone, or of the start of a day in UTC.
pub(crate) fn instant_of(text: &str) -> Result<SystemTime, Failure> {
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(instant.into());
    }
    let day = text.parse::<Date>().ok();
    let start = day.and_then(|day| day.to_zoned(TimeZone::UTC).ok());
    start.map(|start| start.timestamp().into()).ok_or_else(|| {
        Failure::bad(format!(
            "{text:?} is not a time; write it like 2026-11-21 or 2026-11-21T03:00:00Z"
        ))
    })
}

pub(crate) async fn runs(
    dashboard: Shared,
    Extension(access): Extension<Access>,
    Query(filter): Query<Filter>,
) -> Result<Response, Failure> {
    let store = dashboard.store(filter.store()).await?;
    let request = filter.request()?.with_limit(ROWS);
    let runs = store.read(reading::runs(store, &request)).await?;
    let has_journal = runs.is_some();
    let runs = runs.unwrap_or_default();
    let text = |it: &Option<String>| given(it.as_ref()).unwrap_or_default().to_owned();
    let is_set = |it: &Option<String>| given(it.as_ref()).is_some();
    let filters = [&filter.job, &filter.name, &filter.outcome, &filter.since];
    Ok(render(&Page {
        frame: Frame::of("runs", "Runs", &dashboard, &access, Some(store)),
        pager: Pager::of(
            given(filter.before.as_ref()),
            &runs,
            |(run, _)| run.id.as_str(),
            |before| filter.url(before),
        ),
        rows: runs
            .iter()
            .map(|(run, state)| RunRow::of(store, run, *state))
            .collect(),
        job: text(&filter.job),
        name: text(&filter.name),
        since: text(&filter.since),
        outcomes: filter.outcomes(),
        store: text(&filter.store),
        is_filtered: filters.into_iter().any(is_set),
        no_journal: (!has_journal).then(|| Text::long(&store.why_no_journal())),
    }))
}
