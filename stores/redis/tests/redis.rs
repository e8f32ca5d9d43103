//! Tests beyond the laws, over Redis: records byte for byte, ShedLock's own commands alongside
//! ours, servers that reject commands.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use common::own::{DURABLE, Own};
use redis::aio::MultiplexedConnection;
use redis::{Client, FromRedisValue, cmd};
use shedlock_conformance::support::assert_value_outlives_client;
use shedlock_core::admin::{Change, Changed, LeaseChange};
use shedlock_core::{
    Attempt, AttemptRequest, ErrorKind, Executor, ExtendRequest, Extension, ForceUnlockRequest,
    ForcedUnlock, Lease, LockConfig, LockName, LockProvider, Owner, SkipReason, Slot, SlotEnd,
    SlotState, Unlock, UnlockRequest, admin,
};
use shedlock_provider::Store as _;
use shedlock_redis::RedisProvider;
use shedlock_rig::given::program;
use shedlock_rig::wait::sleep;

const MINUTE: Duration = Duration::from_secs(60);

/// A provider and the keys of a lock in a separate environment.
struct Room {
    provider: RedisProvider,
    admin: MultiplexedConnection,
    lock: String,
    record: String,
}

impl Room {
    /// On the common server.
    async fn new() -> Self {
        Self::at(&common::server("redis")).await
    }

    async fn at(server: &str) -> Self {
        let client = Client::open(server).unwrap();
        let owner = Owner::generate();
        let environment = owner.as_str().rsplit('/').next().unwrap();
        let lock = format!("job-lock:{environment}:job");
        let provider = RedisProvider::builder(client.clone()).environment(environment);
        Self {
            provider: provider.build().unwrap(),
            admin: common::connection(&client).await.unwrap(),
            record: format!("shedlock-rs:{{{lock}}}"),
            lock,
        }
    }

    fn request(&self) -> AttemptRequest {
        AttemptRequest::new(LockName::new("job").unwrap(), Owner::generate(), MINUTE)
    }

    async fn take(&self) -> Lease {
        match self.provider.attempt(&self.request()).await.unwrap() {
            Attempt::Acquired(lease) => lease,
            other => panic!("the lock should be free: {other:?}"),
        }
    }

    async fn run<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.admin).await.unwrap()
    }

    async fn value(&mut self) -> Option<String> {
        let lock = self.lock.clone();
        self.run(&["GET", &lock]).await
    }
}

/// A server for one test.
async fn own(settings: &[&str]) -> Own {
    let program = program("redis-server", "redis");
    Own::start(program, settings).await.unwrap()
}

