//! The same data as JSON, in the objects of `docs/json.md`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::Query;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures_util::future::join_all;
use serde::Serialize;
use serde_json::{Value, json};
use shedlock_core::LockName;
use shedlock_journal::view::json::{Action, Found, Job, Lock, Run, VERSION};

use crate::dashboard::Inner;
use crate::failure::Failure;
use crate::pages::{AuditParameters, Filter, Shared, given};
use crate::reading::{self, health};
use crate::store::Store;

/// A failure as JSON.
struct Refused(Failure);

type Reply = Result<Response, Refused>;
type Parameters = Query<BTreeMap<String, String>>;

/// The most rows of an answer, and the number of locks without a limit in the URL.
const MOST: usize = 1_000;

/// The number of jobs without a limit in the URL. The runs of each are read to find missed slots.
const JOBS: usize = 100;

pub(crate) fn router() -> Router<Arc<Inner>> {
    Router::new()
        .route("/stores", get(stores))
        .route("/locks", get(locks))
        .route("/lock", get(lock))
        .route("/jobs", get(jobs))
        .route("/runs", get(runs))
        .route("/audit", get(audit))
        .fallback(async || Refused(Failure::not_found("there is no such resource")))
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Failure {
            status, message, ..
        } = self.0;
        let kind = match status.as_u16() {
            503 => "store",
            400..500 => "usage",
            _ => "internal",
        };
        let error = json!({ "version": VERSION, "error": { "kind": kind, "message": message } });
        (status, Json(error)).into_response()
    }
}

/// An object of this version about a store.
fn reply(store: &Store, key: &str, value: impl Serialize) -> Reply {
    reply_with(store, [(key, to_value(value)?)])
}

fn to_value(value: impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(|error| {
        Failure::new(
            axum::http::StatusCode::INTERNAL_SERVER_ERROR,
            format!("cannot write JSON: {error}"),
        )
    })
}

fn reply_with<const N: usize>(store: &Store, fields: [(&str, Value); N]) -> Reply {
    let mut object = json!({
        "version": VERSION,
        "store": store.provider.store(),
        "store_name": store.name,
    });
    for (key, value) in fields {
        object[key] = value;
    }
    Ok(([(CONTENT_TYPE, "application/json")], object.to_string()).into_response())
}

fn no_journal(store: &Store) -> Refused {
    Refused(Failure::not_found(store.why_no_journal()))
}

/// The parameters that the lists share.
struct Page<'a> {
    store: &'a Store,
    after: Option<&'a str>,
    limit: usize,
}

impl<'a> Page<'a> {
    /// `rows` is the limit without one in the URL.
    async fn of(
        dashboard: &'a Inner,
        parameters: &'a BTreeMap<String, String>,
        rows: usize,
    ) -> Result<Self, Failure> {
        let limit = match given(parameters.get("limit")) {
            None => rows,
            Some(text) => text.parse().ok().filter(|it| *it > 0).ok_or_else(|| {
                Failure::bad(format!("{text:?} is not a limit; write a number above 0"))
            })?,
        };
        Ok(Self {
            store: dashboard.store(given(parameters.get("store"))).await?,
            after: given(parameters.get("after")),
            limit: limit.min(MOST),
        })
    }
}

/// The findings of `shedlock doctor` for each store.
async fn stores(dashboard: Shared) -> Reply {
    let mut stores = Vec::new();
    let all = join_all(dashboard.places.iter().map(health)).await;
    for (place, health) in dashboard.places.iter().zip(all) {
        let findings: Vec<_> = health.findings.iter().map(Found::of).collect();
        let round_trip = health.round_trip.map(|it| it.as_secs_f64());
        stores.push(json!({
            "store": health.kind,
            "store_name": place.name,
            "round_trip_seconds": round_trip,
            "findings": to_value(findings)?,
        }));
    }
    Ok(Json(json!({ "version": VERSION, "stores": stores })).into_response())
}

async fn locks(dashboard: Shared, Query(parameters): Parameters) -> Reply {
    let page = Page::of(&dashboard, &parameters, MOST).await?;
    let read = reading::locks(&*page.store.provider, page.after, page.limit);
    let locks = page.store.read(read).await?;
    let locks: Vec<_> = locks.iter().map(Lock::of).collect();
    reply(page.store, "locks", locks)
}

async fn lock(dashboard: Shared, Query(parameters): Parameters) -> Reply {
    let store = dashboard.store(given(parameters.get("store"))).await?;
    let name = parameters.get("name").map_or("", |name| name);
    let name = LockName::new(name).map_err(Failure::from)?;
    let lock = store.read(store.provider.inspect(&name)).await?;
    reply(store, "lock", lock.as_ref().map(Lock::of))
}

async fn jobs(dashboard: Shared, Query(parameters): Parameters) -> Reply {
    let page = Page::of(&dashboard, &parameters, JOBS).await?;
    let store = page.store;
    let read = async {
        let now = reading::now_of(store).await?;
        let Some(journal) = store.existing_journal().await? else {
            return Ok(None);
        };
        let jobs = reading::jobs(store, journal, (page.after, page.limit), now).await?;
        let missed = reading::missed(journal, &jobs, now).await?;
        Ok(Some((jobs, missed, now)))
    };
    let found = store.read(read).await?;
    let (jobs, missed, now) = found.ok_or_else(|| no_journal(store))?;
    let jobs = jobs.iter().zip(missed);
    let jobs = jobs.map(|(current, missed)| Job::of(current, missed, now));
    reply(store, "jobs", jobs.collect::<Vec<_>>())
}

async fn runs(dashboard: Shared, Query(filter): Query<Filter>) -> Reply {
    let store = dashboard.store(filter.store()).await?;
    let request = filter.request()?;
    let runs = store.read(reading::runs(store, &request)).await?;
    let runs = runs.ok_or_else(|| no_journal(store))?;
    let runs: Vec<_> = runs
        .iter()
        .map(|(run, state)| Run::of(run, *state))
        .collect();
    reply_with(store, [("runs", to_value(runs)?), ("actions", json!([]))])
}

async fn audit(dashboard: Shared, Query(parameters): Query<AuditParameters>) -> Reply {
    let store = dashboard.store(parameters.store()).await?;
    let request = parameters.request();
    let actions = store.read(reading::actions(store, &request)).await?;
    let actions = actions.ok_or_else(|| no_journal(store))?;
    let actions: Vec<_> = actions.iter().map(Action::of).collect();
    reply_with(
        store,
        [("runs", json!([])), ("actions", to_value(actions)?)],
    )
}
