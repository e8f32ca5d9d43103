//! Tests beyond the laws, over MongoDB: documents byte for byte, ShedLock's own commands alongside ours, and conflicts.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;
#[path = "mongodb/room.rs"]
mod room;

use std::sync::Arc;
use std::time::Duration;

use common::{DATABASE, client, server, url};
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use mongodb::options::{Acknowledgment, CollectionOptions, WriteConcern};
use room::{MINUTE, Room, is_duplicate, job};
use shedlock_conformance::support::{assert_value_outlives_client, unique, warns_of_unverified};
use shedlock_core::{
    AttemptRequest, Clock as _, ErrorKind, ExtendRequest, Extension, ForceUnlockRequest,
    ForcedUnlock, Level, ListRequest, LockName, LockProvider, LockState, ManualClock, Owner,
    SkipReason, Slot, SlotEnd, SystemClock, Unlock, UnlockRequest, admin,
};
use shedlock_mongodb::MongoProvider;
use shedlock_rig::wait::sleep;

fn bytes(document: &Document) -> Vec<u8> {
    RawDocumentBuf::try_from(document).unwrap().into_bytes()
}

#[tokio::test]
async fn a_document_is_as_documented_byte_for_byte() {
    let room = Room::new().await;
    let slot = Slot::at(SystemClock.system_time() - MINUTE).unwrap();
    let request = room
        .request(MINUTE)
        .with_slot(slot)
        .with_lock_at_least_for(MINUTE);
    let attempt = room.provider.attempt(&request).await.unwrap();
    let lease = attempt.acquired().expect("the lock should be free");
    let at = DateTime::from_system_time(lease.acquired_at().unwrap());
    let until = DateTime::from_system_time(lease.locked_until().unwrap());
    assert_eq!(until.timestamp_millis() - at.timestamp_millis(), 60_001);
    let token = i64::try_from(lease.fencing_token().unwrap()).unwrap();
    assert_eq!(token, at.timestamp_millis() * 1_000);

    // ShedLock's fields, then ours.
    let mut expected = doc! {
        "_id": "job",
        "lockUntil": until,
        "lockedAt": at,
        "lockedBy": lease.owner().as_str(),
    };
    let shedlocks = bytes(&expected);
    expected.extend(doc! {
        "shedlockFencingToken": token,
        "shedlockSkipFrom": Bson::Null,
        "shedlockSkipUntil": Bson::Null,
        "shedlockSlot": slot.as_micros(),
        "shedlockSlotAttempts": Bson::Null,
    });
    let stored = room.bytes().await;
    assert_eq!(stored, bytes(&expected));
    let body = 4..shedlocks.len() - 1;
    assert_eq!(stored[body.clone()], shedlocks[body]);

    let done = UnlockRequest::new().with_slot_end(SlotEnd::done(true));
    let unlocked = room.provider.unlock(&lease, &done).await.unwrap();
    assert_eq!(unlocked, Unlock::Unlocked);
    // At-least counts from the acquisition.
    let kept = DateTime::from_millis(at.timestamp_millis() + 60_001);
    expected.insert("lockUntil", kept);
    expected.insert("lockedBy", lease.owner().released());
    expected.insert("shedlockSlotDone", slot.as_micros());
    assert_eq!(room.bytes().await, bytes(&expected));
    room.close().await;
}

#[tokio::test]
async fn shedlocks_own_commands_work_alongside_ours() {
    let room = Room::new().await;
    let lease = room.take().await;
    assert!(is_duplicate(room.java_locks(60).await), "we hold the lock");
    let longer = ExtendRequest::new(2 * MINUTE);
    let extended = room.provider.extend(&lease, &longer);
    assert!(matches!(extended.await.unwrap(), Extension::Extended(_)));
    assert!(is_duplicate(room.java_locks(60).await), "we still hold it");
    room.provider
        .unlock(&lease, &UnlockRequest::new())
        .await
        .unwrap();

    let theirs = room.java_locks(60).await.unwrap().unwrap();
    // ShedLock's update leaves our fields alone.
    let token = i64::try_from(lease.fencing_token().unwrap()).unwrap();
    assert_eq!(theirs.get_i64("shedlockFencingToken").unwrap(), token);
    let skip = room.skipped(&room.request(MINUTE)).await;
    assert_eq!(
        (skip.reason, skip.owner.as_deref()),
        (SkipReason::Held, Some("java"))
    );
    assert!(room.java_extends("java").await.is_some());
    room.java_unlocks().await;
    let next = room.take().await;
    assert!(next.fencing_token() > lease.fencing_token());
    room.close().await;
}

