//! A lock and its companion key, written by several clients at once and with ShedLock in between: no slot is granted
//! twice.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_nats::{Client, HeaderMap};
use common::{MINUTE, give_back, request, servers, until};
use serde_json::{Value, json};
use shedlock_conformance::proxy::{Proxy, Strike, contains};
use shedlock_conformance::support::{address, unique};
use shedlock_core::{
    Attempt, AttemptRequest, Clock as _, LockName, LockProvider, SkipReason, Slot, SystemClock,
};
use shedlock_nats::NatsProvider;
use shedlock_provider::{Record, VersionedStore, Written};

const HOUR: Duration = Duration::from_secs(3600);

struct Room {
    server: String,
    bucket: String,
    raw: Client,
}

impl Room {
    async fn on(server: String) -> Self {
        let bucket = unique("keys");
        let room = Self {
            raw: async_nats::connect(&server).await.unwrap(),
            server,
            bucket,
        };
        room.provider().await.migrate().await.unwrap();
        room
    }

    async fn provider(&self) -> NatsProvider {
        let (server, bucket) = (&self.server, &self.bucket);
        let url = format!("{server}?bucket={bucket}&tolerated_skew=0s");
        NatsProvider::connect(&url).await.unwrap()
    }

    async fn via(&self, proxy: &Proxy) -> NatsProvider {
        let (addr, bucket) = (proxy.addr(), &self.bucket);
        let url = format!("nats://{addr}?bucket={bucket}&tolerated_skew=0s&response_timeout=60s");
        NatsProvider::connect(&url).await.unwrap()
    }

    async fn proxy(&self) -> Proxy {
        Proxy::start(address(&self.server, 4222).unwrap())
            .await
            .unwrap()
    }

    /// The start of the message with which a client writes the lock itself.
    fn writes_the_lock(&self) -> String {
        format!("HPUB $KV.{}.job ", self.bucket)
    }

    async fn put(&self, key: &str, headers: &[(&str, &str)], data: Vec<u8>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, *value);
        }
        let subject = format!("$KV.{}.{key}", self.bucket);
        let answer = self.raw.request_with_headers(subject, map, data.into());
        let answer: Value = serde_json::from_slice(&answer.await.unwrap().payload).unwrap();
        assert!(answer.get("error").is_none(), "{answer}");
    }

    /// ShedLock has held the lock, and its lease has expired.
    async fn shedlock_ran(&self) {
        let until = now() - Duration::from_secs(1);
        let since = until.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let millis = i64::try_from(since.as_millis()).unwrap();
        self.put("job", &[], millis.to_be_bytes().to_vec()).await;
    }

    async fn api(&self, call: &str, question: Value) -> Value {
        let subject = format!("$JS.API.STREAM.{call}.KV_{}", self.bucket);
        let question = match question {
            Value::Null => String::new(),
            question => question.to_string(),
        };
        let answer = self.raw.request(subject, question.into()).await.unwrap();
        serde_json::from_slice(&answer.payload).unwrap()
    }

    /// Sets the bucket up as an older version of this crate did, without writes of both keys in one step.
    async fn takes_one_message_at_a_time(&self) {
        let mut config = self.api("INFO", Value::Null).await["config"].take();
        config["allow_atomic"] = false.into();
        let answer = self.api("UPDATE", config).await;
        assert!(answer.get("error").is_none(), "{answer}");
    }

    async fn is_atomic(&self) -> bool {
        self.api("INFO", Value::Null).await["config"]["allow_atomic"] == true
    }
}

fn now() -> SystemTime {
    SystemClock.system_time()
}

/// A slot ahead of the clock, so that only the companion key records that it was taken: a slot that passed while
/// ShedLock ran counts as taken in any case.
fn ahead(minutes: u32) -> Slot {
    Slot::at(now() + HOUR + minutes * MINUTE).unwrap()
}

fn slot_request(slot: Slot) -> AttemptRequest {
    request("job")
        .with_slot(slot)
        .with_slot_tolerance(24 * HOUR)
}

/// One client announces its acquisition in the companion key. Another, with an earlier slot, overwrites the
/// announcement and dies. The first one takes the lock after all. ShedLock's next run then leaves the slot only in the
/// companion key.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_whose_announcement_was_overwritten_is_not_granted_twice() {
    for server in servers() {
        for one_at_a_time in [true, false] {
            let room = Room::on(server.clone()).await;
            if one_at_a_time && room.is_atomic().await {
                room.takes_one_message_at_a_time().await;
            }
            overwritten(&room).await;
        }
    }
}

async fn overwritten(room: &Room) {
    let provider = room.provider().await;
    let (first, earlier, later) = (ahead(100), ahead(150), ahead(200));
    let lease = acquired(&provider, &slot_request(first)).await;
    give_back(&provider, &lease).await;

    let (slow, dying) = (room.proxy().await, room.proxy().await);
    let writes = room.writes_the_lock();
    let slow_writer = Arc::new(room.via(&slow).await);
    let dying_writer = room.via(&dying).await;
    let delayed = slow.on_request(contains(&writes), 1, Strike::WithholdRequest);
    let slow_attempt = tokio::spawn({
        let writer = Arc::clone(&slow_writer);
        async move { writer.attempt(&slot_request(later)).await }
    });
    until("the first one is on its way", async || delayed.has_struck()).await;
    let cut = dying.on_request(contains(&writes), 1, Strike::SwallowRequest);
    // It never repeats its attempt.
    let request = slot_request(earlier);
    let dies = dying_writer.attempt(&request);
    tokio::pin!(dies);
    let waits = until("the second one has written beside", async || {
        cut.has_struck()
    });
    tokio::select! {
        ended = &mut dies => panic!("its last request is swallowed: {ended:?}"),
        () = waits => {}
    }
    delayed.deliver().await;

    let lease = slow_attempt.await.unwrap().unwrap().acquired();
    let lease = lease.expect("the first one takes the lock");
    assert_eq!(lease.slot(), Some(later));
    give_back(&*slow_writer, &lease).await;

    room.shedlock_ran().await;
    let again = provider.attempt(&slot_request(later)).await.unwrap();
    let Attempt::Skipped(skip) = again else {
        panic!("the slot is granted twice: {again:?}");
    };
    assert_eq!(skip.reason, SkipReason::SlotTaken);
}

