//! The trait that a store with versioned records implements.

use std::fmt;
use std::time::{Duration, SystemTime};

use shedlock_core::{Capabilities, Finding, LockName, Migration, MigrationStep, Schema};

use super::Record;
use crate::errors::Result;
use crate::store::{DEFAULT_LONGEST_CALL, PROBE};

/// A store whose records have versions: the trait that a provider author implements.
///
/// # Rules for implementations
///
/// - **A version identifies one write.** No two writes to a key have the same version, not even writes by other
///   programs. If versions can repeat, [`versions_can_repeat`](Self::versions_can_repeat) must return `true`. A write
///   that does not change the record may keep the version, because no two leases have equal records.
/// - **Reads do not go back in time.** A client never reads a state of a record that is older than one it has read or
///   written, or than one to which it has lost a race. After a lost reply, the engine treats any version other than the
///   previous one as newer, and relies on its own write not taking effect any more. If the store has several read
///   modes, use one that reads from the leader or from a quorum, not from the nearest replica.
/// - **`write` is one atomic step** at the store: the whole record, or nothing. A store that keeps a record in two
///   places makes them agree before it replies.
/// - **A lost race is not an error**: return [`Written::Raced`]. The engine reads again.
/// - **Errors have [kinds](shedlock_core::ErrorKind)**: `Unavailable` if nothing can have been written, which is always
///   so when `read` or `list` fails; `OutcomeUnknown` if a write may have reached the store, and in particular if its
///   client gave up waiting. After a write with an unknown outcome, the engine reads back which record the store holds.
///   A missing container and a missing permission are `Configuration`. The engine adds the names of the store and of
///   the lock.
/// - **Foreign data** under the name of a lock is a `Conflict`, and is left unchanged. In `list`, the error is returned
///   with the lock's name, and the other locks are still listed. A key that cannot be the name of a lock is left out.
/// - **No caching**, no waiting, no retries. Time limits of single requests are the client's job. The toolkit ends
///   every call except a list after [`longest_call`](Self::longest_call), but only the client can report a timeout
///   early enough for the engine to read back.
/// - **Cancellation.** Any future may be dropped at any point.
///
/// Write the methods as `async fn`.
pub trait VersionedStore: fmt::Debug + Send + Sync + 'static {
    /// Identifies one write of a record.
    type Version: Clone + fmt::Debug + PartialEq + Send + Sync + 'static;

    /// The store's short name for messages: "nats".
    fn store(&self) -> &str;

    /// Reads the record of this lock, with its version. Returns `Conflict` for data that resembles neither a lock of
    /// ours nor one of ShedLock's.
    fn read(&self, name: &LockName) -> impl Future<Output = Result<Reading<Self::Version>>> + Send;

    /// Writes the record if the stored one still has this version; without a version, if there is no record.
    fn write(
        &self,
        name: &LockName,
        before: Option<&Self::Version>,
        record: &Record,
    ) -> impl Future<Output = Result<Written<Self::Version>>> + Send;

    /// Removes the record, and everything beside it, if it still has this version. Returns false if it has changed;
    /// nothing of the changed record is removed then. Errors are as for [`write`](Self::write).
    fn remove(
        &self,
        name: &LockName,
        before: &Self::Version,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Returns the first `limit` locks that follow `after` in the byte order of their names. It may return more, in any
    /// order, and may include names up to `after`. It returns fewer only if no more follow.
    fn list(
        &self,
        after: Option<&LockName>,
        limit: usize,
    ) -> impl Future<Output = Result<Listed<Self::Version>>> + Send;

    /// Refuses names that the store cannot hold as `InvalidInput`, before any I/O. Names longer than the declared
    /// maximum are refused in any case.
    fn check_name(&self, _name: &LockName) -> Result<()> {
        Ok(())
    }

    /// Checks that the store is reachable and set up.
    fn check(&self) -> impl Future<Output = Result<()>> + Send {
        async {
            let probe = LockName::new(PROBE)?;
            self.read(&probe).await.map(drop)
        }
    }

    /// As [`Store::diagnose`](crate::Store::diagnose).
    fn diagnose(&self) -> impl Future<Output = Result<Vec<Finding>>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Creates the container, or adds what is missing. The default does nothing, for stores whose records need nothing
    /// to be created first.
    fn migrate(&self) -> impl Future<Output = Result<Migration>> + Send {
        async { Ok(Migration::default()) }
    }

    /// As [`Store::plan_migration`](crate::Store::plan_migration). Override it together with [`migrate`](Self::migrate).
    fn plan_migration(&self) -> impl Future<Output = Result<Vec<MigrationStep>>> + Send {
        async { Ok(Vec::new()) }
    }

    /// As [`Store::schema`](crate::Store::schema). Override it together with [`migrate`](Self::migrate).
    fn schema(&self) -> Schema {
        Schema::default()
    }

    /// The longest time that any call except a list can take; 10 s unless overridden. An attempt that wins makes two
    /// requests.
    fn longest_call(&self) -> Duration {
        DEFAULT_LONGEST_CALL
    }

    /// The most requests that one read and one write send together; 2 unless overridden.
    fn most_requests_per_round(&self) -> u32 {
        2
    }

    /// Adjusts the engine's capabilities for this store, for example its longest name, or that it does not persist its
    /// records.
    fn capabilities(&self, engine: Capabilities) -> Capabilities {
        engine
    }

    /// The resolution of the store's clock, if **every** reply of `read` and `list` carries the time of the store's one
    /// clock. With a resolution of one second, a time of 12:00:05 means: no earlier than that, and earlier than
    /// 12:00:06. Leases are then judged by the store's clock.
    fn store_time(&self) -> Option<Duration> {
        None
    }

    /// Whether a key that is deleted and recreated starts again with versions that it had before. The version alone is
    /// then not enough to end a lease: each call reads first.
    fn versions_can_repeat(&self) -> bool {
        false
    }

    /// Like [`versions_can_repeat`](Self::versions_can_repeat) for one version, if only some versions can repeat.
    fn comes_again(&self, _version: &Self::Version) -> bool {
        self.versions_can_repeat()
    }

    /// Whether fencing tokens are the store's own [`revision`](Self::revision)s. Otherwise the engine computes them:
    /// the larger of the last token + 1 and the clock's time in microseconds.
    ///
    /// A write cannot contain its own number. The record that an attempt writes therefore has no `fencing_token`, and
    /// the engine takes the token from the version. Later writes have versions of their own, so they keep the token in
    /// the record.
    fn has_revisions(&self) -> bool {
        false
    }

    /// Returns the store's own global number of the write that created this version. It grows with every write to any
    /// key, and survives restarts and deletions.
    fn revision(&self, _version: &Self::Version) -> Option<u64> {
        None
    }
}

