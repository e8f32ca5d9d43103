//! Bare writes on Consul. Each names the index that it replaces and receives its own index, which
//! only a transaction returns.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use shedlock_consul::reqwest::Client as Http;

use super::{Client, Values, Written};

/// A client that keeps one connection.
pub(crate) struct Consul {
    http: Http,
    url: String,
    /// The last index of each key.
    indexes: HashMap<String, u64>,
}

impl Consul {
    pub(crate) async fn connect(server: &str) -> anyhow::Result<Self> {
        Ok(Self {
            http: Http::builder().build()?,
            url: format!("{}/v1/txn", server.replacen("consul:", "http:", 1)),
            indexes: HashMap::new(),
        })
    }

    async fn put(&mut self, name: &str, last: u64, value: i64) -> anyhow::Result<bool> {
        let value = STANDARD.encode(value.to_string());
        let key = format!("bare/{name}");
        let write = json!({ "Verb": "cas", "Key": key, "Value": value, "Index": last });
        let request = self.http.put(&self.url).json(&json!([{ "KV": write }]));
        let answer: Value = request.send().await?.json().await?;
        let Some(index) = answer["Results"][0]["KV"]["ModifyIndex"].as_u64() else {
            return Ok(false);
        };
        self.indexes.insert(name.to_owned(), index);
        Ok(true)
    }

    fn last(&self, name: &str) -> u64 {
        self.indexes.get(name).copied().unwrap_or_default()
    }
}

impl Client for Consul {
    fn create<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        Box::pin(self.put(values.name, 0, values.millis()))
    }

    fn take<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        let last = self.last(values.name);
        Box::pin(self.put(values.name, last, values.end_millis()))
    }

    fn free<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        let last = self.last(values.name);
        Box::pin(self.put(values.name, last, values.millis()))
    }

    fn miss<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        Box::pin(self.put(values.name, 0, values.end_millis()))
    }
}
