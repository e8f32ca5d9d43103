//! The module `http`, over a real socket.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use shedlock::http::Endpoints;
use shedlock::scheduler::{Job, Schedule, Scheduler};
use shedlock::{
    BoxFuture, Error, ErrorKind, Executor, JournalWriter, LockConfig, LockProvider, MemoryJournal,
    MemoryProvider, delegate,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The status, the headers and the body of the answer to a request.
async fn get(router: &Router, path: &str) -> (u16, String, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(axum::serve(listener, router.clone()).into_future());
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    server.abort();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), body.to_owned())
}

/// A store that cannot be reached.
#[derive(Debug)]
struct Away {
    inner: MemoryProvider,
}

impl LockProvider for Away {
    fn check(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            Err(Error::new(
                ErrorKind::Unavailable,
                "no route to redis://u:geheim@h",
            ))
        })
    }

    fn list<'a>(
        &'a self,
        _: &'a shedlock::ListRequest,
    ) -> BoxFuture<'a, Result<Vec<shedlock::LockRecord>, Error>> {
        Box::pin(async {
            Err(Error::new(
                ErrorKind::Unavailable,
                "no route to redis://u:geheim@h",
            ))
        })
    }

    delegate!(inner except check, list);
}

#[tokio::test]
async fn metrics_have_the_deadlines_of_the_schedulers_jobs() {
    let writer = JournalWriter::new(Arc::new(MemoryJournal::new()));
    let executor = Executor::new(Arc::new(MemoryProvider::new())).journal(&writer);
    let config = LockConfig::new("report").lock_at_most_for("10m");
    let job = Job::new(config, Schedule::every("1h"), |_run| async {
        Ok::<_, Error>(())
    });
    let handle = Scheduler::new(executor.clone()).job(job).start().unwrap();
    assert_eq!(writer.flush(Duration::from_secs(60)).await, 0);
    let router = Endpoints::of(&executor).scheduler(&handle).router();

    let (status, head, body) = get(&router, "/metrics").await;
    assert_eq!(status, 200, "{body}");
    let content_type = "content-type: text/plain; version=0.0.4; charset=utf-8";
    assert!(head.contains(content_type), "{head}");
    let deadline = "shedlock_job_deadline_timestamp_seconds{job_name=\"report\",";
    assert!(body.contains(deadline), "{body}");
    assert!(
        body.contains("shedlock_journal_dropped_total 0\n"),
        "{body}"
    );

    // The scheduler runs, and then it does not.
    let (status, _, body) = get(&router, "/healthz").await;
    assert_eq!((status, body.as_str()), (200, "ok\n"));
    handle.shutdown(Duration::ZERO).await.unwrap();
    let (status, _, body) = get(&router, "/healthz").await;
    assert_eq!(status, 503);
    assert_eq!(body, "the scheduler has shut down, or is shutting down\n");
    assert_eq!(get(&router, "/other").await.0, 404);
}

#[tokio::test]
async fn a_store_that_is_down_is_unhealthy_only_if_it_is_required() {
    let away = Away {
        inner: MemoryProvider::new(),
    };
    let executor = Executor::new(Arc::new(away));
    let endpoints = Endpoints::of(&executor);
    let router = endpoints.clone().router();
    assert_eq!(get(&router, "/healthz").await.0, 200);
    let (status, _, body) = get(&router, "/metrics").await;
    assert_eq!(status, 200);
    assert!(body.contains("shedlock_store_up 0\n"), "{body}");
    assert!(!body.contains("geheim"), "{body}");

    let router = endpoints.requiring_store().router();
    let (status, _, body) = get(&router, "/healthz").await;
    assert_eq!(
        (status, body.as_str()),
        (503, "no route to redis://u:***@h\n")
    );
}
