//! What a store has to give.

use std::fmt;
use std::time::{Duration, SystemTime};

use shedlock_core::{Capabilities, LockName, Migration};

use super::Record;
use crate::errors::Result;
use crate::store::DEFAULT_LONGEST_CALL;

/// A store whose records have versions: what the author of a provider implements.
///
/// # Rules for implementations
///
/// - **A version names one write.** No two writes to a key have the same one, also by other
///   programs; else say so by [`versions_start_anew`](Self::versions_start_anew). A write of what
///   stands already may keep the version: no two leases have equal records.
/// - **Reads do not go back in time.** A client never reads a state of a record that is older than one
///   it has read or written, or than one to which it has lost a race. After a lost answer the engine
///   takes any other version than the one before for a newer one, after which its own write can no
///   longer take effect. Where the store has several modes of reading, take one that asks its leader
///   or a quorum, not the nearest replica.
/// - **`write` is one atomic step** at the store: the whole record, or nothing.
///   A store that keeps a record in two places makes them agree before it answers.
/// - **A lost race is no error**: [`Written::Raced`]. The engine reads again.
/// - **Errors have [kinds](shedlock_core::ErrorKind)**: `Unavailable` where nothing can have been
///   written, which is so whenever `read` or `list` fail; `OutcomeUnknown` where a write may have reached the
///   store, and above all where its client gave up waiting. After an unknown write the engine reads
///   back whose record stands. A container that is missing, and a right that is, are `Configuration`.
///   The engine adds the names of the store and of the lock.
/// - **Data of others** under the name of a lock is a `Conflict`, and stays as it is. In `list` it
///   stands beside the lock's name, and does not keep the other locks from being listed; what cannot
///   be the name of a lock is left out.
/// - **No memory**, no waiting, no retries. A time limit for a request is the client's own: the
///   toolkit ends each call but a list after [`longest_call`](Self::longest_call), but only the client can
///   report it in time for the engine to read back.
/// - **Cancellation.** Any future may be dropped at any point.
///
/// Write the methods as `async fn`.
pub trait VersionedStore: fmt::Debug + Send + Sync + 'static {
    /// What tells one write of a record from every other one.
    type Version: Clone + fmt::Debug + PartialEq + Send + Sync + 'static;

    /// The store's short name for messages: "nats".
    fn store(&self) -> &str;

    /// The record of this lock, with its version; `Conflict` for data that no lock of ours or of ShedLock's looks like.
    fn read(&self, name: &LockName) -> impl Future<Output = Result<Reading<Self::Version>>> + Send;

    /// Writes the record if the one of this version still stands; without a version, if there is none.
    fn write(
        &self,
        name: &LockName,
        before: Option<&Self::Version>,
        record: &Record,
    ) -> impl Future<Output = Result<Written<Self::Version>>> + Send;

    /// The first `limit` locks behind `after` in the byte order of their names, or more of them, in any
    /// order: fewer only where no more follow. Those up to `after` may be among them.
    fn list(
        &self,
        after: Option<&LockName>,
        limit: usize,
    ) -> impl Future<Output = Result<Listed<Self::Version>>> + Send;

    /// Refuses names that the store cannot hold as `InvalidInput`, before any I/O, beside those longer than is declared.
    fn check_name(&self, _name: &LockName) -> Result<()> {
        Ok(())
    }

    /// Looks at the store: is it reachable and set up.
    fn check(&self) -> impl Future<Output = Result<()>> + Send {
        async {
            let nobody = LockName::new("check")?;
            self.read(&nobody).await.map(drop)
        }
    }

    /// Makes the container, or adds what is missing. A store whose records need nothing made for
    /// them has nothing to do here.
    fn migrate(&self) -> impl Future<Output = Result<Migration>> + Send {
        async { Ok(Migration::default()) }
    }

    /// After this long every call but a list has returned; 10 s unless overridden. An attempt that wins is two
    /// requests.
    fn longest_call(&self) -> Duration {
        DEFAULT_LONGEST_CALL
    }

    /// What differs from the engine's own capabilities: the longest name, a store that does not
    /// last.
    fn capabilities(&self, engine: Capabilities) -> Capabilities {
        engine
    }

    /// Where **every** answer of `read` and `list` carries the time of the store's one clock: how
    /// coarse it is. A time of 12:00:05 with a second means: no earlier than that, and earlier than
    /// 12:00:06. The store's clock then judges leases.
    fn store_time(&self) -> Option<Duration> {
        None
    }

    /// Whether a key that is deleted and made anew starts with versions that it had before. A lease
    /// is then not ended by its version alone: each call reads first.
    fn versions_start_anew(&self) -> bool {
        false
    }

    /// The same of one version, where only some of them can come again.
    fn comes_again(&self, _version: &Self::Version) -> bool {
        self.versions_start_anew()
    }

    /// Whether fencing tokens are the store's own [`revision`](Self::revision)s. Else they are made
    /// here: the larger of the last one + 1 and the clock's microseconds.
    ///
    /// A write does not know its own number: the record that an attempt writes then has no
    /// `fencing_token`, and the engine takes it from the version. Later writes, which have versions
    /// of their own, keep it in the record.
    fn has_revisions(&self) -> bool {
        false
    }

    /// The store's own global number of the write that made this version, which grows with every
    /// write to any key and survives restarts and deletions.
    fn revision(&self, _version: &Self::Version) -> Option<u64> {
        None
    }
}

/// The answer to a read.
#[derive(Clone, Debug)]
#[must_use]
pub struct Reading<V> {
    pub(crate) found: Option<Found<V>>,
    pub(crate) time: Option<SystemTime>,
}

/// Names with their records, or why a record cannot be read.
pub type Listed<V> = Vec<(LockName, Result<Reading<V>>)>;

/// A record with its version.
#[derive(Clone, Debug)]
#[must_use]
pub struct Found<V> {
    pub(crate) record: Record,
    pub(crate) version: V,
}

/// The answer to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Written<V> {
    /// It stands, with this version.
    Done(V),
    /// Another write came before it. Nothing was written.
    Raced,
}

impl<V> Reading<V> {
    /// There is no record.
    pub fn nothing() -> Self {
        Self {
            found: None,
            time: None,
        }
    }

    /// There is this one.
    pub fn found(found: Found<V>) -> Self {
        Self {
            found: Some(found),
            time: None,
        }
    }

    /// Adds the store's clock at some instant between the question and the answer; see
    /// [`VersionedStore::store_time`].
    pub fn at(mut self, time: SystemTime) -> Self {
        self.time = Some(time);
        self
    }
}

impl<V> Written<V> {
    /// The same with another version, where it stands.
    pub fn map<W>(self, version: impl FnOnce(V) -> W) -> Written<W> {
        match self {
            Self::Done(written) => Written::Done(version(written)),
            Self::Raced => Written::Raced,
        }
    }
}

impl<V> Found<V> {
    /// This record, written with this version.
    pub fn new(record: Record, version: V) -> Self {
        Self { record, version }
    }
}
