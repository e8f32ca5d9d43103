//! Requests to JetStream about one bucket.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ErrorKind::{OutcomeUnknown, Unavailable};
use async_nats::client::{RequestError, RequestErrorKind};
use async_nats::{HeaderMap, Request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use shedlock_core::{Clock as _, Error, ErrorKind, Operation, Owner, SystemClock};
use shedlock_provider::{Result, Written, closed, configuration, unknown};

use crate::codec::Message;
use crate::explain::{failure, refused, unanswered, unreadable};
use crate::line::Line;
use crate::shape::{Shape, Version};

/// JetStream's error codes.
const STREAM_NOT_FOUND: u64 = 10_059;
const NO_MESSAGE: u64 = 10_037;
const WRONG_LAST_SEQUENCE: [u64; 2] = [10_071, 10_164];
/// Errors of atomic batches: not allowed, malformed, too many at a time. No message of the batch is stored.
const NO_BATCH: [u64; 7] = [10_174, 10_175, 10_176, 10_177, 10_179, 10_199, 10_200];

/// The first NATS version with atomic batches, which store all of their messages or none.
const ATOMIC_SINCE: Version = (2, 12, 0);

/// The default time limit for making a connection, and for a reply.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    pub(crate) line: Line,
    pub(crate) settings: Settings,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) bucket: String,
    pub(crate) domain: Option<String>,
    pub(crate) response_timeout: Duration,
    pub(crate) replicas: usize,
    pub(crate) storage: Storage,
    /// The operator asserts that the servers write to disk before they reply.
    pub(crate) sync_always: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // ShedLock's name for the bucket.
            bucket: "shedlock-locks".to_owned(),
            domain: None,
            response_timeout: TIMEOUT,
            replicas: 1,
            storage: Storage::File,
            sync_always: false,
        }
    }
}

/// Where a bucket stores its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// On disk.
    File,
    /// In memory, as with ShedLock: all locks are gone when the server stops.
    Memory,
}

/// A message to write.
pub(crate) struct Put {
    key: String,
    data: Bytes,
    headers: HeaderMap,
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

impl Put {
    /// Replaces the last message of the key, which must have this sequence. 0 requires that the key has no message.
    pub(crate) fn new(key: String, before: u64, (data, mut headers): (Bytes, HeaderMap)) -> Self {
        headers.insert("Nats-Expected-Last-Subject-Sequence", before.to_string());
        Self { key, data, headers }
    }
}

impl Bucket {
    fn subject(&self, key: &str) -> String {
        format!("$KV.{}.{key}", self.settings.bucket)
    }

    /// Returns the subject that a message of this key is published to.
    fn destination(&self, key: &str) -> String {
        match &self.settings.domain {
            Some(_) => format!("{}.{}", self.prefix(), self.subject(key)),
            None => self.subject(key),
        }
    }

    fn prefix(&self) -> String {
        match &self.settings.domain {
            Some(domain) => format!("$JS.{domain}.API"),
            None => "$JS.API".to_owned(),
        }
    }