/// Byte for byte as ShedLock leaves it: it excludes us, and expires for us.
#[tokio::test]
async fn a_record_of_shedlocks_excludes_us_until_it_expires() {
    let room = Room::new().await;
    room.java_locks(60).await.unwrap();
    let mut written = room.document().await.unwrap();
    let fields: Vec<_> = written.keys().map(String::as_str).collect();
    assert_eq!(fields, ["_id", "lockUntil", "lockedAt", "lockedBy"]);
    assert_eq!(
        room.skipped(&room.request(MINUTE)).await.reason,
        SkipReason::Held
    );
    let soon = DateTime::now().timestamp_millis() + 300;
    written.insert("lockUntil", DateTime::from_millis(soon));
    room.put(written).await;
    sleep(Duration::from_millis(350)).await;
    let _ = room.take().await;
    room.close().await;
}

/// ShedLock frees the lock regardless of its owner. We report this, and never do it ourselves.
#[tokio::test]
async fn what_shedlock_does_to_our_lock_makes_it_lost() {
    let room = Room::new().await;
    let lease = room.take().await;
    room.java_unlocks().await;
    for takes in [false, true] {
        if takes {
            room.java_locks(60).await.unwrap();
        }
        let before = room.bytes().await;
        let extended = room
            .provider
            .extend(&lease, &ExtendRequest::new(MINUTE))
            .await;
        assert!(matches!(extended.unwrap(), Extension::Lost));
        let unlocked = room.provider.unlock(&lease, &UnlockRequest::new()).await;
        assert_eq!(unlocked.unwrap(), Unlock::Lost);
        assert_eq!(room.bytes().await, before);
    }
    room.close().await;
}

/// ShedLock's owner is its host, so it would treat another process's lock as its own.
#[tokio::test]
async fn an_owner_of_ours_cannot_be_used_by_others() {
    let room = Room::new().await;
    let lease = room.take().await;
    let host = lease.owner().as_str().split('/').next().unwrap().to_owned();
    assert!(room.java_extends(&host).await.is_none());
    // Another process of this host.
    let other = AttemptRequest::new(job(), Owner::generate(), MINUTE);
    assert!(!room.provider.withdraw(&other).await.unwrap());
    let extended = room
        .provider
        .extend(&lease, &ExtendRequest::new(MINUTE))
        .await;
    assert!(matches!(extended.unwrap(), Extension::Extended(_)));
    room.close().await;
}

/// ShedLock would find it held for ever.
#[tokio::test]
async fn data_that_is_not_a_lock_is_an_error_and_is_left_alone() {
    let room = Room::new().await;
    let past = DateTime::from_millis(1_000);
    let good = doc! { "_id": "job", "lockUntil": past, "lockedAt": past, "lockedBy": "java" };
    for (field, value) in [
        ("lockUntil", Bson::String("2020-01-01T00:00:00Z".to_owned())),
        ("lockUntil", Bson::Int64(1_000)),
        ("lockUntil", Bson::Null),
        ("lockedAt", Bson::Boolean(true)),
        ("lockedBy", Bson::Int32(7)),
        ("shedlockFencingToken", Bson::String("many".to_owned())),
        ("shedlockSlot", Bson::String("the last".to_owned())),
    ] {
        let mut bad = good.clone();
        bad.insert(field, value);
        room.put(bad).await;
        let before = room.bytes().await;
        assert!(is_duplicate(room.java_locks(60).await) || field != "lockUntil");
        room.put(
            RawDocumentBuf::from_bytes(before.clone())
                .unwrap()
                .try_into()
                .unwrap(),
        )
        .await;
        let refused = room.refused().await;
        assert_eq!(refused.kind(), ErrorKind::Conflict, "{field}: {refused:?}");
        assert!(refused.to_string().contains(field), "{refused}");
        let inspected = room.provider.inspect(&job()).await.unwrap_err();
        assert_eq!(inspected.kind(), ErrorKind::Conflict, "{inspected:?}");
        assert_eq!(
            room.provider.list(&ListRequest::new()).await.unwrap().len(),
            0
        );
        assert_eq!(room.bytes().await, before, "{field}");
    }
    room.put(doc! { "_id": "job", "payload": "another program's" })
        .await;
    assert_eq!(room.refused().await.kind(), ErrorKind::Conflict);
    room.close().await;
}

