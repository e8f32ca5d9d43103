//! The statements of each dialect, apart from any driver.

mod columns;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
mod pieces;
#[cfg(any(feature = "postgres", feature = "tokio-postgres"))]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use std::time::Duration;

use shedlock_store::Result;

pub(crate) use self::pieces::Pieces;
use crate::failure::Explain;
use crate::identifier::Fold;
use crate::options::{Options, Settings};
use crate::shape::{Column, Extras, Shape, TimeKind};
use crate::statement::{Field, Placeholders, RECORD, RECORD_AND_SERVER_TIME, Statement};

/// What a dialect knows: how to ask for the table's shape, and which statements fit it.
pub(crate) struct Dialect {
    /// What the database does to names without quotes.
    fold: Fold,
    longest_name: usize,
    quotation_mark: char,
    placeholders: Placeholders,
    returns_rows: bool,
    /// Selects one row for each column of the table, none where there is no table, in the order
    /// of the fields of [`Column`]: name text, type text, digits bigint null, length bigint null,
    /// collation text null, unique bigint 0 or 1, required bigint 0 or 1, server text, the server's
    /// time bigint.
    probe: fn(&Options) -> String,
    /// Whether a column of this type holds the lock's name (`true`) or its owner, and then whether it compares byte for
    /// byte; otherwise which types do.
    text: fn(&Column, bool) -> Result<bool, &'static str>,
    /// What a column of this type holds of an instant; otherwise which types do.
    time: fn(&str) -> Result<TimeKind, &'static str>,
    is_integer: fn(&str) -> bool,
    /// The table that `migrate` makes.
    pub(crate) assumed: Shape,
    /// What durations are rounded up to before they are sent, in microseconds: nothing where the statements round the
    /// instant, for columns that are coarse.
    pub(crate) unit: i64,
    pub(crate) longest_lease: fn(&Options, &Shape) -> Duration,
    pub(crate) quote: fn(&str) -> String,
    pub(crate) session_init: Option<&'static str>,
    /// What a failure means here, where that is not what it means elsewhere.
    pub(crate) explain: Explain,
    /// What the probe says of a server that forgets in a crash what was committed, as it stands in [`Shape::server`],
    /// and the warning of it.
    forgets: &'static [(&'static str, &'static str)],
    other_warnings: fn(&Options, &Shape) -> Vec<String>,
    /// Sets the words that are the dialect's own ([`Pieces`]), that of the step among them, unless the server needs no
    /// such step.
    pieces: fn(&Options, &Shape, Step, &mut Pieces),
    create_table: &'static str,
    /// Adds `{column}`, one of those: of 64 bits and nullable.
    add_column: &'static str,
}

const ADD_COLUMN: &str = "ALTER TABLE {table} ADD COLUMN {column} bigint NULL";

impl Dialect {
    /// `InvalidInput` that names the setting that cannot be.
    pub(crate) fn options(&self, settings: Settings) -> Result<Options> {
        settings.check(self.fold, self.longest_name)
    }

    pub(crate) fn probing(&self, options: &Options) -> Statement {
        let template = Pieces::of_table(self, options).expand(&(self.probe)(options));
        Statement::new(self.placeholders, &template, &[Field::Column])
    }

    pub(crate) fn table_creation(&self, options: &Options) -> Statement {
        Statement::plain(&Pieces::of_table(self, options).expand(self.create_table))
    }

    pub(crate) fn column_addition(&self, options: &Options, column: &'static str) -> Statement {
        let mut pieces = Pieces::of_table(self, options);
        pieces.set("column", column);
        Statement::plain(&pieces.expand(self.add_column))
    }

    /// Whether what this server answers outlives a crash of it, as far as its settings tell.
    pub(crate) fn is_durable(&self, shape: &Shape) -> bool {
        let mut facts = self.forgets.iter();
        !facts.any(|(fact, _)| shape.server.contains(fact))
    }

    /// Warnings about a table or a server that works, but not as its users may think; each is logged
    /// once.
    pub(crate) fn warnings(&self, options: &Options, shape: &Shape) -> Vec<String> {
        let facts = self.forgets.iter();
        let found = facts.filter(|(fact, _)| shape.server.contains(fact));
        let warnings = found.map(|(_, warning)| (*warning).to_owned());
        let others = (self.other_warnings)(options, shape);
        warnings.chain(others).collect()
    }

    pub(crate) fn statements(&self, options: &Options, shape: &Shape) -> Statements {
        let steps = Step::ALL.into_iter();
        let possible = steps.filter(|step| step.is_possible(shape.extras));
        let statements = possible.filter_map(|step| {
            let pieces = Pieces::of_step(self, options, shape, step);
            let template = pieces.expand(pieces.get(step.word())?);
            let fields = step.fields(options.time.is_client(), self.returns_rows);
            let mut statement = Statement::new(self.placeholders, &template, fields);
            statement.prepared = options.prepared;
            Some((step, statement))
        });
        Statements(statements.collect())
    }
}

/// The statements of one provider. Each names the [`Values`](crate::statement::Values) it needs; all
/// act on one record.
#[derive(Clone, Debug)]
pub(crate) struct Statements(Vec<(Step, Statement)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Takes the lock, and the slot, if its record is free, was not released by this owner and its
    /// slots allow it, and if the server's clock has not passed the not-after when the record is in
    /// hand. Changes one row, or none, or fails with the class [`Held`](crate::failure::Class::Held).
    /// Tells, in its row or (MySQL) as last insert id, the fencing token.
    Attempt(Claim),
    /// Makes the record, taken, if the slot is not ahead of now + tolerance, and not past the
    /// not-after either. Where it exists: changes nothing, or fails with the class
    /// [`Duplicate`](crate::failure::Class::Duplicate).
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
    /// text, if the owner holds a running lease; and what is said of the slot. A task that never started ends
    /// an expired lease as well.
    Unlock(End),
    /// Sets the end to now and the owner to the released text, if the owner (any text, not only
    /// ours) holds a running lease.
    Withdraw,
    /// Waits for a write of the record that is under way. Changes one row if the record is absent
    /// after that (it is made, released) or, on PostgreSQL, free (its end is set to now); otherwise
    /// none, or fails with the class [`Duplicate`](crate::failure::Class::Duplicate). For servers whose
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Nothing,
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

    /// It takes or makes the record, unless that stands in the way.
    pub(crate) fn takes(self) -> bool {
        matches!(self, Self::Attempt(_) | Self::Insert(_) | Self::Settle)
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
        }
    }

    /// What comes back, where the clients' clocks rule or not, and from a server that returns rows of writes or not.
    fn fields(self, is_client: bool, returns_rows: bool) -> &'static [Field] {
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

    pub(crate) fn is_possible(self, extras: Extras) -> bool {
        match self {
            Self::Attempt(Claim::Slot)
            | Self::Insert(Claim::Slot)
            | Self::Unlock(End::NotStarted) => extras.slot(),
            Self::Attempt(Claim::OpenSlot)
            | Self::Insert(Claim::OpenSlot)
            | Self::Unlock(End::Done { .. } | End::Failed | End::Cut)
            | Self::ResetSlot => extras.completion(),
            _ => true,
        }
    }
}

impl Statements {
    /// The statement for this step; `None` where the table lacks a column for it, or the server needs
    /// none.
    pub(crate) fn get(&self, step: Step) -> Option<&Statement> {
        let found = self.0.iter().find(|(known, _)| *known == step);
        found.map(|(_, statement)| statement)
    }
}

#[cfg(test)]
mod tests;
