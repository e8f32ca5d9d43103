//! Behaviour beyond the laws, over etcd: records byte for byte, ShedLock's own calls alongside ours, revoked leases,
//! and a store that refuses requests.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::own::{Own, QUICK};
use common::room::{MINUTE, Room};
use etcd_client::{Client, PutOptions};
use shedlock_conformance::proxy::{Proxy, Strike, contains};
use shedlock_conformance::support::address;
use shedlock_core::{
    Attempt, AttemptRequest, Clock, ErrorKind, ExtendRequest, Extension, Level, ListRequest,
    LockName, LockProvider, LockState, ManualClock, Owner, PruneRequest, Pruned, SkipReason, Slot,
    SlotEnd, SystemClock, Unlock, UnlockRequest, admin,
};
use shedlock_etcd::EtcdProvider;
use shedlock_rig::given::{program, server};
use shedlock_rig::wait::{eventually_async, found_async, sleep};

/// A server for one test.
async fn own(settings: &[&str]) -> Own {
    let program = program("etcd", "etcd");
    let settings = [&QUICK[..], settings].concat();
    Own::start(program, 1, &settings).await.unwrap()
}

fn millis(instant: SystemTime) -> u128 {
    instant.duration_since(UNIX_EPOCH).unwrap().as_millis()
}

#[tokio::test]
async fn a_record_is_as_documented() {
    let room = Room::new().await;
    let before = SystemClock.system_time();
    let slot = Slot::at(before - MINUTE).unwrap();
    let request = room
        .request()
        .with_slot(slot)
        .with_lock_at_least_for(MINUTE);
    let Attempt::Acquired(lease) = room.provider.attempt(&request).await.unwrap() else {
        panic!("the lock should be free");
    };
    let value = room.value(&room.lock).await.unwrap();
    let (added, owner) = value.split_once('@').unwrap();
    assert_eq!(owner, lease.owner().as_str());
    let at = added.strip_prefix("ADDED:").unwrap();
    assert_eq!(at.len(), "2026-01-01T00:00:00.000Z".len(), "{value}");
    let at = SystemTime::from(at.parse::<jiff::Timestamp>().unwrap());
    assert!(millis(before) <= millis(at) && at <= SystemClock.system_time());
    let (id, granted) = room.lease().await;
    assert_eq!(granted, 60);
    let token = room.key(&room.lock).await.unwrap().create_revision();
    assert_eq!(lease.fencing_token(), Some(token.unsigned_abs()));
    let (at, until) = (millis(at), millis(lease.locked_until().unwrap()));
    assert_eq!(until, at + 60_000);
    let kept = room.key(&room.kept).await.unwrap();
    assert_eq!((kept.lease(), kept.mod_revision()), (0, token));
    let micros = slot.as_micros();
    assert_eq!(
        kept.value_str().unwrap(),
        format!("shedlock 1\nuntil {until}\nat {at}\nslot {micros}\nowner {owner}\n")
    );

    let done = UnlockRequest::new().with_slot_end(SlotEnd::done(true));
    let answer = room.provider.unlock(&lease, &done).await.unwrap();
    assert_eq!(answer, Unlock::Unlocked);
    assert_eq!(
        room.value(&room.lock).await,
        Some(format!("{value} unlocked"))
    );
    let (kept_by, granted) = room.lease().await;
    assert_ne!(kept_by, id, "the first lease would keep it for too long");
    assert!((55..=60).contains(&granted), "{granted}");
    let text = room.value(&room.kept).await.unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[1].starts_with("until "), "{text}");
    assert_eq!(
        [&lines[..1], &lines[2..]].concat(),
        [
            "shedlock 1",
            &format!("at {at}"),
            &format!("token {token}"),
            &format!("slot {micros}"),
            &format!("done {micros}"),
            &format!("owner {owner} unlocked"),
        ]
    );
}

/// ShedLock's own transaction is refused while we hold the lock, and wins once we have unlocked. Then ours is refused.
#[tokio::test]
async fn shedlock_and_we_keep_each_other_out() {
    let room = Room::new().await;
    let lease = room.take().await;
    assert_eq!(room.shedlock_takes(60).await, None);
    room.provider
        .unlock(&lease, &UnlockRequest::new())
        .await
        .unwrap();
    assert_eq!(room.value(&room.lock).await, None);

    let java = room.shedlock_takes(5).await.unwrap();
    let skip = room.skipped().await;
    assert_eq!(
        (skip.reason, skip.owner.as_deref()),
        (SkipReason::Held, Some("java-host"))
    );
    let name = LockName::new("job").unwrap();
    let record = room.provider.inspect(&name).await.unwrap().unwrap();
    assert_eq!(record.state, LockState::Taken);
    let left = record
        .locked_until
        .unwrap()
        .duration_since(SystemClock.system_time());
    assert!(left.unwrap() <= Duration::from_secs(6));
    assert_eq!(record.fencing_token, lease.fencing_token());

    // Its holder dies: the lock ends with its lease, for us as well.
    let next = found_async("a lock of ShedLock's comes free", async || {
        let attempt = room.provider.attempt(&room.request()).await;
        attempt.unwrap().acquired()
    });
    assert!(next.await.fencing_token() > lease.fencing_token());
    let mut admin = room.admin.clone();
    let gone = admin.lease_time_to_live(java, None).await.unwrap();
    assert_eq!(gone.ttl(), -1);
}

