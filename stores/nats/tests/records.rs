//! Records byte for byte, ShedLock's own writes alongside ours, and checks that we do not share ShedLock's known
//! defects.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_nats::{Client, HeaderMap};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::{MINUTE, give_back, request, servers, take};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use shedlock_conformance::support::unique;
use shedlock_core::{
    Attempt, Clock as _, ErrorKind, Executor, ExtendRequest, Extension, ListRequest, LockConfig,
    LockName, LockProvider, Outcome, PruneRequest, Pruned, Slot, SlotEnd, SystemClock, Unlock,
    UnlockRequest, admin, within,
};
use shedlock_nats::NatsProvider;
use shedlock_rig::wait::sleep;

/// A bucket of its own, and a raw client.
struct Room {
    provider: Arc<NatsProvider>,
    raw: Client,
    bucket: String,
}

/// A message as the server stores it.
#[derive(Debug, PartialEq, Eq)]
struct Stored {
    sequence: u64,
    data: Vec<u8>,
    headers: Vec<String>,
}

impl Room {
    /// Creates one room on each server.
    async fn each() -> Vec<Self> {
        let mut rooms = Vec::new();
        for server in servers() {
            rooms.push(Self::on(server).await);
        }
        rooms
    }

    async fn on(server: String) -> Self {
        let bucket = unique("room");
        let url = format!("{server}?bucket={bucket}&tolerated_skew=0s");
        let provider = NatsProvider::connect(&url).await.unwrap();
        provider.migrate().await.unwrap();
        Self {
            provider: Arc::new(provider),
            raw: async_nats::connect(server).await.unwrap(),
            bucket,
        }
    }

    async fn stored(&self, key: &str) -> Option<Stored> {
        let question = json!({ "last_by_subj": format!("$KV.{}.{key}", self.bucket) });
        let subject = format!("$JS.API.STREAM.MSG.GET.KV_{}", self.bucket);
        let answer = self.raw.request(subject, question.to_string().into());
        let answer: Value = serde_json::from_slice(&answer.await.unwrap().payload).unwrap();
        let message = answer.get("message")?;
        let bytes = |field: &str| STANDARD.decode(message[field].as_str().unwrap_or_default());
        let headers = String::from_utf8(bytes("hdrs").unwrap()).unwrap();
        let lines = headers.lines().skip(1).filter(|line| {
            // Leave out the headers that were meant for the server, which stores them too.
            !line.is_empty()
                && !line.starts_with("Nats-Expected")
                && !line.starts_with("Nats-Batch")
        });
        let mut headers: Vec<_> = lines.map(str::to_owned).collect();
        headers.sort();
        Some(Stored {
            sequence: message["seq"].as_u64().unwrap(),
            data: bytes("data").unwrap(),
            headers,
        })
    }

    /// Writes as ShedLock does: with the revision that it has read, or without one for a deletion.
    async fn put(&self, headers: &[(&str, &str)], data: Vec<u8>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, *value);
        }
        let subject = format!("$KV.{}.job", self.bucket);
        let answer = self.raw.request_with_headers(subject, map, data.into());
        let answer: Value = serde_json::from_slice(&answer.await.unwrap().payload).unwrap();
        assert!(answer.get("error").is_none(), "{answer}");
    }

    async fn put_until(&self, until: SystemTime) {
        self.put(&[], millis(until).to_be_bytes().to_vec()).await;
    }
}

