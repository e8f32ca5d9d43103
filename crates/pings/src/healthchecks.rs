//! The protocol of healthchecks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use shedlock_core::{Clock, Error, Event, Lease, Listener};

use shedlock_journal::ErrorText;

use crate::report::{RunReport, Runs, Service, Verdict};
use crate::sender::{Message, Sender};
use crate::{check_tls, invalid, run_id, slug};

/// Pings a [healthchecks](https://healthchecks.io) server, hosted or your own, when a job's run
/// starts and when it ends.
///
/// Add it to an executor with [`Executor::listener`](shedlock_core::Executor::listener). Only the
/// replica that runs a job pings; one that skips it sends nothing. All pings of a run carry the same
/// run id (`rid`), so runs that overlap can be distinguished.
///
/// | the run | the ping |
/// |---|---|
/// | starts | `POST <URL>/start` |
/// | succeeds | `POST <URL>` |
/// | fails, panics, loses its lease or is cancelled | `POST <URL>/fail` |
/// | ends with an exit code ([`RunReport::exited`]) | `POST <URL>/<code>`, and `POST <URL>` for 0 |
/// | cannot start here ([`log`](Self::log)) | `POST <URL>/log` |
///
/// Pings are sent in the background, and never delay or fail a run. A ping that gets no reply is
/// tried three times. Redirects are not followed. Before the process exits, await
/// [`flush`](Self::flush).
///
/// Clones share all state.
///
/// ```no_run
/// use shedlock::pings::Healthchecks;
/// use shedlock::{Executor, LockConfig, MemoryProvider};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let pings = Healthchecks::new()?
///     // The check of each job that has none of its own: its slug is made from the job's name.
///     .checks("https://hc-ping.com/your-ping-key/{slug}?create=1")?
///     .check("payroll", "https://hc-ping.com/5c7bd9a1-0000-0000-0000-000000000000")?;
/// let executor = Executor::new(Arc::new(MemoryProvider::new())).listener(Arc::new(pings.clone()));
///
/// let config = LockConfig::new("report").lock_at_most_for("10m");
/// executor.execute(&config, async { println!("reporting") }).await?;
/// pings.flush(Duration::from_secs(2)).await;
/// # Ok::<(), shedlock::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
#[must_use]
pub struct Healthchecks {
    /// The URLs of jobs that have their own.
    checks: Arc<BTreeMap<String, Url>>,
    /// The URL for all others, with [`SLUG`] in it.
    template: Option<Arc<str>>,
    timeout: Duration,
    errors: ErrorText,
    runs: Runs,
    sender: Sender,
}

/// In a URL for several jobs, the place of the check's slug.
const SLUG: &str = "{slug}";

/// The signal of a start.
const START: &str = "start";

/// The longest slug of a check.
const LONGEST_SLUG: usize = 100;

/// The longest text that every healthchecks server keeps, in bytes.
const LONGEST_TEXT: usize = 10_000;

impl Healthchecks {
    /// Creates a listener that pings no check yet.
    ///
    /// # Errors
    /// `Configuration` if the HTTP client cannot be created.
    pub fn new() -> Result<Self, Error> {
        Ok(Self {
            checks: Arc::default(),
            template: None,
            timeout: Duration::from_secs(10),
            errors: ErrorText::None,
            runs: Runs::default(),
            sender: Sender::new("healthchecks")?,
        })
    }

    /// Pings the check with this URL for this job, such as
    /// `https://hc-ping.com/<uuid of the check>`.
    ///
    /// # Errors
    /// `InvalidInput` if it is not an HTTP URL. The error does not repeat it, because whoever has the
    /// URL can ping.
    pub fn check(mut self, job: impl Into<String>, url: &str) -> Result<Self, Error> {
        let job = job.into();
        let url = read(&of_job(url, &job))?;
        Arc::make_mut(&mut self.checks).insert(job, url);
        Ok(self)
    }

    /// For each job without a URL of its own (see [`check`](Self::check)), pings a check that is named
    /// after the job. `{slug}` in the URL stands for the slug of the check: the job's name, if it consists of lower-case
    /// letters, digits, `-` and `_`. Any other name is changed to that, cut to 100 characters, and followed by a hash of
    /// the name, so that two jobs never share a check (`a/b::c` becomes `a-b-c-` and eight digits).
    /// `https://hc-ping.com/<ping key>/{slug}?create=1` also creates checks that do not exist.
    ///
    /// # Errors
    /// `InvalidInput` if it is not an HTTP URL, or has no `{slug}`.
    pub fn checks(mut self, url: &str) -> Result<Self, Error> {
        if !url.contains(SLUG) {
            return Err(
                invalid("the ping URL has no {slug}, so all jobs would ping one check")
                    .advise("write it like https://hc-ping.com/<ping key>/{slug}"),
            );
        }
        read(&url.replace(SLUG, "x"))?;
        self.template = Some(url.into());
        Ok(self)
    }

    /// Sets how long one request may take. Default: 10 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends the error of a failed run with its ping, without the passwords of URLs. By default no
    /// text leaves the process.
    pub fn errors(mut self, errors: ErrorText) -> Self {
        self.errors = errors;
        self
    }