/// ShedLock's unlock before its at-least has passed sets the key unconditionally: the one operation that takes a lock
/// of ours.
#[tokio::test]
async fn what_shedlock_does_to_our_lock_makes_it_lost() {
    let room = Room::new().await;
    let lease = room.take().await;
    room.shedlock_keeps(60).await;
    let java = room.value(&room.lock).await;
    let longer = ExtendRequest::new(2 * MINUTE);
    let extended = room.provider.extend(&lease, &longer).await.unwrap();
    assert!(matches!(extended, Extension::Lost), "{extended:?}");
    let unlocked = room.provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Lost);
    assert_eq!(room.value(&room.lock).await, java);
    assert_eq!(room.skipped().await.reason, SkipReason::Held);
}

/// ShedLock loses its task's result when it unlocks with an expired lease. We return "lost".
#[tokio::test]
async fn an_unlock_with_a_lease_that_is_over_is_lost_and_no_error() {
    let room = Room::new().await;
    for at_least in [Duration::ZERO, MINUTE] {
        let request = room.request().with_lock_at_least_for(at_least);
        let Attempt::Acquired(lease) = room.provider.attempt(&request).await.unwrap() else {
            panic!("the lock should be free");
        };
        let (id, _) = room.lease().await;
        room.admin.clone().lease_revoke(id).await.unwrap();
        let unlocked = room.provider.unlock(&lease, &UnlockRequest::new()).await;
        assert_eq!(unlocked.unwrap(), Unlock::Lost);
        let extended = room
            .provider
            .extend(&lease, &ExtendRequest::new(MINUTE))
            .await;
        assert!(matches!(extended.unwrap(), Extension::Lost));
        assert_eq!(room.value(&room.lock).await, None);
    }
}

/// A one-second lock gets a one-second lease, not two. Half a second is rounded up to one, and nothing is rounded down
/// to zero.
#[tokio::test]
async fn leases_are_rounded_up_and_no_further() {
    for (asked, granted) in [(1, 1), (1_000, 1), (1_001, 2), (59_999, 60), (60_000, 60)] {
        // A lease of a second may end before it was looked at.
        let mut rounds = 1..=5;
        while !is_rounded_up(asked, granted).await {
            assert!(rounds.next().is_some(), "the machine is too slow");
        }
    }
}

/// Returns false if the lease has ended before it was seen and extended.
async fn is_rounded_up(asked: u64, granted: i64) -> bool {
    let room = Room::new().await;
    let begun = SystemClock.now();
    let may_have_ended = || {
        let lasts = Duration::from_secs(granted.unsigned_abs());
        SystemClock.now().saturating_since(begun) >= lasts
    };
    let at_most = Duration::from_millis(asked);
    let name = LockName::new("job").unwrap();
    let request = AttemptRequest::new(name, Owner::generate(), at_most);
    let Attempt::Acquired(lease) = room.provider.attempt(&request).await.unwrap() else {
        panic!("the lock should be free");
    };
    let seen = room.lease_if_any().await;
    if seen.is_none() && may_have_ended() {
        return false;
    }
    assert_eq!(seen.unwrap().1, granted, "{asked} ms");
    let longer = ExtendRequest::new(at_most + Duration::from_secs(1));
    let extended = room.provider.extend(&lease, &longer).await.unwrap();
    let lease = match extended {
        Extension::Extended(lease) => lease,
        _ if may_have_ended() => return false,
        lost => panic!("the lease runs: {lost:?}"),
    };
    let seen = room.lease_if_any().await;
    if seen.is_none() && may_have_ended() {
        return false;
    }
    assert_eq!(seen.unwrap().1, granted + 1, "{asked} ms, extended");
    let unlocked = room.provider.unlock(&lease, &UnlockRequest::new()).await;
    unlocked.unwrap();
    true
}

