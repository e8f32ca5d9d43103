//! The contents of Consul's keys, ours and foreign.

#![allow(
    clippy::unwrap_used,
    reason = "the lint knows test functions, but not helpers"
)]

use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use reqwest::{Client, Url};
use serde_json::{Value, json};
use shedlock_conformance::proxy::Proxy;
use shedlock_conformance::support::{address, unique};
use shedlock_consul::{ConsulProvider, ConsulStore};
use shedlock_core::{
    Attempt, AttemptRequest, ErrorKind, ExtendRequest, Extension, ListRequest, LockName,
    LockProvider as _, LockState, Owner, SystemClock, Unlock, UnlockRequest,
};
use shedlock_provider::{Record, VersionedStore as _, Written};
use shedlock_rig::given::server;

/// The keys under a prefix of the test's own.
struct Keys {
    client: Client,
    http: Url,
    prefix: String,
}

impl Keys {
    fn new() -> Self {
        // With TLS, clients use the crypto library that the program has chosen.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = server("consul").replace("consul://", "http://");
        Self {
            client: Client::new(),
            http: http.parse().unwrap(),
            prefix: format!("tests/{}/", unique("keys")),
        }
    }

    fn store(&self) -> ConsulStore {
        self.provider().backend().records().clone()
    }

    fn provider(&self) -> ConsulProvider {
        self.through(self.http.as_str())
    }

    fn through(&self, agent: &str) -> ConsulProvider {
        let builder = ConsulProvider::builder(self.client.clone()).agent(agent);
        builder.key_prefix(&self.prefix).build().unwrap()
    }

    async fn ask(&self, operation: Value) -> Value {
        let url = self.http.join("/v1/txn").unwrap();
        let question = self.client.put(url).json(&json!([{ "KV": operation }]));
        let answer: Value = question.send().await.unwrap().json().await.unwrap();
        // Null if it was refused.
        answer["Results"][0]["KV"].clone()
    }

    /// Writes a key by hand.
    async fn put(&self, key: &str, text: &str) {
        let (key, text) = (format!("{}{key}", self.prefix), BASE64.encode(text));
        let put = json!({ "Verb": "set", "Key": key, "Value": text });
        assert!(!self.ask(put).await.is_null());
    }

    /// The index of the key; 0 if it does not exist.
    async fn index(&self, key: &str) -> u64 {
        let get = json!({ "Verb": "get", "Key": format!("{}{key}", self.prefix) });
        let found = self.ask(get).await;
        found["ModifyIndex"].as_u64().unwrap_or_default()
    }