/// The result of a read.
#[derive(Clone, Debug)]
#[must_use]
pub struct Reading<V> {
    pub(crate) found: Option<Found<V>>,
    pub(crate) time: Option<SystemTime>,
}

/// Names with their records, or with the error that explains why a record cannot be read.
pub type Listed<V> = Vec<(LockName, Result<Reading<V>>)>;

/// A record with its version.
#[derive(Clone, Debug)]
#[must_use]
pub struct Found<V> {
    pub(crate) record: Record,
    pub(crate) version: V,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Written<V> {
    /// The record was written, with this version.
    Done(V),
    /// Another write came first. Nothing was written.
    Raced,
}

impl<V> Reading<V> {
    /// Creates the result for a lock that has no record.
    pub fn nothing() -> Self {
        Self {
            found: None,
            time: None,
        }
    }

    /// Creates the result for this record.
    pub fn found(found: Found<V>) -> Self {
        Self {
            found: Some(found),
            time: None,
        }
    }

    /// Adds the store's time at some instant between the request and the reply; see [`VersionedStore::store_time`].
    pub fn at(mut self, time: SystemTime) -> Self {
        self.time = Some(time);
        self
    }
}

impl<V> Written<V> {
    /// Converts the version, if the record was written.
    pub fn map<W>(self, version: impl FnOnce(V) -> W) -> Written<W> {
        match self {
            Self::Done(written) => Written::Done(version(written)),
            Self::Raced => Written::Raced,
        }
    }
}

impl<V> Found<V> {
    /// Combines a record with the version that it was written with.
    pub fn new(record: Record, version: V) -> Self {
        Self { record, version }
    }
}
