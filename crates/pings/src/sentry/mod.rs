//! The protocol of Sentry's cron monitors: check-ins in envelopes.

mod dsn;
mod monitor;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::{Value, json};
use shedlock_core::{Clock, Error, Event, Lease, Listener};

use shedlock_journal::ErrorText;

pub use monitor::Monitor;

use crate::report::{RunReport, Runs, Service, Verdict};
use crate::run_id;
use crate::sender::{Message, Sender};
use dsn::Dsn;

/// Sends check-ins to [Sentry's cron monitors](https://docs.sentry.io/product/crons/) when a job's
/// run starts (`in_progress`) and when it ends (`ok` or `error`).
///
/// Add it to an executor with [`Executor::listener`](shedlock_core::Executor::listener). Only the
/// replica that runs a job sends check-ins; one that skips it sends nothing. Both check-ins of a run
/// carry the same `check_in_id`.
///
/// A job's monitor has the slug of the job's name, or that of its [`Monitor`]. A name that is no slug, or is longer than 50
/// characters, is changed and followed by a hash of it. A monitor with a
/// schedule is created or updated by the check-in; any other has to exist in Sentry, which otherwise
/// discards the check-in.
///
/// Check-ins are sent in the background, and never delay or fail a run. One that gets no reply is
/// tried three times. Redirects are not followed. Before the process exits, await
/// [`flush`](Self::flush).
///
/// Clones share all state.
///
/// ```no_run
/// use shedlock::pings::{Monitor, SentryCrons};
/// use shedlock::{Executor, LockConfig, MemoryProvider};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let report = Monitor::new()
///     .crontab("30 2 * * *")
///     .zone("Europe/Berlin")
///     .checkin_margin(Duration::from_secs(5 * 60))
///     .max_runtime(Duration::from_secs(60 * 60));
/// let crons = SentryCrons::new("https://public-key@o1.ingest.sentry.io/42")?
///     .monitor("report", report)?;
/// let executor = Executor::new(Arc::new(MemoryProvider::new())).listener(Arc::new(crons.clone()));
///
/// let config = LockConfig::new("report").lock_at_most_for("1h");
/// executor.execute(&config, async { println!("reporting") }).await?;
/// crons.flush(Duration::from_secs(2)).await;
/// # Ok::<(), shedlock::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
#[must_use]
pub struct SentryCrons {
    dsn: Arc<Dsn>,
    environment: Arc<str>,
    monitors: Arc<BTreeMap<String, Monitor>>,
    timeout: Duration,
    runs: Runs,
    sender: Sender,
}

impl SentryCrons {
    /// Creates a listener for the project of this DSN (Client Keys in the project's settings).
    ///
    /// # Errors
    /// `InvalidInput` if this is not a DSN; the error does not repeat it. `Configuration` if the HTTP
    /// client cannot be created.
    pub fn new(dsn: &str) -> Result<Self, Error> {
        Ok(Self {
            dsn: Arc::new(Dsn::parse(dsn)?),
            environment: "production".into(),
            monitors: Arc::default(),
            timeout: Duration::from_secs(10),
            runs: Runs::default(),
            sender: Sender::new("Sentry")?,
        })
    }

    /// Sets the environment of the check-ins. Default: `production`.
    pub fn environment(mut self, environment: impl Into<Arc<str>>) -> Self {
        self.environment = environment.into();
        self
    }

    /// Sets the monitor of a job.
    ///
    /// # Errors
    /// `InvalidInput` if the schedule is invalid, or of a kind that Sentry does not support.
    pub fn monitor(mut self, job: impl Into<String>, monitor: Monitor) -> Result<Self, Error> {
        monitor.config()?;
        Arc::make_mut(&mut self.monitors).insert(job.into(), monitor);
        Ok(self)
    }

    /// Sets how long one request may take. Default: 10 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Replaces the clock, for tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.sender = self.sender.with_clock(clock);
        self
    }

    /// Reports that the run under this lease starts. The listener does it for an executor's runs.
    pub fn started(&self, lease: &Lease) {
        self.send(lease, "in_progress", None);
    }

    /// Reports how the run under this lease ended. A check-in has no text. The listener does it for
    /// an executor's runs.
    pub fn ended(&self, lease: &Lease, report: &RunReport) {
        let status = match report.verdict {
            Verdict::Succeeded => "ok",
            Verdict::Failed | Verdict::Exited(_) => "error",
        };
        self.send(lease, status, Some(report.ran_for));
    }

    /// Waits until all check-ins are sent, for at most this long. Returns how many are not.
    /// Cancellation safe. Those that are left are still sent in the background.
    pub async fn flush(&self, limit: Duration) -> usize {
        self.sender.flush(limit).await
    }

    /// Returns how many check-ins could not be sent, or were not accepted by Sentry.
    pub fn failed(&self) -> u64 {
        self.sender.failed()
    }

    /// Returns how many check-ins were dropped because too many were waiting.
    pub fn dropped(&self) -> u64 {
        self.sender.dropped()
    }

    fn send(&self, lease: &Lease, status: &str, ran_for: Option<Duration>) {
        let job = lease.job();
        let default = Monitor::new();
        let monitor = self.monitors.get(job).unwrap_or(&default);
        let mut check_in = json!({
            "check_in_id": format!("{:032x}", run_id::of(lease)),
            "monitor_slug": monitor.slug_of(job),
            "status": status,
            "environment": &*self.environment,
        });
        if let Some(ran_for) = ran_for {
            check_in["duration"] = Value::from(ran_for.as_secs_f64());
        }
        // Checked when the monitor was set.
        if let Ok(Some(config)) = monitor.config() {
            check_in["monitor_config"] = config;
        }
        let headers = vec![
            (
                CONTENT_TYPE,
                HeaderValue::from_static("application/x-sentry-envelope"),
            ),
            (
                HeaderName::from_static("x-sentry-auth"),
                self.dsn.auth.clone(),
            ),
        ];
        self.sender.send(Message {
            job: job.to_owned(),
            url: self.dsn.envelopes.clone(),
            headers,
            body: format!("{{}}\n{{\"type\":\"check_in\"}}\n{check_in}\n"),
            timeout: self.timeout,
            is_start: ran_for.is_none(),
        });
    }
}

impl Service for SentryCrons {
    fn started(&self, lease: &Lease) {
        self.started(lease);
    }

    fn ended(&self, lease: &Lease, report: &RunReport) {
        self.ended(lease, report);
    }
}

impl Listener for SentryCrons {
    fn on_event(&self, event: &Event<'_>) {
        self.runs.notify(event, ErrorText::None, self);
    }
}

/// Shows no key.
impl fmt::Debug for SentryCrons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentryCrons")
            .field("environment", &self.environment)
            .field("monitors", &self.monitors)
            .field("sender", &self.sender)
            .finish_non_exhaustive()
    }
}
