//! A look at a record, and what is written if the record has not changed since.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::contract::{Error, ErrorKind, LockRecord, SlotState};

/// A record as [`look`](crate::LockProvider::look) has read it, with the store's own version: the
/// condition of [`change`](crate::LockProvider::change) and [`remove`](crate::LockProvider::remove).
#[derive(Clone)]
#[non_exhaustive]
pub struct Seen {
    /// The record.
    pub record: LockRecord,
    /// The unit in which the store keeps the end of a lease.
    pub unit: Duration,
    version: Arc<dyn Any + Send + Sync>,
}

impl Seen {
    /// Combines a record with everything that the store needs to recognise it. For providers.
    pub fn new(record: LockRecord, unit: Duration, version: impl Any + Send + Sync) -> Self {
        Self {
            record,
            unit,
            version: Arc::new(version),
        }
    }

    /// Returns the version. For providers.
    ///
    /// # Errors
    /// `Internal` if another kind of store has read the record.
    pub fn version<V: Any>(&self) -> Result<&V, Error> {
        self.version.downcast_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                "the record was read through the provider of another store",
            )
        })
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Seen").field(&self.record).finish()
    }
}

/// What an operator changes in a record.
#[derive(Clone, Debug)]
pub struct Change {
    /// What becomes of the lease.
    pub lease: LeaseChange,
    /// The new slot state; none if it stays as it is.
    pub slots: Option<SlotState>,
}

/// What an operator makes of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseChange {
    /// It stays as it is.
    Keep,
    /// The lease ends.
    End {
        /// The owner text that the record keeps: that of the lease, marked as released or freed.
        owner: String,
        /// Until when the lock stays taken; none if it is free at once.
        kept: Option<SystemTime>,
    },
    /// An operator holds the lock: an acquisition like any other, with a new fencing token.
    Take {
        /// The owner text.
        owner: String,
        /// When the lease ends, by the clock that judges leases, in whole [units](Seen::unit): the
        /// same instant however late the write is executed, because the slots up to it are marked as
        /// taken.
        until: SystemTime,
    },
}

/// The outcome of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Changed {
    /// The write took effect.
    Done,
    /// The record had already changed. Nothing was written.
    Raced,
    /// The reply was lost, and the record has changed since. The write may have been in effect in between.
    Overtaken,
}

impl Changed {
    /// Returns the outcome of a write that was either done or lost its race.
    pub fn done(is_done: bool) -> Self {
        if is_done { Self::Done } else { Self::Raced }
    }
}
