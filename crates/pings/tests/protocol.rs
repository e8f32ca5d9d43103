//! Both protocols, and what a run is spared.

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

mod support;

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use shedlock::pings::{Healthchecks, Monitor, RunReport, SentryCrons};
use shedlock::{
    Attempt, ErrorText, Executor, LockConfig, LockName, LockProvider, ManualClock, MemoryProvider,
    Outcome, Slot, admin,
};
use support::{Answer, PingServer};

/// Longer than any machine needs.
const LIMIT: Duration = Duration::from_secs(30);

fn report() -> LockConfig {
    LockConfig::new("report").lock_at_most_for("10m")
}

fn healthchecks(server: &PingServer) -> Healthchecks {
    let pings = Healthchecks::new().unwrap();
    pings.checks(&server.checks()).unwrap()
}

fn executor(pings: &Healthchecks) -> Executor {
    let executor = Executor::new(Arc::new(MemoryProvider::new()));
    executor.listener(Arc::new(pings.clone()))
}

/// Each run's pings, and whether they have one id.
fn assert_one_run(server: &PingServer, paths: &[&str]) {
    assert_eq!(server.paths(), paths);
    let pings = server.pings();
    assert!(
        pings.iter().all(|ping| ping.run == pings[0].run),
        "{pings:?}"
    );
}

#[tokio::test]
async fn a_run_pings_when_it_starts_and_when_it_succeeds() {
    let server = PingServer::start();
    let pings = healthchecks(&server);
    let executor = executor(&pings);
    let _ = executor.execute(&report(), async {}).await.unwrap();
    assert_eq!(pings.flush(LIMIT).await, 0);
    assert_one_run(&server, &["report/start", "report"]);
    assert!(server.pings().iter().all(|ping| ping.body.is_empty()));

    let _ = executor.execute(&report(), async {}).await.unwrap();
    pings.flush(LIMIT).await;
    let runs = server.pings();
    assert_eq!(runs.len(), 4);
    assert_ne!(runs[0].run, runs[2].run);
    assert_eq!((pings.failed(), pings.dropped()), (0, 0));
}

#[tokio::test]
async fn a_task_inside_its_own_lock_is_one_run() {
    let server = PingServer::start();
    let pings = healthchecks(&server);
    let executor = executor(&pings);
    let inner = executor.clone();
    let task = async move { inner.execute(&report(), async {}).await.unwrap() };
    let _ = executor.execute(&report(), task).await.unwrap();
    pings.flush(LIMIT).await;
    assert_one_run(&server, &["report/start", "report"]);
}

#[tokio::test]
async fn a_failure_is_reported_without_its_text_unless_that_is_wanted() {
    const ERROR: &str = "cannot reach postgres://app:geheim@db/app";
    for (errors, body) in [
        (ErrorText::None, ""),
        (ErrorText::Full, "cannot reach postgres://app:***@db/app"),
    ] {
        let server = PingServer::start();
        let pings = healthchecks(&server).errors(errors);
        let executor = executor(&pings);
        let failing = async { Err::<(), _>(ERROR) };
        let _ = executor.try_execute(&report(), failing).await.unwrap();
        pings.flush(LIMIT).await;
        assert_one_run(&server, &["report/start", "report/fail"]);
        assert_eq!(server.pings()[1].body, body);
    }
}

#[tokio::test]
async fn a_panic_is_a_failure() {
    let server = PingServer::start();
    let pings = healthchecks(&server).errors(ErrorText::Full);
    let executor = executor(&pings);
    let panicking = tokio::spawn(async move {
        let _ = executor
            .execute(&report(), async { panic!("no paper") })
            .await;
    });
    assert!(panicking.await.unwrap_err().is_panic());
    pings.flush(LIMIT).await;
    assert_one_run(&server, &["report/start", "report/fail"]);
    assert_eq!(server.pings()[1].body, "no paper");
}

#[tokio::test]
async fn a_cancelled_run_is_a_failure() {
    let server = PingServer::start();
    let pings = healthchecks(&server);
    let executor = executor(&pings);
    let running = tokio::spawn(async move {
        let _ = executor
            .execute(&report(), std::future::pending::<()>())
            .await;
    });
    let started = server.clone();
    tokio::task::spawn_blocking(move || started.wait_for(1))
        .await
        .unwrap();
    running.abort();
    let _ = running.await;
    pings.flush(LIMIT).await;
    assert_one_run(&server, &["report/start", "report/fail"]);
}

