//! Buckets whose settings lose locks are refused by the first call, whichever it is.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use common::{Own, request, servers, take, until};
use futures_util::future::join_all;
use serde_json::{Value, json};
use shedlock_conformance::support::{assert_value_outlives_client, unique};
use shedlock_core::{Attempt, ErrorKind, Level, LockProvider, UnlockRequest};
use shedlock_nats::NatsProvider;

/// Creates a bucket as other programs do, with these additional settings.
async fn make(raw: &Client, bucket: &str, settings: Value) {
    let mut config = json!({
        "name": format!("KV_{bucket}"),
        "subjects": [format!("$KV.{bucket}.>")],
        "max_msgs_per_subject": 1,
        "discard": "new",
        "allow_rollup_hdrs": true,
    });
    for (name, value) in settings.as_object().unwrap() {
        config[name] = value.clone();
    }
    api(raw, "CREATE", bucket, config).await;
}

async fn api(raw: &Client, call: &str, bucket: &str, config: Value) {
    let subject = format!("$JS.API.STREAM.{call}.KV_{bucket}");
    let answer = raw.request(subject, config.to_string().into());
    let answer: Value = serde_json::from_slice(&answer.await.unwrap().payload).unwrap();
    assert!(answer.get("error").is_none(), "{answer}");
}

fn seconds(count: u64) -> Value {
    json!(Duration::from_secs(count).as_nanos() as u64)
}

