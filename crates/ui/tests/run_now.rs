//! Running a job of the scheduler that is in the same process.

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use shedlock::scheduler::{Handle, Job, Schedule, Scheduler};
use shedlock::{
    Actor, Attempt, AttemptRequest, AuditRequest, ErrorKind, Executor, Journal, LockConfig,
    LockName, LockProvider, MemoryJournal, MemoryProvider, Owner, PauseRequest, Unlock,
    UnlockRequest, admin,
};
use shedlock_ui::{Access, Dashboard};
use tokio::sync::mpsc;
use tower::ServiceExt as _;

struct Service {
    provider: Arc<MemoryProvider>,
    journal: Arc<MemoryJournal>,
    scheduler: Handle,
    /// Receives something at each run of the job `payroll`.
    ran: mpsc::UnboundedReceiver<()>,
    router: Router,
}

impl Service {
    async fn with(access: Access) -> Self {
        let provider = Arc::new(MemoryProvider::new());
        let journal = Arc::new(MemoryJournal::new());
        journal.migrate().await.unwrap();
        let (runs, ran) = mpsc::unbounded_channel();
        let config = LockConfig::new("payroll").lock_at_most_for("10m");
        // Not due while the test runs, except on that day's first minute.
        let job = Job::new(config, Schedule::cron("0 0 29 2 *"), move |_run| {
            runs.send(()).unwrap();
            async { Ok::<(), std::io::Error>(()) }
        });
        let executor = Executor::new(provider.clone());
        let scheduler = Scheduler::new(executor).job(job).start().unwrap();
        let dashboard = Dashboard::builder()
            .store_with_journal("main", provider.clone(), journal.clone())
            .scheduler("main", scheduler.clone())
            .access(move |_| access.clone())
            .build()
            .unwrap();
        Self {
            router: dashboard.router(),
            provider,
            journal,
            scheduler,
            ran,
        }
    }

    async fn send(&self, request: Request<Body>) -> (StatusCode, String) {
        let reply = self.router.clone().oneshot(request).await.unwrap();
        let status = reply.status();
        let text = to_bytes(reply.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(text.to_vec()).unwrap())
    }

    async fn page(&self, path: &str) -> String {
        let request = Request::get(path).body(Body::empty()).unwrap();
        self.send(request).await.1
    }

    /// Confirms that this job is to run now.
    async fn confirm(&self, job: &str, site: &str) -> (StatusCode, String) {
        let request = Request::post("/act")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("sec-fetch-site", site)
            .body(Body::from(format!("do=run-now&name={job}")))
            .unwrap();
        self.send(request).await
    }

    async fn actions(&self) -> Vec<(String, Actor)> {
        let audit = self.journal.audit(&AuditRequest::new()).await.unwrap();
        let of = audit.into_iter().map(|it| (it.action, it.actor));
        of.collect()
    }
}

fn name() -> LockName {
    LockName::new("payroll").unwrap()
}

#[tokio::test]
async fn a_job_of_the_scheduler_runs_once_for_each_request_that_is_confirmed() {
    let mut service = Service::with(Access::operate("alice")).await;
    for _ in 0..2 {
        let form = service.page("/act?name=payroll&do=run-now").await;
        assert!(form.contains("runs the job once"), "{form}");
        let (status, text) = service.confirm("payroll", "same-origin").await;
        assert_eq!(status, StatusCode::SEE_OTHER, "{text}");
        service.ran.recv().await.unwrap();
        // The lock is free again when the run has ended.
        while service.scheduler.jobs().await.unwrap()[0].active {
            tokio::task::yield_now().await;
        }
    }
    let alice = Actor::Authenticated("alice".to_owned());
    let action = ("run-now".to_owned(), alice);
    assert_eq!(service.actions().await, [action.clone(), action]);
    let job = service.page("/job?name=payroll&done=run-now").await;
    assert!(job.contains("The run was requested."), "{job}");
    assert!(job.contains("Run now…"), "{job}");
    assert!(service.ran.try_recv().is_err());
}

#[tokio::test]
async fn only_those_who_may_operate_run_it_and_only_from_the_dashboard() {
    let mut reader = Service::with(Access::Read).await;
    let page = reader.page("/job?name=payroll&done=run-now").await;
    assert!(!page.contains("Run now"), "{page}");
    let (status, _) = reader.confirm("payroll", "same-origin").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(reader.ran.try_recv().is_err());
    let mut service = Service::with(Access::operate("alice")).await;
    let (status, _) = service.confirm("payroll", "cross-site").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(service.ran.try_recv().is_err());
}

#[tokio::test]
async fn a_run_that_would_be_skipped_is_refused_with_the_reason() {
    let mut service = Service::with(Access::operate("alice")).await;
    let refused = async |job, why: &str| {
        let (status, text) = service.confirm(job, "same-origin").await;
        assert_eq!(status, StatusCode::CONFLICT, "{text}");
        assert!(text.contains(why), "{why}: {text}");
        let page = service.page(&format!("/job?name={job}&done=run-now")).await;
        assert!(!page.contains("Run now…"), "{page}");
    };
    refused(
        "nightly",
        "not run: no scheduler of this process has this job",
    )
    .await;
    let hour = Duration::from_secs(3_600);
    let request = AttemptRequest::new(name(), Owner::generate(), hour);
    let Attempt::Acquired(lease) = service.provider.attempt(&request).await.unwrap() else {
        panic!("not acquired");
    };
    refused("payroll", "not run: its lock is held until ").await;
    let unlock = UnlockRequest::default();
    let unlocked = service.provider.unlock(&lease, &unlock).await.unwrap();
    assert_eq!(unlocked, Unlock::Unlocked);
    let pause = PauseRequest::new(name(), "bob");
    admin::pause(&*service.provider, &pause).await.unwrap();
    refused("payroll", "not run: it is paused by bob").await;
    service.scheduler.shutdown(Duration::ZERO).await.unwrap();
    refused(
        "payroll",
        "not run: no scheduler of this process has this job",
    )
    .await;
    assert_eq!(service.actions().await, []);
    assert!(service.ran.try_recv().is_err());
}

#[tokio::test]
async fn a_scheduler_belongs_to_a_store_that_is_shown() {
    let service = Service::with(Access::Read).await;
    let wrong = Dashboard::builder()
        .store("main", service.provider.clone())
        .scheduler("other", service.scheduler.clone())
        .build();
    let error = wrong.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("\"other\""), "{error}");
}
