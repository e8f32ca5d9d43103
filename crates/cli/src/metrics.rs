//! The state of all jobs, for Prometheus: `shedlock metrics`, and `--metrics-listen` of `run` and `ui`.

use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;

use axum::Router;
use shedlock::http::Endpoints;
use shedlock::{Executor, JobMetrics, JobMetricsText, scheduler};
use tokio::task::AbortHandle;

use crate::args::{MetricsArgs, RunArgs};
use crate::connections::{Limiter, limit_headers};
use crate::exit::{Failure, INTERNAL, STORE};
use crate::journal;
use crate::private;
use crate::store::Store;
use crate::terminal::Terminal;

/// Prints the metrics. A store that cannot be read is reported like the others.
pub(crate) async fn metrics(args: &MetricsArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let text = match Store::open_existing(&args.store, terminal).await {
        Ok(store) => {
            if let Some(journal) = store.journal() {
                journal::deliver(&*journal).await;
            }
            let text = of(&store).read().await;
            if let Some(error) = text.error() {
                terminal.error(&format!("{error:#}"));
            } else if !text.has_journal() {
                let why = journal::why_none(&store.journal_place());
                terminal.notice(&format!("no job is reported, because there is {why}"));
            }
            text
        }
        Err(failure) if failure.number() == STORE => {
            terminal.error(&failure.message());
            JobMetricsText::unreachable(failure.into_error())
        }
        Err(failure) => return Err(failure),
    };
    match &args.textfile {
        None => terminal.print(text.as_str())?,
        Some(file) => private::replace(file, text.as_str().as_bytes()).map_err(|error| {
            let file = file.display();
            Failure::new(
                INTERNAL,
                format!("cannot write {file}: {error}; check its directory"),
            )
        })?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What reads the metrics of this store.
pub(crate) fn of(store: &Store) -> JobMetrics {
    let metrics = JobMetrics::new(store.provider().clone()).schedules(scheduler::next_slot);
    match store.journal() {
        Some(journal) => metrics.journal(journal),
        None => metrics,
    }
}

/// Serves `/metrics` and `/healthz` until it is dropped.
pub(crate) struct Serving(Option<AbortHandle>);

impl Serving {
    /// Listens at the address of `--metrics-listen`, if it is set. If that is not possible, the
    /// command runs without: its metrics must not keep a job from running.
    pub(crate) fn start(args: &RunArgs, executor: &Executor, terminal: Terminal) -> Self {
        let Some(address) = args.metrics_listen else {
            return Self(None);
        };
        match Self::at(address, Endpoints::of(executor).router()) {
            Ok((serving, _)) => serving,
            Err(error) => {
                terminal.error(&format!(
                    "{}: no metrics are served: cannot listen on {address}: {error}; choose another \
                     address with --metrics-listen",
                    args.name
                ));
                Self(None)
            }
        }
    }

    /// Serves this router at this address, and says where that is.
    pub(crate) fn at(address: SocketAddr, router: Router) -> std::io::Result<(Self, SocketAddr)> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let server = axum_server::from_tcp(listener)?;
        // The rest of the process needs connections of its own.
        let server = limit_headers(server, false).acceptor(Limiter::new(false));
        let serve = server.serve(router.into_make_service());
        Ok((Self(Some(tokio::spawn(serve).abort_handle())), address))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(serving) = &self.0 {
            serving.abort();
        }
    }
}