    /// Sends the write of an attempt made when the key had this index. Returns whether it wins.
    async fn arrives(&self, request: &AttemptRequest, index: u64) -> bool {
        let text = format!(
            "shedlock 1\nuntil 4000000000000\nowner {}\n",
            &request.owner
        );
        let key = format!("{}{}", self.prefix, &request.name);
        let value = BASE64.encode(text);
        let write = json!({ "Verb": "cas", "Key": key, "Value": value, "Index": index });
        !self.ask(write).await.is_null()
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
    let created = keys.store().write(&name, None, &record).await.unwrap();
    assert!(matches!(created, Written::Done(index) if index > 0));
    assert_eq!(
        keys.text("pay/roll").await,
        "shedlock 1\nuntil 1800000000000\nowner web-3/4711/5f0c9b1d7e3a4c28\n"
    );
    assert_eq!(
        keys.store().write(&name, None, &record).await.unwrap(),
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
        panic!("no one holds it");
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
async fn foreign_data_is_an_error_and_is_kept() {
    let keys = Keys::new();
    let provider = keys.provider();
    for text in ["", "hello", "shedlock 2\nuntil 1\n"] {
        keys.put("theirs", text).await;
        let error = provider.attempt(&request("theirs")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        let name = LockName::new("theirs").unwrap();
        let error = provider.inspect(&name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert_eq!(error.lock(), Some("theirs"), "{error}");
        assert_eq!(keys.text("theirs").await, text);
    }
}

#[tokio::test]
async fn a_folder_is_not_a_lock() {
    let keys = Keys::new();
    let provider = keys.provider();
    keys.put("", "").await;
    keys.put("a\tb", "").await;
    assert!(provider.list(&ListRequest::new()).await.unwrap().is_empty());
}

/// Writing a key's current value keeps its index.
#[tokio::test]
async fn a_late_copy_of_an_attempt_takes_no_lock_after_it_was_withdrawn() {
    let keys = Keys::new();
    let provider = keys.provider();
    for before in ["nothing", "a withdrawn attempt", "a lock that was unlocked"] {
        if before == "a lock that was unlocked" {
            let lease = provider.attempt(&request("job")).await.unwrap().acquired();
            let unlock = UnlockRequest::new();
            let unlocked = provider.unlock(&lease.unwrap(), &unlock).await.unwrap();
            assert_eq!(unlocked, Unlock::Unlocked);
        }
        let request = request("job");
        let index = keys.index("job").await;
        assert!(!provider.withdraw(&request).await.unwrap(), "{before}");
        assert!(!keys.arrives(&request, index).await, "{before}");
        let record = provider.inspect(&request.name).await.unwrap().unwrap();
        assert_eq!(record.state, LockState::Free, "{before}");
        // A copy that arrives before its withdrawal is ended by it.
        let index = keys.index("job").await;
        assert!(keys.arrives(&request, index).await, "{before}");
        assert!(provider.withdraw(&request).await.unwrap(), "{before}");
    }
}

#[tokio::test]
async fn a_record_that_a_withdrawal_makes_has_no_token() {
    let keys = Keys::new();
    let provider = keys.provider();
    let withdrawn = request("job");
    assert!(!provider.withdraw(&withdrawn).await.unwrap());
    let owner = &withdrawn.owner;
    assert_eq!(
        keys.text("job").await,
        format!("shedlock 1\nuntil 0\nowner {owner} unlocked\n")
    );
    let record = provider.inspect(&withdrawn.name).await.unwrap().unwrap();
    assert_eq!(record.fencing_token, None);
    let lease = provider.attempt(&request("job")).await.unwrap().acquired();
    assert!(lease.unwrap().fencing_token().is_some());
}

#[tokio::test]
async fn a_client_without_time_limits_does_not_wait_for_a_silent_agent() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let _ = rustls::crypto::ring::default_provider().install_default();
    let limit = Duration::from_millis(200);
    let builder = ConsulProvider::builder(Client::new()).agent(url);
    let provider = builder.response_timeout(limit).build().unwrap();
    let patience = Duration::from_secs(20);
    let request = request("job");
    let answer = shedlock_core::within(&SystemClock, patience, provider.attempt(&request)).await;
    let error = answer.expect("the attempt ends by itself").unwrap_err();
    assert!(error.is_retryable(), "{error}");
}

#[tokio::test]
async fn a_page_of_a_list_is_one_request() {
    let keys = Keys::new();
    for i in 0..250 {
        let text = "shedlock 1\nuntil 4000000000000\nowner by/hand/1\n";
        keys.put(&format!("job-{i:03}"), text).await;
    }
    let server = address(keys.http.as_str(), 8500).unwrap();
    let proxy = Proxy::start(server).await.unwrap();
    let provider = keys.through(&format!("http://{}", proxy.addr()));
    for (size, requests) in [(1_000, 1), (100, 3)] {
        let meter = proxy.measure(None);
        let mut names = Vec::new();
        let mut request = ListRequest::new().with_limit(size);
        loop {
            let page = provider.list(&request).await.unwrap();
            let is_last = page.len() < size;
            names.extend(page.into_iter().map(|record| record.name));
            if is_last {
                break;
            }
            let after = names.last().unwrap().clone();
            request = ListRequest::new().with_limit(size).with_after(after);
        }
        assert_eq!(names.len(), 250);
        assert_eq!(meter.settled().await.round_trips, requests);
    }
    let after = LockName::new("job-199").unwrap();
    let rest = keys.store().list(Some(&after), 100).await.unwrap();
    assert_eq!(rest.len(), 50, "what comes before the page is not read");
}

#[tokio::test]
async fn a_healthy_agent_has_no_faults() {
    let keys = Keys::new();
    let builder = ConsulProvider::builder(keys.client.clone());
    let builder = builder.agent(keys.http.clone()).key_prefix(&keys.prefix);
    let findings = builder.build().unwrap().diagnose().await.unwrap();
    let is_ok = |finding: &shedlock_core::Finding| finding.level == shedlock_core::Level::Ok;
    assert!(findings.iter().all(is_ok), "{findings:?}");
    for check in ["version", "replicas"] {
        let has = findings.iter().any(|finding| finding.check == check);
        assert!(has, "{check} is missing: {findings:?}");
    }
}
