//! Requests that reach etcd late.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::room::{MINUTE, Room};
use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use shedlock_conformance::proxy::{Proxy, Strike, contains};
use shedlock_conformance::support::address;
use shedlock_core::{
    Attempt, AttemptRequest, ErrorKind, ExtendRequest, Extension, Lease, LockProvider, LockState,
    SkipReason, Unlock, UnlockRequest,
};
use shedlock_etcd::EtcdProvider;
use shedlock_rig::given::server;
use shedlock_rig::wait::sleep;

/// An attempt's transaction, conditioned on the state when it was sent, and its lease of the store.
struct Late {
    txn: Txn,
    lease: i64,
}

impl Room {
    async fn revision(&self, key: &str) -> i64 {
        let found = self.key(key).await;
        found.map_or(0, |found| found.mod_revision())
    }

    async fn late(&self, request: &AttemptRequest) -> Late {
        let lease = self.admin.clone().lease_grant(60, None).await.unwrap().id();
        let value = format!("ADDED:2026-01-01T00:00:00.000Z@{}", &request.owner);
        let record = format!("shedlock 1\nuntil 1\nat 1\nowner {}\n", &request.owner);
        let stands = |key: &str, revision| Compare::mod_revision(key, CompareOp::Equal, revision);
        let conditions = [
            stands(&self.kept, self.revision(&self.kept).await),
            stands(&self.lock, self.revision(&self.lock).await),
        ];
        let options = PutOptions::new().with_lease(lease);
        let txn = Txn::new().when(conditions).and_then([
            TxnOp::put(&*self.lock, value, Some(options)),
            TxnOp::put(&*self.kept, record, None),
        ]);
        Late { txn, lease }
    }

    /// Delivers the transaction. Returns whether it wins.
    async fn arrives(&self, late: Late) -> bool {
        self.admin.clone().txn(late.txn).await.unwrap().succeeded()
    }

    async fn state(&self) -> LockState {
        let name = self.request().name.clone();
        let record = self.provider.inspect(&name).await.unwrap();
        record.map_or(LockState::Free, |record| record.state)
    }

    async fn withdraw(&self, request: &AttemptRequest) -> bool {
        self.provider.withdraw(request).await.unwrap()
    }

    async fn unlock(&self, lease: &Lease) -> Unlock {
        let request = UnlockRequest::new();
        self.provider.unlock(lease, &request).await.unwrap()
    }

    async fn extend(&self, lease: &Lease, at_most: Duration) -> Lease {
        let request = ExtendRequest::new(at_most);
        match self.provider.extend(lease, &request).await.unwrap() {
            Extension::Extended(lease) => lease,
            lost => panic!("the lease runs: {lost:?}"),
        }
    }
}

/// Shows that the test's own form of the transaction wins if nothing prevents it.
#[tokio::test]
async fn a_copy_that_arrives_before_the_withdrawal_is_ended_by_it() {
    let room = Room::new().await;
    let request = room.request();
    let late = room.late(&request).await;
    assert!(room.arrives(late).await);
    assert_eq!(room.skipped().await.reason, SkipReason::Held);
    assert!(room.withdraw(&request).await);
    assert_eq!(room.state().await, LockState::Free);
    assert!(!room.withdraw(&request).await);
}

#[tokio::test]
async fn a_late_copy_of_an_attempt_takes_no_lock_after_it_was_withdrawn() {
    let room = Room::new().await;
    for before in ["nothing", "a withdrawn attempt", "a lock that was unlocked"] {
        if before == "a lock that was unlocked" {
            let lease = room.take().await;
            assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
        }
        let request = room.request();
        let late = room.late(&request).await;
        assert!(!room.withdraw(&request).await, "{before}");
        assert!(!room.arrives(late).await, "{before}");
        assert_eq!(room.state().await, LockState::Free, "{before}");
    }
}

