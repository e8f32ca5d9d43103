//! The dashboard over HTTP: pages, JSON, actions, and what it refuses.

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use serde_json::Value;
use shedlock::{
    Actor, Attempt, AttemptRequest, AuditRequest, Clock, Error, ErrorKind, JobRegistration,
    Journal, JournalEntry, JournalWriter, LockName, LockProvider, LockState, ManualClock,
    MemoryJournal, MemoryProvider, Owner, PauseRequest, RunEnd, RunOutcome, RunRecord, SystemClock,
    admin,
};
use shedlock_ui::{Access, Dashboard};
use tower::ServiceExt as _;

const HOST: &str = "ops.example:8443";

/// Reads as another word, and has markup.
const NAME: &str = "<img src=x onerror=alert(1)>\u{202e}\"'&";

struct Fixture {
    provider: Arc<MemoryProvider>,
    journal: Arc<MemoryJournal>,
    router: Router,
}

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Fixture {
    async fn new() -> Self {
        Self::with(Access::operate("alice")).await
    }

    async fn with(access: Access) -> Self {
        let provider = Arc::new(MemoryProvider::new());
        let journal = Arc::new(MemoryJournal::new());
        journal.migrate().await.unwrap();
        let dashboard = Dashboard::builder()
            .store_with_journal("main", provider.clone(), journal.clone())
            .access(move |_| access.clone())
            .build()
            .unwrap();
        Self {
            router: dashboard.router(),
            provider,
            journal,
        }
    }

    /// Takes the lock of this name.
    async fn hold(&self, name: &str) -> String {
        let name = LockName::new(name).unwrap();
        let minutes = Duration::from_secs(600);
        let request = AttemptRequest::new(name, Owner::generate(), minutes);
        let Attempt::Acquired(lease) = self.provider.attempt(&request).await.unwrap() else {
            panic!("not acquired");
        };
        lease.owner().as_str().to_owned()
    }

    /// Records runs of this job, one a second, the latest now.
    async fn run(&self, job: &str, runs: u64, error: Option<&str>) {
        for at in (0..runs).rev() {
            let started = SystemClock.system_time() - Duration::from_secs(at + 1);
            let owner = format!("host/1/{at:016x}");
            let mut run = RunRecord::new(job, job, owner, started);
            let outcome = match error {
                Some(_) => RunOutcome::Failed,
                None => RunOutcome::Succeeded,
            };
            let took = Duration::from_millis(1_500);
            run.end = Some(RunEnd::new(took, outcome, error.map(str::to_owned)));
            let entry = JournalEntry::run(run, None);
            self.journal.record(&[entry]).await.unwrap();
        }
    }

    async fn state(&self, name: &str) -> LockState {
        let name = LockName::new(name).unwrap();
        let lock = self.provider.inspect(&name).await.unwrap();
        lock.map_or(LockState::Free, |lock| lock.state)
    }

    async fn get(&self, url: &str) -> Reply {
        send(&self.router, get(url)).await
    }

    async fn json(&self, url: &str) -> Value {
        let reply = self.get(url).await;
        serde_json::from_str(&reply.text).unwrap()
    }

    /// Sends a form from a page of the dashboard.
    async fn post(&self, fields: &[(&str, &str)]) -> Reply {
        let origin = format!("https://{HOST}");
        send(&self.router, post(fields, &[("origin", &origin)])).await
    }
}

fn get(url: &str) -> Request<Body> {
    let request = Request::get(url).header("host", HOST);
    request.body(Body::empty()).unwrap()
}

fn post(fields: &[(&str, &str)], headers: &[(&str, &str)]) -> Request<Body> {
    let form = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish();
    let mut request = Request::post("/act")
        .header("host", HOST)
        .header("content-type", "application/x-www-form-urlencoded");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::from(form)).unwrap()
}