fn millis(instant: SystemTime) -> i64 {
    let since = instant.duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

fn now() -> SystemTime {
    SystemClock.system_time()
}

#[tokio::test]
async fn a_record_is_as_documented() {
    for room in Room::each().await {
        let slot = Slot::at(now() - MINUTE).unwrap();
        let asked = request("job")
            .with_slot(slot)
            .with_lock_at_least_for(MINUTE);
        let attempt = room.provider.attempt(&asked).await.unwrap();
        let lease = attempt.acquired().expect("the lock should be free");
        let taken = room.stored("job").await.unwrap();
        // Everything that ShedLock reads.
        let until = millis(lease.locked_until().unwrap());
        assert_eq!(taken.data, until.to_be_bytes());
        let at = millis(lease.acquired_at().unwrap());
        let (token, owner) = (lease.fencing_token().unwrap(), lease.owner());
        let micros = slot.as_micros();
        let headers = [
            format!("Shedlock-At: {at}"),
            format!("Shedlock-Owner: {owner}"),
            format!("Shedlock-Slot: {micros}"),
            format!("Shedlock-Spare: {}", ".".repeat(64)),
            format!("Shedlock-Token: {token}"),
        ];
        assert_eq!(taken.headers, headers);
        let beside = room.stored("=s.job").await.unwrap();
        let text = format!(
            "shedlock-nats 1 before 0\nshedlock 1\nuntil 0\n\nshedlock 1\nuntil 0\ntoken {token}\n\
         slot {micros}\n"
        );
        assert_eq!(String::from_utf8(beside.data).unwrap(), text);

        let done = UnlockRequest::new().with_slot_end(SlotEnd::done(true));
        let unlocked = room.provider.unlock(&lease, &done).await.unwrap();
        assert_eq!(unlocked, Unlock::Unlocked);
        let ended = room.stored("job").await.unwrap();
        assert_eq!(ended.data, (at + 60_000).to_be_bytes());
        let headers = [
            format!("Shedlock-At: {at}"),
            format!("Shedlock-Done: {micros}"),
            format!("Shedlock-Owner: {owner} unlocked"),
            format!("Shedlock-Slot: {micros}"),
            format!("Shedlock-Token: {token}"),
        ];
        assert_eq!(ended.headers, headers);
    }
}

#[tokio::test]
async fn a_record_of_shedlock_excludes_us_and_expires_for_us() {
    for room in Room::each().await {
        let until = now() + Duration::from_secs(8);
        room.put_until(until).await;
        let attempt = room.provider.attempt(&request("job")).await.unwrap();
        let Attempt::Skipped(skip) = attempt else {
            panic!("ShedLock holds the lock: {attempt:?}");
        };
        assert_eq!(skip.until.map(millis), Some(millis(until)));
        let left = until.duration_since(now()).unwrap_or_default();
        sleep(left + Duration::from_millis(20)).await;
        let lease = take(&*room.provider, "job").await;
        give_back(&*room.provider, &lease).await;
        // ShedLock's unlock leaves a marker.
        room.put_until(now() + MINUTE).await;
        room.put(&[("KV-Operation", "DEL")], Vec::new()).await;
        let next = take(&*room.provider, "job").await;
        assert!(next.fencing_token() > lease.fencing_token());
    }
}

/// Tries an unlock and an extension by an owner that no longer holds the lock.
#[tokio::test]
async fn a_late_holder_changes_nothing_of_its_successor() {
    for room in Room::each().await {
        let at = now() + MINUTE;
        for by_shedlock in [true, false] {
            let late = take(&*room.provider, "job").await;
            // Its lease has ended, and another owner holds the lock, perhaps in this same process.
            room.put(&[("KV-Operation", "DEL")], Vec::new()).await;
            let next = if by_shedlock {
                room.put_until(at).await;
                None
            } else {
                Some(take(&*room.provider, "job").await)
            };
            let before = room.stored("job").await;
            let longer = ExtendRequest::new(2 * MINUTE);
            let extended = room.provider.extend(&late, &longer).await.unwrap();
            assert!(matches!(extended, Extension::Lost), "{extended:?}");
            let unlocked = room.provider.unlock(&late, &UnlockRequest::new()).await;
            assert_eq!(unlocked.unwrap(), Unlock::Lost);
            assert_eq!(room.stored("job").await, before);
            match next {
                Some(next) => give_back(&*room.provider, &next).await,
                None => room.put(&[("KV-Operation", "DEL")], Vec::new()).await,
            }
        }
    }
}

/// Another client writes between a read and a write. Each write names the message that it replaces.
#[tokio::test]
async fn an_unlock_never_deletes_and_never_writes_over_what_it_has_not_read() {
    for room in Room::each().await {
        let lease = take(&*room.provider, "job").await;
        let taken = room.stored("job").await.unwrap();
        give_back(&*room.provider, &lease).await;
        let ended = room.stored("job").await.unwrap();
        assert!(ended.sequence > taken.sequence);
        assert_eq!(ended.data.len(), 8);
        assert!(!ended.headers.iter().any(|it| it.contains("KV-Operation")));
    }
}

/// Data that cannot be parsed is an error, and is left alone.
#[tokio::test]
async fn data_that_is_not_a_lock_is_an_error_and_is_left_alone() {
    for room in Room::each().await {
        room.put(&[], b"mine".to_vec()).await;
        let error = room.provider.attempt(&request("job")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
        assert_eq!(room.stored("job").await.unwrap().data, b"mine");
    }
}

/// The task's result is not lost with the lock.
#[tokio::test]
async fn what_a_task_returned_is_kept_when_its_lock_was_lost() {
    for room in Room::each().await {
        let executor = Executor::new(room.provider.clone());
        let config = LockConfig::new("job").lock_at_most_for("1m");
        let until = now() + MINUTE;
        let outcome = executor.execute(&config, async {
            room.put_until(until).await;
            42
        });
        let outcome = outcome.await.unwrap();
        // ShedLock overwrote the lock while the task ran, so the outcome reports the loss too.
        assert!(matches!(outcome, Outcome::Lost { .. }), "{outcome:?}");
        assert_eq!(outcome.value(), Some(42));
        assert_eq!(
            room.stored("job").await.unwrap().data,
            millis(until).to_be_bytes()
        );
    }
}

/// Tokens grow even after ShedLock or a person deletes the record.
#[tokio::test]
async fn tokens_grow_over_deletions_and_shedlocks_writes() {
    for room in Room::each().await {
        let mut last = None;
        for _ in 0..3 {
            let lease = take(&*room.provider, "job").await;
            assert!(lease.fencing_token() > last, "{lease:?}");
            last = lease.fencing_token();
            room.put(&[("KV-Operation", "DEL")], Vec::new()).await;
            room.put_until(now() - Duration::from_secs(1)).await;
        }
    }
}

/// Each page reads only its own locks, however many there are, and each of their keys once.
#[tokio::test]
async fn a_page_reads_each_of_its_locks_once_and_no_other() {
    for room in Room::each().await {
        let names: Vec<_> = (0..130).map(|i| format!("lock-{i:03}")).collect();
        for name in &names {
            let _ = take(&*room.provider, name).await;
        }
        let subject = format!("$JS.API.STREAM.MSG.GET.KV_{}", room.bucket);
        let mut requests = room.raw.subscribe(subject.clone()).await.unwrap();
        room.raw.flush().await.unwrap();
        let mut page = ListRequest::new().with_limit(100);
        for expected in [&names[..100], &names[100..]] {
            let listed = room.provider.list(&page).await.unwrap();
            let listed: Vec<_> = listed.iter().map(|record| record.name.as_str()).collect();
            assert_eq!(listed, *expected);
            page = page.with_after(LockName::new(listed[listed.len() - 1]).unwrap());
            // The server forwards messages of one client in order. Those of two can overtake each other.
            room.raw
                .publish(subject.clone(), "end".into())
                .await
                .unwrap();
            let (mut read, mut is_over) = (Vec::new(), false);
            while !is_over || read.len() < 2 * expected.len() {
                let next = within(&SystemClock, Duration::from_secs(30), requests.next());
                match next.await.expect("a lock has two keys").unwrap().payload {
                    end if end == "end" => is_over = true,
                    request => read.push(request),
                }
            }
            let all = read.len();
            read.sort();
            read.dedup();
            assert_eq!(read.len(), all, "a key was read twice for one page");
            assert_eq!(all, 2 * expected.len(), "a lock has two keys");
        }
    }
}

/// A marker of the deletion would stay in the bucket for ever, and in the list of locks.
#[tokio::test]
async fn a_removal_leaves_no_message_of_either_key() {
    for room in Room::each().await {
        let lease = take(&*room.provider, "job").await;
        give_back(&*room.provider, &lease).await;
        assert!(room.stored("=s.job").await.is_some());
        sleep(Duration::from_millis(50)).await;
        let prune = PruneRequest::new(LockName::new("job").unwrap(), Duration::from_millis(1));
        let pruned = admin::prune(&*room.provider, &prune).await.unwrap();
        assert!(matches!(pruned, Pruned::Removed(_)), "{pruned:?}");
        for key in ["job", "=s.job"] {
            assert_eq!(room.stored(key).await, None, "{key}");
        }
        let again = take(&*room.provider, "job").await;
        assert!(again.fencing_token() > lease.fencing_token());
        // What ShedLock leaves when it unlocks, a marker of its own, is removed too.
        room.put(&[("KV-Operation", "DEL")], Vec::new()).await;
        sleep(Duration::from_millis(50)).await;
        let pruned = admin::prune(&*room.provider, &prune).await.unwrap();
        assert!(matches!(pruned, Pruned::Removed(_)), "{pruned:?}");
        assert_eq!(room.stored("job").await, None);
    }
}
