//! Sends pings in the background.

use std::error::Error as _;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use reqwest::header::{HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, StatusCode, Url};
use shedlock_core::{Clock, Error, ErrorKind, Moment, SystemClock, within};
use shedlock_support::{Backoff, Queue, TlsFailure, root_cause};
use tokio::sync::Notify;

use crate::run_id;

/// A request to a monitoring service.
#[derive(Clone)]
pub(crate) struct Message {
    /// The pings of a job arrive in their order.
    pub(crate) job: String,
    pub(crate) url: Url,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: String,
    pub(crate) timeout: Duration,
    /// The run has only begun. A later message of its job says more.
    pub(crate) is_start: bool,
}

/// The queue of a service, and the tasks that empty it. Clones share all state.
#[derive(Clone)]
pub(crate) struct Sender(Arc<Shared>);

struct Shared {
    /// The service, for messages.
    service: &'static str,
    client: Client,
    clock: Arc<dyn Clock>,
    lanes: [Queue<Added>; LANES],
    state: Mutex<State>,
    /// A message was added.
    added: Notify,
}

#[derive(Default)]
struct State {
    failed: u64,
    dropped: u64,
    /// When a problem was logged last, and how many there were since.
    logged: Option<Moment>,
    unlogged: u64,
}

/// With the moment at which it was added.
type Added = (Moment, Message);

/// How many requests are sent at once. Each job has one lane, so that its pings keep their order, and
/// a slow reply delays only the jobs of that lane.
const LANES: usize = 8;

/// How many pings may wait in a lane.
const LONGEST_QUEUE: usize = 128;

/// How often a ping is sent if the server cannot be reached or fails.
const TRIES: u32 = 3;

const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The longest pause that a server can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long a start that has no reply yet keeps the next message of its job waiting.
const OVERTAKEN: Duration = Duration::from_millis(250);

/// How often problems are logged.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// Why a ping was not accepted.
struct Problem {
    why: String,
    may_pass: bool,
    /// When the server wants to see the next try.
    retry_after: Option<Duration>,
}

impl Sender {
    /// # Errors
    /// `Configuration` if the HTTP client cannot be created.
    pub(crate) fn new(service: &'static str) -> Result<Self, Error> {
        let cannot = || format!("cannot create the HTTP client for pings to {service}");
        let client = Client::builder();
        let client =
            encrypted(client).ok_or_else(|| Error::new(ErrorKind::Configuration, cannot()))?;
        let client = client
            // A redirect would carry the secret of the URL to another host.
            .redirect(Policy::none())
            .build()
            .map_err(|error| Error::new(ErrorKind::Configuration, cannot()).with_source(error))?;
        Ok(Self::over(service, client, Arc::new(SystemClock)))
    }

    /// The same with an empty queue and another clock.
    pub(crate) fn with_clock(&self, clock: Arc<dyn Clock>) -> Self {
        Self::over(self.0.service, self.0.client.clone(), clock)
    }