async fn send(router: &Router, request: Request<Body>) -> Reply {
    let reply = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = reply.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    Reply {
        status: parts.status,
        headers: parts.headers,
        text: String::from_utf8(body.to_vec()).unwrap(),
    }
}

/// The relative URL of a page about a job.
fn url(page: &str, name: &str) -> String {
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("name", name)
        .finish();
    format!("/{page}?{query}")
}

const PAGES: [&str; 6] = ["/now", "/jobs", "/locks", "/runs", "/stores", "/audit"];

#[tokio::test]
async fn pages_show_a_job_that_ran_and_its_error() {
    let fixture = Fixture::new().await;
    fixture.run("payroll", 3, None).await;
    fixture.run("backup", 1, Some("exit code 3")).await;
    let owner = fixture.hold("report").await;
    let now = fixture.get("/now").await.text;
    let ago = |seconds: u64| now.contains(&format!("{seconds}s ago: exit code 3"));
    assert!((0..10).any(ago), "{now}");
    assert!(
        now.contains(&owner) && (now.contains("ends in 9m5") || now.contains("ends in 10m")),
        "{now}"
    );
    let jobs = fixture.get("/jobs").await.text;
    assert!(
        jobs.contains("aria-label=\"the last 3: 3 succeeded\""),
        "{jobs}"
    );
    let job = fixture.get("/job?name=payroll").await.text;
    assert!(job.contains("1.5s (median 1.5s)"), "{job}");
    let runs = fixture.get("/runs?outcome=failed").await.text;
    assert!(
        runs.contains("backup") && !runs.contains("payroll"),
        "{runs}"
    );
    let locks = fixture.get("/locks").await.text;
    assert!(
        locks.contains("report") && locks.contains(">held<"),
        "{locks}"
    );
    let stores = fixture.get("/stores").await.text;
    assert!(stores.contains("Round trip: "), "{stores}");
    let audit = fixture.get("/audit").await.text;
    assert!(audit.contains("No operator has acted yet."), "{audit}");
}

#[tokio::test]
async fn empty_pages_say_so() {
    let fixture = Fixture::new().await;
    for (page, text) in [
        (
            "/now",
            "No job is known yet. A job appears with its first run.",
        ),
        ("/now", "No lock is held."),
        ("/jobs", "No job has run yet."),
        ("/locks", "There are no locks."),
        ("/runs", "No run is recorded yet."),
        ("/runs?job=x", "No run matches."),
        ("/audit?name=x", "No operator has acted on this lock."),
    ] {
        let shown = fixture.get(page).await.text;
        assert!(shown.contains(text), "{page}: {shown}");
    }
}

#[tokio::test]
async fn names_and_errors_are_shown_as_text_and_cut() {
    let fixture = Fixture::new().await;
    let long = format!("<script>alert(1)</script>\u{202e}{}", "x".repeat(100_000));
    fixture.run(NAME, 1, Some(&long)).await;
    fixture.hold(NAME).await;
    let job = url("job", NAME);
    let act = url("act", NAME) + "&do=unlock";
    for page in PAGES.into_iter().chain([&*job, &act]) {
        let reply = fixture.get(page).await;
        assert_eq!(reply.status, StatusCode::OK, "{page}: {}", reply.text);
        assert!(!reply.text.contains("<img"), "{page}");
        assert!(!reply.text.contains("<script>"), "{page}");
        assert!(reply.text.len() < 30_000, "{page}: {}", reply.text.len());
        // The form sends the name as it is.
        let hidden = reply.text.matches('\u{202e}').count();
        assert_eq!(hidden, usize::from(page == act), "{page}: {}", reply.text);
    }
    let shown = fixture.get(&job).await.text;
    assert!(shown.contains("bytes more)"), "{shown}");
    assert!(
        shown.contains(r"<bdi>&#60;img src=x onerror=alert(1)&#62;\u{202e}"),
        "{shown}"
    );
}

