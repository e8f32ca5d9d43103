//! The steps of the protocol, each of which is one statement.

use crate::statement::{Field, RECORD, RECORD_AND_SERVER_TIME, Statement};

/// The statements of one provider. Each names the [`Values`](crate::statement::Values) that it needs. All act on one
/// record.
#[derive(Clone, Debug)]
pub(crate) struct Statements(pub(super) Vec<(Step, Statement)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Takes the lock, and the slot. Conditions: the record is free and was not released by this owner, its slots allow
    /// it, and, once the row is locked, the server's clock has not passed the not-after. Changes one row, or none, or
    /// fails with the class [`Held`](crate::failure::Class::Held). Returns the fencing token, in its row or (MySQL) as
    /// the last insert ID.
    Attempt(Claim),
    /// Creates the record as taken, if the slot is not ahead of now + tolerance and the not-after has not passed. If
    /// the record exists: changes nothing, or fails with the class [`Duplicate`](crate::failure::Class::Duplicate).
    Insert(Claim),
    /// Returns exactly one row of [`RECORD`](crate::statement::RECORD): the record's, or one that contains only `now`.
    /// For display only, because it may run on a replica.
    Read,
    /// Like [`Read`](Self::Read), but runs on the server that accepts writes, because decisions depend on it. To a
    /// proxy that sends reads to replicas it looks like a write. It locks no row and writes nothing.
    ReadToDecide,
    /// Sets the end to the later of the current end and now + at-most, if the owner holds a running lease.
    Extend,
    /// Sets the end to the later of now and acquisition + at-least, the owner to the released text, and the slot's
    /// columns, if the owner holds a running lease. A task that never started also ends an expired lease.
    Unlock(End),
    /// Sets the end to now and the owner to the released text, if the owner (any text, not only ours) holds a running
    /// lease.
    Withdraw,
    /// Waits for a write of the record that is in flight. After that, changes one row if the record is absent (creates
    /// it as released) or, on PostgreSQL, free (sets its end to now). Otherwise it changes none, or fails with the
    /// class [`Duplicate`](crate::failure::Class::Duplicate). For servers whose [`Withdraw`](Self::Withdraw) does not
    /// wait for every write.
    Settle,
    /// Returns a page of [`RECORD`](crate::statement::RECORD)s in the byte order of their names.
    List { held_only: bool },
    /// Sets all columns of the slots, if the stored last slot is the `previous` value.
    ResetSlot,
    /// Takes the lock for an operator: sets the owner to the released text, the end to `ends_at`, and the slots that the
    /// pause skips. Conditions: the owner, the end and the last slot are those that were read.
    Pause,
    /// Sets the end to the later of now and `ends_at`, the owner to the released text, and the slots that the pause has
    /// skipped, if the owner holds a running lease.
    Resume,
    /// Deletes the record, if the lock is free, and the owner, the end and the last slot are those that were read.
    Remove,
}

/// What an attempt claims in addition to the lock. The rules are those of [`SlotState`](shedlock_core::SlotState).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Nothing,
    /// A slot that is used up when it is taken.
    Slot,
    /// A slot that stays open until it is done.
    OpenSlot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Nothing,
    Done {
        /// The mark must survive a crash of the server.
        durable: bool,
    },
    /// The task failed: the lock is kept at least until now + at-most.
    Failed,
    /// The task never started: the attempt is given back, or the slot; the last slot is then the previous one.
    NotStarted,
    /// A shutdown interrupted the run: the attempt is given back.
    Cut,
}

impl Step {
    pub(crate) const ALL: [Self; 23] = [
        Self::Attempt(Claim::Nothing),
        Self::Attempt(Claim::Slot),
        Self::Attempt(Claim::OpenSlot),
        Self::Insert(Claim::Nothing),
        Self::Insert(Claim::Slot),
        Self::Insert(Claim::OpenSlot),
        Self::Read,
        Self::ReadToDecide,
        Self::Extend,
        Self::Unlock(End::Nothing),
        Self::Unlock(End::Done { durable: false }),
        Self::Unlock(End::Done { durable: true }),
        Self::Unlock(End::Failed),
        Self::Unlock(End::NotStarted),
        Self::Unlock(End::Cut),
        Self::Withdraw,
        Self::Settle,
        Self::List { held_only: false },
        Self::List { held_only: true },
        Self::ResetSlot,
        Self::Pause,
        Self::Resume,
        Self::Remove,
    ];

    /// True if a lost reply leaves it unknown whether something was written.
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::ReadToDecide | Self::List { .. })
    }

    /// The step takes or creates the record, unless the record's state prevents it.
    pub(crate) fn takes(self) -> bool {
        matches!(self, Self::Attempt(_) | Self::Insert(_) | Self::Settle)
    }

    /// The step may take the lock for its owner.
    pub(crate) fn claims(self) -> bool {
        matches!(self, Self::Attempt(_) | Self::Insert(_))
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Attempt(_) => "attempt",
            Self::Insert(_) => "insert",
            Self::Read => "read",
            Self::ReadToDecide => "read_to_decide",
            Self::Extend => "extend",
            Self::Unlock(_) => "unlock",
            Self::Withdraw => "withdraw",
            Self::Settle => "settle",
            Self::List { .. } => "list",
            Self::ResetSlot => "reset_slot",
            Self::Pause => "pause_lock",
            Self::Resume => "resume_lock",
            Self::Remove => "remove",
        }
    }

    /// The columns of the reply, depending on whether the clients' clocks judge leases and whether the server returns
    /// rows from writes.
    pub(super) fn fields(self, is_client: bool, returns_rows: bool) -> &'static [Field] {
        use Field::{Attempts, LockUntil, LockedAt, Token};
        match self {
            Self::Read | Self::ReadToDecide if is_client => &RECORD_AND_SERVER_TIME,
            Self::Read | Self::ReadToDecide | Self::List { .. } => RECORD,
            _ if !returns_rows => &[],
            Self::Attempt(Claim::OpenSlot) | Self::Insert(Claim::OpenSlot) => {
                &[LockedAt, LockUntil, Token, Attempts]
            }
            Self::Attempt(_) | Self::Insert(_) => &[LockedAt, LockUntil, Token],
            Self::Extend => &[LockUntil],
            _ => &[],
        }
    }

    /// The step has a meaning only where slots are stored: not in a bare table.
    pub(super) fn is_about_slots(self) -> bool {
        match self {
            Self::Attempt(claim) | Self::Insert(claim) => claim != Claim::Nothing,
            Self::Unlock(end) => end != End::Nothing,
            Self::ResetSlot => true,
            _ => false,
        }
    }
}

impl Statements {
    /// The statement for this step; `None` if a bare table has no columns for it, or the server does not need it.
    pub(crate) fn get(&self, step: Step) -> Option<&Statement> {
        let found = self.0.iter().find(|(known, _)| *known == step);
        found.map(|(_, statement)| statement)
    }
}