#[tokio::test]
async fn a_lost_lease_is_a_failure_also_if_only_the_unlock_finds_it() {
    let clock = Arc::new(ManualClock::new());
    for is_late in [false, true] {
        let server = PingServer::start();
        let pings = healthchecks(&server).errors(ErrorText::Full);
        let provider = Arc::new(MemoryProvider::with_clock(clock.clone()));
        let executor = Executor::new(provider.clone()).clock(clock.clone());
        let executor = executor.listener(Arc::new(pings.clone()));
        let name = LockName::new("report").unwrap();
        let task = async {
            if is_late {
                // The lock is freed by force, and another owner takes it; the task does not notice.
                let record = provider.inspect(&name).await.unwrap().unwrap();
                let owner = record.owner.unwrap();
                force_unlock(&*provider, &name, &owner).await;
                let other = Executor::new(provider.clone()).clock(clock.clone());
                let _ = other.lock(&report()).await.unwrap();
            } else {
                clock.advance(Duration::from_secs(600));
                std::future::pending::<()>().await;
            }
        };
        let outcome = executor.execute(&report(), task).await.unwrap();
        assert!(
            matches!(outcome, Outcome::Lost { .. }) || is_late,
            "{outcome:?}"
        );
        pings.flush(LIMIT).await;
        let expected: &[&str] = match is_late {
            false => &["report/start", "report/fail"],
            true => &["report/start", "report", "report/fail"],
        };
        assert_one_run(&server, expected);
        let last = server.pings().pop().unwrap();
        assert!(!last.body.is_empty(), "{last:?}");
    }
}

async fn force_unlock(provider: &dyn LockProvider, name: &LockName, owner: &str) {
    let request = shedlock::ForceUnlockRequest::new(name.clone()).with_expected_owner(owner);
    admin::force_unlock(provider, &request).await.unwrap();
}

#[tokio::test]
async fn of_two_replicas_only_the_one_that_runs_the_slot_pings() {
    let server = PingServer::start();
    let provider = Arc::new(MemoryProvider::new());
    let slot = Slot::from_micros(1_700_000_000_000_000).unwrap();
    let config = report().slot(slot);
    let mut ran = 0;
    for _ in 0..2 {
        let pings = healthchecks(&server);
        let replica = Executor::new(provider.clone()).listener(Arc::new(pings.clone()));
        let outcome = replica.execute(&config, async {}).await.unwrap();
        ran += u32::from(outcome.is_executed());
        pings.flush(LIMIT).await;
    }
    assert_eq!(ran, 1);
    assert_one_run(&server, &["report/start", "report"]);
}

#[tokio::test]
async fn each_job_has_its_check() {
    let server = PingServer::start();
    let own = server.checks().replace("{slug}", "own?create=1");
    let pings = healthchecks(&server).check("report", &own).unwrap();
    let executor = executor(&pings);
    let _ = executor.execute(&report(), async {}).await.unwrap();
    let tenant = LockConfig::new("expire-acme").job("expire-{tenant}");
    let tenant = tenant.lock_at_most_for("1m");
    let _ = executor.execute(&tenant, async {}).await.unwrap();
    pings.flush(LIMIT).await;
    let mut paths = server.paths();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [
            "expire-tenant-150519af",
            "expire-tenant-150519af/start",
            "own/start?create=1",
            "own?create=1"
        ]
    );

    // Without a check for it, a job does not ping.
    let none = Healthchecks::new().unwrap();
    let executor = Executor::new(Arc::new(MemoryProvider::new())).listener(Arc::new(none.clone()));
    let _ = executor.execute(&report(), async {}).await.unwrap();
    assert_eq!(none.flush(LIMIT).await, 0);
    assert_eq!(server.pings().len(), 4);
}

#[tokio::test]
async fn an_exit_code_and_a_text_are_passed_on() {
    let server = PingServer::start();
    let pings = healthchecks(&server);
    let executor = Executor::new(Arc::new(MemoryProvider::new()));
    let Attempt::Acquired(held) = executor.lock(&report()).await.unwrap() else {
        panic!("no other owner has it");
    };
    let lease = held.lease();
    pings.started(&lease);
    let second = Duration::from_secs(1);
    pings.ended(&lease, &RunReport::exited(75, second).with_text("the end"));
    pings.ended(&lease, &RunReport::exited(0, second));
    pings.flush(LIMIT).await;
    assert_one_run(&server, &["report/start", "report/75", "report"]);
    assert_eq!(server.pings()[1].body, "the end");
}