#[tokio::test]
async fn nothing_is_inline_and_nothing_leaves_the_origin() {
    let fixture = Fixture::new().await;
    fixture.run("payroll", 40, None).await;
    fixture.hold("payroll").await;
    let others = ["/job?name=payroll", "/act?name=payroll&do=pause", "/none"];
    for page in PAGES.into_iter().chain(others) {
        let reply = fixture.get(page).await;
        let policy = reply.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self'"));
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(reply.headers["x-content-type-options"], "nosniff");
        assert_eq!(reply.headers["x-frame-options"], "DENY");
        assert_eq!(reply.headers["referrer-policy"], "same-origin");
        assert_eq!(reply.headers["cache-control"], "no-store");
        for part in [
            " style=",
            "<style",
            "://",
            "javascript:",
            " onclick",
            "=\"/",
            "<script>",
        ] {
            assert!(!reply.text.contains(part), "{page}: {part}: {}", reply.text);
        }
        for asset in reply.text.split("\"asset/").skip(1) {
            let name = asset.split('"').next().unwrap();
            let asset = fixture.get(&format!("/asset/{name}")).await;
            assert_eq!(asset.status, StatusCode::OK, "{name}");
            let kept = asset.headers["cache-control"].to_str().unwrap();
            assert!(kept.contains("immutable"), "{kept}");
            assert!(
                !asset.text.contains("http://") || name.starts_with("icon"),
                "{name}"
            );
        }
    }
    let none = fixture.get("/asset/style.0.css").await;
    assert_eq!(none.status, StatusCode::NOT_FOUND);
}

/// PostgreSQL stores none, and its error would be shown as that of the store.
#[tokio::test]
async fn a_null_character_is_refused_before_the_store_sees_it() {
    let fixture = Fixture::new().await;
    for url in [
        "/jobs?after=%00",
        "/runs?before=a%00",
        "/api/jobs?after=%00",
    ] {
        let reply = fixture.get(url).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{url}");
        assert!(reply.text.contains("a null character"), "{}", reply.text);
    }
}

#[tokio::test]
async fn it_can_be_nested_under_any_prefix() {
    let fixture = Fixture::new().await;
    let nested = Router::new().nest("/ops/jobs", fixture.router.clone());
    let service = Router::new().nest_service("/ops/jobs", fixture.router.clone());
    let tenants = Router::new().nest_service("/{tenant}", fixture.router.clone());
    for (router, path, to) in [
        (&fixture.router, "/", "now"),
        (&nested, "/ops/jobs", "./jobs/now"),
        (&service, "/ops/jobs", "./jobs/now"),
        (&tenants, "/https:evil.example", "./https:evil.example/now"),
        (&service, "/ops/jobs/", "now"),
    ] {
        let reply = send(router, get(path)).await;
        assert_eq!(reply.status, StatusCode::SEE_OTHER, "{path}");
        assert_eq!(reply.headers["location"], to, "{path}");
    }
    for router in [&nested, &service] {
        let page = send(router, get("/ops/jobs/now")).await;
        assert_eq!(page.status, StatusCode::OK);
        let api = send(router, get("/ops/jobs/api/jobs")).await;
        assert_eq!(api.status, StatusCode::OK, "{}", api.text);
    }
}

#[tokio::test]
async fn without_a_journal_it_shows_locks_and_how_to_get_one() {
    let provider = Arc::new(MemoryProvider::new());
    let journal = Arc::new(MemoryJournal::new());
    let fixture = Fixture {
        router: Dashboard::builder()
            .store("main", provider.clone())
            .build()
            .unwrap()
            .router(),
        provider,
        journal,
    };
    fixture.hold("report").await;
    let no_journal = "no journal in main";
    for page in ["/now", "/locks", "/runs", "/audit", "/job?name=report"] {
        let reply = fixture.get(page).await;
        assert!(reply.text.contains(no_journal), "{page}: {}", reply.text);
    }
    let now = fixture.get("/now").await.text;
    assert!(now.contains("report"), "{now}");
    // Only a journal has what is overdue.
    let tile = |title: &str, count: &str| format!("<dt>{title}</dt><dd>{count}</dd>");
    assert!(now.contains(&tile("running", "1")), "{now}");
    assert!(now.contains(&tile("overdue", "–")), "{now}");
    let calm = "Without a journal, it is not known whether a job needs attention.";
    assert!(now.contains(calm), "{now}");
    let jobs = fixture.get("/jobs").await;
    assert_eq!(jobs.headers["location"], "locks?store=main");
    let json = fixture.json("/api/jobs").await;
    let message = json["error"]["message"].as_str().unwrap();
    assert!(message.starts_with(no_journal), "{message}");
}

