//! Settings of a provider.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::Document;
use mongodb::options::{CollectionOptions, ReadConcern, WriteConcern};
use mongodb::{Collection, Database};
use shedlock_core::{Clock, Error, ErrorKind, LockDefaults, SystemClock};

use crate::MongoProvider;
use crate::send::Commands;
use crate::time::TimeMode;

/// How long an answer is waited for, unless set.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// ShedLock's.
pub(crate) const COLLECTION: &str = "shedLock";

/// Sets how a provider keeps its locks; made by [`MongoProvider::builder`].
#[must_use = "a builder does nothing before `build`"]
pub struct Builder {
    place: Place,
    time: TimeMode,
    timeout: Duration,
    defaults: LockDefaults,
    clock: Arc<dyn Clock>,
    server_skew: Duration,
}

enum Place {
    Database(Database, String),
    Collection(Collection<Document>),
}

impl Builder {
    pub(crate) fn of_database(database: Database) -> Self {
        Self::new(Place::Database(database, COLLECTION.to_owned()))
    }

    pub(crate) fn of_collection(collection: Collection<Document>) -> Self {
        Self::new(Place::Collection(collection))
    }

    fn new(place: Place) -> Self {
        Self {
            place,
            time: TimeMode::Store,
            timeout: TIMEOUT,
            defaults: LockDefaults::new(),
            clock: Arc::new(SystemClock),
            server_skew: Duration::ZERO,
        }
    }

    /// The collection: `shedLock` unless set, as in ShedLock. Another one than a provider was made
    /// with keeps its database.
    pub fn collection(mut self, name: impl Into<String>) -> Self {
        let database = match self.place {
            Place::Database(database, _) => database,
            Place::Collection(collection) => {
                collection.client().database(&collection.namespace().db)
            }
        };
        self.place = Place::Database(database, name.into());
        self
    }

    /// Whose clock judges: the server's unless set. That is the primary's: keep the clocks of all
    /// members synchronized, since a new primary judges leases by its own, and set
    /// [`server_skew`](Self::server_skew) to what is left.
    pub fn time(mut self, time: TimeMode) -> Self {
        self.time = time;
        self
    }

    /// How long an answer is waited for: 5 s unless set. A call whose answer does not come in time
    /// fails with `Unknown`; the driver has no such limit of its own.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Durations for locks that set none, and what owners start with.
    pub fn defaults(mut self, defaults: LockDefaults) -> Self {
        self.defaults = defaults;
        self
    }

    /// The clock of this client, which measures the timeout, and judges with
    /// [`TimeMode::Client`].
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// How far apart the clocks may be of servers that judge leases in turn: zero unless set. A server that
    /// takes over judges by its own clock, so the runtime stops counting on a lease this much before its
    /// end, and lock_at_most_for must be longer. Has no effect with [`TimeMode::Client`].
    pub fn server_skew(mut self, skew: Duration) -> Self {
        self.server_skew = skew;
        self
    }

    /// Checks the settings; no I/O.
    ///
    /// # Errors
    /// `InvalidInput` for a collection that cannot have this name, a timeout of zero, and defaults
    /// that contradict themselves.
    pub fn build(self) -> Result<MongoProvider, Error> {
        self.defaults.validate()?;
        if self.timeout.is_zero() {
            return Err(invalid("a timeout of zero leaves no time for any answer"));
        }
        let collection = match self.place {
            Place::Collection(collection) => collection,
            Place::Database(database, name) => {
                check_collection(&name)?;
                let options = CollectionOptions::builder()
                    .write_concern(majority())
                    .read_concern(ReadConcern::majority())
                    .build();
                database.collection_with_options(&name, options)
            }
        };
        let commands = Commands::new(collection, self.clock, self.time, self.timeout);
        Ok(MongoProvider::from_parts(
            commands,
            self.defaults,
            self.server_skew,
        ))
    }
}

/// Acknowledged by a majority that has it in its journal.
fn majority() -> WriteConcern {
    WriteConcern::builder()
        .w(mongodb::options::Acknowledgment::Majority)
        .journal(true)
        .build()
}

fn check_collection(name: &str) -> Result<(), Error> {
    let is_good = !name.is_empty()
        && !name.contains(['$', '\0'])
        && !name.starts_with("system.")
        && !name.starts_with('.')
        && !name.ends_with('.');
    if is_good {
        return Ok(());
    }
    Err(invalid(format!(
        "no collection can have the name {name:?}: choose another one"
    )))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message).with_store("mongodb")
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The client's own form shows its options, credentials among them.
        let place = match &self.place {
            Place::Database(database, name) => format!("{}.{name}", database.name()),
            Place::Collection(collection) => collection.namespace().to_string(),
        };
        f.debug_struct("Builder")
            .field("place", &place)
            .field("time", &self.time)
            .field("timeout", &self.timeout)
            .field("defaults", &self.defaults)
            .finish_non_exhaustive()
    }
}