#[tokio::test]
async fn a_deleted_document_is_recreated_with_a_larger_token() {
    let room = Room::new().await;
    let lease = room.take().await;
    room.collection
        .delete_one(doc! { "_id": "job" })
        .await
        .unwrap();
    let next = room.take().await;
    assert!(next.fencing_token() > lease.fencing_token());
    let unlocked = room.provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Lost);
    room.close().await;
}

#[tokio::test]
async fn a_lost_attempt_writes_nothing() {
    let room = Room::new().await;
    let slot = Slot::at(SystemClock.system_time()).unwrap();
    let first = room.request(MINUTE).with_slot(slot);
    assert!(
        room.provider
            .attempt(&first)
            .await
            .unwrap()
            .acquired()
            .is_some()
    );
    let (bytes, writes) = (room.bytes().await, room.writes().await);
    for _ in 0..3 {
        let _ = room.skipped(&room.request(MINUTE)).await;
        let skip = room.skipped(&room.request(MINUTE).with_slot(slot)).await;
        assert_eq!(skip.reason, SkipReason::SlotTaken);
    }
    assert_eq!((room.bytes().await, room.writes().await), (bytes, writes));
    room.close().await;
}

/// The reply was lost, and the lease has ended by the time of the retry: no caller gets the lease.
#[tokio::test]
async fn an_attempt_that_is_asked_again_too_late_has_not_got_its_slot() {
    let room = Room::new().await;
    let slot = Slot::at(SystemClock.system_time()).unwrap();
    let request = room.request(Duration::from_millis(300)).with_slot(slot);
    assert!(
        room.provider
            .attempt(&request)
            .await
            .unwrap()
            .acquired()
            .is_some()
    );
    sleep(Duration::from_millis(350)).await;
    let skip = room.skipped(&request).await;
    assert_eq!(skip.reason, SkipReason::SlotTaken);
    let found = room.document().await.unwrap();
    assert_eq!(found.get_str("lockedBy").unwrap(), request.owner.released());
    room.close().await;
}

#[tokio::test]
async fn a_slot_ahead_leaves_no_document() {
    let room = Room::new().await;
    let slot = Slot::at(SystemClock.system_time() + 60 * MINUTE).unwrap();
    let request = room.request(MINUTE).with_slot(slot);
    let error = room.provider.attempt(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SlotAhead, "{error:?}");
    assert_eq!(room.document().await, None);
    room.close().await;
}

/// What is known of the server's clock falls behind until it is read again: here by 3 s.
#[tokio::test]
async fn a_first_slot_is_judged_by_the_servers_time_and_not_by_what_is_known_of_it() {
    let room = Room::new().await;
    let database = client(&server()).await.unwrap().database(DATABASE);
    let provider = MongoProvider::builder(&database)
        .collection(room.collection.name())
        .clock(Arc::new(ManualClock::new()))
        .build()
        .unwrap();
    let other = LockName::new("other").unwrap();
    let first = AttemptRequest::new(other, Owner::generate(), MINUTE);
    let attempt = provider.attempt(&first).await.unwrap();
    assert!(attempt.acquired().is_some());
    sleep(Duration::from_secs(3)).await;
    let slot = Slot::at(SystemClock.system_time()).unwrap();
    let request = room.request(MINUTE).with_slot(slot);
    let request = request.with_slot_tolerance(Duration::from_secs(1));
    let attempt = provider.attempt(&request).await.unwrap();
    assert!(attempt.acquired().is_some());
    room.close().await;
}