#[tokio::test]
async fn long_lists_have_pages() {
    let fixture = Fixture::new().await;
    for at in 0..60 {
        fixture.run(&format!("job-{at:02}"), 1, None).await;
    }
    let first = fixture.get("/jobs").await.text;
    assert!(
        first.contains("job-49") && !first.contains("job-50"),
        "{first}"
    );
    let next = "href=\"jobs?store=main&#38;after=job-49\"";
    assert!(first.contains(next), "{first}");
    let second = fixture.get("/jobs?after=job-49").await.text;
    assert!(
        second.contains("job-50") && !second.contains("rel=\"next\""),
        "{second}"
    );
    let runs = fixture.get("/runs").await.text;
    let before = runs.split("before=").nth(1).unwrap();
    let before = before.split('"').next().unwrap();
    let rest = fixture.get(&format!("/runs?before={before}")).await.text;
    assert_eq!(rest.matches("<th scope=\"row\">").count(), 10, "{rest}");
    let wrong = fixture.get("/runs?outcome=maybe").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert!(wrong.text.contains("is not an outcome"), "{}", wrong.text);
    let wrong = fixture.get("/runs?since=yesterday").await;
    assert!(
        wrong.text.contains("write it like 2026-11-21"),
        "{}",
        wrong.text
    );
}

#[tokio::test]
async fn the_json_is_that_of_the_command() {
    let fixture = Fixture::new().await;
    fixture.run("payroll", 1, Some("no")).await;
    fixture.hold("payroll").await;
    let jobs = fixture.json("/api/jobs").await;
    assert_eq!(jobs["version"], 1);
    assert_eq!(
        (&jobs["store"], &jobs["store_name"]),
        (&"memory".into(), &"main".into())
    );
    assert_eq!(jobs["jobs"][0]["last_error"], "no");
    let locks = fixture.json("/api/locks?limit=1").await;
    assert_eq!(locks["locks"][0]["state"], "held");
    let lock = fixture.json("/api/lock?name=payroll").await;
    assert_eq!(lock["lock"]["owner"], locks["locks"][0]["owner"]);
    let runs = fixture.json("/api/runs?job=payroll").await;
    assert_eq!(runs["runs"][0]["outcome"], "failed");
    assert_eq!(runs["actions"], serde_json::json!([]));
    let stores = fixture.json("/api/stores").await;
    assert!(stores["stores"][0]["findings"].is_array(), "{stores}");
    for (url, kind) in [("/api/jobs?store=x", "usage"), ("/api/x", "usage")] {
        let error = fixture.json(url).await;
        assert_eq!(error["error"]["kind"], kind, "{url}: {error}");
    }
}

