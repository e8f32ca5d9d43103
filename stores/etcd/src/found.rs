//! What the store holds of one lock.

use std::time::{Duration, SystemTime};

use etcd_client::{GetResponse, KeyValue, TxnOpResponse, TxnResponse};
use shedlock_core::{AttemptRequest, Lease, LockName, LockRecord, Moment, Owner};
use shedlock_store::{Added, Record, Result, internal};

/// Both keys of a lock, as they were at one revision of the store.
#[derive(Clone, Debug)]
pub struct Found {
    /// The lock's own key: while it is there, nobody may take the lock.
    pub(crate) lock: Option<Locked>,
    pub(crate) kept: Option<Kept>,
}

/// The lock's own key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Locked {
    pub(crate) value: Vec<u8>,
    /// Of its last change.
    pub(crate) revision: i64,
    /// At which it was made, which is when the lock was taken.
    pub(crate) token: u64,
    /// The store's lease, with which it ends; 0 for none.
    pub(crate) lease: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) record: Record,
    /// Of its last change.
    pub(crate) revision: i64,
}

/// What becomes of the lock's own key.
pub(crate) enum KeyChange {
    Put(Vec<u8>, i64),
    Delete,
    Leave,
}

/// A lease of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) id: i64,
    /// How long it lasts: no less than was asked for.
    pub(crate) lasts: Duration,
    /// It ends no earlier than this by the local clock.
    pub(crate) ends: Moment,
}

impl Found {
    /// From the answers to a get of the one key and a get of the other.
    /// `Conflict` where the key beside the lock holds what we do not write.
    pub(crate) fn read(answer: &TxnResponse) -> Result<Self> {
        let [lock, kept] = gets(answer)?;
        Self::of([lock.kvs().first(), kept.kvs().first()])
    }

    /// From the keys themselves, where they are there.
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

    /// Of the last changes of both keys; 0 for one that is not there.
    pub(crate) fn revisions(&self) -> [i64; 2] {
        let lock = self.lock.as_ref().map(|lock| lock.revision);
        let kept = self.kept.as_ref().map(|kept| kept.revision);
        [lock, kept].map(Option::unwrap_or_default)
    }

    /// What the lock's own key says.
    pub(crate) fn value(&self) -> Added {
        let value = self.lock.as_ref().map(|lock| &*lock.value);
        Added::parse(value.unwrap_or_default())
    }

    /// The lock's own key, if this owner's lease is what keeps it.
    pub(crate) fn held_by(&self, owner: &Owner) -> Option<&Locked> {
        let lock = self.lock.as_ref();
        lock.filter(|_| self.value().owner == owner.as_str())
    }

    /// Whether this owner was the last to acquire, and its lease has expired.
    pub(crate) fn is_left_by(&self, owner: &Owner) -> bool {
        self.lock.is_none() && self.record().owner == owner.as_str()
    }

    /// Whether this owner has unlocked, and nobody has taken the lock since.
    pub(crate) fn is_released_by(&self, owner: &Owner) -> bool {
        let released = owner.released();
        self.record().owner == released && (self.lock.is_none() || self.value().owner == released)
    }

    /// Whether a copy of an attempt, sent while the lock was free, can still win, now or later.
    ///
    /// It needs the record beside the lock as it was then. Each acquisition of ours has replaced that;
    /// ShedLock's leave it, so that a copy can win after them.
    pub(crate) fn admits_copies(&self) -> bool {
        let kept = self.kept.as_ref();
        let is_ours = kept.is_some_and(|kept| kept.record.owner == self.value().owner);
        self.lock.is_none() || !is_ours
    }

    /// Whether the lock's own key ends with this lease of the store; with 0, whether it never ends.
    pub(crate) fn ends_with(&self, lease: i64) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.lease == lease)
    }

    pub(crate) fn record(&self) -> Record {
        let kept = self.kept.as_ref().map(|kept| kept.record.clone());
        kept.unwrap_or_else(|| Record::until(SystemTime::UNIX_EPOCH))
    }

    /// When a running lease ends, as it is told; none where the record is gone.
    pub(crate) fn end_of(&self, lease: &Lease) -> Option<SystemTime> {
        let record = self.record();
        let is_own = record.owner == lease.owner().as_str();
        let until = is_own.then_some(record.locked_until);
        until.or(lease.locked_until())
    }

    /// The lease that this request has won, now or before; its state is the caller's.
    pub(crate) fn lease(&self, request: &AttemptRequest) -> Lease {
        let mut lease = Lease::granted(request);
        if let Some(lock) = &self.lock {
            lease = lease.with_fencing_token(lock.token);
        }
        let record = self.record();
        // Otherwise the record was deleted since.
        if record.owner == request.owner().as_str() {
            lease = lease.with_slot_attempt(request.slot().and(record.slots.attempts));
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
            // What is gone may have been deleted before its end.
            let until = kept.locked_until;
            record.locked_until = Some(if is_locked { until } else { until.min(now) });
        }
        record
    }
}

impl Kept {
    /// This record, written at this revision.
    pub(crate) fn new(record: Record, revision: i64) -> Self {
        // The token is the revision at which the lock was taken.
        let record = record.with_token_of(Some(revision.unsigned_abs()));
        Self { record, revision }
    }

    /// Whether this is that record, which may have been written without its token.
    pub(crate) fn is(&self, record: &Record) -> bool {
        let mut written = self.record.clone();
        written.fencing_token = record.fencing_token.and(written.fencing_token);
        written == *record
    }
}

pub(crate) fn gets(answer: &TxnResponse) -> Result<[GetResponse; 2]> {
    let answers: Result<[TxnOpResponse; 2], _> = answer.op_responses().try_into();
    let Ok([TxnOpResponse::Get(lock), TxnOpResponse::Get(kept)]) = answers else {
        let message = "two gets were sent, something else was answered";
        return Err(internal(message));
    };
    Ok([lock, kept])
}
