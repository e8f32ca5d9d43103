//! An axum router with `/metrics` and `/healthz`, for services that run jobs (feature `http`).
//!
//! Merge it into the router of your service, or serve it alone:
//!
//! ```no_run
//! use shedlock::http::Endpoints;
//! # async fn serve(executor: &shedlock::Executor) -> std::io::Result<()> {
//! let router = Endpoints::of(executor).router();
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:9464").await?;
//! axum::serve(listener, router).await
//! # }
//! ```
//!
//! Both show names of jobs, and errors of the store, to everyone who can reach them, so do not expose
//! them to the internet.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use axum;
use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use shedlock_core::{SystemClock, within};

use shedlock_support::redact;

#[cfg(feature = "scheduler")]
use crate::scheduler::{self, Handle};
use crate::{Executor, JobMetrics, JobMetricsText, LockProvider};

/// How long a part of the service may take to show that it is alive.
const PATIENCE: Duration = Duration::from_secs(5);

/// What `/metrics` and `/healthz` report.
///
/// - `GET /metrics` returns the [metrics of the jobs](JobMetrics). The status is 200 even if the store
///   is down, because `shedlock_store_up` reports that.
/// - `GET /healthz` returns 200 and `ok`, otherwise 503 and the reason in a line. Use it as a liveness
///   probe: it fails if the [scheduler](Self::scheduler) has stopped, so that a restart helps.
#[derive(Clone)]
#[must_use]
pub struct Endpoints {
    metrics: JobMetrics,
    provider: Arc<dyn LockProvider>,
    requires_store: bool,
    #[cfg(feature = "scheduler")]
    scheduler: Option<Handle>,
}

impl Endpoints {
    /// Reports the jobs and locks of this executor. If its journal is set, the metrics contain how
    /// many entries this process could not write.
    pub fn of(executor: &Executor) -> Self {
        let metrics = JobMetrics::of(executor);
        #[cfg(feature = "scheduler")]
        let metrics = metrics.schedules(scheduler::next_slot);
        Self {
            metrics,
            provider: executor.provider().clone(),
            requires_store: false,
            #[cfg(feature = "scheduler")]
            scheduler: None,
        }
    }

    /// Replaces the metrics of the jobs, for example to read a journal in another store.
    pub fn metrics(mut self, metrics: JobMetrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Makes `/healthz` fail if this scheduler has stopped or hangs.
    #[cfg(feature = "scheduler")]
    pub fn scheduler(mut self, handle: &Handle) -> Self {
        self.scheduler = Some(handle.clone());
        self
    }

    /// Makes `/healthz` fail if the store cannot be reached. For a readiness probe. As a liveness
    /// probe it would restart every replica while the store is down, which does not help.
    pub fn requiring_store(mut self) -> Self {
        self.requires_store = true;
        self
    }

    /// Creates the router.
    pub fn router(self) -> Router {
        Router::new()
            .route("/metrics", get(metrics))
            .route("/healthz", get(health))
            .with_state(Arc::new(self))
    }

    /// Why the service is not healthy.
    async fn problem(&self) -> Option<String> {
        #[cfg(feature = "scheduler")]
        if let Some(handle) = &self.scheduler {
            match within(&SystemClock, PATIENCE, handle.jobs()).await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Some(format!("{error:#}")),
                None => return Some("the scheduler does not reply".to_owned()),
            }
        }
        if !self.requires_store {
            return None;
        }
        match within(&SystemClock, PATIENCE, self.provider.check()).await {
            Some(Ok(())) => None,
            Some(Err(error)) => Some(format!("{error:#}")),
            None => Some("the store does not reply".to_owned()),
        }
    }
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoints")
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}

async fn metrics(State(endpoints): State<Arc<Endpoints>>, headers: HeaderMap) -> Response {
    let timeout = headers.get(JobMetricsText::SCRAPE_TIMEOUT);
    let timeout = timeout.and_then(|it| it.to_str().ok());
    let text = endpoints.metrics.read_for_scrape(timeout).await;
    if let Some(error) = text.error() {
        tracing::warn!(error = %format_args!("{error:#}"), "the metrics are not complete");
    }
    let content_type = [(CONTENT_TYPE, JobMetricsText::CONTENT_TYPE)];
    (content_type, text.into_text()).into_response()
}

async fn health(State(endpoints): State<Arc<Endpoints>>) -> Response {
    match endpoints.problem().await {
        None => "ok\n".into_response(),
        Some(problem) => {
            // A client's error may quote a URL.
            let problem = format!("{}\n", redact(&problem));
            (StatusCode::SERVICE_UNAVAILABLE, problem).into_response()
        }
    }
}