#[tokio::test]
async fn each_action_is_done_once_confirmed_and_recorded_with_its_user() {
    let fixture = Fixture::new().await;
    let form = fixture.get("/act?name=report&do=pause").await;
    assert!(form.text.contains("<label>Reason"), "{}", form.text);
    let paused = fixture
        .post(&[
            ("name", "report"),
            ("do", "pause"),
            ("for", "2h"),
            ("reason", "mail down"),
            ("create", "1"),
        ])
        .await;
    assert_eq!(paused.status, StatusCode::SEE_OTHER, "{}", paused.text);
    assert_eq!(
        paused.headers["location"],
        "job?store=main&name=report&done=pause"
    );
    assert_eq!(fixture.state("report").await, LockState::Paused);
    let page = fixture
        .get("/job?store=main&name=report&done=pause")
        .await
        .text;
    assert!(
        page.contains("role=\"status\">Paused.") && page.contains("by alice@"),
        "{page}"
    );
    let resumed = fixture.post(&[("name", "report"), ("do", "resume")]).await;
    assert_eq!(resumed.status, StatusCode::SEE_OTHER, "{}", resumed.text);

    let owner = fixture.hold("report").await;
    let extend = [
        ("name", "report"),
        ("do", "extend"),
        ("for", "1h"),
        ("owner", &*owner),
    ];
    assert_eq!(fixture.post(&extend).await.status, StatusCode::SEE_OTHER);
    let unlock = [("name", "report"), ("do", "unlock"), ("owner", &owner)];
    let wrong = fixture
        .post(&[&unlock[..], &[("typed", "Report")]].concat())
        .await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert!(wrong.text.contains("type it exactly"), "{}", wrong.text);
    let stale = [
        ("name", "report"),
        ("do", "unlock"),
        ("owner", "h/1/0"),
        ("typed", "report"),
    ];
    let stale = fixture.post(&stale).await;
    assert_eq!(stale.status, StatusCode::CONFLICT);
    assert!(
        stale.text.contains("another owner has the lock now"),
        "{}",
        stale.text
    );
    assert_eq!(fixture.state("report").await, LockState::Held);
    let freed = fixture
        .post(&[&unlock[..], &[("typed", "report")]].concat())
        .await;
    assert_eq!(freed.status, StatusCode::SEE_OTHER, "{}", freed.text);
    assert_eq!(fixture.state("report").await, LockState::Free);

    let request = AuditRequest::new().with_name("report");
    let audit = fixture.journal.audit(&request).await.unwrap();
    let words: Vec<_> = audit.iter().map(|it| &*it.action).collect();
    assert_eq!(words, ["unlock", "extend", "resume", "pause"]);
    let alice = Actor::Authenticated("alice".to_owned());
    assert!(audit.iter().all(|it| it.actor == alice), "{audit:?}");
    assert_eq!(audit[3].reason.as_deref(), Some("mail down"));
}

#[tokio::test]
async fn an_action_that_is_not_possible_says_why() {
    let fixture = Fixture::new().await;
    let owner = fixture.hold("report").await;
    for (fields, status, text) in [
        (&[("do", "pause")][..], 409, "a task holds the lock"),
        (&[("do", "resume")], 409, "it is not paused; it is held"),
        (&[("do", "extend")], 400, "no duration was given"),
        (&[("do", "extend"), ("for", "soon")], 400, "soon"),
        (&[("do", "slot-reset")], 409, "no slot was ever taken"),
        (
            &[("do", "slot-reset"), ("to", "3000-01-01")],
            400,
            "more than a day ahead",
        ),
        (&[("do", "explode")], 404, "no such action"),
    ] {
        let fields = [&[("name", "report")][..], fields].concat();
        let reply = fixture.post(&fields).await;
        assert_eq!(reply.status, status, "{fields:?}: {}", reply.text);
        assert!(reply.text.contains(text), "{fields:?}: {}", reply.text);
    }
    let paused = fixture
        .post(&[("name", "report"), ("do", "pause"), ("now", "1")])
        .await;
    assert_eq!(paused.status, StatusCode::SEE_OTHER, "{}", paused.text);
    let audit = fixture.journal.audit(&AuditRequest::new()).await.unwrap();
    assert!(audit[0].detail.contains(&owner), "{audit:?}");
}