    /// Returns the last message of this key, from the stream's leader.
    pub(crate) async fn last(&self, key: &str) -> Result<Option<Message>> {
        let question = json!({ "last_by_subj": self.subject(key) }).to_string();
        let answer = self.ask("MSG.GET", question, Unavailable, &[NO_MESSAGE]);
        let Some(answer) = answer.await? else {
            return Ok(None);
        };
        let stored = Stored::deserialize(&answer["message"]).map_err(unreadable)?;
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

    /// Writes both messages if the last messages of their keys have the sequences that they name; otherwise writes
    /// neither. Returns `None` if the server does not currently accept both at once, and has written neither.
    ///
    /// The returned sequence is that of the last message. The first message has the sequence before it.
    pub(crate) async fn put_both(
        &self,
        mut first: Put,
        mut last: Put,
    ) -> Result<Option<Written<u64>>> {
        let connected = self.line.connected().await?;
        let random = Owner::generate();
        let batch = random.as_str().rsplit('/').next().unwrap_or_default();
        for (put, nth) in [(&mut first, "1"), (&mut last, "2")] {
            put.headers.insert("Nats-Batch-Id", batch);
            put.headers.insert("Nats-Batch-Sequence", nth);
        }
        last.headers.insert("Nats-Batch-Commit", "1");
        // The first message needs no reply: if it is missing, the server refuses the last one.
        let subject = self.destination(&first.key);
        let client = &connected.client;
        let sent = client.publish_with_headers(subject, first.headers, first.data);
        sent.await.map_err(|error| closed().with_source(error))?;
        let answer = self.send_put(last).await?;
        if failure(&answer).is_some_and(|error| NO_BATCH.contains(&error.err_code)) {
            return Ok(None);
        }
        let are_both = answer["count"] == 2;
        let written = self.written(answer)?;
        if matches!(written, Written::Done(_)) && !are_both {
            return Err(
                unknown("the server stored the two messages of one batch separately")
                    .advise("retry with the same owner"),
            );
        }
        Ok(Some(written))
    }

    /// Removes the last message of this key, if it still has this sequence. Leaves no marker. Returns false if the key
    /// has another last message, or none.
    pub(crate) async fn purge(&self, key: &str, sequence: u64) -> Result<bool> {
        // Up to, but not including, this sequence. A key keeps only its last message.
        let question = json!({ "filter": self.subject(key), "seq": sequence.saturating_add(1) });
        let answer = self.ask("PURGE", question.to_string(), OutcomeUnknown, &[]);
        let answer = answer.await?.unwrap_or_default();
        Ok(answer["purged"].as_u64().unwrap_or_default() > 0)
    }

    async fn send_put(&self, put: Put) -> Result<Value> {
        let subject = self.destination(&put.key);
        let request = Request::new().payload(put.data).headers(put.headers);
        self.send(subject, request, OutcomeUnknown).await
    }

    fn written(&self, answer: Value) -> Result<Written<u64>> {
        let Some(answer) = self.accepted(answer, OutcomeUnknown, &WRONG_LAST_SEQUENCE)? else {
            return Ok(Written::Raced);
        };
        let unconfirmed = || unknown("the server confirmed a message without its sequence").retry();
        let sequence = answer["seq"].as_u64().ok_or_else(unconfirmed)?;
        Ok(Written::Done(sequence))
    }

    /// Returns the settings of the bucket's stream; none if the bucket does not exist.
    pub(crate) async fn shape(&self) -> Result<Option<Shape>> {
        let answer = self.ask("INFO", String::new(), Unavailable, &[STREAM_NOT_FOUND]);
        let Some(answer) = answer.await? else {
            return Ok(None);
        };
        Ok(Some(Shape {
            first_sequence: answer["state"]["first_seq"].as_u64().unwrap_or_default(),
            config: answer["config"].clone(),
            server: self.line.server().await?,
        }))
    }

    pub(crate) fn missing(&self) -> Error {
        configuration(format!(
            "the bucket {:?} does not exist",
            self.settings.bucket
        ))
        .advise(("create it with", Operation::Migrate))
    }

    pub(crate) async fn can_be_atomic(&self) -> Result<bool> {
        Ok(self.line.server().await? >= ATOMIC_SINCE)
    }

    /// Allows the bucket to accept several messages in one step.
    pub(crate) async fn make_atomic(&self, shape: &Shape) -> Result<()> {
        let mut config = shape.config.clone();
        config["allow_atomic"] = true.into();
        let asked = self.ask("UPDATE", config.to_string(), OutcomeUnknown, &[]);
        asked.await.map(drop)
    }

    /// Creates the bucket, unless it exists.
    ///
    /// From NATS 2.12 on, its sequences begin with the clock's microseconds. A deleted bucket of the same name never
    /// had these sequences, so a lease from then matches no current lock. Servers from 2.10 on support this too, but
    /// early ones empty the bucket when they start.
    pub(crate) async fn create(&self) -> Result<()> {
        let since = SystemClock.system_time().duration_since(UNIX_EPOCH);
        let micros = u64::try_from(since.unwrap_or_default().as_micros()).unwrap_or_default();
        let mut config = self.config();
        if self.can_be_atomic().await? {
            config["first_seq"] = micros.into();
            config["allow_atomic"] = true.into();
        }
        let made = self.ask("CREATE", config.to_string(), OutcomeUnknown, &[]);
        match made.await {
            Ok(_) => Ok(()),
            // Another client was faster, with a different clock. Servers refuse the slower client because of the name
            // or, in a race of their own, because of the subjects.
            Err(_) if matches!(self.shape().await, Ok(Some(_))) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The configuration of a new bucket's stream, on every version of the server.
    pub(crate) fn config(&self) -> Value {
        let settings = &self.settings;
        let bucket = &settings.bucket;
        json!({
            "name": format!("KV_{bucket}"),
            "subjects": [format!("$KV.{bucket}.>")],
            "retention": "limits",
            "max_consumers": -1,
            "max_msgs": -1,
            "max_bytes": -1,
            "max_age": 0,
            "max_msg_size": -1,
            "max_msgs_per_subject": 1,
            "discard": "new",
            "storage": match settings.storage {
                Storage::File => "file",
                Storage::Memory => "memory",
            },
            "num_replicas": settings.replicas,
            "deny_delete": true,
            "allow_rollup_hdrs": true,
            "allow_direct": true,
        })
    }

    pub(crate) async fn keys(&self) -> Result<Vec<String>> {
        let prefix = self.subject("");
        let mut keys = Vec::new();
        loop {
            let question = json!({
                "subjects_filter": format!("{prefix}>"),
                "offset": keys.len(),
            });
            let answer = self.ask("INFO", question.to_string(), Unavailable, &[]);
            let answer = answer.await?.unwrap_or_default();
            let page = answer["state"]["subjects"].as_object().into_iter();
            let subjects = page.flatten().map(|(subject, _)| subject);
            let before = keys.len();
            keys.extend(subjects.filter_map(|it| Some(it.strip_prefix(&prefix)?.to_owned())));
            let total = answer["total"].as_u64().unwrap_or_default();
            if keys.len() == before || keys.len() as u64 >= total {
                return Ok(keys);
            }
        }
    }

    /// Sends a request about the stream and returns the reply. Returns none if the server refuses with one of the codes
    /// in `no`. `lost` is the kind of the error if no reply arrives.
    async fn ask(
        &self,
        call: &str,
        question: String,
        lost: ErrorKind,
        no: &[u64],
    ) -> Result<Option<Value>> {
        let bucket = &self.settings.bucket;
        let subject = format!("{}.STREAM.{call}.KV_{bucket}", self.prefix());
        let request = Request::new().payload(question.into());
        let answer = self.send(subject, request, lost).await?;
        self.accepted(answer, lost, no)
    }

    /// Returns the reply, unless it is a refusal; none for a refusal with one of these codes.
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
        let connected = Arc::clone(&call.connection);
        let was_closed = connected.is_closed();
        let request = request.timeout(Some(self.settings.response_timeout));
        let answer = connected.client.send_request(subject, request).await;
        let is_answer = |error: &RequestError| error.kind() != RequestErrorKind::TimedOut;
        let error = match call.settle_by(answer, is_answer) {
            Ok(answer) => return serde_json::from_slice(&answer.payload).map_err(unreadable),
            Err(error) => error,
        };
        let has_no_responders = error.kind() == RequestErrorKind::NoResponders;
        if has_no_responders && lost == OutcomeUnknown && Box::pin(self.shape()).await?.is_none() {
            return Err(self.missing());
        }
        // A request that was sent before the client was closed may have taken effect.
        let is_unsent = was_closed || lost != OutcomeUnknown;
        if error.kind() == RequestErrorKind::Other && connected.is_closed() && is_unsent {
            return Err(closed().with_source(error));
        }
        Err(unanswered(error, lost))
    }
}

/// Parses a block of headers: a first line with the version, then one header per line.
pub(crate) fn headers_of(block: &str) -> Vec<(String, String)> {
    let lines = block.split("\r\n").skip(1);
    lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}