#[tokio::test]
async fn a_record_is_as_documented() {
    let mut room = Room::new().await;
    let now: (u64, u64) = room.run(&["TIME"]).await;
    let slot = Slot::at(UNIX_EPOCH + Duration::from_secs(now.0 - 60)).unwrap();
    let request = room
        .request()
        .with_slot(slot)
        .with_lock_at_least_for(MINUTE);
    let Attempt::Acquired(lease) = room.provider.attempt(&request).await.unwrap() else {
        panic!("the lock should be free");
    };
    let at = lease.acquired_at().unwrap();
    let text = format!("{:.3}", jiff::Timestamp::try_from(at).unwrap());
    // Printing may round, but ShedLock truncates.
    let text = &text[.."2026-01-01T00:00:00".len()];
    let value = room.value().await.unwrap();
    assert!(value.starts_with(&format!("ADDED:{text}.")), "{value}");
    assert!(value.ends_with(&format!("Z@{}", lease.owner())), "{value}");
    assert_eq!(
        value.len(),
        "ADDED:2026-01-01T00:00:00.000Z@".len() + lease.owner().as_str().len()
    );
    let (lock, beside) = (room.lock.clone(), room.record.clone());
    let left: i64 = room.run(&["PTTL", &lock]).await;
    assert!((30_000..=60_001).contains(&left), "{left}");
    let kept: String = room.run(&["GET", &beside]).await;
    let micros = |instant: std::time::SystemTime| {
        let since = instant.duration_since(UNIX_EPOCH).unwrap();
        since.as_micros()
    };
    let token = lease.fencing_token().unwrap();
    let (tick, owner) = (slot.as_micros(), lease.owner());
    let (at, until) = (micros(at), micros(lease.locked_until().unwrap()));
    assert_eq!(kept, format!("{token} {tick} - -\n{at} {until} {owner}"));
    let forever: i64 = room.run(&["PTTL", &beside]).await;
    assert_eq!(forever, -1);

    let longer = ExtendRequest::new(2 * MINUTE);
    let extended = room.provider.extend(&lease, &longer).await.unwrap();
    let Extension::Extended(lease) = extended else {
        panic!("the lease runs: {extended:?}");
    };
    let until = micros(lease.locked_until().unwrap());
    let kept: String = room.run(&["GET", &beside]).await;
    assert_eq!(kept, format!("{token} {tick} - -\n{at} {until} {owner}"));

    let done = UnlockRequest::new().with_slot_end(SlotEnd::done(true));
    let answer = room.provider.unlock(&lease, &done).await.unwrap();
    assert_eq!(answer, Unlock::Unlocked);
    assert_eq!(room.value().await, Some(format!("{value} unlocked")));
    let free: u64 = room.run(&["PEXPIRETIME", &lock]).await;
    let kept: String = room.run(&["GET", &beside]).await;
    let last = format!("{at} {free}000 {owner} unlocked");
    assert_eq!(kept, format!("{token} {tick} {tick} -\n{last}"));
}

#[tokio::test]
async fn an_unlock_that_completes_no_slot_adds_a_mark() {
    let mut room = Room::new().await;
    let (lock, beside) = (room.lock.clone(), room.record.clone());
    for at_least in [Duration::ZERO, MINUTE] {
        let request = room.request().with_lock_at_least_for(at_least);
        let attempt = room.provider.attempt(&request).await.unwrap();
        let lease = attempt.acquired().expect("the lock should be free");
        let before: String = room.run(&["GET", &beside]).await;
        let unlocked = room.provider.unlock(&lease, &UnlockRequest::new()).await;
        assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
        let kept: String = room.run(&["GET", &beside]).await;
        let (running, free) = kept.rsplit_once(" unlocked ").unwrap();
        assert_eq!(running, before);
        if at_least.is_zero() {
            assert_eq!(room.value().await, None);
            let name = LockName::new("job").unwrap();
            let seen = room.provider.inspect(&name).await.unwrap().unwrap();
            let until = seen.locked_until.unwrap().duration_since(UNIX_EPOCH);
            assert_eq!(until.unwrap().as_micros().to_string(), free);
        } else {
            let until: u64 = room.run(&["PEXPIRETIME", &lock]).await;
            assert_eq!(format!("{until}000"), free);
        }
    }
}

/// Deleting the record loses the token, and nothing else.
#[tokio::test]
async fn a_record_that_is_deleted_while_a_lease_runs_is_made_again() {
    let mut room = Room::new().await;
    let beside = room.record.clone();
    let lease = room.take().await;
    room.run::<u64>(&["DEL", &beside]).await;
    let longer = ExtendRequest::new(2 * MINUTE);
    let extended = room.provider.extend(&lease, &longer).await.unwrap();
    assert!(matches!(extended, Extension::Extended(_)), "{extended:?}");
    room.run::<u64>(&["DEL", &beside]).await;
    // Also if it is called a second time.
    for _ in 0..2 {
        let unlocked = room.provider.unlock(&lease, &UnlockRequest::new()).await;
        assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
    }
    let kept: String = room.run(&["GET", &beside]).await;
    assert!(kept.starts_with("- - - -\n- "), "{kept}");
    let next = room.take().await;
    assert!(next.fencing_token() > lease.fencing_token());
}

