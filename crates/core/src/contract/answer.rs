//! The results that a provider returns.

use std::fmt;
use std::time::SystemTime;

use shedlock_support::text;

use crate::contract::{
    ClockOffset, Lease, LockRecord, Operation, Owner, Pause, SkippedSlots, Slot,
};

/// The result of an attempt at a lock. A provider grants a [`Lease`], and
/// [`Executor::lock`](crate::Executor::lock) returns a [`HeldLock`](crate::HeldLock).
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub enum Attempt<L = Lease> {
    /// The lock is ours until it is unlocked or its lease ends.
    Acquired(L),
    /// Another owner has the lock, or the slot is taken.
    Skipped(Skip),
}

impl<L> Attempt<L> {
    /// Returns what was acquired, if anything was.
    pub fn acquired(self) -> Option<L> {
        match self {
            Self::Acquired(lease) => Some(lease),
            Self::Skipped(_) => None,
        }
    }
}

/// Why a task does not run this time, with the details that the store records. Never an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct Skip {
    /// The reason.
    pub reason: SkipReason,
    /// The owner in the record: our form (`host/process/random`), ShedLock's host, or a
    /// [`Pause`].
    pub owner: Option<String>,
    /// The latest time at which the lock becomes free, by the provider's clock.
    pub until: Option<SystemTime>,
    /// When the lock was last acquired, by the clock of the owner that did. ShedLock's may be that of
    /// its host.
    pub locked_at: Option<SystemTime>,
    /// The provider's clock when the record was read.
    pub read_at: Option<SystemTime>,
    /// The last slot that was taken.
    pub last_slot: Option<Slot>,
    /// The slots that an earlier pause has skipped, if the job has not run past it.
    pub skipped_slots: Option<SkippedSlots>,
    /// The clocks of this host and of the store, if the last slot is ahead of this host's clock and
    /// the store reports its time. The runtime reads them.
    pub clock: Option<ClockOffset>,
}

/// Why a task is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SkipReason {
    /// Another owner's lease runs.
    Held,
    /// An operator has paused the lock. [`Skip::owner`] is the [`Pause`].
    Paused,
    /// The last lease was unlocked, and its `lock_at_least_for` still runs.
    AtLeast,
    /// This slot, or a later one, was taken before, or this slot was [skipped by a
    /// pause](Skip::skipped_slots).
    SlotTaken,
    /// This slot must not be lost, and all attempts at it were made without success. It is given
    /// up.
    SlotGivenUp,
    /// A later slot was taken, and it is ahead of the store's clock (of this host's, if the store does
    /// not report its time). Until the clock reaches it, or an operator resets it, no slot of this
    /// lock runs. The runtime detects this; providers report [`SlotTaken`](Self::SlotTaken).
    LastSlotAhead,
    /// A later slot was taken, and it is ahead of this host's clock but not of the store's: this
    /// host's clock is behind, as [`Skip::clock`] shows. Other replicas run the slots. The runtime
    /// detects this; providers report [`SlotTaken`](Self::SlotTaken).
    ClockBehind,
    /// Slots of this lock run in order, and an earlier slot must run first: the one after
    /// [`Skip::last_slot`], or `last_slot` itself if it is not done. Or the attempt took other slots
    /// as skipped by a pause than [`Skip::skipped_slots`].
    SlotPending,
    /// The run of a slot that must not be lost failed, and its backoff still runs.
    BackingOff,
    /// Several attempts competed. Another one won, and what it wrote is not known.
    Contended,
}

impl Skip {
    /// Creates a skip with this reason and no details.
    pub fn new(reason: SkipReason) -> Self {
        Self {
            reason,
            owner: None,
            until: None,
            locked_at: None,
            read_at: None,
            last_slot: None,
            skipped_slots: None,
            clock: None,
        }
    }

    /// Returns when ShedLock for Java took this slot, if that is why the attempt at it was skipped:
    /// ShedLock was the last to acquire the lock, at or after the slot's instant, and not after the
    /// provider's clock (`now` if the store does not report it) by more than the tolerance for slots.
    /// With a clock that is further ahead, its acquisition belongs to no slot that is known.
    ///
    /// A lock that ShedLock has held since before the slot has not taken it.
    pub fn taken_elsewhere(&self, slot: Slot, now: SystemTime) -> Option<SystemTime> {
        let is_theirs = !self.owner.as_deref().is_some_and(Owner::is_ours);
        if self.reason != SkipReason::SlotTaken || !is_theirs || self.last_slot >= Some(slot) {
            return None;
        }
        let latest = self.read_at.unwrap_or(now) + Slot::DEFAULT_TOLERANCE;
        self.locked_at
            .filter(|at| *at >= slot.instant() && *at <= latest)
    }

