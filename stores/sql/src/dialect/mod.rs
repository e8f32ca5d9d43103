//! The statements of each dialect, apart from any driver.

#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(any(feature = "postgres", feature = "tokio-postgres"))]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use std::fmt;
use std::time::Duration;

use shedlock_core::{Error, ErrorKind};

use crate::driver::Class;
use crate::identifier::Fold;
use crate::options::{ATTEMPTS_COLUMN, DONE_COLUMN, Options, SLOT_COLUMN};
use crate::shape::{Column, Extras, Shape};
#[cfg(any(feature = "postgres", feature = "tokio-postgres", feature = "sqlite"))]
use crate::statement::Field;
use crate::statement::Statement;

/// What a dialect knows: how to ask for the table's shape, and which statements fit it.
pub(crate) trait Dialect: fmt::Debug + Send + Sync + 'static {
    /// What the database does to names without quotes, and how many bytes a name may have.
    fn identifiers(&self) -> (Fold, usize);

    /// Selects one row for each column of the table, none where there is no table, in the order
    /// of the fields of [`Column`]: name text, type text, digits bigint null, length bigint null,
    /// collation text null, unique bigint 0 or 1, required bigint 0 or 1, server text, the server's
    /// time bigint.
    fn probe(&self, options: &Options) -> Statement;

    /// Reads the probe's rows (at least one).
    ///
    /// # Errors
    /// `Configuration` where the table cannot serve as it is.
    fn shape(&self, options: &Options, columns: &[Column]) -> Result<Shape, Error>;

    /// The shape that [`create_table`](Self::create_table) makes: what is assumed before the first
    /// contact.
    fn assumed(&self) -> Shape;

    /// The statements for a table of this shape.
    fn statements(&self, options: &Options, shape: &Shape) -> Statements;

    /// The statement that makes the table, with the columns that ShedLock's lacks.
    fn create_table(&self, options: &Options) -> Statement;

    /// The statement that adds one of those columns, of 64 bits and nullable.
    fn add_column(&self, options: &Options, column: &str) -> Statement;

    /// What durations are rounded up to before they are sent, in microseconds.
    fn unit(&self, shape: &Shape) -> i64 {
        shape.unit()
    }

    /// The longest lease that a table of this shape can express, seen from now.
    fn longest_lease(&self, options: &Options, shape: &Shape) -> Duration;

    /// A text as a literal.
    fn quote(&self, text: &str) -> String;

    /// What sets up a new session of our own; nothing unless there is something to set.
    fn session_init(&self) -> Option<&'static str> {
        None
    }

    /// What a failure means here, where that is not what it means elsewhere.
    fn explain(&self, class: &Class, writes: bool) -> Option<(ErrorKind, &'static str)> {
        let _ = (class, writes);
        None
    }

    /// Whether what this server answers outlives a crash of it, as far as its settings tell.
    fn is_durable(&self, shape: &Shape) -> bool {
        let _ = shape;
        true
    }

    /// Warnings about a table or a server that works, but not as its users may think; each is logged
    /// once.
    fn warnings(&self, options: &Options, shape: &Shape) -> Vec<String> {
        let _ = (options, shape);
        Vec::new()
    }
}

/// The statements of one provider. Each names the [`Bind`](crate::statement::Bind)s it needs; all
/// act on one record.
#[derive(Clone, Debug)]
pub(crate) struct Statements(Vec<(Step, Statement)>);