#[tokio::test]
async fn a_form_that_is_refused_is_shown_again_with_what_is_wrong() {
    let fixture = Fixture::new().await;
    let fields = [("name", "reprot"), ("do", "pause"), ("reason", "mail down")];
    let unknown = fixture.post(&fields).await;
    assert_eq!(unknown.status, StatusCode::CONFLICT, "{}", unknown.text);
    let name = LockName::new("reprot").unwrap();
    assert!(fixture.provider.inspect(&name).await.unwrap().is_none());
    for part in [
        "there is no lock and no job of this name",
        "name=\"create\" value=\"1\" aria-invalid=\"true\"",
        "value=\"mail down\"",
        "href=\"jobs",
    ] {
        assert!(unknown.text.contains(part), "{part}: {}", unknown.text);
    }
    // The journal knows it.
    fixture.run("nightly", 1, None).await;
    let known = [("name", "nightly"), ("do", "pause")];
    let form = fixture.get("/act?name=nightly&do=pause").await;
    assert!(!form.text.contains("name=\"create\""), "{}", form.text);
    let paused = fixture.post(&known).await;
    assert_eq!(paused.status, StatusCode::SEE_OTHER, "{}", paused.text);

    fixture.hold("report").await;
    let report = [("name", "report"), ("do", "pause")];
    let (reason, form) = ("x".repeat(201), "y".repeat(200_000));
    for (more, status, wrong) in [
        (
            ("for", "banana"),
            400,
            "name=\"for\" placeholder=\"2h\" value=\"banana\" aria-invalid",
        ),
        (("reason", &*reason), 400, "the reason has 201 characters"),
        (
            ("reason", &*form),
            413,
            "the form has more than 16384 bytes",
        ),
        (
            ("for", "2h"),
            409,
            "class=\"note bad\" role=\"alert\"><bdi>not paused: a task holds the lock",
        ),
    ] {
        let reply = fixture.post(&[&report[..], &[more]].concat()).await;
        assert_eq!(reply.status, status, "{}", reply.text);
        assert!(reply.text.contains(wrong), "{wrong}: {}", reply.text);
    }
    assert_eq!(fixture.state("report").await, LockState::Held);
}

#[tokio::test]
async fn a_form_of_another_site_changes_nothing() {
    let fixture = Fixture::new().await;
    let pause = [("name", "report"), ("do", "pause"), ("create", "1")];
    let own = format!("https://{HOST}");
    for headers in [
        &[][..],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[("origin", "https://ops.example")],
        &[("origin", &own), ("sec-fetch-site", "cross-site")],
        &[("origin", &own), ("sec-fetch-site", "same-site")],
    ] {
        let reply = send(&fixture.router, post(&pause, headers)).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{headers:?}");
        assert!(reply.text.contains("nothing was changed"), "{}", reply.text);
    }
    assert_eq!(fixture.state("report").await, LockState::Free);
    let own = [
        ("origin", "https://proxied.example"),
        ("sec-fetch-site", "same-origin"),
    ];
    let reply = send(&fixture.router, post(&pause, &own)).await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER, "{}", reply.text);
}