    /// Adds the owner in the record.
    pub fn with_owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Adds the latest time at which the lock becomes free.
    pub fn with_until(mut self, until: SystemTime) -> Self {
        self.until = Some(until);
        self
    }

    /// Adds the last slot that was taken.
    pub fn with_last_slot(mut self, slot: Slot) -> Self {
        self.last_slot = Some(slot);
        self
    }
}

/// Formats the skip as the continuation of "skipped: ".
impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = self.owner.as_deref().map(text::visible);
        match self.reason {
            SkipReason::Held => match self.owner.as_deref() {
                Some(host) if !Owner::is_ours(host) => {
                    write!(f, "taken by {}", text::shedlock_on(Some(host)))?
                }
                _ => write!(f, "held by {}", owner.as_deref().unwrap_or("another owner"))?,
            },
            SkipReason::Paused => match self.owner.as_deref().and_then(Pause::parse) {
                Some(pause) => write!(f, "paused {pause}")?,
                None => f.write_str("paused")?,
            },
            SkipReason::AtLeast => {
                f.write_str("kept by lock_at_least_for")?;
                if let Some(owner) = owner {
                    write!(f, " of {owner}")?;
                }
            }
            SkipReason::Contended => return f.write_str("another attempt won at the same instant"),
            _ => return self.write_slot(f),
        }
        if let Some(until) = self.until {
            write!(f, " until {}", text::instant(until))?;
        }
        Ok(())
    }
}

impl Skip {
    /// Writes why the slot was not taken, although the lock may be free.
    fn write_slot(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = |before: &str, after: &str| match self.last_slot {
            Some(slot) => format!("{before}{slot}{after}"),
            None => String::new(),
        };
        match self.reason {
            SkipReason::SlotGivenUp => write!(
                f,
                "the slot is given up: no attempt at it succeeded; to retry it, set the last slot to an \
                 earlier one with {}",
                Operation::ResetSlot
            ),
            SkipReason::LastSlotAhead => self.write_ahead(f, &last(", ", ",")),
            SkipReason::ClockBehind => {
                let last = last(" (", ")");
                write!(f, "a later slot was taken already{last}")?;
                match self.clock {
                    Some(clock) => write!(f, ": {clock}; set this host's clock (NTP)"),
                    None => Ok(()),
                }
            }
            SkipReason::SlotPending => {
                let last = last(" (last slot ", ")");
                write!(f, "an earlier slot must run first{last}")
            }
            SkipReason::BackingOff => {
                let last = last(" (slot ", ")");
                write!(f, "backing off after a failed slot{last}")?;
                match self.until {
                    Some(until) => write!(f, " until {}", text::instant(until)),
                    None => Ok(()),
                }
            }
            _ => write!(f, "slot already taken{}", last(" (last slot ", ")")),
        }
    }

    fn write_ahead(&self, f: &mut fmt::Formatter<'_>, last: &str) -> fmt::Result {
        let reset = format!("set the last slot back with {}", Operation::ResetSlot);
        write!(f, "no slot can run: the last slot taken{last} is ahead of ")?;
        let Some(clock) = self.clock else {
            return write!(
                f,
                "this host's clock; set the clock if it is wrong (NTP); if it is right, {reset}"
            );
        };
        let store = text::second(clock.store);
        write!(f, "the store's clock ({store}); {reset}")?;
        match clock.is_off() {
            true => write!(f, "; {clock}: set it, too (NTP)"),
            false => Ok(()),
        }
    }
}

/// The result of an extension.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Extension {
    /// The lease was extended; this lease replaces the old one.
    Extended(Lease),
    /// The lease had ended, or the lock belongs to another owner now. Nothing was changed.
    Lost,
}

