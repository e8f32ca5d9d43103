//! Locks in the key/value store of Consul.
//!
//! A lock is one key, a prefix and its name, whose value is the record as a text. Every call is one
//! request to `/v1/txn`: only there a write answers with its index; and in a path `a//b` is `a/b`.
//!
//! - **Version and fencing token** are the key's `ModifyIndex`, the number of the write among all
//!   of the cluster: not used again for a key that was deleted. A cluster made anew counts from 1.
//! - **Reads are `consistent`.** A write names the index that was read, so exclusion does not need
//!   it. But what is read back after a lost answer must not be older than what was read before, or
//!   a lock that was won is taken for somebody else's.
//! - **A list** is one request a page, each of which brings all keys: Consul has no way to begin behind one.
//! - **TLS** is what `consuls://` asks for: the agent's certificate is verified, its host name included, against the
//!   system's authorities or `tls_ca`. `consul://` sends all in the clear, the token too, and [`connect`] warns of it
//!   unless the agent is on this host. The client takes the crypto provider that the process has installed in rustls;
//!   where there is none, [`connect`] (with the feature `tls`) installs `ring` for the whole process. A program that
//!   wants another one calls `CryptoProvider::install_default` first.
//! - **Clocks** are the clients': the `Date` of an answer is that of whichever agent was asked.

mod connect;
mod explain;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzz;

use std::time::Duration;

use ErrorKind::{Configuration, Unavailable, Unknown};
use base64::{Engine as _, prelude::BASE64_STANDARD as BASE64};
pub use connect::connect;
use serde_json::{Value, json};
use shedlock_cas::{CasProvider, Found, Listed, Reading, Record, VersionedStore, Written};
use shedlock_core::{Capabilities, Error, ErrorKind, LockName};

type Result<T> = std::result::Result<T, Error>;

/// The lock contract over Consul: `ConsulProvider::new(ConsulStore::new(…))`.
pub type ConsulProvider = CasProvider<ConsulStore>;

/// The keys behind one prefix.
#[derive(Clone, Debug)]
pub struct ConsulStore {
    client: reqwest::Client,
    url: reqwest::Url,
    prefix: String,
    response: Duration,
}

/// How long an answer is waited for, unless set.
const RESPONSE: Duration = Duration::from_secs(5);

impl ConsulStore {
    /// The agent at this URL (`http://127.0.0.1:8500`), asked by a client that brings
    /// certificates and the header `X-Consul-Token`; the keys of the locks begin with `prefix`.
    pub fn new(client: reqwest::Client, mut url: reqwest::Url, prefix: &str) -> Self {
        url.set_path(&format!("{}/v1/txn", url.path().trim_end_matches('/')));
        url.query_pairs_mut().append_pair("consistent", "");
        Self {
            client,
            url,
            prefix: prefix.to_owned(),
            response: RESPONSE,
        }
    }

    /// Sets how long an answer is waited for, the connection included; 5 s unless set.
    #[must_use]
    pub fn with_response_timeout(mut self, timeout: Duration) -> Self {
        self.response = timeout;
        self
    }

    /// Writes if the key stands at this index; at 0, if there is none.
    async fn write(&self, name: &LockName, index: u64, to: &Record) -> Result<Written<u64>> {
        let key = format!("{}{name}", self.prefix);
        let value = BASE64.encode(to.to_text());
        let write = json!({"Verb": "cas", "Key": key, "Value": value, "Index": index});
        match self.ask(write, "index is stale", Unknown).await? {
            Some(done) => Ok(Written::Done(index_of(&done[0], Unknown)?)),
            None => Ok(Written::Raced),
        }
    }

    /// Asks for one operation: none where it is answered `no`, `lost` where no answer comes.
    async fn ask(&self, what: Value, no: &str, lost: ErrorKind) -> Result<Option<Value>> {
        let failed = |error| explain::unanswered(error, lost);
        let body = json!([{ "KV": what }]);
        let question = self.client.put(self.url.clone()).timeout(self.response);
        let question = question.json(&body);
        let answered = question.send().await.map_err(failed)?;
        let status = answered.status().as_u16();
        let said = answered.text().await.map_err(failed)?;
        let mut answer: Value = serde_json::from_str(&said).unwrap_or_default();
        match status {
            200 if answer["Results"].is_array() => Ok(Some(answer["Results"].take())),
            409 if said.contains(no) => Ok(None),
            _ => Err(explain::refused(status, &said, lost)),
        }
    }
}

impl VersionedStore for ConsulStore {
    type Version = u64;

    fn store(&self) -> &str {
        "consul"
    }

    async fn read(&self, name: &LockName) -> Result<Reading<u64>> {
        let get = json!({"Verb": "get", "Key": format!("{}{name}", self.prefix)});
        let found = self.ask(get, "doesn't exist", Unavailable).await?;
        found.map_or(Ok(Reading::nothing()), |found| reading(&found[0]))
    }

    async fn create(&self, name: &LockName, new: &Record) -> Result<Written<u64>> {
        self.write(name, 0, new).await
    }

    async fn replace(&self, name: &LockName, index: &u64, new: &Record) -> Result<Written<u64>> {
        self.write(name, *index, new).await
    }

    /// Each time all of them: Consul has no way to begin behind a key.
    async fn list(&self, after: Option<&LockName>, _: usize) -> Result<Listed<u64>> {
        let tree = json!({"Verb": "get-tree", "Key": self.prefix});
        let found = self.ask(tree, "doesn't exist", Unavailable).await?;
        let mut locks = Vec::new();
        for pair in found.iter().filter_map(Value::as_array).flatten() {
            let key = pair["KV"]["Key"].as_str().unwrap_or_default();
            // A folder that was made by hand is a key with no name behind the prefix.
            let name = LockName::new(key.strip_prefix(&self.prefix).unwrap_or_default());
            if let Ok(name) = name
                && after.is_none_or(|after| name > *after)
            {
                locks.push((name, reading(pair)));
            }
        }
        Ok(locks)
    }

    /// Where the token may not write, a write is refused before its index is looked at.
    async fn check(&self) -> Result<()> {
        let key = format!("{}check", self.prefix);
        let write = json!({"Verb": "cas", "Key": key, "Value": "", "Index": u64::MAX});
        self.ask(write, "index is stale", Unavailable)
            .await
            .map(drop)
    }

    fn capabilities(&self, engine: Capabilities) -> Capabilities {
        let mut capabilities = engine;
        capabilities.longest_call = 2 * self.response;
        capabilities
    }

    fn has_revisions(&self) -> bool {
        true
    }

    fn revision(&self, index: &u64) -> Option<u64> {
        Some(*index)
    }
}

fn reading(pair: &Value) -> Result<Reading<u64>> {
    let index = index_of(pair, Configuration)?;
    let text = pair["KV"]["Value"].as_str().unwrap_or_default();
    let text = BASE64.decode(text).unwrap_or_default();
    let record = Record::from_bytes(&text)?;
    Ok(Reading::found(Found::new(record, index)))
}

/// The index in an answer, which is empty where the token may not know of the key.
fn index_of(pair: &Value, otherwise: ErrorKind) -> Result<u64> {
    let none = || {
        Error::new(
            otherwise,
            "the agent tells no index: may the token see the key?",
        )
    };
    pair["KV"]["ModifyIndex"].as_u64().ok_or_else(none)
}
