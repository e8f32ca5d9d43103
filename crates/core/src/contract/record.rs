//! The record that a store keeps of a lock.

use std::time::SystemTime;

use crate::contract::{
    Error, ErrorKind, LockName, Owner, Pause, Skip, SkipReason, SkippedSlots, Slot, SlotState,
};

/// A lock as its record shows it, whether it is ours or ShedLock's.
///
/// It is a snapshot of one instant, and may be out of date when it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct LockRecord {
    /// The lock.
    pub name: LockName,
    /// The state of the lock according to the record.
    pub state: LockState,
    /// The owner in the record, without the mark that an unlock adds: our form
    /// (`host/process/random`), ShedLock's host, or a [`Pause`]. If the lock is free, this is the
    /// last owner.
    pub owner: Option<String>,
    /// Whether the lease of this owner was ended by an unlock: its own, a forced one, or the
    /// resumption of a pause. False for a lease that runs, for one that expired, and for ShedLock's
    /// owners, which leave no mark.
    pub is_unlocked: bool,
    /// Whether that unlock was a forced one. If not, its task has ended, unless it was a pause.
    pub is_freed: bool,
    /// When the lock was last acquired, by the provider's clock.
    pub locked_at: Option<SystemTime>,
    /// When the lock becomes, or became, free.
    pub locked_until: Option<SystemTime>,
    /// The fencing token of our last acquisition.
    pub fencing_token: Option<u64>,
    /// The last slot that was taken. If that slot was given back because its task never started,
    /// this is the instant just before it.
    pub last_slot: Option<Slot>,
    /// The last slot whose run reported success. If it is earlier than
    /// [`last_slot`](Self::last_slot), the run of `last_slot` is in progress, failed, or died.
    pub last_slot_done: Option<Slot>,
    /// How many attempts were made at [`last_slot`](Self::last_slot), if it must not be lost and is
    /// not done yet. Runs that never started, and runs that a shutdown interrupted, do not count.
    pub slot_attempts: Option<u32>,
    /// The slots that a pause skips, or has skipped, until a later one is taken. If the lock is not
    /// paused and they end ahead of the provider's clock, the pause was ended by something that
    /// leaves no trace, such as a late unlock of ShedLock's, and no slot is skipped.
    pub skipped_slots: Option<SkippedSlots>,
    /// The provider's clock when the record was read.
    pub read_at: Option<SystemTime>,
}

/// Filters a record of a list, so that an unreadable one does not hide all others. Returns `None`
/// for a record that looks like neither a lock of ours nor one of ShedLock's (`Conflict`,
/// `InvalidInput`). A warning names it, and [`inspect`](crate::LockProvider::inspect) returns its
/// error. The record with the [identity](crate::store_identity) of the store is filtered too. For providers.
///
/// # Errors
/// All other errors: the store could not be read.
pub fn listed<T>(store: &str, name: &str, found: Result<T, Error>) -> Result<Option<T>, Error> {
    if LockName::of_store().as_str() == name {
        return Ok(None);
    }
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::InvalidInput) => {
            tracing::warn!("lock {name:?} in {store} is left out: {error:#}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The state of a lock according to its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockState {
    /// A lease of ours runs.
    Held,
    /// ShedLock for Java took the lock. Its task runs, or has ended and its `lockAtLeastFor` keeps the
    /// lock: the record is the same.
    Taken,
    /// An operator has paused the lock; see [`LockRecord::pause`].
    Paused,
    /// Unlocked, but `lock_at_least_for` keeps it taken.
    AtLeast,
    /// Any owner may take it.
    Free,
}

impl LockState {
    /// Returns one word for the state: `held`, `taken`, `paused`, `at-least` or `free`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Taken => "taken",
            Self::Paused => "paused",
            Self::AtLeast => "at-least",
            Self::Free => "free",
        }
    }

    /// Returns whether a task may run under the lock: whether its lease was taken for one, and not
    /// ended by an unlock.
    pub fn may_run(self) -> bool {
        matches!(self, Self::Held | Self::Taken)
    }
}

