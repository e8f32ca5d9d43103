//! The two nodes of a lock, with ShedLock alongside us.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock_core::{
    Attempt, ErrorKind, Extension, KeepReason, ListRequest, LockProvider, LockState, PruneRequest,
    Pruned, SkipReason, Slot, SlotEnd, Unlock, UnlockRequest, admin,
};
use shedlock_rig::OwnServer;
use shedlock_zookeeper::ZooKeeperProvider;

use crate::common::delete_all;
use crate::room::{MINUTE, Room, TOLERATED, common_server, extend, name, request, shedlocks, take};

fn millis(instant: SystemTime) -> u128 {
    instant.duration_since(UNIX_EPOCH).unwrap().as_millis()
}

#[tokio::test]
async fn a_record_is_as_documented() {
    let room = Room::new().await;
    let slot = Slot::at(SystemTime::from(jiff::Timestamp::now()) - MINUTE).unwrap();
    let request = request("job")
        .with_slot(slot)
        .with_lock_at_least_for(MINUTE);
    let Attempt::Acquired(lease) = room.provider.attempt(&request).await.unwrap() else {
        panic!("the lock should be free");
    };
    let (at, until) = (lease.acquired_at().unwrap(), lease.locked_until().unwrap());
    let (lock, lock_stat) = room.text(&room.lock("job")).await;
    let (beside, beside_stat) = room.text(&room.beside("job")).await;
    assert_eq!(lock, shedlocks(until));
    let expected = |until: SystemTime, token: &str, done: &str, owner: &str| {
        format!(
            "shedlock 1\nuntil {}\nat {}\n{token}slot {}\n{done}owner {owner}\n",
            millis(until),
            millis(at),
            slot.as_micros()
        )
    };
    assert_eq!(beside, expected(until, "", "", lease.owner().as_str()));
    assert_eq!(lock_stat.mzxid, beside_stat.mzxid);
    assert_eq!((lock_stat.ephemeral_owner, lock_stat.version), (0, 0));
    let token = u64::try_from(lock_stat.mzxid).unwrap();
    assert_eq!(lease.fencing_token(), Some(token));

    let Extension::Extended(lease) = extend(&room.provider, &lease).await else {
        panic!("the lease should run");
    };
    assert_eq!(lease.fencing_token(), Some(token));
    let until = lease.locked_until().unwrap();
    let token = format!("token {token}\n");
    let (lock, _) = room.text(&room.lock("job")).await;
    let (beside, _) = room.text(&room.beside("job")).await;
    assert_eq!(lock, shedlocks(until));
    assert_eq!(beside, expected(until, &token, "", lease.owner().as_str()));

    let done = UnlockRequest::new().with_slot_end(SlotEnd::done(true));
    let answer = room.provider.unlock(&lease, &done).await.unwrap();
    assert_eq!(answer, Unlock::Unlocked);
    let (lock, _) = room.text(&room.lock("job")).await;
    let (beside, _) = room.text(&room.beside("job")).await;
    assert_eq!(lock, shedlocks(at + MINUTE), "at-least keeps it");
    let done = format!("done {}\n", slot.as_micros());
    let owner = format!("{} unlocked", lease.owner());
    assert_eq!(beside, expected(at + MINUTE, &token, &done, &owner));
}

#[tokio::test]
async fn a_record_of_shedlock_excludes_us_and_expires_for_us() {
    let room = Room::new().await;
    let until = SystemTime::from(jiff::Timestamp::now()) + Duration::from_secs(8);
    room.put(&room.lock("job"), &shedlocks(until)).await;
    let skip = room.skip("job").await;
    assert_eq!(skip.reason, SkipReason::Held);
    assert_eq!(skip.until.map(millis), Some(millis(until)));
    // Its end, plus the tolerated skew.
    shedlock_rig::wait::sleep(Duration::from_secs(9)).await;
    let lease = room.take("job").await;
    assert!(lease.fencing_token().is_some());
}

