//! What is logged, and how often. It is the only test of its process, because another thread without a subscriber
//! could turn the events off.

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

mod support;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shedlock::pings::{Healthchecks, SentryCrons};
use shedlock::{Executor, LockConfig, ManualClock, MemoryProvider};
use support::{Answer, KEY, PingServer, SENTRY_KEY};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn problems_are_logged_once_a_minute_without_the_secret() {
    let log = Log::default();
    let subscriber = {
        let log = log.clone();
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || log.clone())
            .finish()
    };
    // This test has its thread, and so its runtime, to itself.
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = PingServer::start();
    server.answer(Answer::Status(404, "not found"));
    let clock = Arc::new(ManualClock::new());
    let pings = Healthchecks::new()
        .unwrap()
        .checks(&server.checks())
        .unwrap();
    let pings = pings.clock(clock.clone());
    let crons = SentryCrons::new(&server.dsn()).unwrap();
    let executor = Executor::new(Arc::new(MemoryProvider::new()));
    let executor = executor
        .listener(Arc::new(pings.clone()))
        .listener(Arc::new(crons.clone()));
    let config = LockConfig::new("report").lock_at_most_for("1m");
    for _ in 0..3 {
        let _ = executor.execute(&config, async {}).await.unwrap();
        pings.flush(LIMIT).await;
        crons.flush(LIMIT).await;
    }
    let host = server.host();
    let text = log.text();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("ping")).collect();
    assert_eq!(lines.len(), 2, "{text}");
    let said = format!(
        "cannot ping healthchecks at {host}: the server replied 404 Not Found; it has no such \
         check or monitor; create it (a check with a slug: with ?create=1 in the URL), or correct \
         the URL or DSN; the run is not affected job=\"report\""
    );
    // The two services are pinged at the same time, so either may be the first to fail.
    let is_of_sentry = |line: &&str| line.contains(&format!("cannot ping Sentry at {host}: "));
    let (of_sentry, others): (Vec<&str>, Vec<&str>) = lines.into_iter().partition(is_of_sentry);
    assert_eq!((of_sentry.len(), others.len()), (1, 1), "{text}");
    assert!(others[0].ends_with(&said), "{text}");

    clock.advance(Duration::from_secs(60));
    let _ = executor.execute(&config, async {}).await.unwrap();
    pings.flush(LIMIT).await;
    let text = log.text();
    assert!(
        text.contains("the runs are not affected job=\"report\" others=5"),
        "{text}"
    );

    for answer in [
        Answer::RedirectTo(server.checks()),
        Answer::Status(200, "OK (rate limited)"),
    ] {
        clock.advance(Duration::from_secs(60));
        server.answer(answer);
        let _ = executor.execute(&config, async {}).await.unwrap();
        pings.flush(LIMIT).await;
    }
    let text = log.text();
    assert!(
        text.contains("307 Temporary Redirect; redirects are not followed"),
        "{text}"
    );
    assert!(
        text.contains("ignored the ping (rate limited); check"),
        "{text}"
    );
    assert!(!text.contains(KEY) && !text.contains(SENTRY_KEY), "{text}");
}