    /// Replaces the clock, for tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.sender = self.sender.with_clock(clock);
        self
    }

    /// Reports that the run under this lease starts. The listener does it for an executor's runs.
    pub fn started(&self, lease: &Lease) {
        self.send(lease, Some(START), None);
    }

    /// Reports how the run under this lease ended. The listener does it for an executor's runs.
    pub fn ended(&self, lease: &Lease, report: &RunReport) {
        let text = report.text.as_deref();
        match report.verdict {
            Verdict::Succeeded => self.send(lease, None, text),
            Verdict::Failed => self.send(lease, Some("fail"), text),
            Verdict::Exited(code) => self.send(lease, Some(&code.to_string()), text),
        }
    }

    /// Adds this text to the log of this job's check, without a change of its state: `POST <URL>/log`. For a host that
    /// could not run the job: another one may have run it, so that it is no failure.
    pub fn log(&self, job: &str, text: &str) {
        self.post(job, None, Some("log"), Some(text));
    }

    /// Waits until all pings are sent, for at most this long. Returns how many are not. Cancellation
    /// safe. Those that are left are still sent in the background.
    pub async fn flush(&self, limit: Duration) -> usize {
        self.sender.flush(limit).await
    }

    /// Returns how many pings could not be sent, or were not accepted by the server.
    pub fn failed(&self) -> u64 {
        self.sender.failed()
    }

    /// Returns how many pings were dropped because too many were waiting.
    pub fn dropped(&self) -> u64 {
        self.sender.dropped()
    }

    fn send(&self, lease: &Lease, signal: Option<&str>, text: Option<&str>) {
        let rid = run_id::uuid(run_id::of(lease));
        self.post(lease.job(), Some(&rid), signal, text);
    }

    fn post(&self, job: &str, rid: Option<&str>, signal: Option<&str>, text: Option<&str>) {
        let Some(mut url) = self.url(job) else { return };
        if let (Some(signal), Ok(mut path)) = (signal, url.path_segments_mut()) {
            path.pop_if_empty().push(signal);
        }
        if let Some(rid) = rid {
            url.query_pairs_mut().append_pair("rid", rid);
        }
        let text = text.map_or("", last_bytes);
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        self.sender.send(Message {
            job: job.to_owned(),
            url,
            headers: vec![(CONTENT_TYPE, plain)],
            body: text.to_owned(),
            timeout: self.timeout,
            is_start: signal == Some(START),
        });
    }

    fn url(&self, job: &str) -> Option<Url> {
        let own = self.checks.get(job).cloned();
        own.or_else(|| read(&of_job(self.template.as_deref()?, job)).ok())
    }
}

impl Service for Healthchecks {
    fn started(&self, lease: &Lease) {
        self.started(lease);
    }

    fn ended(&self, lease: &Lease, report: &RunReport) {
        self.ended(lease, report);
    }
}

impl Listener for Healthchecks {
    fn on_event(&self, event: &Event<'_>) {
        self.runs.notify(event, self.errors, self);
    }
}

/// Shows no URL.
impl fmt::Debug for Healthchecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Healthchecks")
            .field("checks", &self.checks.keys())
            .field("sender", &self.sender)
            .finish_non_exhaustive()
    }
}

/// The URL of a job's check.
fn of_job(url: &str, job: &str) -> String {
    url.replace(SLUG, &slug(job, LONGEST_SLUG))
}

fn read(url: &str) -> Result<Url, Error> {
    let read = Url::parse(url).ok();
    let read = read.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let read = read.ok_or_else(|| {
        invalid("the ping URL is not an HTTP URL")
            .advise("copy it from the check's page")
            .advise(
                "it looks like https://hc-ping.com/<uuid> or https://hc-ping.com/<ping key>/{slug}",
            )
    })?;
    check_tls(&read)?;
    Ok(read)
}

/// The end of a text that is too long.
fn last_bytes(text: &str) -> &str {
    let mut from = text.len().saturating_sub(LONGEST_TEXT);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_url_is_refused_and_not_repeated() {
        let pings = || Healthchecks::new().unwrap();
        for (refused, says) in [
            (pings().check("a", "ftp://h/geheim"), "not an HTTP URL"),
            (pings().check("a", "geheim"), "not an HTTP URL"),
            (pings().checks("https://h/geheim"), "has no {slug}"),
            (pings().checks("geheim/{slug}"), "not an HTTP URL"),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), shedlock_core::ErrorKind::InvalidInput);
            let said = error.to_string();
            assert!(said.contains(says) && !said.contains("geheim"), "{said}");
        }
        let pings = pings().check("a", "https://h/geheim").unwrap();
        let shown = format!("{pings:?}");
        assert!(
            shown.contains("\"a\"") && !shown.contains("geheim"),
            "{shown}"
        );
    }

    #[test]
    fn the_end_of_a_long_text_is_kept() {
        let text = format!("é{}", "x".repeat(LONGEST_TEXT - 1));
        assert_eq!(last_bytes(&text).len(), LONGEST_TEXT - 1);
        assert_eq!(last_bytes("short"), "short");
    }
}
