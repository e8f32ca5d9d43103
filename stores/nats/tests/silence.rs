//! A connection that no longer responds is discarded at once, before the client's own pings detect it.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::error::Error as _;
use std::pin::pin;
use std::time::Duration;

use common::{give_back, request, until};
use futures_util::future::{Either, select};
use shedlock_conformance::proxy::{Fault, Proxy};
use shedlock_conformance::support::{address, unique};
use shedlock_core::{Attempt, Error, LockProvider};
use shedlock_nats::NatsProvider;
use shedlock_rig::given::server;
use shedlock_rig::wait::sleep;
use tokio::sync::Mutex;

#[tokio::test(flavor = "multi_thread")]
async fn one_request_finds_out_that_a_connection_is_half_open() {
    let server = server("nats");
    let proxy = Proxy::start(address(&server, 4222).unwrap()).await.unwrap();
    let through = proxy.addr();
    let url = format!(
        "nats://{through}?bucket={}&response_timeout=4s",
        unique("silence")
    );
    let provider = NatsProvider::connect(&url).await.unwrap();
    provider.migrate().await.unwrap();

    proxy.set(Fault::Swallow).await.unwrap();
    let silent = provider.attempt(&request("job")).await.unwrap_err();
    assert!(
        silent.is_retryable() && had_no_answer(&silent),
        "{silent:?}"
    );
    proxy.heal().await.unwrap();

    let request = request("job");
    let told = Mutex::new((0, None));
    until("the lock is taken", async || {
        let mut told = told.lock().await;
        match provider.attempt(&request).await {
            Ok(Attempt::Acquired(lease)) => {
                told.1 = Some(lease);
                true
            }
            Ok(other) => panic!("no one else asks for the lock: {other:?}"),
            Err(error) => {
                // A call that is refused because there is no connection yet costs nothing.
                told.0 += usize::from(had_no_answer(&error));
                false
            }
        }
    })
    .await;
    let (silent, lease) = told.into_inner();
    // The client's pings would have taken half a minute, seven calls.
    assert!(silent <= 2, "{silent} more calls had no answer");
    give_back(&provider, &lease.unwrap()).await;
}

/// Like an executor whose store timeout is shorter than the provider's own.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_dropped_find_out_that_a_connection_is_half_open() {
    let server = server("nats");
    let proxy = Proxy::start(address(&server, 4222).unwrap()).await.unwrap();
    let through = proxy.addr();
    // A reply may take longer than the lease of a keep-alive that drops its calls.
    let url = format!(
        "nats://{through}?bucket={}&response_timeout=1m",
        unique("dropped")
    );
    let provider = NatsProvider::connect(&url).await.unwrap();
    provider.migrate().await.unwrap();

    proxy.set(Fault::Swallow).await.unwrap();
    let request = request("job");
    let dropped = Duration::from_millis(600);
    {
        let wait = pin!(sleep(dropped));
        let silent = select(provider.attempt(&request), wait).await;
        assert!(matches!(silent, Either::Right(_)), "it was answered");
    }
    proxy.heal().await.unwrap();

    // A busy machine may need several. The client's pings would take half a minute, and the limit for a reply is longer.
    for _ in 0..15 {
        let wait = pin!(sleep(dropped));
        match select(provider.attempt(&request), wait).await {
            Either::Left((Ok(Attempt::Acquired(lease)), _)) => {
                give_back(&provider, &lease).await;
                return;
            }
            Either::Left((Ok(other), _)) => panic!("no one else asks for the lock: {other:?}"),
            Either::Left((Err(_), _)) => sleep(dropped).await,
            Either::Right(_) => {}
        }
    }
    panic!("the connection is still the silent one");
}

fn had_no_answer(error: &Error) -> bool {
    let source = error.source().map(ToString::to_string);
    source.is_some_and(|text| text.contains("timed out"))
}
