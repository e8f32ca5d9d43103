//! What the store contains for one lock.

use std::time::{Duration, SystemTime};

use etcd_client::{GetResponse, KeyValue, TxnOpResponse, TxnResponse};
use shedlock_core::{AttemptRequest, Lease, LockName, LockRecord, Moment, Owner};
use shedlock_provider::{Added, Record, Result, internal};

/// Both keys of a lock at one revision of the store.
#[derive(Clone, Debug)]
pub struct Found {
    /// The lock's own key. While it exists, no one may take the lock.
    pub(crate) lock: Option<Locked>,
    pub(crate) kept: Option<Kept>,
}

/// The lock's own key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Locked {
    pub(crate) value: Vec<u8>,
    /// The revision of its last change.
    pub(crate) revision: i64,
    /// The revision at which it was created, which is when the lock was taken.
    pub(crate) token: u64,
    /// The store's lease that the key is attached to; 0 for none.
    pub(crate) lease: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) record: Record,
    /// The revision of its last change.
    pub(crate) revision: i64,
}

/// The change to make to the lock's own key.
pub(crate) enum KeyChange {
    Put(Vec<u8>, i64),
    Delete,
    Leave,
}

/// A lease that the store has granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) id: i64,
    /// Its duration: no shorter than requested.
    pub(crate) lasts: Duration,
    /// The earliest instant, by the local clock, at which it can end.
    pub(crate) ends: Moment,
}

impl Found {
    /// Reads both keys from the replies to their two gets. Returns `Conflict` if the companion key contains foreign
    /// data.
    pub(crate) fn read(answer: &TxnResponse) -> Result<Self> {
        let [lock, kept] = gets(answer)?;
        Self::of([lock.kvs().first(), kept.kvs().first()])
    }

    /// Reads the keys that exist.
    pub(crate) fn of([lock, kept]: [Option<&KeyValue>; 2]) -> Result<Self> {
        let lock = lock.map(|key| Locked {
            value: key.value().to_vec(),
            revision: key.mod_revision(),
            token: key.create_revision().unsigned_abs(),
            lease: key.lease(),
        });
        let kept = kept.map(|key| {
            let record = Record::from_bytes(key.value());
            record.map(|record| Kept::new(record, key.mod_revision()))
        });
        let kept = kept.transpose()?;
        Ok(Self { lock, kept })
    }

    /// Returns the revisions of the last changes of both keys; 0 for a key that does not exist.
    pub(crate) fn revisions(&self) -> [i64; 2] {
        let lock = self.lock.as_ref().map(|lock| lock.revision);
        let kept = self.kept.as_ref().map(|kept| kept.revision);
        [lock, kept].map(Option::unwrap_or_default)
    }

    /// Parses the value of the lock's own key.
    pub(crate) fn value(&self) -> Added {
        let value = self.lock.as_ref().map(|lock| &*lock.value);
        Added::parse(value.unwrap_or_default())
    }

    /// Returns the lock's own key, if it belongs to this owner's lease.
    pub(crate) fn held_by(&self, owner: &Owner) -> Option<&Locked> {
        let lock = self.lock.as_ref();
        lock.filter(|_| self.value().owner == owner.as_str())
    }

    /// Whether the last lease is this owner's, running or expired.
    pub(crate) fn names(&self, owner: &Owner) -> bool {
        match &self.lock {
            Some(_) => self.held_by(owner).is_some(),
            None => self.record().owner == owner.as_str(),
        }
    }

    /// Whether this owner has unlocked, and no one has taken the lock since.
    pub(crate) fn is_released_by(&self, owner: &Owner) -> bool {
        let released = owner.released();
        self.record().owner == released && (self.lock.is_none() || self.value().owner == released)
    }

    /// Whether the last lease was this owner's, and it or an operator has ended it.
    pub(crate) fn is_ended_by(&self, owner: &Owner) -> bool {
        let is_marked = |stored: &str| owner.has_ended_in(stored);
        is_marked(&self.record().owner) && (self.lock.is_none() || is_marked(&self.value().owner))
    }

    /// Whether a copy of an attempt, sent while the lock was free, can still win, now or later.
    ///
    /// The copy requires that the companion record is as it was then. Each acquisition of ours has replaced that
    /// record. Acquisitions by ShedLock leave it unchanged, so a copy can win after them.
    pub(crate) fn admits_copies(&self) -> bool {
        let kept = self.kept.as_ref();
        let is_ours = kept.is_some_and(|kept| kept.record.owner == self.value().owner);
        self.lock.is_none() || !is_ours
    }

    /// Whether the lock's own key is attached to this lease of the store; for 0, whether the key never expires.
    pub(crate) fn ends_with(&self, lease: i64) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.lease == lease)
    }

    pub(crate) fn record(&self) -> Record {
        let kept = self.kept.as_ref().map(|kept| kept.record.clone());
        kept.unwrap_or_else(|| Record::until(SystemTime::UNIX_EPOCH))
    }

    /// Returns when a running lease ends according to the record; none if the record was deleted.
    pub(crate) fn end_of(&self, lease: &Lease) -> Option<SystemTime> {
        let record = self.record();
        let is_own = record.owner == lease.owner().as_str();
        let until = is_own.then_some(record.locked_until);
        until.or(lease.locked_until())
    }

    /// Returns the lease that this request has won, now or earlier. The caller adds its state.
    pub(crate) fn lease(&self, request: &AttemptRequest) -> Lease {
        let mut lease = Lease::granted(request);
        if let Some(lock) = &self.lock {
            lease = lease.with_fencing_token(lock.token);
        }
        let record = self.record();
        // Otherwise the record has been deleted since.
        if record.owner == request.owner.as_str() {
            lease = lease.with_slot_attempt(request.slot.and(record.slots.attempts));
            lease = lease.with_locked_until(record.locked_until);
        }
        lease
    }

    pub(crate) fn shown(&self, name: &LockName, now: SystemTime) -> LockRecord {
        let value = self.value();
        let is_locked = self.lock.is_some();
        let kept = self.record();
        let owner = if is_locked { &value.owner } else { &kept.owner };
        let record = LockRecord::from_stored(name.clone(), owner, is_locked);
        let mut record = record.with_slots(kept.slots);
        record.fencing_token = kept.fencing_token;
        record.read_at = Some(now);
        if is_locked && *owner != kept.owner {
            record.locked_at = value.at;
        } else if self.kept.is_some() {
            record.locked_at = kept.locked_at;
            // If the lock's own key no longer exists, it may have been deleted before its end.
            let until = kept.locked_until;
            record.locked_until = Some(if is_locked { until } else { until.min(now) });
        }
        record
    }
}

impl Kept {
    /// Combines a record with the revision that it was written at.
    pub(crate) fn new(record: Record, revision: i64) -> Self {
        // The fencing token is the revision at which the lock was taken.
        let record = record.with_token_of(Some(revision.unsigned_abs()));
        Self { record, revision }
    }

    /// Whether this is the given record, which may have been written without its token.
    pub(crate) fn is(&self, record: &Record) -> bool {
        let mut written = self.record.clone();
        written.fencing_token = record.fencing_token.and(written.fencing_token);
        written == *record
    }
}

pub(crate) fn gets(answer: &TxnResponse) -> Result<[GetResponse; 2]> {
    let answers: Result<[TxnOpResponse; 2], _> = answer.op_responses().try_into();
    let Ok([TxnOpResponse::Get(lock), TxnOpResponse::Get(kept)]) = answers else {
        let message = "the reply does not match the two gets that were sent";
        return Err(internal(message));
    };
    Ok([lock, kept])
}