    fn over(service: &'static str, client: Client, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Shared {
            service,
            client,
            clock,
            lanes: Default::default(),
            state: Mutex::default(),
            added: Notify::new(),
        }))
    }

    /// Adds a message to the queue. Never waits.
    pub(crate) fn send(&self, message: Message) {
        let lane = run_id::hash([&*message.job]) as usize % LANES;
        let now = self.0.clock.now();
        let mut queue = self.0.lanes[lane].state();
        if queue.waiting.len() >= LONGEST_QUEUE {
            drop(queue);
            return self.0.dropped(&message);
        }
        // A start that still waits is of no use once its run has ended: the server is slow, or away.
        let is_late = |since: Moment| now.saturating_since(since) >= OVERTAKEN;
        if !queue.taken.is_empty() {
            queue.waiting.retain(|(since, waiting)| {
                !(waiting.is_start && waiting.job == message.job && is_late(*since))
            });
        }
        queue.waiting.push_back((now, message));
        drop(queue);
        self.0.added.notify_waiters();
        self.0.wake(lane);
    }

    /// Waits until everything is sent, for at most this long. Returns how many pings are not sent.
    pub(crate) async fn flush(&self, limit: Duration) -> usize {
        let emptied = async {
            (0..LANES).for_each(|lane| self.0.wake(lane));
            for (lane, queue) in self.0.lanes.iter().enumerate() {
                queue.emptied(|| self.0.wake(lane)).await;
            }
        };
        let _ = within(&*self.0.clock, limit, emptied).await;
        self.0.left()
    }

    /// How many pings the service did not accept.
    pub(crate) fn failed(&self) -> u64 {
        self.0.state().failed
    }

    /// How many pings were dropped because the queue was full.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.state().dropped
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn left(&self) -> usize {
        self.lanes.iter().map(Queue::left).sum()
    }

    /// A lane is full.
    fn dropped(&self, message: &Message) {
        let mut state = self.state();
        state.dropped += 1;
        count("shedlock.pings.dropped");
        let (host, service) = (host(&message.url), self.service);
        self.log(state, &message.job, &format!(
            "a ping to {host} was dropped: earlier pings are still waiting; check that {service} replies"
        ));
    }

    /// Starts the lane's background task unless it runs.
    fn wake(self: &Arc<Self>, lane: usize) {
        self.lanes[lane].wake(|| {
            let shared = self.clone();
            async move { shared.send_all(lane).await }
        });
    }

    /// Sends until the lane is empty.
    async fn send_all(&self, lane: usize) {
        while let Some(messages) = self.lanes[lane].take(1) {
            for (_, message) in &messages {
                self.send(lane, message).await;
            }
            self.lanes[lane].done();
        }
    }

    async fn send(&self, lane: usize, message: &Message) {
        let Err(problem) = self.try_often(lane, message).await else {
            return;
        };
        let mut state = self.state();
        state.failed += 1;
        count("shedlock.pings.failed");
        // A start that its end has overtaken is not worth a line.
        if !problem.why.is_empty() {
            let host = host(&message.url);
            let text = format!("cannot ping {} at {host}: {}", self.service, problem.why);
            self.log(state, &message.job, &text);
        }
    }

    /// Tries a few times, with pauses also if a flush waits: a server that is restarted is back a moment later. A start is
    /// given up once another message of its job waits.
    async fn try_often(&self, lane: usize, message: &Message) -> Result<(), Problem> {
        let overtaken = pin!(self.overtaken(lane, message));
        let tries = pin!(async {
            let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
            for _ in 1..TRIES {
                let wanted = match self.try_once(message).await {
                    Err(problem) if problem.may_pass => problem.retry_after.unwrap_or_default(),
                    done => return done,
                };
                let until = self.clock.now() + wanted.clamp(backoff.take(), LONGEST_PAUSE);
                self.clock.sleep_until(until).await;
            }
            self.try_once(message).await
        });
        match select(tries, overtaken).await {
            Either::Left((done, _)) => done,
            Either::Right(_) => Err(Problem {
                why: String::new(),
                may_pass: false,
                retry_after: None,
            }),
        }
    }

    /// Completes a moment after another message of the same job was added, if this one is a start.
    async fn overtaken(&self, lane: usize, message: &Message) {
        if !message.is_start {
            return std::future::pending().await;
        }
        loop {
            let mut added = pin!(self.added.notified());
            added.as_mut().enable();
            let is_next = |(_, it): &(_, Message)| it.job == message.job;
            if self.lanes[lane].state().waiting.iter().any(is_next) {
                break;
            }
            added.await;
        }
        let until = self.clock.now() + OVERTAKEN;
        self.clock.sleep_until(until).await;
    }

    async fn try_once(&self, message: &Message) -> Result<(), Problem> {
        let mut request = self.client.post(message.url.clone());
        let agent = concat!("shedlock/", env!("CARGO_PKG_VERSION"));
        request = request.header(USER_AGENT, agent);
        for (name, value) in &message.headers {
            request = request.header(name, value);
        }
        let exchange = async {
            let response = request.body(message.body.clone()).send().await;
            let mut response = response.map_err(|error| Problem::of_client(&error))?;
            let status = response.status();
            let retry_after = response.headers().get(RETRY_AFTER).and_then(seconds);
            // The first bytes of the reply are enough.
            let body = response.chunk().await.ok().flatten().unwrap_or_default();
            judge(status, &body).map_err(|problem| Problem {
                retry_after,
                ..problem
            })
        };
        match within(&*self.clock, message.timeout, exchange).await {
            Some(answer) => answer,
            None => Err(Problem {
                why: "no reply in time; check that the server is running".to_owned(),
                may_pass: true,
                retry_after: None,
            }),
        }
    }

    /// Logs a problem, at a bounded rate. Texts contain no URL, whose path or query is a secret.
    fn log(&self, mut state: MutexGuard<'_, State>, job: &str, text: &str) {
        let now = self.clock.now();
        let is_due = |logged: Moment| now.saturating_since(logged) >= LOG_PERIOD;
        if !state.logged.is_none_or(is_due) {
            state.unlogged += 1;
            return;
        }
        state.logged = Some(now);
        let others = std::mem::take(&mut state.unlogged);
        drop(state);
        if others == 0 {
            tracing::warn!(job, "{text}; the run is not affected");
        } else {
            tracing::warn!(job, others, "{text}; the runs are not affected");
        }
    }
}

