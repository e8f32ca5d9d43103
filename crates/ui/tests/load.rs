//! What requests share, and how much they read.

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use serde_json::Value;
use shedlock::{
    Attempt, AttemptRequest, Clock, Journal, JournalEntry, LockName, LockProvider, MemoryJournal,
    MemoryProvider, Owner, RunRecord, SystemClock,
};
use shedlock_ui::{Access, Dashboard};
use tower::ServiceExt as _;

const HOST: &str = "ops.example";

fn router(provider: &Arc<MemoryProvider>, journal: &Arc<MemoryJournal>) -> Router {
    let builder =
        Dashboard::builder().store_with_journal("main", provider.clone(), journal.clone());
    let dashboard = builder.access(|_| Access::operate("alice")).build();
    dashboard.unwrap().router()
}

async fn hold(provider: &MemoryProvider, name: &str) {
    let name = LockName::new(name).unwrap();
    let minutes = Duration::from_secs(600);
    let request = AttemptRequest::new(name, Owner::generate(), minutes);
    let attempt = provider.attempt(&request).await.unwrap();
    assert!(matches!(attempt, Attempt::Acquired(_)), "{attempt:?}");
}

async fn get(router: &Router, url: &str) -> String {
    let request = Request::get(url).header("host", HOST);
    let request = request.body(Body::empty()).unwrap();
    let reply = router.clone().oneshot(request).await.unwrap();
    assert_eq!(reply.status(), StatusCode::OK, "{url}");
    let body = to_bytes(reply.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(body.into()).unwrap()
}

#[tokio::test]
async fn now_is_shared_between_requests_until_an_operator_acts() {
    let (provider, journal) = (
        Arc::new(MemoryProvider::new()),
        Arc::new(MemoryJournal::new()),
    );
    let router = router(&provider, &journal);
    hold(&provider, "payroll").await;
    assert!(get(&router, "/now").await.contains("payroll"));
    hold(&provider, "report").await;
    let shared = get(&router, "/now").await;
    assert!(shared.contains("payroll") && !shared.contains("report"));

    let form = "store=main&name=backup&do=pause&for=1h&reason=repair&create=1";
    let post = Request::post("/act")
        .header("host", HOST)
        .header("origin", format!("https://{HOST}"))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from(form))
        .unwrap();
    let reply = router.clone().oneshot(post).await.unwrap();
    assert_eq!(reply.status(), StatusCode::SEE_OTHER);
    let now = get(&router, "/now").await;
    assert!(now.contains("backup") && now.contains("report"), "{now}");
}

#[tokio::test]
async fn a_page_of_jobs_is_a_hundred_unless_more_are_asked_for() {
    let (provider, journal) = (
        Arc::new(MemoryProvider::new()),
        Arc::new(MemoryJournal::new()),
    );
    journal.migrate().await.unwrap();
    let names: Vec<String> = (0..130).map(|at| format!("job-{at:03}")).collect();
    for name in &names {
        let now = SystemClock.system_time();
        let run = RunRecord::new(name, name, "host/1/ff", now);
        let entry = JournalEntry::run(run, None);
        journal.record(&[entry]).await.unwrap();
    }
    let router = router(&provider, &journal);
    let jobs = async |url: &str| {
        let reply: Value = serde_json::from_str(&get(&router, url).await).unwrap();
        let jobs = reply["jobs"].as_array().unwrap().clone();
        let names = jobs
            .iter()
            .map(|job| job["job"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(jobs("/api/jobs").await, names[..100]);
    assert_eq!(jobs("/api/jobs?after=job-099").await, names[100..]);
    assert_eq!(jobs("/api/jobs?limit=120").await, names[..120]);
}