/// The clocks of a host that a hypervisor pauses stand still, and the store's leases run on.
#[tokio::test]
async fn an_extension_is_not_confirmed_by_a_clock_that_stood_still() {
    let mut room = Room::new().await;
    let still = ManualClock::starting_at(SystemClock.system_time());
    let builder = EtcdProvider::builder(room.admin.clone()).environment(room.environment());
    room.provider = builder.clock(Arc::new(still)).build().unwrap();
    let lease = room.take().await;
    let seconds = |seconds| ExtendRequest::new(Duration::from_secs(seconds));
    let extended = |extension| match extension {
        Extension::Extended(lease) => lease,
        lost => panic!("the lease runs: {lost:?}"),
    };
    // Longer than the 60 s that it has.
    let lease = extended(room.provider.extend(&lease, &seconds(64)).await.unwrap());
    let (long, _) = room.lease().await;
    // Kept as it is: it lasts long enough.
    let lease = extended(room.provider.extend(&lease, &seconds(61)).await.unwrap());
    assert_eq!(room.lease().await.0, long);
    sleep(Duration::from_secs(5)).await;
    let _ = extended(room.provider.extend(&lease, &seconds(61)).await.unwrap());
    let (id, granted) = room.lease().await;
    assert_ne!(id, long, "it would end too early");
    assert!(granted >= 61, "{granted}");
}

/// Covers attempts that lost a race, extensions and unlocks.
#[tokio::test]
async fn no_lease_is_left_behind() {
    let server = own(&[]).await;
    let room = Arc::new(Room::at(&server.url()).await);
    for _ in 0..5 {
        let tries = (0..8).map(|_| {
            let room = Arc::clone(&room);
            tokio::spawn(async move { room.provider.attempt(&room.request()).await.unwrap() })
        });
        let mut won = Vec::new();
        for attempt in tries.collect::<Vec<_>>() {
            won.extend(attempt.await.unwrap().acquired());
        }
        assert_eq!(won.len(), 1);
        let longer = ExtendRequest::new(2 * MINUTE);
        let extended = room.provider.extend(&won[0], &longer).await.unwrap();
        let Extension::Extended(lease) = extended else {
            panic!("the lease runs: {extended:?}");
        };
        room.provider
            .unlock(&lease, &UnlockRequest::new())
            .await
            .unwrap();
    }
    let none_is_left = eventually_async("no lease is left that no lock has", async || {
        let leases = room.admin.clone().leases().await?;
        Ok::<_, etcd_client::Error>(leases.leases().is_empty())
    });
    none_is_left.await.unwrap();
}

