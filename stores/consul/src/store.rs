//! The keys of the store, and one request per call.

use std::time::Duration;

use ErrorKind::{OutcomeUnknown, Unavailable};
use base64::{Engine as _, prelude::BASE64_STANDARD as BASE64};
use reqwest::{Client, Url};
use serde_json::{Value, json};
use shedlock_core::{ErrorKind, Finding, LockName, Schema};
use shedlock_provider::{
    FromClient, Listed, NeedsNoSettings, Reading, Record, Result, StoreProvider, VALID, Versioned,
    VersionedSettings, VersionedStore, Written, quorum,
};

use crate::codec::{index_of, reading};
use crate::{ConsulProvider, explain};

/// Locks in the keys that begin with one prefix.
#[derive(Clone, Debug)]
pub struct ConsulStore {
    client: Client,
    pub(crate) url: Url,
    pub(crate) key_prefix: String,
    response_timeout: Duration,
}

/// Configures the agent and the keys. `ConsulProvider::builder` returns it.
#[derive(Debug)]
#[must_use = "a builder does nothing before `build`"]
pub struct Builder {
    client: Client,
    agent: String,
    key_prefix: String,
    response_timeout: Duration,
    pub(crate) common: VersionedSettings,
}

impl FromClient for ConsulStore {
    type Client = Client;
    type Builder = Builder;

    fn builder(client: Client) -> Builder {
        Builder {
            client,
            agent: "http://127.0.0.1:8500".to_owned(),
            key_prefix: "shedlock/".to_owned(),
            response_timeout: Duration::from_secs(5),
            common: VersionedSettings::default(),
        }
    }
}

impl NeedsNoSettings for ConsulStore {
    type Store = Versioned<Self>;

    fn with_defaults(client: Client) -> StoreProvider<Versioned<Self>> {
        Self::builder(client).build().expect(VALID)
    }
}

impl Builder {
    shedlock_provider::setters! { []
        /// Sets the URL of the agent, with options like `?dc=eu`; `http://127.0.0.1:8500` by
        /// default.
        agent(url: impl Into<String>) = url.into();

        /// Sets the prefix of the locks' keys; `shedlock/` by default.
        key_prefix(prefix: impl Into<String>) = prefix.into();

        /// Sets the time limit for a reply, including the connection; 5 s by default.
        response_timeout(timeout: Duration) = timeout;
    }

    shedlock_provider::versioned_setters!(common);

    /// Checks the settings and creates the provider, without any I/O.
    ///
    /// # Errors
    /// `InvalidInput` if the agent is not a URL.
    pub fn build(self) -> Result<ConsulProvider> {
        let mut url = Url::parse(&self.agent).map_err(explain::no_url)?;
        url.set_path(&format!("{}/v1/txn", url.path().trim_end_matches('/')));
        url.query_pairs_mut().append_pair("consistent", "");
        Ok(self.common.provider(ConsulStore {
            client: self.client,
            url,
            key_prefix: self.key_prefix,
            response_timeout: self.response_timeout,
        }))
    }
}

impl ConsulStore {
    /// Sends one operation. Returns none if the reply is `no`. `lost` is the kind of the error if
    /// no reply arrives.
    async fn ask(&self, what: Value, no: &str, lost: ErrorKind) -> Result<Option<Value>> {
        let failed = |error| explain::unanswered(error, lost);
        let body = json!([{ "KV": &what }]);
        let question = self.client.put(self.url.clone()).json(&body);
        let question = question.timeout(self.response_timeout);
        let answered = question.send().await.map_err(failed)?;
        let status = answered.status().as_u16();
        let said = answered.text().await.map_err(failed)?;
        let mut answer: Value = serde_json::from_str(&said).unwrap_or_default();
        match status {
            200 if answer["Results"].is_array() => Ok(Some(answer["Results"].take())),
            409 if said.contains(no) => Ok(None),
            403 | 409 if said.contains("Permission denied") => {
                Err(explain::denied(&what, &self.key_prefix))
            }
            _ => Err(explain::refused(status, &said, lost)),
        }
    }