/// A statement by what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Takes the lock, and the slot, if its record is free, was not released by this owner and its
    /// slots allow it, and if the server's clock has not passed the not-after when the record is in
    /// hand. Changes one row, or none, or fails with the class [`Held`](crate::driver::Class::Held).
    /// Tells, in its row or (MySQL) as last insert id, the fencing token.
    Attempt(Claim),
    /// Makes the record, taken, if the slot is not ahead of now + tolerance, and not past the
    /// not-after either. Where it exists: changes nothing, or fails with the class
    /// [`Duplicate`](crate::driver::Class::Duplicate).
    Insert(Claim),
    /// Exactly one row of [`RECORD`](crate::statement::RECORD): the record's, or one with only
    /// `now` in it. A replica may answer: for what is only shown.
    Read,
    /// The same as the server has it that takes writes: for what is decided by it. To a proxy that
    /// sends reads to replicas it looks like a write; it locks no row and writes nothing.
    ReadToDecide,
    /// Sets the end to the later of the end there is and now + at-most, if the owner holds a running
    /// lease.
    Extend,
    /// Sets the end to the later of now and acquisition + at-least and the owner to the released
    /// text, if the owner holds a running lease; and what is said of the slot.
    Unlock(End),
    /// Sets the end to now and the owner to the released text, if the owner (any text, not only
    /// ours) holds a running lease.
    Withdraw,
    /// Waits for a write of the record that is under way. Changes one row if the record is absent
    /// after that (it is made, released) or, on PostgreSQL, free (its end is set to now); otherwise
    /// none, or fails with the class [`Duplicate`](crate::driver::Class::Duplicate). For servers whose
    /// [`Withdraw`](Self::Withdraw) does not wait for every write.
    Settle,
    /// A page of [`RECORD`](crate::statement::RECORD)s in the byte order of their names.
    List { held_only: bool },
    /// Sets the last slot, of which no attempt is open then, if it is the previous one.
    ResetSlot,
}

/// What an attempt claims beside the lock. The rules are those of
/// [`SlotState`](shedlock_core::SlotState).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Nothing,
    /// A slot that is used up when it is taken.
    Slot,
    /// A slot that is open until it is done.
    OpenSlot,
}

/// What an unlock says of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Nothing,
    /// It is done.
    Done {
        /// The mark must outlive a crash of the server.
        durable: bool,
    },
    /// It failed: the lock is kept until now + at-most, at the least.
    Failed,
    /// Its task never started: the attempt is given back, or the slot; the last one is then the
    /// previous one.
    NotStarted,
    /// A shutdown cut its run: the attempt is given back.
    Cut,
}

impl Step {
    pub(crate) const ALL: [Self; 20] = [
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
    ];

    /// True where a lost reply leaves open whether something was written.
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::ReadToDecide | Self::List { .. })
    }

    /// For logs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Attempt(_) => "attempt",
            Self::Insert(_) => "insert",
            Self::Read | Self::ReadToDecide => "read",
            Self::Extend => "extend",
            Self::Unlock(_) => "unlock",
            Self::Withdraw => "withdraw",
            Self::Settle => "settle",
            Self::List { .. } => "list",
            Self::ResetSlot => "reset slot",
        }
    }

    /// Whether the table has the columns for it.
    pub(crate) fn is_possible(self, extras: Extras) -> bool {
        match self {
            Self::Attempt(Claim::Slot)
            | Self::Insert(Claim::Slot)
            | Self::Unlock(End::NotStarted) => extras.slot,
            Self::Attempt(Claim::OpenSlot)
            | Self::Insert(Claim::OpenSlot)
            | Self::Unlock(End::Done { .. } | End::Failed | End::Cut)
            | Self::ResetSlot => extras.completion(),
            _ => true,
        }
    }
}

/// How a dialect writes the statements for one table.
pub(crate) trait Writing {
    fn attempt(&self, claim: Claim) -> Statement;
    fn insert(&self, claim: Claim) -> Statement;
    fn read(&self) -> Statement;
    /// Where there are no replicas, the same.
    fn read_to_decide(&self) -> Statement {
        self.read()
    }
    fn extend(&self) -> Statement;
    fn unlock(&self, end: End) -> Statement;
    fn withdraw(&self) -> Statement;
    /// None where a withdrawal waits for every write.
    fn settle(&self) -> Option<Statement> {
        None
    }
    fn list(&self, held_only: bool) -> Statement;
    fn reset_slot(&self) -> Statement;
}

