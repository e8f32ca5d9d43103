//! Requests to JetStream about one bucket.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ErrorKind::{OutcomeUnknown, Unavailable};
use async_nats::client::RequestErrorKind;
use async_nats::{HeaderMap, Request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use shedlock_core::{Clock as _, Error, ErrorKind, Owner, SystemClock};
use shedlock_store::{Result, Written, configuration, unavailable, unknown};

use crate::codec::Message;
use crate::explain::{failure, refused, unanswered, unreadable};
use crate::line::Line;
use crate::shape::{Shape, Version};

/// JetStream's own numbers of what went wrong.
const STREAM_NOT_FOUND: u64 = 10_059;
const NO_MESSAGE: u64 = 10_037;
const WRONG_LAST_SEQUENCE: [u64; 2] = [10_071, 10_164];
/// Several messages in one step: not allowed, wrong, too many at a time. None of them is stored.
const NO_BATCH: [u64; 7] = [10_174, 10_175, 10_176, 10_177, 10_179, 10_199, 10_200];

/// The first NATS that stores several messages or none.
const ATOMIC_SINCE: Version = (2, 12, 0);

#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    pub(crate) line: Line,
    pub(crate) name: String,
    pub(crate) timeout: Duration,
    pub(crate) domain: Option<String>,
}

/// Where a bucket is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// On disk.
    File,
    /// In memory, as ShedLock has it: all locks are gone with the server.
    Memory,
}

pub(crate) struct Put {
    pub(crate) key: String,
    /// The sequence of the last message of its key; 0: there is none.
    pub(crate) before: u64,
    pub(crate) content: (Bytes, HeaderMap),
}

#[derive(Deserialize)]
struct Stored {
    seq: u64,
    time: String,
    #[serde(default)]
    hdrs: String,
    #[serde(default)]
    data: String,
}

impl Bucket {
    fn subject(&self, key: &str) -> String {
        format!("$KV.{}.{key}", self.name)
    }

    /// The subject of a question about the stream.
    fn api(&self, call: &str) -> String {
        format!("{}.STREAM.{call}.KV_{}", self.prefix(), self.name)
    }

    fn prefix(&self) -> String {
        match &self.domain {
            Some(domain) => format!("$JS.{domain}.API"),
            None => "$JS.API".to_owned(),
        }
    }

    /// The last message of this key, from the stream's leader.
    pub(crate) async fn last(&self, key: &str) -> Result<Option<Message>> {
        let subject = self.api("MSG.GET");
        let question = json!({ "last_by_subj": self.subject(key) });
        let answer = self.ask(subject, &question, Unavailable, &[NO_MESSAGE]);
        let Some(mut answer) = answer.await? else {
            return Ok(None);
        };
        let stored = answer.get_mut("message").map(Value::take);
        let stored: Stored =
            serde_json::from_value(stored.unwrap_or_default()).map_err(unreadable)?;
        let time: jiff::Timestamp = stored.time.parse().map_err(unreadable)?;
        let headers = STANDARD.decode(&stored.hdrs).map_err(unreadable)?;
        Ok(Some(Message {
            sequence: stored.seq,
            time: SystemTime::from(time),
            headers: headers_of(&String::from_utf8_lossy(&headers)),
            data: STANDARD.decode(&stored.data).map_err(unreadable)?,
        }))
    }

    pub(crate) async fn put(&self, put: Put) -> Result<Written<u64>> {
        let answer = self.send_put(put).await?;
        self.written(answer)
    }