#[tokio::test]
async fn sentry_gets_check_ins_with_the_schedule() {
    let server = PingServer::start();
    let monitor = Monitor::new()
        .slug("nightly")
        .crontab("30 2 * * *")
        .zone("Europe/Berlin")
        .checkin_margin(Duration::from_secs(300))
        .max_runtime(Duration::from_secs(3_600));
    let crons = SentryCrons::new(&server.dsn()).unwrap();
    let crons = crons
        .monitor("report", monitor)
        .unwrap()
        .environment("staging");
    let executor = Executor::new(Arc::new(MemoryProvider::new())).listener(Arc::new(crons.clone()));
    let _ = executor.execute(&report(), async {}).await.unwrap();
    let other = LockConfig::new("other").lock_at_most_for("1m");
    let failing = async { Err::<(), _>("no") };
    let _ = executor.try_execute(&other, failing).await.unwrap();
    assert_eq!(crons.flush(LIMIT).await, 0);

    let all = server.pings();
    let of = |slug: &str| {
        let pings = all.iter().filter(|ping| ping.path.starts_with(slug));
        pings.cloned().collect::<Vec<_>>()
    };
    let nightly = of("nightly");
    let paths: Vec<&str> = nightly.iter().map(|ping| &*ping.path).collect();
    assert_eq!(paths, ["nightly in_progress", "nightly ok"]);
    assert_eq!(nightly[0].run, nightly[1].run);
    for ping in &nightly {
        let body: serde_json::Value = serde_json::from_str(&ping.body).unwrap();
        assert_eq!(body["environment"], "staging");
        let expected = serde_json::json!({
            "schedule": { "type": "crontab", "value": "30 2 * * *" },
            "timezone": "Europe/Berlin",
            "checkin_margin": 5,
            "max_runtime": 60,
        });
        assert_eq!(body["monitor_config"], expected);
    }
    let other = of("other");
    assert_eq!(other[1].path, "other error");
    assert!(!other[1].body.contains("monitor_config"));
}

#[tokio::test]
async fn a_server_that_hangs_holds_up_no_run() {
    let server = PingServer::start();
    server.answer(Answer::Hang);
    let clock = Arc::new(ManualClock::new());
    let pings = healthchecks(&server).clock(clock.clone());
    let executor = executor(&pings);
    // The run ends while the server still holds the ping of its start.
    let outcome = executor.execute(&report(), async { 7 }).await.unwrap();
    assert_eq!(outcome.value(), Some(7));
    let server_side = server.clone();
    let held = tokio::task::spawn_blocking(move || server_side.wait_for(1));
    assert_eq!(held.await.unwrap()[0].path, "report/start");

    // A flush is bounded.
    let flushing = {
        let pings = pings.clone();
        tokio::spawn(async move { pings.flush(Duration::from_secs(2)).await })
    };
    while !flushing.is_finished() {
        clock.advance(Duration::from_millis(500));
        tokio::task::yield_now().await;
    }
    // The end has taken the place of the start.
    assert_eq!(flushing.await.unwrap(), 1);
    server.release();
    assert_eq!(pings.clone().flush(Duration::from_secs(3_600)).await, 0);
}

#[tokio::test]
async fn a_server_that_fails_gets_the_ping_again_and_is_given_up() {
    let server = PingServer::start();
    server.answer(Answer::Status(500, "no"));
    let pings = healthchecks(&server);
    let executor = executor(&pings);
    let outcome = executor.execute(&report(), async { 7 }).await.unwrap();
    assert_eq!(outcome.value(), Some(7));
    assert_eq!(pings.flush(LIMIT).await, 0);
    // The start is given up for the end.
    assert_eq!(
        server.paths(),
        ["report/start", "report", "report", "report"]
    );
    assert_eq!(pings.failed(), 2);
}

#[tokio::test]
async fn what_a_repetition_cannot_fix_is_sent_once() {
    for answer in [
        Answer::Status(404, "not found"),
        Answer::Status(200, "OK (not found)"),
    ] {
        let server = PingServer::start();
        server.answer(answer);
        let pings = healthchecks(&server);
        let _ = executor(&pings).execute(&report(), async {}).await.unwrap();
        pings.flush(LIMIT).await;
        assert_eq!(server.paths(), ["report/start", "report"]);
        assert_eq!(pings.failed(), 2);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (server, other) = (PingServer::start(), PingServer::start());
    server.answer(Answer::RedirectTo(other.checks().replace("{slug}", "x")));
    let pings = healthchecks(&server);
    let crons = SentryCrons::new(&server.dsn()).unwrap();
    let executor = executor(&pings).listener(Arc::new(crons.clone()));
    let _ = executor.execute(&report(), async {}).await.unwrap();
    pings.flush(LIMIT).await;
    crons.flush(LIMIT).await;
    assert_eq!(other.paths(), Vec::<String>::new());
    assert_eq!((pings.failed(), crons.failed()), (2, 2));
}

#[tokio::test]
async fn a_server_that_refuses_affects_no_run() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let pings = Healthchecks::new().unwrap();
    let pings = pings
        .checks(&format!("http://{address}/k/{{slug}}"))
        .unwrap();
    let outcome = executor(&pings).execute(&report(), async { 7 }).await;
    assert_eq!(outcome.unwrap().value(), Some(7));
    assert_eq!(pings.flush(LIMIT).await, 0);
    assert_eq!(pings.failed(), 2);
}

#[tokio::test]
async fn pings_that_do_not_fit_into_the_queue_are_dropped_and_counted() {
    let server = PingServer::start();
    server.answer(Answer::Hang);
    let pings = healthchecks(&server);
    let executor = executor(&pings);
    for _ in 0..100 {
        let _ = executor.execute(&report(), async {}).await.unwrap();
    }
    // 128 wait, and one may be in flight.
    assert!((71..=72).contains(&pings.dropped()), "{}", pings.dropped());
    server.release();
}