#[tokio::test]
async fn data_that_is_not_a_lock_is_an_error_and_is_left_alone() {
    let room = Room::new().await;
    let mut admin = room.admin.clone();
    admin.put(&*room.lock, "for ever", None).await.unwrap();
    let error = room.provider.attempt(&room.request()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    assert_eq!(room.value(&room.lock).await.as_deref(), Some("for ever"));

    admin.delete(&*room.lock, None).await.unwrap();
    admin.put(&*room.kept, "many", None).await.unwrap();
    let name = LockName::new("job").unwrap();
    for error in [
        room.provider.attempt(&room.request()).await.unwrap_err(),
        room.provider.inspect(&name).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    }
    let listed = room.provider.list(&ListRequest::new()).await.unwrap();
    assert!(listed.is_empty(), "{listed:?}");
    assert_eq!(room.value(&room.lock).await, None);
}

/// More locks than one reply holds, alternately free and held, some of them ShedLock's.
#[tokio::test]
async fn a_list_goes_on_where_an_answer_ends() {
    let room = Room::new().await;
    let prefix = room.lock.trim_end_matches("job");
    let mut admin = room.admin.clone();
    let lease = admin.lease_grant(300, None).await.unwrap().id();
    let mut expected = Vec::new();
    for i in 0..620 {
        let name = format!("n{i:03}");
        let options = PutOptions::new().with_lease(lease);
        if i % 3 != 0 {
            let key = format!("shedlock-rs:{prefix}{name}");
            let text = format!("shedlock 1\nuntil 1\nowner a/{i}/c unlocked\n");
            admin.put(key, text, None).await.unwrap();
        }
        if i % 3 != 1 {
            let key = format!("{prefix}{name}");
            let value = format!("ADDED:2026-01-01T00:00:00.000Z@java-{i}");
            admin.put(key, value, Some(options)).await.unwrap();
        }
        expected.push((name, i % 3 != 1));
    }
    let listed = room.provider.list(&ListRequest::new()).await.unwrap();
    let seen: Vec<_> = listed
        .iter()
        .map(|record| (record.name.to_string(), record.state == LockState::Taken))
        .collect();
    assert_eq!(seen, expected);
    let held = ListRequest::new().held_only().with_limit(400);
    let listed = room.provider.list(&held).await.unwrap();
    assert_eq!(listed.len(), 400);
    let after = LockName::new("n300").unwrap();
    let page = ListRequest::new().with_after(after).with_limit(2);
    let listed = room.provider.list(&page).await.unwrap();
    let names: Vec<_> = listed.iter().map(|record| record.name.as_str()).collect();
    assert_eq!(names, ["n301", "n302"]);
}

/// A server with default settings keeps no lease shorter than two seconds, which a check finds out.
#[tokio::test]
async fn granularity_is_what_the_server_keeps() {
    let quick = EtcdProvider::connect(&server("etcd")).await.unwrap();
    assert_eq!(quick.capabilities().granularity, Duration::from_secs(2));
    let slow = own(&["--heartbeat-interval", "100", "--election-timeout", "1000"]).await;
    let provider = EtcdProvider::connect(&slow.url()).await.unwrap();
    assert_eq!(provider.capabilities().granularity, Duration::from_secs(3));
    let name = LockName::new("job").unwrap();
    let request = AttemptRequest::new(name, Owner::generate(), Duration::from_millis(1));
    let asked = SystemClock.system_time();
    let Attempt::Acquired(lease) = provider.attempt(&request).await.unwrap() else {
        panic!("the lock should be free");
    };
    let lasts = lease.locked_until().unwrap().duration_since(asked).unwrap();
    assert!(lasts > Duration::from_millis(1_990), "{lasts:?}");
}

/// The reply is lost, and another owner has the lock before this is detected. The lease cannot be reported as lost,
/// because the unlock may have ended it.
#[tokio::test(flavor = "multi_thread")]
async fn an_unlock_without_an_answer_is_unknown_once_the_lock_is_taken_again() {
    let room = Room::new().await;
    let store = address(&server("etcd"), 2379).unwrap();
    let proxy = Proxy::start(store).await.unwrap();
    let environment = room.lock.split(':').nth(1).unwrap();
    let options = format!("environment={environment}&response_timeout=6s");
    let url = format!("etcd://{}?{options}", proxy.addr());
    let through = EtcdProvider::connect(&url).await.unwrap();
    let Ok(Attempt::Acquired(lease)) = through.attempt(&room.request()).await else {
        panic!("the lock should be free");
    };
    let trap = proxy.on_request(contains(&room.lock), 1, Strike::SwallowReply);
    let unlock = async { through.unlock(&lease, &UnlockRequest::new()).await };
    let taken = async {
        loop {
            match room.provider.attempt(&room.request()).await.unwrap() {
                Attempt::Acquired(lease) => return lease,
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let (unlocked, taken) = futures_util::future::join(unlock, taken).await;
    assert!(trap.has_struck());
    let error = unlocked.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error:?}");
    let next = room.provider.unlock(&taken, &UnlockRequest::new()).await;
    assert_eq!(next.unwrap(), Unlock::Unlocked);
}

#[tokio::test]
async fn a_store_without_room_is_not_missed_by_a_diagnosis() {
    let own = own(&["--quota-backend-bytes=1000000"]).await;
    let client = Client::connect([own.endpoint(0)], None).await.unwrap();
    let provider = EtcdProvider::builder(client.clone()).build().unwrap();
    let faults = async || {
        let findings = provider.diagnose().await.unwrap().into_iter();
        let faults = findings.filter(|finding| finding.level != Level::Ok);
        faults.collect::<Vec<_>>()
    };
    assert_eq!(faults().await, []);
    let mut keys = client.kv_client();
    let big = vec![0_u8; 500_000];
    while keys.put("big", big.clone(), None).await.is_ok() {}
    // The server refuses the lease that the check requests.
    let found = faults().await;
    let [fault] = &found[..] else {
        panic!("one thing matters: {found:?}");
    };
    assert_eq!(fault.level, Level::Error);
    assert!(format!("{fault:?}").contains("space"), "{fault:?}");
}

#[tokio::test]
async fn a_removal_deletes_the_companion_key() {
    let room = Room::new().await;
    let lease = room.take().await;
    let unlocked = room.provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
    sleep(Duration::from_millis(50)).await;
    let name = LockName::new("job").unwrap();
    let prune = PruneRequest::new(name, Duration::from_millis(1));
    let pruned = admin::prune(&room.provider, &prune).await.unwrap();
    assert!(matches!(pruned, Pruned::Removed(_)), "{pruned:?}");
    assert!(room.key(&room.lock).await.is_none() && room.key(&room.kept).await.is_none());
    assert!(room.take().await.fencing_token() > lease.fencing_token());
}