#[tokio::test]
async fn access_decides_who_may_read_and_operate() {
    let reader = Fixture::with(Access::Read).await;
    reader.hold("report").await;
    let page = reader.get("/job?name=report").await.text;
    assert!(
        !page.contains("href=\"act?") && page.contains("read-only"),
        "{page}"
    );
    let form = reader.get("/act?name=report&do=pause").await;
    assert_eq!(form.status, StatusCode::FORBIDDEN);
    let refused = reader.post(&[("name", "report"), ("do", "pause")]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert!(
        refused.text.contains("you may only read"),
        "{}",
        refused.text
    );
    let stranger = Fixture::with(Access::None).await;
    for page in ["/now", "/api/jobs", "/asset/x", "/"] {
        let reply = stranger.get(page).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{page}");
    }
}

#[tokio::test]
async fn only_allowed_hosts_are_served() {
    let provider = Arc::new(MemoryProvider::new());
    let dashboard = Dashboard::builder()
        .store("main", provider)
        .allow_hosts(["localhost", "::1"])
        .build()
        .unwrap();
    for (host, status) in [
        ("localhost:8460", 200),
        ("LOCALHOST", 200),
        ("[::1]:8460", 200),
        ("evil.example", 403),
        ("localhost.evil.example:8460", 403),
        ("", 400),
        ("localhost.", 403),
        ("localhost:8460@evil.example", 400),
    ] {
        let request = Request::get("/now").header("host", host);
        let request = request.body(Body::empty()).unwrap();
        let reply = send(&dashboard.router(), request).await;
        assert_eq!(reply.status, status, "{host}");
    }
}

#[tokio::test]
async fn several_stores_are_shown_by_name() {
    let [a, b] = [(); 2].map(|()| Arc::new(MemoryProvider::new()));
    let router = Dashboard::builder()
        .store("alpha", a)
        .store("beta", b.clone())
        .build()
        .unwrap()
        .router();
    let name = LockName::new("report").unwrap();
    let minute = Duration::from_secs(60);
    let request = AttemptRequest::new(name, Owner::generate(), minute);
    let attempt = b.attempt(&request).await.unwrap();
    assert!(matches!(attempt, Attempt::Acquired(_)), "{attempt:?}");
    let now = send(&router, get("/now")).await.text;
    assert!(now.contains("job?store=beta&#38;name=report"), "{now}");
    let locks = send(&router, get("/locks")).await.text;
    assert!(locks.contains("href=\"locks?store=beta\"") && !locks.contains("report"));
    let locks = send(&router, get("/locks?store=beta")).await.text;
    assert!(locks.contains("report"), "{locks}");
    let none = send(&router, get("/locks?store=gamma")).await;
    assert_eq!(none.status, StatusCode::NOT_FOUND);
}

#[test]
fn a_dashboard_needs_stores_with_names() {
    let provider = || Arc::new(MemoryProvider::new());
    let error = |builder: shedlock_ui::Builder| builder.build().unwrap_err().to_string();
    let none = error(Dashboard::builder());
    assert_eq!(
        none,
        "a dashboard needs a store; add one with Builder::store"
    );
    let empty = error(Dashboard::builder().store(" ", provider()));
    assert_eq!(empty, "the name of a store is empty; choose a name to show");
    let twice = Dashboard::builder()
        .store("a", provider())
        .store("a", provider());
    let twice = error(twice);
    assert_eq!(
        twice,
        "two stores are called \"a\"; give each a name of its own"
    );
}

/// A host whose clock is off shows the same as any other.
#[tokio::test]
async fn what_is_overdue_is_judged_by_the_stores_clock() {
    let host = SystemClock.system_time();
    let clock = Arc::new(ManualClock::new());
    let provider = Arc::new(MemoryProvider::with_clock(clock.clone()));
    let journal = Arc::new(MemoryJournal::with_clock(clock.clone()));
    journal.migrate().await.unwrap();
    let hour = Duration::from_secs(3_600);
    // Between the two clocks.
    assert!(clock.system_time() > host + 2 * hour);
    let next = move |_| Some(host + hour);
    let job = JobRegistration::new("report", "hourly", next);
    let writer = JournalWriter::new(journal.clone());
    writer.register(job);
    assert_eq!(writer.flush(hour).await, 0);
    let fixture = Fixture {
        router: Dashboard::builder()
            .store_with_journal("main", provider.clone(), journal.clone())
            .build()
            .unwrap()
            .router(),
        provider,
        journal,
    };
    let jobs = fixture.json("/api/jobs").await;
    assert_eq!(jobs["jobs"][0]["state"], "overdue", "{jobs}");
    for page in ["/now", "/jobs", "/job?name=report"] {
        let reply = fixture.get(page).await;
        assert!(reply.text.contains("overdue"), "{page}: {}", reply.text);
    }
}

/// A colleague's pause is neither cut short nor ended by a form that was opened before it.
#[tokio::test]
async fn a_form_does_not_undo_a_pause_that_it_did_not_show() {
    let fixture = Fixture::new().await;
    let name = LockName::new("report").unwrap();
    let pause = async |reason: &str| {
        let request = PauseRequest::new(name.clone(), "maria").with_reason(reason);
        let _ = admin::pause(&*fixture.provider, &request).await.unwrap();
        let lock = fixture.provider.inspect(&name).await.unwrap().unwrap();
        lock.owner.unwrap()
    };
    let act = async |action: &str, shown: &str| {
        let fields = [
            ("name", "report"),
            ("do", action),
            ("for", "1m"),
            ("create", "1"),
            ("owner", shown),
        ];
        fixture.post(&fields).await
    };
    let freeze = pause("year end freeze").await;
    let refused = act("pause", "").await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text);
    let said = "it was paused by maria@";
    assert!(refused.text.contains(said), "{}", refused.text);
    let newer = pause("longer").await;
    let refused = act("resume", &freeze).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text);
    assert_eq!(fixture.state("report").await, LockState::Paused);
    assert_eq!(act("resume", &newer).await.status, StatusCode::SEE_OTHER);
    let refused = act("resume", &newer).await;
    assert!(
        refused.text.contains("its pause has ended since"),
        "{}",
        refused.text
    );
    // A run that has come and gone since is no reason to look again.
    let owner = fixture.hold("report").await;
    let _ = admin::force_unlock(
        &*fixture.provider,
        &shedlock_core::ForceUnlockRequest::new(name.clone()),
    )
    .await
    .unwrap();
    assert_eq!(act("pause", &owner).await.status, StatusCode::SEE_OTHER);
}