#[tokio::test]
async fn what_we_write_excludes_shedlock_and_is_free_for_it_afterwards() {
    let room = Room::new().await;
    let lease = room.take("job").await;
    assert!(!room.java_takes("job", MINUTE).await);
    assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
    assert!(room.java_takes("job", MINUTE).await);
    assert_eq!(room.skip("job").await.reason, SkipReason::Held);
    room.java_unlocks("job").await;
    shedlock_rig::wait::sleep(TOLERATED).await;
    let after = room.take("job").await;
    assert!(after.fencing_token() > lease.fencing_token());
}

/// ShedLock unlocks any existing node, and reads and writes without checking the owner.
#[tokio::test]
async fn what_shedlock_does_to_our_lock_makes_it_lost_and_we_never_do_the_same() {
    let room = Room::new().await;
    let lease = room.take("job").await;
    room.java_unlocks("job").await;
    assert!(matches!(
        extend(&room.provider, &lease).await,
        Extension::Lost
    ));
    assert!(room.java_takes("job", MINUTE).await);
    let (theirs, before) = room.text(&room.lock("job")).await;
    assert_eq!(room.unlock(&lease).await, Unlock::Lost);
    assert!(matches!(
        extend(&room.provider, &lease).await,
        Extension::Lost
    ));
    let (after, stat) = room.text(&room.lock("job")).await;
    assert_eq!((after, stat.version), (theirs, before.version));
}

#[tokio::test]
async fn token_and_slots_outlive_what_shedlock_writes() {
    let room = Room::new().await;
    let slot = Slot::at(SystemTime::from(jiff::Timestamp::now()) - MINUTE).unwrap();
    let attempt = request("job").with_slot(slot);
    let Attempt::Acquired(lease) = room.provider.attempt(&attempt).await.unwrap() else {
        panic!("the lock should be free");
    };
    assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
    assert!(room.java_takes("job", MINUTE).await);
    room.java_unlocks("job").await;
    shedlock_rig::wait::sleep(TOLERATED).await;
    let found = room.provider.inspect(&name("job")).await.unwrap().unwrap();
    assert_eq!(found.fencing_token, lease.fencing_token());
    assert_eq!(found.owner, None);
    assert_eq!(found.state, LockState::Free);
    let again = room.provider.attempt(&request("job").with_slot(slot)).await;
    let Attempt::Skipped(skip) = again.unwrap() else {
        panic!("the slot was taken");
    };
    assert_eq!(skip.reason, SkipReason::SlotTaken);
}

/// The new nodes count their versions from 0 again, so versions repeat.
#[tokio::test]
async fn recreated_nodes_belong_to_their_creator() {
    let room = Room::new().await;
    let stale = room.take("job").await;
    delete_all(&room.admin, &room.path).await.unwrap();
    let beside = format!("{}.owners", room.path);
    delete_all(&room.admin, &beside).await.unwrap();
    let lease = room.take("job").await;
    assert!(lease.fencing_token() > stale.fencing_token());
    let (lock, before) = room.text(&room.lock("job")).await;
    assert!(matches!(
        extend(&room.provider, &stale).await,
        Extension::Lost
    ));
    assert_eq!(room.unlock(&stale).await, Unlock::Lost);
    let (after, stat) = room.text(&room.lock("job")).await;
    assert_eq!((after, stat.version), (lock, before.version));
    assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
}

#[tokio::test]
async fn tokens_grow_across_a_restart_and_deleted_nodes() {
    common_server();
    let own = OwnServer::start("zookeeper", &[]).unwrap();
    let room = Room::at(own.url()).await;
    let first = room.take("job").await;
    own.kill().unwrap();
    own.start_again().unwrap();
    let room = Room {
        admin: crate::common::client(own.url()).await.unwrap(),
        provider: ZooKeeperProvider::connect(&room.url).await.unwrap(),
        ..room
    };
    delete_all(&room.admin, &room.path).await.unwrap();
    let beside = format!("{}.owners", room.path);
    delete_all(&room.admin, &beside).await.unwrap();
    let second = take(&room.provider, "job").await;
    assert!(second.fencing_token() > first.fencing_token());
}

