//! A store that may be down when the dashboard starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use axum::routing::get;
use shedlock::{BoxFuture, Error, JobMetricsText, Journal, LockProvider};
use tokio::sync::OnceCell;

use crate::exit::Failure;
use crate::metrics;
use crate::store::Store;
use crate::terminal::Terminal;

/// A name on the dashboard and how to open its store, which is opened once.
#[derive(Clone)]
pub(super) struct Later(Arc<Inner>);

struct Inner {
    name: String,
    open: Box<dyn Fn() -> BoxFuture<'static, Result<Store, Failure>> + Send + Sync>,
    store: OnceCell<Store>,
    /// Whether it was down, and the log says so.
    is_missed: AtomicBool,
    terminal: Terminal,
}

impl Later {
    pub(super) fn new<F>(
        name: &str,
        open: impl Fn() -> F + Send + Sync + 'static,
        terminal: Terminal,
    ) -> Self
    where
        F: Future<Output = Result<Store, Failure>> + Send + 'static,
    {
        Self(Arc::new(Inner {
            name: name.to_owned(),
            open: Box::new(move || Box::pin(open())),
            store: OnceCell::new(),
            is_missed: AtomicBool::new(false),
            terminal,
        }))
    }

    pub(super) fn name(&self) -> &str {
        &self.0.name
    }

    /// Opens the store. One that may be reached later is no failure.
    pub(super) async fn open_or_go_on(&self) -> Result<(), Failure> {
        let Inner {
            name,
            is_missed,
            terminal,
            ..
        } = &*self.0;
        match self.store().await {
            Err(failure) if failure.may_pass() => {
                is_missed.store(true, Ordering::Relaxed);
                terminal.error(&format!(
                    "{}; the dashboard starts without {name}, and each request tries again",
                    failure.message()
                ));
                Ok(())
            }
            opened => opened.map(drop),
        }
    }

    async fn store(&self) -> Result<&Store, Failure> {
        let Inner {
            name,
            is_missed,
            terminal,
            ..
        } = &*self.0;
        let opening = async {
            let store = (self.0.open)().await?;
            if is_missed.load(Ordering::Relaxed) {
                terminal.notice(&format!("{name} has been reached"));
            }
            Ok(store)
        };
        self.0.store.get_or_try_init(|| opening).await
    }

    /// For the dashboard: the provider, and the journal if it is in another store.
    pub(super) async fn opened(
        self,
    ) -> Result<(Arc<dyn LockProvider>, Option<Arc<dyn Journal>>), Error> {
        let store = self.store().await.map_err(Failure::into_error)?;
        let journal = store.journal().filter(|_| store.has_own_journal());
        Ok((store.provider().clone(), journal))
    }

    /// `/metrics` and `/healthz`, also while the store is down.
    pub(super) fn endpoints(self) -> Router {
        let metrics = move |headers: HeaderMap| {
            let later = self.clone();
            async move {
                let timeout = headers.get(JobMetricsText::SCRAPE_TIMEOUT);
                let timeout = timeout.and_then(|it| it.to_str().ok());
                let text = match later.store().await {
                    Ok(store) => metrics::of(store).read_for_scrape(timeout).await,
                    Err(failure) => JobMetricsText::unreachable(failure.into_error()),
                };
                let content_type = [(CONTENT_TYPE, JobMetricsText::CONTENT_TYPE)];
                (content_type, text.into_text()).into_response()
            }
        };
        Router::new()
            .route("/metrics", get(metrics))
            .route("/healthz", get(async || "ok\n"))
    }
}