    /// Reads from another endpoint of the agent.
    async fn get(&self, endpoint: &str) -> Result<Value> {
        let mut url = self.url.clone();
        url.set_path(&self.url.path().replace("/v1/txn", endpoint));
        let failed = |error| explain::unanswered(error, Unavailable);
        let question = self.client.get(url).timeout(self.response_timeout);
        let answered = question.send().await.map_err(failed)?;
        let status = answered.status().as_u16();
        let said = answered.text().await.map_err(failed)?;
        match status {
            200 => Ok(serde_json::from_str(&said).unwrap_or_default()),
            _ => Err(explain::refused(status, &said, Unavailable)),
        }
    }
}

impl VersionedStore for ConsulStore {
    type Version = u64;

    fn store(&self) -> &str {
        "consul"
    }

    async fn read(&self, name: &LockName) -> Result<Reading<u64>> {
        let get = json!({"Verb": "get", "Key": format!("{}{name}", self.key_prefix)});
        let found = self.ask(get, "doesn't exist", Unavailable).await?;
        found.map_or(Ok(Reading::nothing()), |found| reading(&found[0]))
    }

    async fn write(
        &self,
        name: &LockName,
        before: Option<&u64>,
        record: &Record,
    ) -> Result<Written<u64>> {
        let key = format!("{}{name}", self.key_prefix);
        let value = BASE64.encode(record.to_text());
        // Index 0 requires that the key does not exist.
        let index = before.unwrap_or(&0);
        let write = json!({"Verb": "cas", "Key": key, "Value": value, "Index": index});
        match self.ask(write, "index is stale", OutcomeUnknown).await? {
            Some(done) => Ok(Written::Done(index_of(&done[0], OutcomeUnknown)?)),
            None => Ok(Written::Raced),
        }
    }

    async fn remove(&self, name: &LockName, before: &u64) -> Result<bool> {
        let key = format!("{}{name}", self.key_prefix);
        let delete = json!({"Verb": "delete-cas", "Key": key, "Index": before});
        let deleted = self.ask(delete, "index is stale", OutcomeUnknown).await?;
        Ok(deleted.is_some())
    }

    /// Reads all keys each time: Consul cannot start a list at a key.
    async fn list(&self, after: Option<&LockName>, _: usize) -> Result<Listed<u64>> {
        let tree = json!({"Verb": "get-tree", "Key": self.key_prefix});
        let found = self.ask(tree, "doesn't exist", Unavailable).await?;
        let pairs = found.iter().filter_map(Value::as_array).flatten();
        let locks = pairs.filter_map(|pair| {
            let key = pair["KV"]["Key"].as_str()?;
            // A folder that was created by hand is a key with an empty name after the prefix.
            let name = LockName::new(key.strip_prefix(&self.key_prefix)?).ok()?;
            let is_ahead = after.is_none_or(|after| name > *after);
            is_ahead.then(|| (name, reading(pair)))
        });
        Ok(locks.collect())
    }

    /// If the token may not write, Consul refuses the write before it compares the index.
    fn schema(&self) -> Schema {
        Schema::default().note("the first attempt on a lock creates its keys")
    }

    async fn check(&self) -> Result<()> {
        let key = format!("{}check", self.key_prefix);
        let write = json!({"Verb": "cas", "Key": key, "Value": "", "Index": u64::MAX});
        let asked = self.ask(write, "index is stale", Unavailable).await;
        asked.map(drop)
    }

    /// A token may lack the permission to read the agent's version.
    async fn diagnose(&self) -> Result<Vec<Finding>> {
        let servers = self.get("/v1/status/peers").await?;
        let agent = self.get("/v1/agent/self").await.unwrap_or_default();
        let version = agent["Config"]["Version"]
            .as_str()
            .unwrap_or("of unknown version");
        Ok(vec![
            Finding::ok("version", format!("consul {version}")),
            quorum(servers.as_array().map_or(0, Vec::len)),
        ])
    }

    fn longest_call(&self) -> Duration {
        2 * self.response_timeout
    }

    fn has_revisions(&self) -> bool {
        true
    }

    fn revision(&self, index: &u64) -> Option<u64> {
        Some(*index)
    }
}
