//! A healthchecks server and a Sentry server in one, which check both protocols strictly.

#![allow(dead_code, reason = "each test program uses its part of it")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use tokio::sync::Notify;

/// Listens on a thread of its own until the process ends.
#[derive(Clone)]
pub(crate) struct PingServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    seen: Mutex<Seen>,
    arrived: Condvar,
    released: Notify,
}

struct Seen {
    answer: Answer,
    requests: Vec<Ping>,
    /// What the protocol does not allow.
    violations: Vec<String>,
}

/// How the server replies.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Status(u16, &'static str),
    RedirectTo(String),
    /// It does not reply until it is released.
    Hang,
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Ping {
    /// With the query, apart from the run id.
    pub(crate) path: String,
    /// The run id of healthchecks, or the id of a check-in.
    pub(crate) run: String,
    pub(crate) body: String,
    /// The value of `X-Sentry-Auth`.
    pub(crate) auth: String,
}

/// The secret in the paths of the server's checks.
pub(crate) const KEY: &str = "geheim-0123456789";

/// The public key of the server's DSN.
pub(crate) const SENTRY_KEY: &str = "geheim9876543210";

impl PingServer {
    pub(crate) fn start() -> Self {
        let shared = Arc::new(Shared {
            seen: Mutex::new(Seen {
                answer: Answer::Status(200, "OK"),
                requests: Vec::new(),
                violations: Vec::new(),
            }),
            arrived: Condvar::new(),
            released: Notify::new(),
        });
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(shared.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                axum::serve(listener, router).await.unwrap();
            });
        });
        Self { address, shared }
    }

    /// The URL of a project's checks.
    pub(crate) fn checks(&self) -> String {
        format!("http://{}/{KEY}/{{slug}}", self.address)
    }

    pub(crate) fn dsn(&self) -> String {
        format!("http://{SENTRY_KEY}@{}/42", self.address)
    }

    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn answer(&self, answer: Answer) {
        self.seen().answer = answer;
    }

    /// Lets the requests in progress, and all later ones, succeed.
    pub(crate) fn release(&self) {
        self.answer(Answer::Status(200, "OK"));
        self.shared.released.notify_waiters();
    }

    /// The requests so far. Panics if one of them breaks the protocol.
    pub(crate) fn pings(&self) -> Vec<Ping> {
        let seen = self.seen();
        assert_eq!(seen.violations, Vec::<String>::new());
        seen.requests.clone()
    }

    /// The paths of the requests so far, after the project's key.
    pub(crate) fn paths(&self) -> Vec<String> {
        let pings = self.pings().into_iter();
        pings.map(|ping| ping.path).collect()
    }

    /// Waits for this many requests.
    pub(crate) fn wait_for(&self, count: usize) -> Vec<Ping> {
        // Longer than any machine needs.
        const LIMIT: Duration = Duration::from_secs(30);
        let seen = self.seen();
        let waited = self.shared.arrived.wait_timeout_while(seen, LIMIT, |seen| {
            seen.requests.len() < count && seen.violations.is_empty()
        });
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        let pings = self.pings();
        assert!(pings.len() >= count, "{count} expected: {pings:?}");
        pings
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.shared.seen()
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, 100_000).await.unwrap_or_default();
    let header = |name: &str| {
        let value = head.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap_or("?"))
    };
    let ping = Ping {
        path: String::new(),
        run: String::new(),
        body: String::from_utf8_lossy(&body).into_owned(),
        auth: header("x-sentry-auth").to_owned(),
    };
    let target = head.uri.path_and_query().map_or("", |it| it.as_str());
    let read = if head.method != Method::POST {
        Err(format!("method {}", head.method))
    } else if target == "/api/42/envelope/" {
        check_in(ping, header("content-type"))
    } else {
        healthcheck(ping, target)
    };
    let (answer, released) = {
        let mut seen = shared.seen();
        match read {
            Ok(ping) => seen.requests.push(ping),
            Err(why) => seen.violations.push(format!("{why}: {target}")),
        }
        (seen.answer.clone(), shared.released.notified())
    };
    shared.arrived.notify_all();
    match answer {
        Answer::Status(status, body) => {
            (StatusCode::from_u16(status).unwrap(), body).into_response()
        }
        Answer::RedirectTo(url) => Redirect::temporary(&url).into_response(),
        Answer::Hang => {
            released.await;
            "OK".into_response()
        }
    }
}

