//! What listeners learn about the end of an annotated function.
#![cfg(feature = "macros")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::{Arc, Mutex};

use shedlock::{
    Error, ErrorKind, Event, Executor, Listener, MemoryProvider, Outcome, scheduler_lock,
    with_executor, with_executor_blocking,
};

#[derive(Debug, Default)]
struct Ends(Mutex<Vec<String>>);

impl Listener for Ends {
    fn on_event(&self, event: &Event<'_>) {
        if let Event::TaskFinished { end, .. } = event {
            let end = format!("{}: {end}", event.job());
            self.0.lock().unwrap().push(end);
        }
    }
}

fn no_mail_server() -> Error {
    Error::new(ErrorKind::Unavailable, "no mail server")
}

#[scheduler_lock(name = "mail-{tenant}", lock_at_most_for = "1m")]
async fn mail(tenant: &str) -> Result<(), Error> {
    match tenant {
        "acme" => Ok(()),
        _ => Err(no_mail_server()),
    }
}

#[scheduler_lock(name = "blocking", lock_at_most_for = "1m")]
fn blocking(fails: bool) -> Result<Option<u8>, Error> {
    if fails {
        Err(no_mail_server())
    } else {
        Ok(Some(1))
    }
}

/// An error that has no text.
#[derive(Debug)]
struct Mute;

impl From<Error> for Mute {
    fn from(_: Error) -> Self {
        Self
    }
}

#[scheduler_lock(name = "mute", lock_at_most_for = "1m")]
async fn mute() -> Result<Outcome<u8>, Mute> {
    Err(Mute)
}

/// An error that cannot be formatted.
#[derive(Debug)]
struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Err(std::fmt::Error)
    }
}

impl From<Error> for Broken {
    fn from(_: Error) -> Self {
        Self
    }
}

#[scheduler_lock(name = "broken", lock_at_most_for = "1m")]
async fn broken() -> Result<(), Broken> {
    Err(Broken)
}

#[scheduler_lock(name = "nothing", lock_at_most_for = "1m")]
async fn nothing() {}

#[scheduler_lock(name = "none", lock_at_most_for = "1m")]
async fn none() -> Option<u8> {
    None
}

#[tokio::test]
async fn an_error_that_a_function_returns_is_a_failure() {
    let ends = Arc::new(Ends::default());
    let executor = Executor::new(Arc::new(MemoryProvider::new())).listener(ends.clone());
    let calls = async {
        mail("acme").await.unwrap();
        mail("initech").await.unwrap_err();
        mute().await.unwrap_err();
        broken().await.unwrap_err();
        nothing().await;
        assert_eq!(none().await, None);
    };
    with_executor(executor, calls).await;
    let ends = std::mem::take(&mut *ends.0.lock().unwrap());
    let expected = [
        "mail-{tenant}: succeeded",
        "mail-{tenant}: failed: no mail server",
        "mute: failed: the task returned an error",
        "broken: failed: an error that cannot be formatted",
        "nothing: succeeded",
        "none: succeeded",
    ];
    assert_eq!(ends, expected);
}

#[test]
fn a_blocking_function_reports_its_error_too() {
    let ends = Arc::new(Ends::default());
    let executor = Executor::new(Arc::new(MemoryProvider::new())).listener(ends.clone());
    with_executor_blocking(executor, || {
        assert_eq!(blocking(false).unwrap(), Some(1));
        blocking(true).unwrap_err();
    });
    let ends = std::mem::take(&mut *ends.0.lock().unwrap());
    assert_eq!(
        ends,
        ["blocking: succeeded", "blocking: failed: no mail server"]
    );
}