#[tokio::test]
async fn an_unlock_deletes_the_locks_own_key_and_keeps_the_record() {
    let mut room = Room::new().await;
    let lease = room.take().await;
    room.provider
        .unlock(&lease, &UnlockRequest::new())
        .await
        .unwrap();
    assert_eq!(room.value().await, None);
    let beside = room.record.clone();
    let kept: String = room.run(&["GET", &beside]).await;
    let token = kept.split(' ').next().map(|token| token.parse().unwrap());
    assert_eq!(token, lease.fencing_token());
}

/// In its default mode ShedLock deletes whatever value the key has, and overwrites it with the
/// value that keeps at-least.
#[tokio::test]
async fn what_shedlock_does_to_our_lock_makes_it_lost() {
    let java = "ADDED:2026-01-01T00:00:00.000Z@java:7f4df1a2-87e5-4b1c-9a59-0d7f6c3b2a10";
    let mut room = Room::new().await;
    let lock = room.lock.clone();
    for theirs in [None, Some(java)] {
        let lease = room.take().await;
        match theirs {
            None => room.run::<u64>(&["DEL", &lock]).await,
            Some(java) => {
                let set = ["SET", &lock, java, "XX", "PX", "60000"];
                room.run::<()>(&set).await;
                1
            }
        };
        let longer = ExtendRequest::new(2 * MINUTE);
        let extended = room.provider.extend(&lease, &longer).await.unwrap();
        assert!(matches!(extended, Extension::Lost), "{extended:?}");
        let unlocked = room.provider.unlock(&lease, &UnlockRequest::new()).await;
        assert_eq!(unlocked.unwrap(), Unlock::Lost);
        assert_eq!(room.value().await.as_deref(), theirs);
    }
    let skip = room.provider.attempt(&room.request()).await.unwrap();
    let Attempt::Skipped(skip) = skip else {
        panic!("ShedLock holds the lock: {skip:?}");
    };
    assert_eq!(
        (skip.reason, skip.owner.as_deref()),
        (SkipReason::Held, Some("java"))
    );
}

/// ShedLock's own command, by hand: the key's value decides who has the lock, in both directions.
#[tokio::test]
async fn a_record_of_shedlock_excludes_us_and_ours_excludes_it_until_they_expire() {
    let java = "ADDED:2026-01-01T00:00:00.000Z@java:7f4df1a2-87e5-4b1c-9a59-0d7f6c3b2a10";
    let mut room = Room::new().await;
    let lock = room.lock.clone();
    let acquire = ["SET", &lock, java, "NX", "PX", "8000"];
    let taken: Option<String> = room.run(&acquire).await;
    assert_eq!(taken.as_deref(), Some("OK"));
    let attempt = room.provider.attempt(&room.request()).await.unwrap();
    let Attempt::Skipped(skip) = attempt else {
        panic!("ShedLock holds the lock: {attempt:?}");
    };
    assert_eq!(skip.owner.as_deref(), Some("java"));
    let left: i64 = room.run(&["PTTL", &lock]).await;
    assert!((0..=8_000).contains(&left), "{left}");
    sleep(Duration::from_millis(left.unsigned_abs() + 20)).await;

    let lease = Duration::from_secs(8);
    let request = AttemptRequest::new(LockName::new("job").unwrap(), Owner::generate(), lease);
    let attempt = room.provider.attempt(&request).await.unwrap();
    let lease = attempt.acquired().expect("ShedLock's record has expired");
    let taken: Option<String> = room.run(&acquire).await;
    assert_eq!(taken, None);
    let left: i64 = room.run(&["PTTL", &lock]).await;
    sleep(Duration::from_millis(left.unsigned_abs() + 20)).await;
    let taken: Option<String> = room.run(&acquire).await;
    assert_eq!(taken.as_deref(), Some("OK"));
    // Late, and reported as lost.
    let unlocked = room.provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Lost);
    assert_eq!(room.value().await.as_deref(), Some(java));
}