/// `/<key>/<slug>[/start | /fail | /<code>]?[create=1&]rid=<uuid>`, or `/<key>/<slug>/log[?create=1]`
fn healthcheck(mut ping: Ping, target: &str) -> Result<Ping, String> {
    let path = target.strip_prefix(&format!("/{KEY}/"));
    let path = path.ok_or("no such project")?;
    if let Some(slug) = path
        .strip_suffix("?create=1")
        .unwrap_or(path)
        .strip_suffix("/log")
    {
        ping.path = format!("{slug}/log");
        return Ok(ping);
    }
    let (path, query) = path.split_once('?').ok_or("no run id")?;
    let (other, rid) = match query.split_once('&') {
        Some((create, rid)) => (Some(create), rid),
        None => (None, query),
    };
    if other.is_some_and(|other| other != "create=1") {
        return Err("unknown parameter".to_owned());
    }
    let rid = rid.strip_prefix("rid=").ok_or("no run id")?;
    if !is_uuid(rid) {
        return Err("the run id is no UUID".to_owned());
    }
    let mut parts = path.split('/');
    let slug = parts.next().unwrap_or_default();
    let is_slug = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    if slug.is_empty() || !slug.chars().all(is_slug) {
        return Err("not a slug".to_owned());
    }
    let signal = parts.next();
    let is_known =
        |signal: &str| ["start", "fail"].contains(&signal) || signal.parse::<u8>().is_ok();
    if !signal.is_none_or(is_known) || parts.next().is_some() {
        return Err("unknown signal".to_owned());
    }
    rid.clone_into(&mut ping.run);
    ping.path = match other {
        Some(other) => format!("{path}?{other}"),
        None => path.to_owned(),
    };
    Ok(ping)
}

fn is_uuid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    let is_hex = |c: char| c == '-' || c.is_ascii_digit() || ('a'..='f').contains(&c);
    lengths.eq([8, 4, 4, 4, 12]) && text.chars().all(is_hex)
}

/// An envelope with one check-in. The path is the monitor and the status.
fn check_in(mut ping: Ping, content_type: &str) -> Result<Ping, String> {
    if content_type != "application/x-sentry-envelope" {
        return Err(format!("content type {content_type}"));
    }
    let key = format!("sentry_key={SENTRY_KEY}");
    let parts = ping.auth.strip_prefix("Sentry ").unwrap_or_default();
    let parts: Vec<&str> = parts.split(", ").collect();
    if !parts.contains(&"sentry_version=7") || !parts.contains(&&*key) {
        return Err(format!("not authenticated: {parts:?}"));
    }
    let lines: Vec<&str> = ping.body.split('\n').collect();
    let [header, item, payload, ""] = lines[..] else {
        return Err("an envelope of one item has three lines".to_owned());
    };
    let json = |text: &str| -> Result<serde_json::Value, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    };
    if !json(header)?.is_object() || json(item)?["type"] != "check_in" {
        return Err("not a check-in".to_owned());
    }
    let check_in = json(payload)?;
    let text = |key: &str| check_in[key].as_str().unwrap_or_default().to_owned();
    let (id, slug, status) = (text("check_in_id"), text("monitor_slug"), text("status"));
    if id.len() != 32 || !id.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(format!("check_in_id {id:?}"));
    }
    if slug.is_empty() || slug.len() > 50 || text("environment").is_empty() {
        return Err(format!("monitor_slug {slug:?}, or no environment"));
    }
    if !["in_progress", "ok", "error"].contains(&&*status) {
        return Err(format!("status {status:?}"));
    }
    if check_in["duration"].is_f64() != (status != "in_progress") {
        return Err(format!("duration of {status}: {}", check_in["duration"]));
    }
    ping.path = format!("{slug} {status}");
    ping.run = id;
    ping.body = payload.to_owned();
    Ok(ping)
}
