//! What stands in Consul's keys, and what else may stand there.

#![allow(
    clippy::unwrap_used,
    reason = "the lint knows test functions, but not helpers"
)]

use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use reqwest::{Client, Url};
use serde_json::{Value, json};
use shedlock_cas::{Record, VersionedStore as _, Written};
use shedlock_conformance::support::{server, unique};
use shedlock_consul::{ConsulProvider, ConsulStore};
use shedlock_core::{
    Attempt, AttemptRequest, ErrorKind, ExtendRequest, Extension, ListRequest, LockName,
    LockProvider as _, Owner,
};

/// The keys behind a prefix of their own.
struct Keys {
    client: Client,
    http: Url,
    prefix: String,
}

impl Keys {
    fn new() -> Self {
        // Where the feature `tls` is on, clients are made with what the program has chosen.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = server("SHEDLOCK_TEST_CONSUL_URL").replace("consul://", "http://");
        Self {
            client: Client::new(),
            http: http.parse().unwrap(),
            prefix: format!("tests/{}/", unique("keys")),
        }
    }

    fn store(&self) -> ConsulStore {
        ConsulStore::new(self.client.clone(), self.http.clone(), &self.prefix)
    }

    fn provider(&self) -> ConsulProvider {
        ConsulProvider::new(self.store())
    }

    async fn ask(&self, operation: Value) -> Value {
        let url = self.http.join("/v1/txn").unwrap();
        let question = self.client.put(url).json(&json!([{ "KV": operation }]));
        let mut answer: Value = question.send().await.unwrap().json().await.unwrap();
        answer["Results"][0]["KV"].take()
    }

    /// By hand.
    async fn put(&self, key: &str, text: &str) {
        let (key, text) = (format!("{}{key}", self.prefix), BASE64.encode(text));
        let put = json!({ "Verb": "set", "Key": key, "Value": text });
        assert!(!self.ask(put).await.is_null());
    }

    async fn text(&self, key: &str) -> String {
        let get = json!({ "Verb": "get", "Key": format!("{}{key}", self.prefix) });
        let found = self.ask(get).await;
        String::from_utf8(
            BASE64
                .decode(found["Value"].as_str().unwrap_or_default())
                .unwrap(),
        )
        .unwrap()
    }
}

fn request(name: &str) -> AttemptRequest {
    let owner = Owner::generate();
    AttemptRequest::new(LockName::new(name).unwrap(), owner, Duration::from_secs(60))
}

#[tokio::test]
async fn a_key_holds_the_text_of_the_record() {
    let keys = Keys::new();
    let name = LockName::new("pay/roll").unwrap();
    let mut record = Record::until(UNIX_EPOCH + Duration::from_millis(1_800_000_000_000));
    record.owner = "web-3/4711/5f0c9b1d7e3a4c28".to_owned();
    let created = keys.store().create(&name, &record).await.unwrap();
    assert!(matches!(created, Written::Done(index) if index > 0));
    assert_eq!(
        keys.text("pay/roll").await,
        "shedlock 1\nuntil 1800000000000\nowner web-3/4711/5f0c9b1d7e3a4c28\n"
    );
    assert_eq!(
        keys.store().create(&name, &record).await.unwrap(),
        Written::Raced
    );
}

#[tokio::test]
async fn a_record_written_by_hand_holds_the_lock_and_expires() {
    let keys = Keys::new();
    let provider = keys.provider();
    keys.put("held", "shedlock 1\nuntil 4000000000000\nowner by/hand/1\n")
        .await;
    let Attempt::Skipped(skip) = provider.attempt(&request("held")).await.unwrap() else {
        panic!("it is held by hand");
    };
    assert_eq!(skip.owner.as_deref(), Some("by/hand/1"));
    keys.put("over", "shedlock 1\nuntil 1000\nowner by/hand/1\n")
        .await;
    assert!(matches!(
        provider.attempt(&request("over")).await.unwrap(),
        Attempt::Acquired(_)
    ));
}

#[tokio::test]
async fn the_token_is_the_index_of_the_write_that_acquired() {
    let keys = Keys::new();
    let provider = keys.provider();
    let Attempt::Acquired(lease) = provider.attempt(&request("job")).await.unwrap() else {
        panic!("nobody holds it");
    };
    let token = lease.fencing_token().unwrap();
    let acquired = keys.text("job").await;
    assert!(!acquired.contains("token"), "{acquired}");
    let longer = ExtendRequest::new(Duration::from_secs(90));
    let extended = provider.extend(&lease, &longer).await.unwrap();
    assert!(matches!(extended, Extension::Extended(_)));
    let extended = keys.text("job").await;
    assert!(
        extended.contains(&format!("\ntoken {token}\n")),
        "{extended}"
    );
}

#[tokio::test]
async fn data_of_others_is_told_and_stays() {
    let keys = Keys::new();
    let provider = keys.provider();
    for text in ["", "hello", "shedlock 2\nuntil 1\n"] {
        keys.put("theirs", text).await;
        let error = provider.attempt(&request("theirs")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        let error = provider.list(&ListRequest::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert_eq!(error.lock(), Some("theirs"), "{error}");
        assert_eq!(keys.text("theirs").await, text);
    }
}

#[tokio::test]
async fn a_folder_is_no_lock() {
    let keys = Keys::new();
    let provider = keys.provider();
    keys.put("", "").await;
    keys.put("a\tb", "").await;
    assert!(provider.list(&ListRequest::new()).await.unwrap().is_empty());
}