    /// Writes both messages if the last ones of their keys have the sequences that they name, or
    /// none of them; `None` where the server does not take both at once now, and has written none.
    ///
    /// The sequence is that of the last one; the first has the one before it.
    pub(crate) async fn put_both(&self, first: Put, last: Put) -> Result<Option<Written<u64>>> {
        let connected = self.line.connected().await?;
        let random = Owner::generate();
        let batch = random.as_str().rsplit('/').next().unwrap_or_default();
        let of_batch = |put: Put, nth: &str| {
            let mut put = put;
            put.content.1.insert("Nats-Batch-Id", batch);
            put.content.1.insert("Nats-Batch-Sequence", nth);
            put
        };
        let first = of_batch(first, "1");
        let mut last = of_batch(last, "2");
        last.content.1.insert("Nats-Batch-Commit", "1");
        // The first needs no answer: without it the server refuses the last.
        let (subject, data, headers) = self.message_of(first);
        let sent = connected
            .client
            .publish_with_headers(subject, headers, data);
        sent.await
            .map_err(|error| unavailable("the client has ended").with_source(error))?;
        let answer = self.send_put(last).await?;
        if failure(&answer).is_some_and(|error| NO_BATCH.contains(&error.err_code)) {
            return Ok(None);
        }
        let are_both = answer["count"] == 2;
        let written = self.written(answer)?;
        if matches!(written, Written::Done(_)) && !are_both {
            return Err(unknown(
                "the server took two messages of one step for one each: ask again with the same \
                 owner",
            ));
        }
        Ok(Some(written))
    }

    async fn send_put(&self, put: Put) -> Result<Value> {
        let (subject, data, headers) = self.message_of(put);
        let request = Request::new().payload(data).headers(headers);
        self.send(subject, request, OutcomeUnknown).await
    }

    /// Where it is sent to, and its content, with the sequence that it replaces.
    fn message_of(&self, put: Put) -> (String, Bytes, HeaderMap) {
        let subject = match &self.domain {
            Some(_) => format!("{}.{}", self.prefix(), self.subject(&put.key)),
            None => self.subject(&put.key),
        };
        let (data, mut headers) = put.content;
        let replaced = put.before.to_string();
        headers.insert("Nats-Expected-Last-Subject-Sequence", replaced);
        (subject, data, headers)
    }

    fn written(&self, answer: Value) -> Result<Written<u64>> {
        let accepted = self.accepted(answer, OutcomeUnknown, &WRONG_LAST_SEQUENCE)?;
        match accepted.map(|answer| answer["seq"].as_u64()) {
            None => Ok(Written::Raced),
            Some(Some(sequence)) => Ok(Written::Done(sequence)),
            Some(None) => Err(unknown(
                "the server confirmed a message without its sequence",
            )),
        }
    }

    /// The settings of its stream; none where there is no such bucket.
    pub(crate) async fn shape(&self) -> Result<Option<Shape>> {
        let subject = self.api("INFO");
        let answer = self.ask(subject, &Value::Null, Unavailable, &[STREAM_NOT_FOUND]);
        let Some(mut answer) = answer.await? else {
            return Ok(None);
        };
        let config = answer.get_mut("config").map(Value::take);
        Ok(Some(Shape {
            first_sequence: answer["state"]["first_seq"].as_u64().unwrap_or_default(),
            config: config.unwrap_or_default(),
            server: self.line.server().await?,
        }))
    }

    pub(crate) fn missing(&self) -> Error {
        configuration(format!(
            "the bucket {:?} does not exist: make it with `shedlock migrate`",
            self.name
        ))
    }

    pub(crate) async fn can_be_atomic(&self) -> Result<bool> {
        Ok(self.line.server().await? >= ATOMIC_SINCE)
    }

    /// Has the bucket take several messages in one step.
    pub(crate) async fn make_atomic(&self, shape: &Shape) -> Result<()> {
        let mut config = shape.config.clone();
        config["allow_atomic"] = true.into();
        let asked = self.ask(self.api("UPDATE"), &config, OutcomeUnknown, &[]);
        asked.await.map(drop)
    }