/// ShedLock leaves the companion record unchanged, so once its key is gone the lock is as it was before.
#[tokio::test]
async fn a_late_copy_takes_no_lock_that_shedlock_held_when_it_was_withdrawn() {
    let room = Room::new().await;
    for before in ["nothing", "a lock that was unlocked"] {
        let request = room.request();
        let late = room.late(&request).await;
        let java = room.shedlock_takes(60).await.unwrap();
        let value = room.value(&room.lock).await;
        assert!(!room.withdraw(&request).await, "{before}");
        assert_eq!(room.value(&room.lock).await, value, "{before}");
        assert_eq!(room.skipped().await.owner.as_deref(), Some("java-host"));
        room.admin.clone().lease_revoke(java).await.unwrap();
        assert!(!room.arrives(late).await, "{before}");
        let lease = room.take().await;
        assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
    }
}

#[tokio::test]
async fn a_late_copy_takes_no_lock_after_another_copy_was_unlocked() {
    let room = Room::new().await;
    for before in ["nothing", "a lock that was unlocked"] {
        let request = room.request();
        let late = room.late(&request).await;
        let Attempt::Acquired(lease) = room.provider.attempt(&request).await.unwrap() else {
            panic!("the lock should be free");
        };
        assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
        assert!(!room.arrives(late).await, "{before}");
    }
}

/// The remaining gap, if someone deletes the record by hand after the withdrawal, lasts no longer than the copy's
/// lease.
#[tokio::test]
async fn a_late_copy_whose_lease_is_over_takes_no_lock() {
    let room = Room::new().await;
    let late = room.late(&room.request()).await;
    room.admin.clone().lease_revoke(late.lease).await.unwrap();
    let error = room.admin.clone().txn(late.txn).await.unwrap_err();
    assert!(error.to_string().contains("lease not found"), "{error}");
    assert_eq!(room.state().await, LockState::Free);
}

#[tokio::test]
async fn a_withdrawal_keeps_what_the_record_of_a_free_lock_says() {
    let room = Room::new().await;
    let lease = room.take().await;
    assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
    let text = room.value(&room.kept).await;
    let revision = room.revision(&room.kept).await;
    assert!(!room.withdraw(&room.request()).await);
    assert_eq!(room.value(&room.kept).await, text);
    assert!(room.revision(&room.kept).await > revision);
    // The previous owner's repeated unlock still succeeds.
    assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
    assert!(room.take().await.fencing_token() > lease.fencing_token());
}

#[tokio::test]
async fn a_record_that_a_withdrawal_makes_is_a_free_lock_without_a_token() {
    let room = Room::new().await;
    let request = room.request();
    assert!(!room.withdraw(&request).await);
    let owner = &request.owner;
    assert_eq!(
        room.value(&room.kept).await.unwrap(),
        format!("shedlock 1\nuntil 0\nowner {owner} unlocked\n")
    );
    let record = room.provider.inspect(&request.name).await.unwrap();
    let record = record.unwrap();
    assert_eq!(record.state, LockState::Free);
    assert_eq!((record.fencing_token, record.locked_at), (None, None));
    let java = room.shedlock_takes(60).await;
    room.admin
        .clone()
        .lease_revoke(java.unwrap())
        .await
        .unwrap();
    let lease = room.take().await;
    assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
}

#[tokio::test]
async fn a_withdrawal_leaves_both_keys_of_a_lock_that_another_owner_of_ours_has() {
    let room = Room::new().await;
    let request = room.request().with_lock_at_least_for(MINUTE);
    let Attempt::Acquired(lease) = room.provider.attempt(&request).await.unwrap() else {
        panic!("the lock should be free");
    };
    for state in [LockState::Held, LockState::AtLeast] {
        if state == LockState::AtLeast {
            assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
        }
        let before = (room.key(&room.lock).await, room.key(&room.kept).await);
        assert!(!room.withdraw(&room.request()).await);
        let after = (room.key(&room.lock).await, room.key(&room.kept).await);
        assert_eq!(format!("{after:?}"), format!("{before:?}"));
        assert_eq!(room.state().await, state);
    }
}