/// The time in a `Retry-After` header. Dates are left out: this host's clock may differ.
fn seconds(value: &HeaderValue) -> Option<Duration> {
    let seconds = value.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Healthchecks replies to some pings that it ignores with `OK (why)`.
fn judge(status: StatusCode, body: &[u8]) -> Result<(), Problem> {
    let ignored = body.strip_prefix(b"OK (").filter(|_| status.is_success());
    if let Some(why) = ignored {
        let why = String::from_utf8_lossy(&why[..why.len().min(40)]);
        let why = why.split([')', '\r', '\n']).next().unwrap_or_default();
        return Err(Problem {
            why: format!("the server ignored the ping ({why}); check the URL and its limits"),
            may_pass: false,
            retry_after: None,
        });
    }
    if status.is_success() {
        return Ok(());
    }
    let what_to_do = match status.as_u16() {
        300..=399 => "redirects are not followed; use the URL that it leads to",
        401 => "check the key in the URL or DSN",
        403 => {
            "it does not accept pings with this URL or DSN; check its key, and that the server does not \
             block this host"
        }
        404 => {
            "it has no such check or monitor; create it (a check with a slug: with ?create=1 in the \
             URL), or correct the URL or DSN"
        }
        409 => {
            "it has several checks of this slug; rename one, or use the URL with the check's UUID"
        }
        429 => "it limits the rate of pings",
        500.. => "check the server",
        _ => "check the URL",
    };
    Err(Problem {
        why: format!("the server replied {status}; {what_to_do}"),
        may_pass: status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS,
        retry_after: None,
    })
}

/// With its own crypto provider, so that none is installed for the process. None if there is no such configuration.
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
fn encrypted(client: ClientBuilder) -> Option<ClientBuilder> {
    let config = shedlock_support::TlsFiles::default().client_config(false);
    Some(client.tls_backend_preconfigured(config.ok()?))
}

#[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
fn encrypted(client: ClientBuilder) -> Option<ClientBuilder> {
    Some(client)
}

impl Problem {
    /// The innermost error says what happened. The others repeat the URL.
    fn of_client(error: &reqwest::Error) -> Self {
        let why = match error.source() {
            Some(_) => root_cause(error),
            None => "the request failed".to_owned(),
        };
        let what_to_do = match TlsFailure::of(error) {
            Some(_) => {
                "check the scheme and the port in the URL, and the server's certificate; to trust other authorities than \
                 the system's, set SSL_CERT_FILE to a PEM file with them"
            }
            None => "check that the server is running and can be reached from here",
        };
        Self {
            why: format!("{why}; {what_to_do}"),
            may_pass: !error.is_builder(),
            retry_after: None,
        }
    }
}

/// The server of a URL, for messages.
pub(crate) fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or("an unknown host");
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

#[cfg(feature = "metrics")]
fn count(meter: &'static str) {
    metrics::counter!(meter).increment(1);
}

#[cfg(not(feature = "metrics"))]
fn count(_: &'static str) {}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state();
        f.debug_struct("Sender")
            .field("waiting", &self.0.left())
            .field("failed", &state.failed)
            .field("dropped", &state.dropped)
            .finish_non_exhaustive()
    }
}
