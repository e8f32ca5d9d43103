//! What a store keeps of a lock.

use std::time::SystemTime;

use crate::{Error, ErrorKind, LockName, Owner, Skip, SkipReason, Slot, SlotState};

/// A lock as its record shows it: ours and ShedLock's alike.
///
/// A picture of one instant; it may be out of date when it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct LockRecord {
    /// The lock.
    pub name: LockName,
    /// What the record says of the lock now.
    pub state: LockState,
    /// What the record names as owner, without the mark that an unlock leaves: our form
    /// (`host/process/random`) or ShedLock's host. The last one, where the lock is free.
    pub owner: Option<String>,
    /// When it was last acquired, by the provider's clock.
    pub locked_at: Option<SystemTime>,
    /// When it is, or became, free.
    pub locked_until: Option<SystemTime>,
    /// The fencing token of the last acquisition of ours.
    pub fencing_token: Option<u64>,
    /// The last slot that was taken; the instant just before a slot that was given back, since its
    /// task never started.
    pub last_slot: Option<Slot>,
    /// The last slot whose run said that it was done. Behind [`last_slot`](Self::last_slot), the
    /// run of that one goes on, failed, or died.
    pub last_slot_done: Option<Slot>,
    /// How many attempts were made at [`last_slot`](Self::last_slot), where it must not be lost and
    /// is not done yet. Runs that never started or that a shutdown cut do not count.
    pub slot_attempts: Option<u32>,
    /// The provider's clock when the record was read.
    pub read_at: Option<SystemTime>,
}

/// The record of a list, for providers; `None` for one that no lock of ours or of ShedLock's looks like
/// (`Conflict`, `InvalidInput`), so that it does not hide all others: a warning names it, and
/// [`inspect`](crate::LockProvider::inspect) returns its error.
///
/// # Errors
/// All others: the store could not be read.
pub fn listed<T>(store: &str, name: &str, found: Result<T, Error>) -> Result<Option<T>, Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::InvalidInput) => {
            tracing::warn!(store, lock = name, %error, "left out of the list: this is no lock");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What a record says of its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockState {
    /// A lease runs.
    Held,
    /// Unlocked, and kept by lock_at_least_for.
    AtLeast,
    /// Anybody may take it.
    Free,
}

impl LockRecord {
    /// A record of which only name and state are known.
    pub fn new(name: LockName, state: LockState) -> Self {
        Self {
            name,
            state,
            owner: None,
            locked_at: None,
            locked_until: None,
            fencing_token: None,
            last_slot: None,
            last_slot_done: None,
            slot_attempts: None,
            read_at: None,
        }
    }

    /// A record from its parts: the owner text as stored (with or without the mark of an unlock),
    /// and whether `locked_until` lies ahead of the provider's clock. For providers.
    pub fn from_stored(name: LockName, stored_owner: &str, is_locked: bool) -> Self {
        let released = Owner::is_released(stored_owner);
        let state = match (is_locked, released) {
            (false, _) => LockState::Free,
            (true, true) => LockState::AtLeast,
            (true, false) => LockState::Held,
        };
        let mut record = Self::new(name, state);
        let owner = Owner::without_mark(stored_owner);
        record.owner = (!owner.is_empty()).then(|| owner.to_owned());
        record
    }

    /// Adds what the record keeps of its slots. For providers.
    pub fn with_slots(mut self, slots: SlotState) -> Self {
        self.last_slot = slots.last;
        self.last_slot_done = slots.done;
        self.slot_attempts = slots.attempts;
        self
    }

    /// The skip that an attempt is answered with which this record stands in the way of; for a
    /// free lock, that another attempt must have met it.
    pub fn as_skip(&self) -> Skip {
        let mut skip = Skip::new(match self.state {
            LockState::Held => SkipReason::Held,
            LockState::AtLeast if self.slot_attempts.is_some() => SkipReason::BackingOff,
            LockState::AtLeast => SkipReason::AtLeast,
            LockState::Free => SkipReason::Contended,
        });
        skip.owner.clone_from(&self.owner);
        skip.until = self.locked_until;
        skip.last_slot = self.last_slot;
        skip
    }

    /// The same for this reason ([`SlotState::refusal`]). For providers.
    pub fn as_skip_for(&self, reason: SkipReason) -> Skip {
        Skip {
            reason,
            ..self.as_skip()
        }
    }
}