/// ShedLock treats the lock as held for ever, without any message.
#[tokio::test]
async fn foreign_and_empty_nodes_are_conflicts_that_heal() {
    let room = Room::new().await;
    let _ = room.take("other").await;
    for data in ["", "hello", "{\"until\":1}"] {
        room.put(&room.lock("job"), data).await;
        let error = room.refusal("job").await;
        assert_eq!(error.kind(), ErrorKind::Conflict, "{data:?}");
        assert!(error.to_string().contains(&room.lock("job")), "{error}");
        assert!(!room.java_takes("job", MINUTE).await);
        let listed = room.provider.list(&ListRequest::new()).await.unwrap();
        let names: Vec<_> = listed.iter().map(|it| it.name.to_string()).collect();
        assert_eq!(names, ["job", "other"]);
        assert_eq!(listed[0].state, LockState::Taken);
        room.admin.delete(&room.lock("job"), None).await.unwrap();
        let lease = room.take("job").await;
        assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
    }
    let beside = room.beside("job");
    room.admin.set_data(&beside, b"mine", None).await.unwrap();
    let error = room.refusal("job").await;
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains(&beside), "{error}");
}

async fn use_and_prune(room: &Room, lock: &str) {
    let lease = room.take(lock).await;
    assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
    prune(room, lock).await;
}

async fn prune(room: &Room, lock: &str) {
    shedlock_rig::wait::sleep(TOLERATED).await;
    let request = PruneRequest::new(name(lock), Duration::from_millis(1));
    let pruned = admin::prune(&room.provider, &request).await.unwrap();
    assert!(matches!(pruned, Pruned::Removed(_)), "{lock}: {pruned:?}");
}

async fn exists(room: &Room, node: &str) -> bool {
    room.admin.check_stat(node).await.unwrap().is_some()
}

#[tokio::test]
async fn a_removal_deletes_both_nodes_and_those_that_lead_to_nothing_else() {
    let room = Room::new().await;
    let other = room.take("team/b/c").await;
    use_and_prune(&room, "team/a/x/y").await;
    for lock in ["team/a/x/y", "team/a/x", "team/a"] {
        assert!(!exists(&room, &room.lock(lock)).await, "{lock}");
        assert!(!exists(&room, &room.beside(lock)).await, "{lock}");
    }
    assert!(exists(&room, &room.lock("team/b/c")).await);
    let listed = room.provider.list(&ListRequest::new()).await.unwrap();
    let names: Vec<_> = listed.iter().map(|lock| lock.name.as_str()).collect();
    assert_eq!(names, ["team/b/c"]);
    assert_eq!(room.unlock(&other).await, Unlock::Unlocked);
    // It is created again, parents included.
    let _ = room.take("team/a/x/y").await;
}

#[tokio::test]
async fn a_removed_lock_with_others_below_it_leaves_nodes_that_only_lead_to_them() {
    let room = Room::new().await;
    let below = room.take("team/a").await;
    use_and_prune(&room, "team").await;
    let (lock, _) = room.text(&room.lock("team")).await;
    let (beside, _) = room.text(&room.beside("team")).await;
    assert_eq!(
        (&*lock, &*beside),
        ("1970-01-01T00:00:00.000Z", ""),
        "as for a new parent"
    );
    let listed = room.provider.list(&ListRequest::new()).await.unwrap();
    let names: Vec<_> = listed.iter().map(|lock| lock.name.as_str()).collect();
    assert_eq!(names, ["team/a"]);
    let request = PruneRequest::new(name("team"), Duration::from_millis(1));
    let again = admin::prune(&room.provider, &request).await.unwrap();
    assert!(
        matches!(
            again,
            Pruned::Kept {
                reason: KeepReason::AgeUnknown,
                ..
            }
        ),
        "{again:?}"
    );
    assert_eq!(room.unlock(&below).await, Unlock::Unlocked);
    let _ = room.take("team").await;
}

#[tokio::test]
async fn a_record_that_only_shedlock_has_written_is_removed() {
    let room = Room::new().await;
    assert!(room.java_takes("job", MINUTE).await);
    room.java_unlocks("job").await;
    prune(&room, "job").await;
    assert!(!exists(&room, &room.lock("job")).await);
    assert!(room.java_takes("job", MINUTE).await);
}
