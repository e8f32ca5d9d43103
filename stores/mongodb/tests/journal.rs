//! The journal beside a collection of locks.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::time::{Duration, UNIX_EPOCH};

use common::{DATABASE, client, server};
use mongodb::Database;
use mongodb::bson::{Document, doc};
use shedlock_conformance::journal;
use shedlock_conformance::support::unique;
use shedlock_core::{
    Actor, AuditRecord, ErrorKind, JobsRequest, JournalEntry, LockProvider, RunEnd, RunOutcome,
    RunRecord,
};
use shedlock_mongodb::MongoProvider;
use shedlock_provider::TimeMode;

struct Room {
    database: Database,
    name: String,
}

impl Room {
    async fn new() -> Self {
        Self {
            database: client(&server()).await.unwrap().database(DATABASE),
            name: unique("journal"),
        }
    }

    fn provider(&self, time: TimeMode) -> MongoProvider {
        let provider = MongoProvider::builder(&self.database).collection(&self.name);
        let patience = Duration::from_secs(30);
        provider
            .response_timeout(patience)
            .time(time)
            .build()
            .unwrap()
    }

    async fn only(&self, suffix: &str) -> Document {
        let name = format!("{}_{suffix}", self.name);
        let collection = self.database.collection::<Document>(&name);
        collection.find_one(doc! {}).await.unwrap().unwrap()
    }

    async fn close(self) {
        for suffix in ["", "_journal", "_job", "_run", "_audit"] {
            let name = format!("{}{suffix}", self.name);
            let collection = self.database.collection::<Document>(&name);
            collection.drop().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mongodb_keeps_a_journal() {
    for time in [TimeMode::Store, TimeMode::client()] {
        let room = Room::new().await;
        journal::check(room.provider(time).journal().unwrap()).await;
        room.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_keeps_as_many_runs_as_it_should() {
    let room = Room::new().await;
    // The emulator takes more than twenty minutes for 100,000, which other stores record in a full run.
    journal::retained(room.provider(TimeMode::Store).journal().unwrap(), 10_000).await;
    room.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_share_a_journal() {
    let room = Room::new().await;
    let journals = [(); 4].map(|()| room.provider(TimeMode::Store).journal().unwrap());
    journal::contended(&journals).await;
    room.close().await;
}

/// The wire format: it must not change.
#[tokio::test]
async fn its_documents_are_as_documented() {
    let room = Room::new().await;
    let journal = room.provider(TimeMode::Store).journal().unwrap();
    let migrated = journal.migrate().await.unwrap();
    assert_eq!(migrated.changes.len(), 4, "{migrated:?}");
    let micros = 1_780_000_000_000_123_i64;
    let at = UNIX_EPOCH + Duration::from_micros(micros.unsigned_abs());
    let mut run = RunRecord::new("mail", "mail-1", "web-3/1/ab", at);
    run.lock_at_most_for = Some(Duration::from_secs(60));
    let id = run.id.identity().to_owned();
    let mut expected = doc! {
        "_id": &id,
        "job": "mail",
        "name": "mail-1",
        "owner": "web-3/1/ab",
        "startedUs": micros,
        "lockAtMostUs": 60_000_000_i64,
    };
    let open = JournalEntry::run(run.clone(), None);
    journal.record(&[open]).await.unwrap();
    assert_eq!(room.only("run").await, expected);
    run.end = Some(RunEnd::new(
        Duration::from_millis(5),
        RunOutcome::Failed,
        Some("$no route\nat all".to_owned()),
    ));
    let actor = Actor::Claimed("root".to_owned());
    let record = AuditRecord::new(at, 1, actor, "pause", "mail");
    let audit_id = record.id.as_str().to_owned();
    let entries = [JournalEntry::run(run, None), JournalEntry::Audit(record)];
    journal.record(&entries).await.unwrap();
    expected.extend(doc! {
        "ranForUs": 5_000_i64,
        "outcome": "failed",
        "error": "$no route\nat all",
    });
    assert_eq!(room.only("run").await, expected);
    let mut job = room.only("job").await;
    assert!(job.remove("registeredUs").unwrap().as_i64().unwrap() > micros);
    let expected = doc! {
        "_id": "mail",
        "registeredBy": null,
        "replaced": null,
        "schedule": null,
        "zone": null,
        "lockAtMostUs": null,
        "lastStartedUs": micros,
        "lastName": "mail-1",
        "lastOwner": "web-3/1/ab",
        "lastLockAtMostUs": 60_000_000_i64,
        "lastSlotUs": null,
        "lastLockStore": null,
        "lastSucceededUs": null,
        "lastDurationUs": null,
        "lastFailedUs": micros + 5_000,
        "lastOutcome": "failed",
        "lastError": "$no route",
        "nextSlotUs": null,
        "deadlineUs": null,
        "elsewhere": null,
        "watchedElsewhere": false,
    };
    assert_eq!(sorted(job), sorted(expected));
    let expected = doc! {
        "_id": audit_id,
        "atUs": micros,
        "actor": "root",
        "isAuthenticated": false,
        "action": "pause",
        "name": "mail",
        "detail": "",
        "reason": null,
        "untilUs": null,
        "lockStore": null,
    };
    assert_eq!(room.only("audit").await, expected);
    let mut version = room.only("journal").await;
    let identity = version.remove("identity").unwrap();
    assert_eq!(identity.as_str().map(str::len), Some(24), "{identity}");
    assert_eq!(version, doc! { "_id": "version", "version": 1_i64 });
    room.close().await;
}

fn sorted(document: Document) -> Vec<(String, mongodb::bson::Bson)> {
    let mut fields: Vec<_> = document.into_iter().collect();
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    fields
}

#[tokio::test]
async fn a_journal_that_is_missing_or_newer_is_reported_and_nothing_is_created() {
    let room = Room::new().await;
    let journal = room.provider(TimeMode::Store).journal().unwrap();
    let run = RunRecord::new("mail", "mail", "web-3/1/ab", UNIX_EPOCH);
    for error in [
        journal
            .record(&[JournalEntry::run(run, None)])
            .await
            .unwrap_err(),
        journal.jobs(&JobsRequest::new()).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains("`migrate()`"), "{error}");
    }
    let names = room.database.list_collection_names().await.unwrap();
    assert!(
        !names.iter().any(|name| name.starts_with(&room.name)),
        "{names:?}"
    );
    let versions = room.database.collection(&format!("{}_journal", room.name));
    let newer = doc! { "_id": "version", "version": 9 };
    versions.insert_one(newer).await.unwrap();
    assert_eq!(journal.version().await.unwrap(), Some(9));
    assert_eq!(journal.migrate().await.unwrap().changes, [""; 0]);
    assert_eq!(journal.version().await.unwrap(), Some(9));
    room.close().await;
}