/// A store that is down when the dashboard starts.
#[tokio::test]
async fn a_store_is_opened_once_it_can_be_reached() {
    let opened = Arc::new(AtomicU32::new(0));
    let count = opened.clone();
    let dashboard = Dashboard::builder()
        .store("here", Arc::new(MemoryProvider::new()))
        .store_later("later", move || {
            let tries = count.fetch_add(1, Ordering::Relaxed);
            async move {
                match tries {
                    0..5 => Err(Error::new(ErrorKind::Unavailable, "it is down")),
                    _ => Ok((Arc::new(MemoryProvider::new()) as _, None)),
                }
            }
        })
        .access(|_| Access::operate("alice"))
        .build()
        .unwrap();
    let router = dashboard.router();
    assert_eq!(opened.load(Ordering::Relaxed), 0);
    let locks = send(&router, get("/locks?store=later")).await;
    assert_eq!(locks.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(locks.text.contains("it is down"), "{}", locks.text);
    let fields = [("store", "later"), ("name", "a"), ("do", "pause")];
    let paused = send(
        &router,
        post(&fields, &[("origin", &format!("https://{HOST}"))]),
    )
    .await;
    assert_eq!(paused.status, StatusCode::SERVICE_UNAVAILABLE);
    // The other store is shown.
    let now = send(&router, get("/now")).await;
    assert_eq!(now.status, StatusCode::OK);
    assert!(now.text.contains("the store cannot be read: it is down"));
    let stores = send(&router, get("/stores")).await;
    assert!(stores.text.contains("It did not reply."), "{}", stores.text);
    let stores = send(&router, get("/api/stores")).await;
    let stores: Value = serde_json::from_str(&stores.text).unwrap();
    assert_eq!(stores["stores"][0]["store"], "memory");
    assert_eq!(stores["stores"][1]["store"], Value::Null);
    assert_eq!(stores["stores"][1]["store_name"], "later");
    assert_eq!(stores["stores"][1]["findings"][0]["level"], "error");
    assert_eq!(opened.load(Ordering::Relaxed), 5);
    for _ in 0..2 {
        let locks = send(&router, get("/locks?store=later")).await;
        assert_eq!(locks.status, StatusCode::OK, "{}", locks.text);
    }
    assert_eq!(opened.load(Ordering::Relaxed), 6);
}
