//! The collection that contains the locks.

use std::fmt;

use mongodb::bson::{Document, serialize_to_document};
use mongodb::options::{Acknowledgment, CollectionOptions, ReadConcern, WriteConcern};
use mongodb::{Collection, Database};

/// The name of the collection unless another one is set.
pub(crate) const COLLECTION: &str = "shedLock";

/// The collection that contains the locks, for `MongoProvider::builder`.
///
/// A `Collection` keeps its own concerns. A lock that is acknowledged by less than a majority can be taken twice after
/// an election. A `Database` stands for its collection `shedLock`, as in ShedLock, with writes that a majority
/// acknowledges, whatever the database's own concern.
#[derive(Clone)]
pub struct Place {
    pub(crate) collection: Collection<Document>,
    /// With the client's own concerns.
    pub(crate) database: Database,
    /// The write concern as commands contain it; `None` for the server's default.
    pub(crate) concern: Option<Document>,
}

impl Place {
    /// A collection whose writes are acknowledged once a majority has them in its journal.
    pub(crate) fn durable(database: &Database, name: &str) -> Self {
        let concern = WriteConcern::builder().w(Acknowledgment::Majority);
        let options = CollectionOptions::builder()
            .write_concern(concern.journal(true).build())
            .read_concern(ReadConcern::majority());
        Self::from(database.collection_with_options::<Document>(name, options.build()))
    }

    /// Whether a new primary may lack an acknowledged write. Without a concern the server's default applies, which is a
    /// majority since MongoDB 5.
    pub(crate) fn is_weak(&self) -> bool {
        self.collection.write_concern().is_some_and(|concern| {
            concern.w != Some(Acknowledgment::Majority) || concern.journal == Some(false)
        })
    }
}

impl From<Database> for Place {
    fn from(database: Database) -> Self {
        Self::from(&database)
    }
}

impl From<&Database> for Place {
    fn from(database: &Database) -> Self {
        Self::durable(database, COLLECTION)
    }
}

impl<T: Send + Sync> From<Collection<T>> for Place {
    fn from(collection: Collection<T>) -> Self {
        let concern = collection.write_concern();
        Self {
            database: collection.client().database(&collection.namespace().db),
            concern: concern.and_then(|concern| serialize_to_document(concern).ok()),
            collection: collection.clone_with_type(),
        }
    }
}

/// The client's own `Debug` output shows its options, including credentials.
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.collection.namespace().fmt(f)
    }
}