async fn acquired(provider: &NatsProvider, request: &AttemptRequest) -> shedlock_core::Lease {
    let attempt = provider.attempt(request).await.unwrap();
    attempt.acquired().expect("the lock should be free")
}

/// A worker of an earlier version announces an acquisition, and one of the current version takes the lock. The
/// announced acquisition can no longer happen, and its slot stays free.
#[tokio::test]
async fn a_taking_announced_by_an_earlier_version_ends_with_the_next_one() {
    for server in servers() {
        let room = Room::on(server).await;
        let provider = room.provider().await;
        let (first, now, later) = (ahead(100), ahead(150), ahead(200));
        let lease = acquired(&provider, &slot_request(first)).await;
        give_back(&provider, &lease).await;
        let based_on = room.api("MSG.GET", last_of(&room, "job")).await["message"]["seq"]
            .as_u64()
            .unwrap();
        let text = format!(
            "shedlock-nats 1 before {based_on}\nshedlock 1\nuntil 0\nslot {}\n\nshedlock 1\nuntil 0\n\
             slot {}\n",
            first.as_micros(),
            later.as_micros()
        );
        room.put("=s.job", &[], text.into_bytes()).await;
        let lease = acquired(&provider, &slot_request(now)).await;
        let expected = based_on.to_string();
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", &*expected);
        let subject = format!("$KV.{}.job", room.bucket);
        let late = room
            .raw
            .request_with_headers(subject, headers, vec![0; 8].into());
        let late: Value = serde_json::from_slice(&late.await.unwrap().payload).unwrap();
        assert!(late.get("error").is_some(), "{late}");
        give_back(&provider, &lease).await;
        let lease = acquired(&provider, &slot_request(later)).await;
        give_back(&provider, &lease).await;
    }
}

fn last_of(room: &Room, key: &str) -> Value {
    json!({ "last_by_subj": format!("$KV.{}.{key}", room.bucket) })
}

/// If the server supports it, both keys are written in one batch. Their sequences are consecutive in any case.
#[tokio::test]
async fn both_keys_are_written_in_one_step_where_the_server_can() {
    for server in servers() {
        let room = Room::on(server).await;
        let mut sequences = Vec::new();
        let provider = room.provider().await;
        let lease = acquired(&provider, &slot_request(ahead(100))).await;
        for key in ["=s.job", "job"] {
            let stored = room.api("MSG.GET", last_of(&room, key)).await;
            use base64::Engine as _;
            let headers = stored["message"]["hdrs"].as_str().unwrap();
            let headers = base64::engine::general_purpose::STANDARD.decode(headers);
            let headers = String::from_utf8(headers.unwrap()).unwrap();
            assert_eq!(
                headers.contains("Nats-Batch-Id"),
                room.is_atomic().await,
                "{headers}"
            );
            sequences.push(stored["message"]["seq"].as_u64().unwrap());
        }
        assert_eq!(sequences[0] + 1, sequences[1]);
        let version = room.raw.server_info().version;
        assert_eq!(
            room.is_atomic().await,
            version.starts_with("2.12"),
            "{version}"
        );
        give_back(&provider, &lease).await;
    }
}

/// After a migration, a bucket of an earlier version accepts both keys at once. The migration reports this change once.
#[tokio::test]
async fn migrate_lets_an_older_bucket_take_both_keys_at_once() {
    for server in servers() {
        let room = Room::on(server).await;
        if !room.is_atomic().await {
            continue;
        }
        room.takes_one_message_at_a_time().await;
        let provider = room.provider().await;
        let changes = provider.migrate().await.unwrap();
        assert!(
            format!("{changes:?}").contains("allow_atomic"),
            "{changes:?}"
        );
        assert!(room.is_atomic().await);
        let changes = provider.migrate().await.unwrap();
        assert!(
            !format!("{changes:?}").contains("allow_atomic"),
            "{changes:?}"
        );
    }
}

/// A late copy of a write that creates the record finds one, even if it has been deleted since.
#[tokio::test]
async fn a_late_copy_that_makes_the_record_makes_none_over_another() {
    for server in servers() {
        let room = Room::on(server).await;
        let provider = room.provider().await;
        let lease = acquired(&provider, &request("job")).await;
        let name = LockName::new("job").unwrap();
        let builder = NatsProvider::builder(room.raw.clone()).bucket(&room.bucket);
        let other = builder.build().unwrap();
        let store = other.backend().records();
        let mut record = Record::until(now() + MINUTE);
        record.owner = "host/1/00000000deadbeef".to_owned();
        record.fencing_token = Some(7);
        let late = store.write(&name, None, &record).await.unwrap();
        assert!(matches!(late, Written::Raced), "{late:?}");
        give_back(&provider, &lease).await;
        room.put("job", &[("KV-Operation", "DEL")], Vec::new())
            .await;
        let late = store.write(&name, None, &record).await.unwrap();
        assert!(matches!(late, Written::Raced), "{late:?}");
    }
}