    /// Makes the bucket; nothing if there is one.
    ///
    /// From NATS 2.12 on its sequences begin with the clock's microseconds, so that a bucket of the same
    /// name that was deleted has had none of them: a lease from then fits no lock of now. Servers from
    /// 2.10 on can do that too, but early ones then empty the bucket when they start.
    pub(crate) async fn create(&self, replicas: usize, storage: Storage) -> Result<()> {
        let since = SystemClock.system_time().duration_since(UNIX_EPOCH);
        let micros = u64::try_from(since.unwrap_or_default().as_micros()).unwrap_or_default();
        let mut config = json!({
            "name": format!("KV_{}", self.name),
            "subjects": [format!("$KV.{}.>", self.name)],
            "retention": "limits",
            "max_consumers": -1,
            "max_msgs": -1,
            "max_bytes": -1,
            "max_age": 0,
            "max_msg_size": -1,
            "max_msgs_per_subject": 1,
            "discard": "new",
            "storage": match storage {
                Storage::File => "file",
                Storage::Memory => "memory",
            },
            "num_replicas": replicas,
            "deny_delete": true,
            "allow_rollup_hdrs": true,
            "allow_direct": true,
        });
        if self.can_be_atomic().await? {
            config["first_seq"] = micros.into();
            config["allow_atomic"] = true.into();
        }
        let made = self.ask(self.api("CREATE"), &config, OutcomeUnknown, &[]);
        match made.await {
            Ok(_) => Ok(()),
            // Another client was faster, with another clock. Servers refuse the slower one by the name or, in a race
            // of theirs, by the subjects.
            Err(_) if matches!(self.shape().await, Ok(Some(_))) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn keys(&self) -> Result<Vec<String>> {
        let prefix = self.subject("");
        let mut keys = Vec::new();
        loop {
            let subject = self.api("INFO");
            let question = json!({
                "subjects_filter": format!("{prefix}>"),
                "offset": keys.len(),
            });
            let answer = self.ask(subject, &question, Unavailable, &[]).await?;
            let answer = answer.unwrap_or_default();
            let page = answer["state"]["subjects"].as_object();
            let before = keys.len();
            keys.extend(
                page.into_iter()
                    .flatten()
                    .filter_map(|(subject, _)| subject.strip_prefix(&prefix).map(str::to_owned)),
            );
            let total = answer["total"].as_u64().unwrap_or_default();
            if keys.len() == before || keys.len() as u64 >= total {
                return Ok(keys);
            }
        }
    }

    /// The answer to a question; none where it is refused with one of these numbers, `lost` the kind of the error where
    /// none comes.
    async fn ask(
        &self,
        subject: String,
        question: &Value,
        lost: ErrorKind,
        no: &[u64],
    ) -> Result<Option<Value>> {
        let question = if question.is_null() {
            Bytes::new()
        } else {
            question.to_string().into()
        };
        let request = Request::new().payload(question);
        let answer = self.send(subject, request, lost).await?;
        self.accepted(answer, lost, no)
    }

    /// The answer, unless it is a refusal; none for one with these numbers.
    fn accepted(&self, answer: Value, lost: ErrorKind, no: &[u64]) -> Result<Option<Value>> {
        match failure(&answer) {
            None => Ok(Some(answer)),
            Some(error) if no.contains(&error.err_code) => Ok(None),
            Some(error) if error.err_code == STREAM_NOT_FOUND => Err(self.missing()),
            Some(error) => Err(refused(&error, lost)),
        }
    }

    async fn send(&self, subject: String, request: Request, lost: ErrorKind) -> Result<Value> {
        let call = self.line.call().await?;
        let request = request.timeout(Some(self.timeout));
        let error = match call.connection.client.send_request(subject, request).await {
            Ok(answer) => {
                call.settle();
                return serde_json::from_slice(&answer.payload).map_err(unreadable);
            }
            Err(error) => error,
        };
        if error.kind() != RequestErrorKind::TimedOut {
            call.settle();
        }
        let has_no_responders = error.kind() == RequestErrorKind::NoResponders;
        if has_no_responders && lost == OutcomeUnknown && Box::pin(self.shape()).await?.is_none() {
            return Err(self.missing());
        }
        Err(unanswered(error, lost))
    }
}

/// Of a block of headers: a first line with the version, then one each.
pub(crate) fn headers_of(block: &str) -> Vec<(String, String)> {
    let lines = block.split("\r\n").skip(1);
    lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}