/// The condition under which an open slot can be taken, in words that all dialects know: there is no
/// slot yet, it is this one and has attempts left, or it is an earlier one that is over: done, given
/// up, or run by ShedLock since. `by` is the owner's column, `at_micros` when the record was acquired.
pub(crate) fn open_slot_is_free(by: &str, at_micros: &str) -> String {
    format!(
        "({SLOT_COLUMN} IS NULL \
         OR ({SLOT_COLUMN} = :slot AND {ATTEMPTS_COLUMN} < :most_attempts) \
         OR ({SLOT_COLUMN} < :slot AND {SLOT_COLUMN} >= :previous \
         AND (COALESCE({ATTEMPTS_COLUMN}, :most_attempts) >= :most_attempts \
         OR (COALESCE({by}, '') NOT LIKE '%/%/%' AND {at_micros} >= {SLOT_COLUMN}))))"
    )
}

/// What an unlock sets of the slot's columns, in words that all dialects know. The slot comes first:
/// MySQL sets one after the other, and a slot that is given back has no attempts.
pub(crate) fn slot_after(end: End, extras: Extras) -> String {
    let back = format!("CASE WHEN {SLOT_COLUMN} = :slot");
    let last = |unless: &str| {
        format!(", {SLOT_COLUMN} = {back}{unless} THEN :previous ELSE {SLOT_COLUMN} END")
    };
    let attempts = format!(
        ", {ATTEMPTS_COLUMN} = {back} AND {ATTEMPTS_COLUMN} > 0 \
         THEN {ATTEMPTS_COLUMN} - 1 ELSE {ATTEMPTS_COLUMN} END"
    );
    match end {
        End::Done { .. } => format!(", {DONE_COLUMN} = :slot, {ATTEMPTS_COLUMN} = NULL"),
        End::NotStarted if !extras.completion() => last(""),
        End::NotStarted => {
            let unless =
                format!(" AND {ATTEMPTS_COLUMN} IS NULL AND COALESCE({DONE_COLUMN}, -1) <> :slot");
            last(&unless) + &attempts
        }
        End::Cut => attempts,
        End::Nothing | End::Failed => String::new(),
    }
}

/// What an attempt or insert that took the lock returns, in dialects that can return rows.
#[cfg(any(feature = "postgres", feature = "tokio-postgres", feature = "sqlite"))]
pub(crate) fn granted(claim: Claim) -> &'static [Field] {
    const ALL: &[Field] = &[
        Field::LockedAt,
        Field::LockUntil,
        Field::Token,
        Field::SlotAttempts,
    ];
    if claim == Claim::OpenSlot {
        ALL
    } else {
        &ALL[..3]
    }
}

impl Statements {
    /// All that a table with these columns can be asked.
    pub(crate) fn write(extras: Extras, writer: &impl Writing) -> Self {
        let write = |step| {
            Some(match step {
                Step::Attempt(claim) => writer.attempt(claim),
                Step::Insert(claim) => writer.insert(claim),
                Step::Read => writer.read(),
                Step::ReadToDecide => writer.read_to_decide(),
                Step::Extend => writer.extend(),
                Step::Unlock(end) => writer.unlock(end),
                Step::Withdraw => writer.withdraw(),
                Step::Settle => writer.settle()?,
                Step::List { held_only } => writer.list(held_only),
                Step::ResetSlot => writer.reset_slot(),
            })
        };
        let possible = Step::ALL
            .into_iter()
            .filter(|step| step.is_possible(extras));
        Self(
            possible
                .filter_map(|step| Some((step, write(step)?)))
                .collect(),
        )
    }

    /// The statement for this step; `None` where the table lacks a column for it, or the server needs
    /// none.
    pub(crate) fn get(&self, step: Step) -> Option<&Statement> {
        let found = self.0.iter().find(|(known, _)| *known == step);
        found.map(|(_, statement)| statement)
    }

    /// Each of them.
    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = &Statement> {
        self.0.iter().map(|(_, statement)| statement)
    }
}

#[cfg(test)]
impl std::ops::Index<Step> for Statements {
    type Output = Statement;

    fn index(&self, step: Step) -> &Statement {
        self.get(step).expect("the table has the columns for it")
    }
}