#[tokio::test]
async fn an_attempt_that_finds_its_own_unlock_takes_no_lock() {
    let room = Room::new().await;
    let request = room.request();
    let Attempt::Acquired(lease) = room.provider.attempt(&request).await.unwrap() else {
        panic!("the lock should be free");
    };
    assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
    let error = room.provider.attempt(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
    assert_eq!(room.state().await, LockState::Free);
}

/// By the holder, and by a process that received its lease from elsewhere.
#[tokio::test]
async fn an_extension_keeps_the_later_end() {
    let room = Room::new().await;
    let lease = room.take().await;
    let end = lease.locked_until();
    let (id, _) = room.lease().await;
    let elsewhere = lease.clone().with_state(Arc::new(()));
    for lease in [&lease, &elsewhere] {
        let extended = room.extend(lease, Duration::from_secs(1)).await;
        assert_eq!(extended.locked_until(), end);
        assert_eq!(room.lease().await.0, id, "the lock keeps its lease");
        // The same with the state that the extended lease carries.
        let extended = room.extend(&extended, Duration::from_secs(1)).await;
        assert_eq!(extended.locked_until(), end);
    }
    let longer = room.extend(&elsewhere, 2 * MINUTE).await;
    assert!(longer.locked_until() > end);
    assert_eq!(room.lease().await.1, 120);
    assert_eq!(room.unlock(&longer).await, Unlock::Unlocked);
}

/// The store's lease was granted for at least the time that the lock had left.
#[tokio::test]
async fn a_late_extension_cuts_no_later_one_short() {
    let room = Room::new().await;
    let lease = room.take().await;
    let value = room.value(&room.lock).await.unwrap();
    // An extension by one minute, sent before the one by two.
    let short = room.admin.clone().lease_grant(60, None).await.unwrap().id();
    let stands = [&room.kept, &room.lock].map(|key| async {
        let revision = room.revision(key).await;
        Compare::mod_revision(&**key, CompareOp::Equal, revision)
    });
    let conditions = futures_util::future::join_all(stands).await;
    let options = PutOptions::new().with_lease(short);
    let txn = Txn::new()
        .when(conditions)
        .and_then([TxnOp::put(&*room.lock, value, Some(options))]);
    let extended = room.extend(&lease, 2 * MINUTE).await;
    assert!(!room.admin.clone().txn(txn).await.unwrap().succeeded());
    assert_eq!(room.lease().await.1, 120);
    assert_eq!(room.unlock(&extended).await, Unlock::Unlocked);
}

/// The reply is lost, and the record is deleted before the attempt reads back the outcome.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_whose_record_is_deleted_before_its_answer_is_found_keeps_its_lease() {
    let room = Room::new().await;
    let store = address(&server("etcd"), 2379).unwrap();
    let proxy = Proxy::start(store).await.unwrap();
    let environment = room.lock.split(':').nth(1).unwrap();
    let options = format!("environment={environment}&response_timeout=3s");
    let url = format!("etcd://{}?{options}", proxy.addr());
    let through = EtcdProvider::connect(&url).await.unwrap();
    // The first request is a read.
    let trap = proxy.on_request(contains(&room.lock), 2, Strike::SwallowReply);
    let request = room.request();
    let deleted = async {
        while room.key(&room.lock).await.is_none() {
            sleep(Duration::from_millis(20)).await;
        }
        room.admin.clone().delete(&*room.kept, None).await.unwrap();
    };
    let attempt = through.attempt(&request);
    let (attempt, ()) = futures_util::future::join(attempt, deleted).await;
    assert!(trap.has_struck());
    let lease = attempt.unwrap().acquired().expect("the first copy won");
    // Leases are revoked in the background.
    sleep(Duration::from_millis(500)).await;
    assert_eq!(room.state().await, LockState::Held);
    assert_eq!(room.unlock(&lease).await, Unlock::Unlocked);
}