impl LockRecord {
    /// Creates a record with only a name and a state.
    pub fn new(name: LockName, state: LockState) -> Self {
        Self {
            name,
            state,
            owner: None,
            is_unlocked: false,
            is_freed: false,
            locked_at: None,
            locked_until: None,
            fencing_token: None,
            last_slot: None,
            last_slot_done: None,
            slot_attempts: None,
            skipped_slots: None,
            read_at: None,
        }
    }

    /// Creates a record from its parts: the owner text as stored (with or without the mark of an
    /// unlock), and whether `locked_until` is ahead of the provider's clock. For providers.
    pub fn from_stored(name: LockName, stored_owner: &str, is_locked: bool) -> Self {
        let released = Owner::is_released(stored_owner);
        let state = match (is_locked, released) {
            (false, _) => LockState::Free,
            (true, true) => LockState::AtLeast,
            (true, false) if Pause::parse(stored_owner).is_some() => LockState::Paused,
            (true, false) if Owner::is_ours(stored_owner) => LockState::Held,
            (true, false) => LockState::Taken,
        };
        let mut record = Self::new(name, state);
        let owner = Owner::without_mark(stored_owner);
        record.owner = (!owner.is_empty()).then(|| owner.to_owned());
        record.is_unlocked = released;
        record.is_freed = Owner::is_freed(stored_owner);
        record
    }

    /// Adds the slots of the record. For providers.
    pub fn with_slots(mut self, slots: SlotState) -> Self {
        self.last_slot = slots.last;
        self.last_slot_done = slots.done;
        self.slot_attempts = slots.attempts;
        self.skipped_slots = slots.skipped;
        self
    }

    /// Returns the slots of the record.
    pub fn slots(&self) -> SlotState {
        SlotState::new(self.last_slot, self.last_slot_done, self.slot_attempts)
            .with_skipped(self.skipped_slots)
    }

    /// Returns the slots that an earlier pause has skipped, as they count now: none while the lock is
    /// paused, and none of a pause that something else has ended.
    pub fn slots_skipped_before(&self) -> Option<SkippedSlots> {
        let is_paused = self.state == LockState::Paused;
        let ended = |it: &SkippedSlots| self.read_at.is_none_or(|now| it.has_ended(now));
        self.skipped_slots.filter(|it| !is_paused && ended(it))
    }

    /// Returns who has paused the lock, if it is paused.
    pub fn pause(&self) -> Option<Pause<'_>> {
        let owner = self.owner.as_deref()?;
        Pause::parse(owner).filter(|_| self.state == LockState::Paused)
    }

    /// Returns the skip for an attempt that this record blocks. For a free lock, the skip reports
    /// that another attempt must have competed.
    pub fn as_skip(&self) -> Skip {
        let mut skip = Skip::new(match self.state {
            LockState::Held | LockState::Taken => SkipReason::Held,
            LockState::Paused => SkipReason::Paused,
            LockState::AtLeast if self.slot_attempts.is_some() => SkipReason::BackingOff,
            LockState::AtLeast => SkipReason::AtLeast,
            LockState::Free => SkipReason::Contended,
        });
        skip.owner.clone_from(&self.owner);
        skip.until = self.locked_until;
        (skip.locked_at, skip.read_at) = (self.locked_at, self.read_at);
        skip.last_slot = self.last_slot;
        // The slots of a pause that runs are not decided yet: it may be resumed to catch up.
        skip.skipped_slots = self.slots_skipped_before();
        skip
    }

    /// Returns the skip with this reason, which follows from these slots ([`SlotState::refusal`]).
    /// For providers.
    pub fn as_skip_for(&self, reason: SkipReason, slots: &SlotState) -> Skip {
        Skip {
            reason,
            skipped_slots: slots.skipped,
            ..self.as_skip()
        }
    }
}