#[tokio::test]
async fn a_lock_without_an_owner_can_be_freed_by_force() {
    let room = Room::new().await;
    let later = DateTime::from_millis(DateTime::now().timestamp_millis() + 60_000);
    room.put(doc! { "_id": "job", "lockUntil": later }).await;
    assert_eq!(
        room.skipped(&room.request(MINUTE)).await.reason,
        SkipReason::Held
    );
    let freed = admin::force_unlock(&room.provider, &ForceUnlockRequest::new(job())).await;
    let Ok(ForcedUnlock::Freed(before)) = freed else {
        panic!("the lock is held: {freed:?}");
    };
    assert_eq!(before.state, LockState::Taken);
    let _ = room.take().await;
    room.close().await;
}

/// A write concern under which a lock can be taken twice after an election is not declared durable, but works.
#[tokio::test]
async fn a_collection_keeps_its_own_concerns() {
    let room = Room::new().await;
    let database = room.collection.client().database(DATABASE);
    for (w, journal, durable) in [
        (Some(Acknowledgment::Majority), Some(true), true),
        (Some(Acknowledgment::Majority), None, false),
        (Some(Acknowledgment::Nodes(1)), None, false),
        (None, None, false),
    ] {
        let mut concern = WriteConcern::default();
        concern.w = w;
        concern.journal = journal;
        let options = CollectionOptions::builder().write_concern(concern).build();
        let name = room.collection.name();
        let collection = database.collection_with_options::<Document>(name, options);
        let provider = MongoProvider::builder(collection).build().unwrap();
        provider.check().await.unwrap();
        assert_eq!(provider.capabilities().durable, durable);
        let attempt = provider.attempt(&room.request(MINUTE)).await.unwrap();
        let lease = attempt.acquired().expect("the lock should be free");
        let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
        assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
    }
    assert!(
        MongoProvider::builder(&database)
            .build()
            .unwrap()
            .capabilities()
            .durable
    );
    room.close().await;
}