/// A task's return value is not lost with its lock.
#[tokio::test]
async fn a_value_outlives_an_unlock_that_finds_the_lock_taken_over() {
    let mut room = Room::new().await;
    let (lock, mut raw) = (room.lock.clone(), room.admin.clone());
    let executor = Executor::new(std::sync::Arc::new(room.provider.clone()));
    let config = LockConfig::new("job").lock_at_most_for("1m");
    let outcome = executor.execute(&config, async {
        let mut steal = cmd("SET");
        steal
            .arg(&lock)
            .arg("ADDED:then@java:1")
            .arg("PX")
            .arg(60_000);
        let () = steal.query_async(&mut raw).await.unwrap();
        42
    });
    let outcome = outcome.await.unwrap();
    assert!(outcome.is_lost(), "{outcome:?}");
    assert_eq!(outcome.value(), Some(42));
    assert_eq!(room.value().await.as_deref(), Some("ADDED:then@java:1"));
}

#[tokio::test]
async fn data_that_is_not_a_lock_is_an_error_and_is_left_alone() {
    let mut room = Room::new().await;
    let (lock, beside) = (room.lock.clone(), room.record.clone());
    room.run::<()>(&["SET", &lock, "for ever"]).await;
    let error = room.provider.attempt(&room.request()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    assert_eq!(room.value().await.as_deref(), Some("for ever"));

    room.run::<u64>(&["DEL", &lock]).await;
    room.run::<u64>(&["LPUSH", &lock, "a list"]).await;
    let error = room.provider.attempt(&room.request()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");

    room.run::<u64>(&["DEL", &lock]).await;
    // Before the first release the record was a hash.
    room.run::<u64>(&["DEL", &lock]).await;
    room.run::<u64>(&["HSET", &beside, "token", "7"]).await;
    is_left_alone(&mut room).await;
    let name = LockName::new("job").unwrap();
    for text in ["7", "many - - -\n1 2 a/b/c"] {
        room.run::<()>(&["SET", &beside, text]).await;
        is_left_alone(&mut room).await;
        let error = room.provider.inspect(&name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    }
}

async fn is_left_alone(room: &mut Room) {
    let error = room.provider.attempt(&room.request()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    assert_eq!(room.value().await, None);
}

/// Neither a forced unlock nor a slot reset nor a removal changes it.
#[tokio::test]
async fn what_has_changed_since_it_was_looked_at_is_left_alone() {
    let mut room = Room::new().await;
    let name = LockName::new("job").unwrap();
    let now: (u64, u64) = room.run(&["TIME"]).await;
    let slot = |before| Slot::at(UNIX_EPOCH + Duration::from_secs(now.0 - before)).unwrap();
    let (lock, beside) = (room.lock.clone(), room.record.clone());
    let all = ["MGET", &lock, &beside];
    let provider = room.provider.clone();
    let store = provider.backend();
    let attempt = provider.attempt(&room.request().with_slot(slot(60))).await;
    let lease = attempt.unwrap().acquired().unwrap();
    let seen = store.look(&name).await.unwrap().unwrap();
    let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
    let attempt = provider.attempt(&room.request().with_slot(slot(50))).await;
    assert!(attempt.unwrap().acquired().is_some());

    let slots = Some(SlotState::new(Some(slot(70)), None, None));
    let before: Vec<String> = room.run(&all).await;
    let change = |lease, slots| Change { lease, slots };
    let owner = "a@b/1/ff paused: x".to_owned();
    let end = LeaseChange::End {
        owner: "a/1/ff freed".to_owned(),
        kept: None,
    };
    let until = UNIX_EPOCH + Duration::from_secs(now.0 + 9);
    for change in [
        change(end.clone(), None),
        change(end.clone(), slots),
        change(LeaseChange::Keep, slots),
        change(LeaseChange::Take { owner, until }, slots),
    ] {
        let raced = store.change(&name, &seen, &change).await.unwrap();
        assert_eq!(raced, Changed::Raced, "{change:?}");
        assert_eq!(room.run::<Vec<String>>(&all).await, before);
    }
    let raced = store.remove(&name, &seen).await.unwrap();
    assert_eq!(raced, Changed::Raced);
    assert_eq!(room.run::<Vec<String>>(&all).await, before);

    let seen = store.look(&name).await.unwrap().unwrap();
    for change in [change(LeaseChange::Keep, slots), change(end, None)] {
        let done = store.change(&name, &seen, &change).await.unwrap();
        assert_eq!(done, Changed::Done, "{change:?}");
    }
    let seen = store.look(&name).await.unwrap().unwrap();
    assert_eq!(seen.record.last_slot, Some(slot(70)));
    assert_eq!(room.value().await, None);

    // The lock is free, but was taken and unlocked since it was looked at.
    let lease = room.take().await;
    let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
    let raced = store.remove(&name, &seen).await.unwrap();
    assert_eq!(raced, Changed::Raced);
    let seen = store.look(&name).await.unwrap().unwrap();
    // ShedLock has taken it.
    let _: String = room
        .run(&["SET", &lock, "ADDED:x@web-3", "PX", "60000"])
        .await;
    let raced = store.remove(&name, &seen).await.unwrap();
    assert_eq!(raced, Changed::Raced);
    let _: u64 = room.run(&["DEL", &lock]).await;
    let removed = store.remove(&name, &seen).await.unwrap();
    assert_eq!(removed, Changed::Done);
    assert_eq!(room.run::<u64>(&["EXISTS", &lock, &beside]).await, 0);
    let again = store.remove(&name, &seen).await.unwrap();
    assert_eq!(again, Changed::Raced);
}

#[tokio::test]
async fn a_lock_whose_value_is_no_text_is_freed_by_force() {
    let mut room = Room::new().await;
    let lock = room.lock.clone();
    for value in [&b"\xff@\xfe"[..], b""] {
        let mut set = cmd("SET");
        set.arg(&lock).arg(value).arg("PX").arg(60_000);
        let () = set.query_async(&mut room.admin).await.unwrap();
        let force = ForceUnlockRequest::new(LockName::new("job").unwrap());
        let freed = admin::force_unlock(&room.provider, &force).await.unwrap();
        assert!(matches!(freed, ForcedUnlock::Freed(_)), "{freed:?}");
        assert_eq!(room.value().await, None);
    }
}

#[tokio::test]
async fn a_server_that_forgot_the_scripts_is_sent_them_again() {
    let server = own(&[]).await;
    let mut room = Room::at(&server.url()).await;
    for _ in 0..2 {
        let lease = room.take().await;
        room.run::<()>(&["SCRIPT", "FLUSH"]).await;
        room.provider
            .unlock(&lease, &UnlockRequest::new())
            .await
            .unwrap();
    }
}

/// As a server does with an idle client (`timeout`), and a load balancer or a NAT in between.
#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_replaced_before_anything_is_sent() {
    let server = own(&[]).await;
    let client = Client::open(server.url()).unwrap();
    let mut room = Room::at(&server.url()).await;
    let manager = client.get_connection_manager().await.unwrap();
    for provider in [
        RedisProvider::builder(client).build().unwrap(),
        RedisProvider::builder(manager).build().unwrap(),
    ] {
        let mut lease = None;
        for _ in 0..2 {
            provider.check().await.unwrap();
            let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
            assert!(room.run::<i64>(&kill).await > 0);
            while room
                .run::<String>(&["CLIENT", "LIST"])
                .await
                .lines()
                .count()
                > 1
            {}
            // A server waits for at least a second.
            shedlock_rig::wait::sleep(Duration::from_millis(1_100)).await;
            lease = match lease {
                None => match provider.attempt(&room.request()).await.unwrap() {
                    Attempt::Acquired(lease) => Some(lease),
                    other => panic!("the lock should be free: {other:?}"),
                },
                Some(lease) => {
                    let answer = provider.unlock(&lease, &UnlockRequest::new()).await;
                    assert_eq!(answer.unwrap(), Unlock::Unlocked);
                    None
                }
            };
        }
    }
}

#[tokio::test]
async fn durable_is_declared_where_it_is() {
    for (settings, durable) in [
        (&DURABLE[..], true),
        (&["--appendonly", "yes"], false),
        (&[], false),
    ] {
        let server = own(settings).await;
        let room = Room::at(&server.url()).await;
        room.provider.check().await.unwrap();
        assert_eq!(
            room.provider.capabilities().durable,
            durable,
            "{settings:?}"
        );
    }
}

#[tokio::test]
async fn a_missing_or_wrong_password_is_a_configuration_error() {
    let server = own(&["--requirepass", "geheim"]).await;
    let url = server.url();
    let wrong = url.replace("//", "//:hunter2@");
    for url in [&url, &wrong] {
        let error = RedisProvider::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
    let right = url.replace("//", "//:geheim@");
    RedisProvider::connect(&right).await.unwrap();
}

#[tokio::test]
async fn a_replica_and_a_full_server_say_what_to_do() {
    for settings in [["--replicaof", "127.0.0.1 1"], ["--maxmemory", "1"]] {
        let server = own(&settings).await;
        let room = Room::at(&server.url()).await;
        let error = room.provider.attempt(&room.request()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(error.to_string().contains("nothing was written"), "{error}");
        let checked = room.provider.check().await;
        assert_eq!(
            checked.is_err(),
            settings[0] == "--replicaof",
            "{checked:?}"
        );
    }
}

#[tokio::test]
async fn a_server_without_tls_is_an_error_of_a_url_with_it() {
    // The build of all stores contains two libraries, so the program must choose.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let host = common::server("redis").replace("redis://", "");
    for (plain, encrypted, path) in [
        ("redis", "rediss", ""),
        ("redis-sentinel", "rediss-sentinel", "/mymaster"),
        ("redis-cluster", "rediss-cluster", ""),
    ] {
        let url = format!("{encrypted}://{host}{path}?connect_timeout=300ms");
        let error = RedisProvider::connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        let error = format!("{error:#}");
        let says = format!(
            "cannot connect: timed out; nothing was written; check that the server is up, that the \
             host and the port in the URL are those of Redis, and that this port uses TLS (if not, \
             write {plain}:// instead of {encrypted}://), then retry"
        );
        assert!(error.ends_with(&says), "{error}");
    }
    let error = RedisProvider::connect("rediss://127.0.0.1:1").await;
    let error = format!("{:#}", error.unwrap_err());
    let says = "cannot connect: Connection refused (os error 111); nothing was written; check that \
                the server is up, and that the host and the port in the URL are those of Redis, \
                then retry";
    assert!(error.ends_with(says), "{error}");
}

/// It never opens again, unlike every other connection that a provider is created from.
#[tokio::test]
async fn a_broken_multiplexed_connection_holds_no_value_up() {
    let client = Client::open(common::server("redis")).unwrap();
    let mut line = common::connection(&client).await.unwrap();
    let mut admin = common::connection(&client).await.unwrap();
    let id: i64 = cmd("CLIENT")
        .arg("ID")
        .query_async(&mut line)
        .await
        .unwrap();
    let environment = Owner::generate();
    let provider = RedisProvider::builder(line).environment(environment.as_str());
    let provider = provider.build().unwrap();
    let kill = async move {
        let mut kill = cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(id);
        let killed: i64 = kill.query_async(&mut admin).await.unwrap();
        assert_eq!(killed, 1);
    };
    assert_value_outlives_client(Arc::new(provider), kill).await;
}
