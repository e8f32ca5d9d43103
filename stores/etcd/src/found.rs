//! What the store holds of one lock.

use std::time::SystemTime;

use etcd_client::{KeyValue, TxnOpResponse};
use shedlock_core::{AttemptRequest, Error, ErrorKind, Lease, LockName, LockRecord, Owner};
use shedlock_store::Record;

use crate::value::Value;

/// Both keys of a lock, as they were at one revision of the store.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The lock's own key: while it is there, nobody may take the lock.
    pub(crate) lock: Option<Locked>,
    /// What is kept beside it.
    pub(crate) kept: Option<Kept>,
}

/// The lock's own key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Locked {
    pub(crate) value: Vec<u8>,
    /// Of its last change.
    pub(crate) revision: i64,
    /// At which it was made, which is when the lock was taken.
    pub(crate) created: i64,
    /// The store's lease, with which it ends; 0 for none.
    pub(crate) lease: i64,
}

/// The record beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) record: Record,
    /// Of its last change.
    pub(crate) revision: i64,
}

impl Found {
    /// From the answers to a get of the one key and a get of the other.
    ///
    /// # Errors
    /// `Conflict` where the key beside the lock holds what we do not write.
    pub(crate) fn read(answers: &[TxnOpResponse]) -> Result<Self, Error> {
        let [TxnOpResponse::Get(lock), TxnOpResponse::Get(kept)] = answers else {
            return Err(Error::new(
                ErrorKind::Internal,
                format!(
                    "two keys were asked for, {} answers of another kind came",
                    answers.len()
                ),
            ));
        };
        Self::of(lock.kvs().first(), kept.kvs().first())
    }

    /// From the keys themselves, where they are there.
    pub(crate) fn of(lock: Option<&KeyValue>, kept: Option<&KeyValue>) -> Result<Self, Error> {
        Ok(Self {
            lock: lock.map(|key| Locked {
                value: key.value().to_vec(),
                revision: key.mod_revision(),
                created: key.create_revision(),
                lease: key.lease(),
            }),
            kept: kept.map(Kept::read).transpose()?,
        })
    }

    /// Of the last change of the lock's own key.
    pub(crate) fn lock_revision(&self) -> Option<i64> {
        self.lock.as_ref().map(|lock| lock.revision)
    }

    /// Of the last change of the record beside it.
    pub(crate) fn kept_revision(&self) -> Option<i64> {
        self.kept.as_ref().map(|kept| kept.revision)
    }

    /// Whether there is anything at all.
    pub(crate) fn is_some(&self) -> bool {
        self.lock.is_some() || self.kept.is_some()
    }

    /// What the lock's own key says.
    pub(crate) fn value(&self) -> Value {
        self.lock
            .as_ref()
            .map(|lock| Value::parse(&lock.value))
            .unwrap_or_default()
    }

    /// The lock's own key, if this owner's lease is what keeps it.
    pub(crate) fn held_by(&self, owner: &Owner) -> Option<&Locked> {
        self.lock
            .as_ref()
            .filter(|lock| Value::parse(&lock.value).owner == owner.as_str())
    }

    /// Whether this owner has unlocked, and nobody has taken the lock since.
    pub(crate) fn is_released_by(&self, owner: &Owner) -> bool {
        let released = owner.released();
        let is_kept = self
            .kept
            .as_ref()
            .is_some_and(|it| it.record.owner == released);
        is_kept && (self.lock.is_none() || self.value().owner == released)
    }

    /// Whether a copy of an attempt, sent while the lock was free, can still win, now or later.
    ///
    /// It needs the record beside the lock as it was then. Each acquisition of ours has replaced that;
    /// ShedLock's leave it, so that a copy can win after them.
    pub(crate) fn admits_copies(&self) -> bool {
        let owner = self.value().owner;
        let is_shedlocks = || {
            let kept = self.kept.as_ref();
            kept.is_none_or(|kept| kept.record.owner != owner)
        };
        self.lock.is_none() || is_shedlocks()
    }

    /// Whether the lock's own key ends with this lease of the store.
    pub(crate) fn ends_with(&self, lease: i64) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.lease == lease)
    }

    /// Whether the lock's own key never ends, which no lock does.
    pub(crate) fn is_endless(&self) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.lease == 0)
    }

    /// The record to go on from: what is kept, or nothing.
    pub(crate) fn record(&self) -> Record {
        self.kept.as_ref().map_or_else(
            || Record::until(SystemTime::UNIX_EPOCH),
            |kept| kept.record.clone(),
        )
    }

    /// When a running lease ends, as it is told; none where the record is gone.
    pub(crate) fn end_of(&self, lease: &Lease) -> Option<SystemTime> {
        let kept = self.kept.as_ref().map(|kept| &kept.record);
        let own = kept.filter(|record| record.owner == lease.owner().as_str());
        own.map(|record| record.locked_until)
            .or(lease.locked_until())
    }

    /// The lease that this request has won, now or before; its state is the caller's.
    pub(crate) fn lease(&self, request: &AttemptRequest) -> Lease {
        let mut lease = Lease::granted(request);
        if let Some(lock) = &self.lock {
            lease = lease.with_fencing_token(lock.created.unsigned_abs());
        }
        // Otherwise somebody has deleted the record since.
        if let Some(kept) = &self.kept
            && kept.record.owner == request.owner().as_str()
        {
            let attempts = request.slot().and(kept.record.slots.attempts);
            lease = lease
                .with_slot_attempt(attempts)
                .with_locked_until(kept.record.locked_until);
        }
        lease
    }

    /// The record of the lock, as it is told.
    pub(crate) fn told(&self, name: &LockName, now: SystemTime) -> LockRecord {
        let value = self.value();
        let is_locked = self.lock.is_some();
        let kept = self.kept.as_ref().map(|kept| &kept.record);
        let kept_owner = kept.map_or("", |kept| &kept.owner);
        let owner = if is_locked { &value.owner } else { kept_owner };
        let mut record = LockRecord::from_stored(name.clone(), owner, is_locked)
            .with_slots(kept.map(|kept| kept.slots).unwrap_or_default());
        record.fencing_token = kept.and_then(|kept| kept.fencing_token);
        record.read_at = Some(now);
        if is_locked && owner != kept_owner {
            record.locked_at = value.at;
        } else if let Some(kept) = kept {
            record.locked_at = kept.locked_at;
            // What is gone may have been deleted before its end.
            let until = kept.locked_until;
            record.locked_until = Some(if is_locked { until } else { until.min(now) });
        }
        record
    }
}

impl Kept {
    /// This record, written at this revision.
    pub(crate) fn new(mut record: Record, revision: i64) -> Self {
        // The token is the revision at which the lock was taken, which the write that took it could
        // not know; later ones do. A released record without a token is a withdrawal's.
        let is_acquired = Owner::is_ours(&record.owner) && !Owner::is_released(&record.owner);
        if record.fencing_token.is_none() && is_acquired {
            record.fencing_token = Some(revision.unsigned_abs());
        }
        Self { record, revision }
    }

    fn read(key: &KeyValue) -> Result<Self, Error> {
        let record = Record::from_bytes(key.value())?;
        Ok(Self::new(record, key.mod_revision()))
    }

    /// Whether this is that record, which may have been written without its token.
    pub(crate) fn is(&self, record: &Record) -> bool {
        let mut written = self.record.clone();
        written.fencing_token = record.fencing_token.and(written.fencing_token);
        written == *record
    }
}
