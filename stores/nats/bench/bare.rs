//! Bare messages on NATS JetStream. Each names the sequence that it replaces.

use std::collections::HashMap;

use anyhow::Context as _;
use serde_json::{Value, json};
use shedlock_nats::async_nats::{self, HeaderMap};

use super::{Client, Values, Written};

/// The stream, and the prefix of its subjects.
const STREAM: &str = "bare";

/// One connection.
pub(crate) struct Nats {
    client: async_nats::Client,
    /// The last sequence of each subject.
    sequences: HashMap<String, u64>,
}

impl Nats {
    /// Creates the stream with the settings of a bucket: on disk, one message per key.
    pub(crate) async fn connect(server: &str) -> anyhow::Result<Self> {
        let client = async_nats::connect(server).await?;
        let settings = json!({
            "name": STREAM,
            "subjects": [format!("{STREAM}.>")],
            "storage": "file",
            "max_msgs_per_subject": 1,
            "discard": "new",
        });
        let create = format!("$JS.API.STREAM.CREATE.{STREAM}");
        let made = client.request(create, settings.to_string().into()).await?;
        let made: Value = serde_json::from_slice(&made.payload)?;
        anyhow::ensure!(made.get("error").is_none(), "no stream was made: {made}");
        Ok(Self {
            client,
            sequences: HashMap::new(),
        })
    }

    async fn put(&mut self, name: &str, last: u64, value: i64) -> anyhow::Result<bool> {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", last.to_string());
        let subject = format!("{STREAM}.{name}");
        let value = value.to_be_bytes().to_vec().into();
        let sent = self.client.request_with_headers(subject, headers, value);
        let answer: Value = serde_json::from_slice(&sent.await?.payload)?;
        if answer.get("error").is_some() {
            return Ok(false);
        }
        let sequence = answer["seq"]
            .as_u64()
            .context("an answer has no sequence")?;
        self.sequences.insert(name.to_owned(), sequence);
        Ok(true)
    }

    fn last(&self, name: &str) -> u64 {
        self.sequences.get(name).copied().unwrap_or_default()
    }
}

impl Client for Nats {
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