/// Otherwise two owners would hold the lock once the first owner's message has expired.
#[tokio::test]
async fn a_bucket_with_an_age_grants_no_lock_even_if_nothing_was_checked() {
    for server in servers() {
        let raw = async_nats::connect(&server).await.unwrap();
        let bucket = unique("aged");
        make(&raw, &bucket, json!({ "max_age": seconds(1) })).await;
        let provider = || {
            let builder = NatsProvider::builder(raw.clone());
            builder.bucket(&bucket).build().unwrap()
        };
        let first = provider().attempt(&request("job")).await;
        shedlock_rig::wait::sleep(Duration::from_millis(1500)).await;
        let second = provider().attempt(&request("job")).await;
        let both = [&first, &second].map(|it| matches!(it, Ok(Attempt::Acquired(_))));
        assert_ne!(
            both,
            [true, true],
            "two live holders: {first:?}, {second:?}"
        );
        let error = first.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
        let said = error.to_string();
        assert!(
            said.contains("max_age") && said.contains("nats stream edit"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn connect_refuses_settings_that_lose_locks() {
    for server in servers() {
        let raw = async_nats::connect(&server).await.unwrap();
        for (settings, name) in [
            (json!({ "max_age": seconds(3600) }), "max_age"),
            (json!({ "discard": "old", "max_msgs": 100 }), "max_msgs"),
            (
                json!({ "discard": "old", "max_bytes": 1_000_000 }),
                "max_bytes",
            ),
            (
                json!({ "max_msgs_per_subject": -1 }),
                "max_msgs_per_subject",
            ),
            (
                json!({ "discard_new_per_subject": true }),
                "discard_new_per_subject",
            ),
            (json!({ "max_msg_size": 64 }), "max_msg_size"),
            (json!({ "retention": "interest" }), "retention"),
            (json!({ "no_ack": true }), "no_ack"),
        ] {
            let bucket = unique("wrong");
            make(&raw, &bucket, settings).await;
            let refused = NatsProvider::connect(&format!("{server}?bucket={bucket}")).await;
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}

/// NATS before 2.11.4 empties the bucket when it starts, unless its first message was replaced.
#[tokio::test]
async fn a_bucket_that_its_server_empties_is_refused() {
    for server in servers() {
        let raw = async_nats::connect(&server).await.unwrap();
        let is_emptied = raw.server_info().version.starts_with("2.10.");
        let bucket = unique("first");
        make(&raw, &bucket, json!({ "first_seq": 1_u64 << 50 })).await;
        let connected = NatsProvider::connect(&format!("{server}?bucket={bucket}")).await;
        assert_eq!(connected.is_err(), is_emptied, "{connected:?}");
        if let Err(error) = connected {
            assert!(error.to_string().contains("first_seq"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_sealed_bucket_is_refused() {
    for server in servers() {
        let raw = async_nats::connect(&server).await.unwrap();
        let bucket = unique("sealed");
        make(&raw, &bucket, json!({})).await;
        let config = json!({
            "name": format!("KV_{bucket}"),
            "subjects": [format!("$KV.{bucket}.>")],
            "max_msgs_per_subject": 1,
            "discard": "new",
            "allow_rollup_hdrs": true,
            "sealed": true,
        });
        api(&raw, "UPDATE", &bucket, config).await;
        let refused = NatsProvider::connect(&format!("{server}?bucket={bucket}")).await;
        let error = refused.unwrap_err();
        assert!(error.to_string().contains("sealed"), "{error}");
    }
}

/// Hosted NATS requires a limit. A full bucket grants no lock, and loses none.
#[tokio::test]
async fn a_bucket_with_a_limit_that_discards_the_new_is_taken() {
    for server in servers() {
        let raw = async_nats::connect(&server).await.unwrap();
        let bucket = unique("limited");
        make(&raw, &bucket, json!({ "max_bytes": 1_000_000 })).await;
        let url = format!("{server}?bucket={bucket}");
        let provider = NatsProvider::connect(&url).await.unwrap();
        let lease = take(&provider, "job").await;
        common::give_back(&provider, &lease).await;
    }
}

/// Servers refuse some of the requests because the subjects are taken, by this same bucket.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_can_be_created_concurrently() {
    for server in servers() {
        let mut clients = Vec::new();
        for _ in 0..8 {
            clients.push(async_nats::connect(&server).await.unwrap());
        }
        for _ in 0..150 {
            let bucket = unique("many");
            let made = clients.iter().map(|client| {
                let builder = NatsProvider::builder(client.clone()).bucket(&bucket);
                let provider = builder.build().unwrap();
                tokio::spawn(async move { provider.migrate().await })
            });
            for made in join_all(made).await {
                made.unwrap().unwrap();
            }
            api(&clients[0], "DELETE", &bucket, json!({})).await;
        }
    }
}

/// Settings that passed the check may have changed while the server was away.
#[tokio::test(flavor = "multi_thread")]
async fn settings_are_checked_again_over_a_new_connection() {
    let server = Own::start("jetstream { store_dir: \"$DIR\" }").await;
    let url = format!("nats://{}?response_timeout=10s", server.address());
    let provider = NatsProvider::connect(&url).await.unwrap();
    provider.migrate().await.unwrap();
    let held = take(&provider, "held").await;
    let raw = async_nats::connect(server.address()).await.unwrap();
    let bucket = "shedlock-locks";
    let config = json!({
        "name": format!("KV_{bucket}"),
        "subjects": [format!("$KV.{bucket}.>")],
        "max_msgs_per_subject": 1,
        "discard": "new",
        "deny_delete": true,
        "allow_rollup_hdrs": true,
        "allow_direct": true,
        "max_age": seconds(3600),
        "duplicate_window": seconds(120),
    });
    api(&raw, "UPDATE", bucket, config).await;
    server.stop();
    server.begin().await;
    until("the attempt is refused", async || {
        match provider.attempt(&request("job")).await {
            Err(error) if error.kind() == ErrorKind::Configuration => {
                assert!(error.to_string().contains("max_age"), "{error}");
                true
            }
            Err(error) => {
                assert!(error.is_retryable(), "{error:?}");
                false
            }
            Ok(attempt) => panic!("the bucket forgets its locks: {attempt:?}"),
        }
    })
    .await;
    // A current holder can still unlock.
    let unlocked = provider.unlock(&held, &UnlockRequest::new()).await;
    assert!(unlocked.is_ok(), "{unlocked:?}");
}

/// The checks that found something, in a bucket that the URL's options describe.
async fn faults(url: &str) -> Vec<&'static str> {
    let provider = NatsProvider::connect(url).await.unwrap();
    let _ = provider.migrate().await.unwrap();
    let findings = provider.diagnose().await.unwrap().into_iter();
    let faults = findings.filter(|finding| finding.level != Level::Ok);
    faults.map(|finding| finding.check).collect()
}

#[tokio::test]
async fn settings_that_can_lose_locks_are_not_missed_by_a_diagnosis() {
    for server in servers() {
        for (options, found) in [
            ("sync_always=true", &[][..]),
            ("sync_always=false", &["durability"]),
            ("sync_always=true&storage=memory", &["durability"]),
        ] {
            let url = format!("{server}?bucket={}&{options}", unique("diagnosed"));
            assert_eq!(faults(&url).await, found, "{options}");
        }
    }
}

/// Such settings can appear after the provider has connected.
#[tokio::test]
async fn a_bucket_that_expires_locks_is_not_missed_by_a_diagnosis() {
    for server in servers() {
        let raw = async_nats::connect(&server).await.unwrap();
        let bucket = unique("aged");
        make(&raw, &bucket, json!({ "max_age": seconds(60) })).await;
        let builder = NatsProvider::builder(raw.clone());
        let provider = builder.bucket(&bucket).build().unwrap();
        let findings = provider.diagnose().await.unwrap();
        let [finding] = &findings[..] else {
            panic!("one thing matters: {findings:?}");
        };
        assert_eq!((finding.check, finding.level), ("setup", Level::Error));
        assert!(finding.message.contains("max_age"), "{finding:?}");
    }
}

/// As when a shutdown drains the client first and then waits for the tasks.
#[tokio::test]
async fn a_drained_client_holds_no_value_up() {
    for server in servers() {
        let client = async_nats::connect(&server).await.unwrap();
        let bucket = unique("drained");
        let provider = NatsProvider::builder(client.clone()).bucket(&bucket);
        let provider = provider.build().unwrap();
        provider.migrate().await.unwrap();
        let drain = async move {
            let is_closed = client.clone();
            client.drain().await.unwrap();
            until("the client is closed", async || {
                is_closed.flush().await.is_err()
            })
            .await;
        };
        assert_value_outlives_client(Arc::new(provider), drain).await;
    }
}
