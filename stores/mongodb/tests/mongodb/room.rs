//! A collection with a provider over it, and ShedLock's commands.

use std::time::Duration;

use mongodb::Collection;
use mongodb::bson::{DateTime, Document, RawDocumentBuf, doc};
use mongodb::error::{ErrorKind as Kind, Result as MongoResult};
use mongodb::options::ReturnDocument;
use shedlock_conformance::support::unique;
use shedlock_core::{Attempt, AttemptRequest, Error, Lease, LockName, LockProvider, Owner, Skip};
use shedlock_mongodb::MongoProvider;

use crate::common::{DATABASE, client, server};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// A provider over its own collection.
pub(crate) struct Room {
    pub(crate) provider: MongoProvider,
    pub(crate) collection: Collection<Document>,
}

impl Room {
    pub(crate) async fn new() -> Self {
        let database = client(&server()).await.unwrap().database(DATABASE);
        let name = unique("room");
        let provider = MongoProvider::builder(&database).collection(&name);
        Self {
            provider: provider.response_timeout(MINUTE / 3).build().unwrap(),
            collection: database.collection(&name),
        }
    }

    pub(crate) async fn close(self) {
        self.collection.drop().await.unwrap();
    }

    pub(crate) fn request(&self, at_most: Duration) -> AttemptRequest {
        AttemptRequest::new(job(), Owner::generate(), at_most)
    }

    pub(crate) async fn take(&self) -> Lease {
        let attempt = self.provider.attempt(&self.request(MINUTE)).await;
        attempt
            .unwrap()
            .acquired()
            .expect("the lock should be free")
    }

    pub(crate) async fn skipped(&self, request: &AttemptRequest) -> Skip {
        match self.provider.attempt(request).await.unwrap() {
            Attempt::Skipped(skip) => skip,
            other => panic!("the lock should not be to be had: {other:?}"),
        }
    }

    pub(crate) async fn refused(&self) -> Error {
        let attempt = self.provider.attempt(&self.request(MINUTE)).await;
        attempt.expect_err("the document is no lock")
    }

    pub(crate) async fn document(&self) -> Option<Document> {
        self.collection
            .find_one(doc! { "_id": "job" })
            .await
            .unwrap()
    }

    /// The stored document.
    pub(crate) async fn bytes(&self) -> Vec<u8> {
        let raw = self.collection.clone_with_type::<RawDocumentBuf>();
        let found = raw.find_one(doc! { "_id": "job" }).await.unwrap();
        found.unwrap().into_bytes()
    }

    pub(crate) async fn put(&self, document: Document) {
        let put = self.collection.replace_one(doc! { "_id": "job" }, document);
        put.upsert(true).await.unwrap();
    }

    /// ShedLock's acquisition, by its clock: an upsert of the three fields.
    pub(crate) async fn java_locks(&self, seconds: i64) -> MongoResult<Option<Document>> {
        let now = DateTime::now();
        let until = DateTime::from_millis(now.timestamp_millis() + seconds * 1_000);
        let free = doc! { "_id": "job", "lockUntil": { "$lte": now } };
        let set = doc! { "lockUntil": until, "lockedAt": now, "lockedBy": "java" };
        let update = doc! { "$set": set };
        self.collection
            .find_one_and_update(free, update)
            .upsert(true)
            .return_document(ReturnDocument::After)
            .await
    }

    /// ShedLock's unlock, which does not check the owner.
    pub(crate) async fn java_unlocks(&self) {
        let update = doc! { "$set": { "lockUntil": DateTime::now() } };
        let unlock = self
            .collection
            .find_one_and_update(doc! { "_id": "job" }, update);
        unlock.await.unwrap();
    }

    /// ShedLock's extension of a running lease, which checks only the host.
    pub(crate) async fn java_extends(&self, host: &str) -> Option<Document> {
        let held = doc! {
            "_id": "job",
            "lockUntil": { "$gt": DateTime::now() },
            "lockedBy": host,
        };
        let later = DateTime::from_millis(DateTime::now().timestamp_millis() + 120_000);
        let update = doc! { "$set": { "lockUntil": later } };
        let extend = self.collection.find_one_and_update(held, update);
        extend.await.unwrap()
    }

    /// How many writes the collection has received, as reported by a member of a replica set.
    pub(crate) async fn writes(&self) -> u64 {
        let oplog = self.collection.client().database("local");
        let oplog = oplog.collection::<Document>("oplog.rs");
        let ours = doc! { "ns": self.collection.namespace().to_string() };
        oplog.count_documents(ours).await.unwrap()
    }
}

pub(crate) fn job() -> LockName {
    LockName::new("job").unwrap()
}

pub(crate) fn is_duplicate(answer: MongoResult<Option<Document>>) -> bool {
    answer.is_err_and(
        |error| matches!(&*error.kind, Kind::Command(refusal) if refusal.code == 11_000),
    )
}