/// The result of an unlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unlock {
    /// The lease has ended and is no longer ours. Also returned if this owner had unlocked before.
    Unlocked,
    /// The lease had ended, was ended by a forced unlock, or the lock belongs to another owner now.
    /// Nothing was changed.
    Lost,
}

/// The result of a forced unlock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ForcedUnlock {
    /// The lock is free. This is its record from before.
    Freed(LockRecord),
    /// The lock was free: no lease ran, and no `lock_at_least_for` kept it taken. Nothing was
    /// changed.
    NotHeld,
    /// The record names another owner than the expected one. Nothing was changed.
    OwnerDiffers(LockRecord),
    /// The lock is paused. Nothing was changed: [`resume`](crate::admin::resume) ends a
    /// pause.
    Paused(LockRecord),
}

/// The result of a reset of the last slot.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SlotReset {
    /// The last slot was set.
    #[non_exhaustive]
    Reset {
        /// The record from before.
        before: LockRecord,
        /// The last slot as it is now.
        last_slot: Slot,
    },
    /// The lock has no record, or no slot of it was ever taken. Nothing was changed.
    NoSlot,
    /// The last slot is not ahead of the store's clock, and the request named no other one. Nothing
    /// was changed.
    NotAhead(LockRecord),
    /// The slot to be restored is not later than the last one of the record, or is ahead of the store's
    /// clock. Nothing was changed.
    NotRestored(LockRecord),
}

/// The steps that [`migrate`](crate::LockProvider::migrate) made, described in words. Empty if the
/// store needed no change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migration {
    /// The changes, in the order in which they were made.
    pub changes: Vec<String>,
}

impl Migration {
    /// Creates a migration with these changes.
    pub fn with_changes(changes: Vec<String>) -> Self {
        Self { changes }
    }
}

/// A change that [`migrate`](crate::LockProvider::migrate) makes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationStep {
    /// The change in words, in the imperative: `create table "shedlock"`.
    pub change: String,
    /// The statement that makes it, without a semicolon at its end. `None` if the store has no
    /// language for it.
    pub statement: Option<String>,
}

impl MigrationStep {
    /// Creates a step that no statement makes.
    pub fn new(change: impl Into<String>) -> Self {
        Self {
            change: change.into(),
            statement: None,
        }
    }

    /// Sets the statement that makes the change.
    #[must_use]
    pub fn with_statement(mut self, statement: impl Into<String>) -> Self {
        self.statement = Some(statement.into());
        self
    }
}

/// What a store needs before it can keep locks: everything that
/// [`migrate`](crate::LockProvider::migrate) can do. [`LockProvider::schema`] returns it without a
/// connection, so that an administrator can apply it.
///
/// [`LockProvider::schema`]: crate::LockProvider::schema
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Schema {
    /// What an empty store needs. Empty if nothing has to be created.
    pub create: Vec<MigrationStep>,
    /// What is added instead to a container that ShedLock created.
    pub upgrade: Vec<MigrationStep>,
    /// What the journal needs. Empty if the store cannot keep one.
    pub journal: Vec<MigrationStep>,
    /// What a user needs to run jobs and to operate on their locks, and no more: statements up to the name of that user
    /// (`GRANT … ON … TO`). Empty if the store has no such statement.
    pub grants: Vec<MigrationStep>,
    /// The same for the journal.
    pub journal_grants: Vec<MigrationStep>,
    /// What else there is to say, such as what the store creates together with the first lock.
    pub note: Option<String>,
}

impl Schema {
    /// Creates a schema with these steps for an empty store.
    pub fn with_create(create: Vec<MigrationStep>) -> Self {
        Self {
            create,
            ..Self::default()
        }
    }

    /// Sets the steps for a container that ShedLock created.
    #[must_use]
    pub fn upgrade(mut self, upgrade: Vec<MigrationStep>) -> Self {
        self.upgrade = upgrade;
        self
    }

    /// Sets the steps for the journal.
    #[must_use]
    pub fn journal(mut self, journal: Vec<MigrationStep>) -> Self {
        self.journal = journal;
        self
    }

    /// Sets what a user of the locks, and one of the journal, must be granted.
    #[must_use]
    pub fn grants(mut self, grants: Vec<MigrationStep>, of_journal: Vec<MigrationStep>) -> Self {
        self.grants = grants;
        self.journal_grants = of_journal;
        self
    }

    /// Sets the note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
}