/// The write is made on the primary, and a new primary may lack it: no caller gets the lock.
#[tokio::test]
async fn a_write_that_too_few_members_have_is_unknown() {
    let room = Room::new().await;
    let database = room.collection.client().database(DATABASE);
    let concern = WriteConcern::builder().w(Acknowledgment::Nodes(3));
    let options = CollectionOptions::builder().write_concern(concern.build());
    let name = room.collection.name();
    let collection = database.collection_with_options::<Document>(name, options.build());
    let provider = MongoProvider::builder(collection).build().unwrap();
    let before = room.take().await;
    let unlocked = room.provider.unlock(&before, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
    // This reports the server's time, without which no attempt is granted.
    provider.inspect(&job()).await.unwrap();
    let request = room.request(MINUTE);
    for _ in 0..2 {
        let error = provider.attempt(&request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error:?}");
        assert!(error.to_string().contains("code 100"), "{error}");
    }
    let held = room.document().await.unwrap();
    assert_eq!(held.get_str("lockedBy").unwrap(), request.owner.as_str());
    assert!(room.provider.withdraw(&request).await.unwrap());
    room.close().await;
}

/// From a URL, as ShedLock's users write it.
#[tokio::test]
async fn a_url_names_database_and_collection() {
    let name = unique("named");
    let url = url(&server(), &format!("collection={name}&lock_at_most_for=7m"));
    let provider = MongoProvider::connect(&url).await.unwrap();
    let request = AttemptRequest::new(job(), Owner::generate(), MINUTE);
    assert!(
        provider
            .attempt(&request)
            .await
            .unwrap()
            .acquired()
            .is_some()
    );
    let database = client(&server()).await.unwrap().database(DATABASE);
    let collection = database.collection::<Document>(&name);
    assert_eq!(collection.count_documents(doc! {}).await.unwrap(), 1);
    collection.drop().await.unwrap();
}

#[tokio::test]
async fn a_client_that_was_shut_down_holds_no_value_up() {
    let raw = client(&server()).await.unwrap();
    let collection: Collection<Document> = raw.database(DATABASE).collection(&unique("closed"));
    let provider = MongoProvider::builder(collection.clone()).build().unwrap();
    assert_value_outlives_client(
        Arc::new(provider),
        raw.clone().shutdown().immediate(true).into_future(),
    )
    .await;
    let other = client(&server()).await.unwrap().database(DATABASE);
    let collection = other.collection::<Document>(collection.name());
    collection.drop().await.unwrap();
}

#[tokio::test]
async fn a_refused_login_is_reported_without_the_password() {
    let url = url(&server(), "authSource=admin");
    let url = url.replace("mongodb://", "mongodb://stranger:hunter2@");
    let error = MongoProvider::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
}

#[tokio::test]
async fn a_server_without_tls_and_no_server_are_outages() {
    let tls = url(&server(), "tls=true&serverSelectionTimeoutMS=1000");
    let none = "mongodb://127.0.0.1:1/d?serverSelectionTimeoutMS=1000";
    for url in [tls.as_str(), none] {
        let error = MongoProvider::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    }
}

#[tokio::test]
async fn a_view_cannot_hold_locks() {
    let room = Room::new().await;
    let _ = room.take().await;
    let database = room.collection.client().database(DATABASE);
    let name = unique("view");
    let create = doc! { "create": &name, "viewOn": room.collection.name(), "pipeline": [] };
    database.run_command(create).await.unwrap();
    let view = MongoProvider::builder(&database)
        .collection(&name)
        .build()
        .unwrap();
    let error = view.check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
    database.collection::<Document>(&name).drop().await.unwrap();
    room.close().await;
}

#[tokio::test]
async fn a_remote_server_that_is_not_verified_brings_one_warning() {
    let urls = [
        (
            "mongodb://db.example.invalid/app?serverSelectionTimeoutMS=50",
            true,
        ),
        (
            "mongodb://db.example.invalid/app?tls=true&tlsInsecure=true&serverSelectionTimeoutMS=50",
            true,
        ),
        (
            "mongodb://db.example.invalid/app?tls=true&serverSelectionTimeoutMS=50",
            false,
        ),
        (
            "mongodb://127.0.0.1:1/app?serverSelectionTimeoutMS=50",
            false,
        ),
    ];
    warns_of_unverified(&urls, async |url| MongoProvider::connect(url).await).await;
}

#[tokio::test]
async fn settings_that_can_lose_locks_are_not_missed_by_a_diagnosis() {
    let database = client(&server()).await.unwrap().database(DATABASE);
    let weak = WriteConcern::builder().w(Acknowledgment::Nodes(1)).build();
    let weak = CollectionOptions::builder().write_concern(weak).build();
    for (is_collated, options, found) in [
        (false, None, &[][..]),
        (false, Some(weak), &["durability"]),
        (true, None, &["collation"]),
    ] {
        let name = unique("diagnosed");
        if is_collated {
            let collation = doc! { "locale": "en", "strength": 2 };
            let create = doc! { "create": &name, "collation": collation };
            database.run_command(create).await.unwrap();
        }
        let collection = match options {
            Some(options) => database.collection_with_options::<Document>(&name, options),
            None => database.collection(&name),
        };
        let provider = MongoProvider::builder(collection).build().unwrap();
        let findings = provider.diagnose().await.unwrap();
        let faults = findings.iter().filter(|finding| finding.level != Level::Ok);
        let faults: Vec<_> = faults.map(|finding| finding.check).collect();
        assert_eq!(faults, found, "{findings:?}");
    }
}
