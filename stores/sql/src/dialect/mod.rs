//! The statements of each dialect, apart from any driver.

#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use std::fmt;
use std::time::Duration;

use shedlock_core::{Error, ErrorKind};

use crate::driver::Class;
use crate::identifier::Fold;
use crate::options::Options;
use crate::shape::{Column, Shape};
use crate::statement::Statement;

/// What a dialect knows: how to ask for the table's shape, and which statements fit it.
pub(crate) trait Dialect: fmt::Debug + Send + Sync + 'static {
    /// What the database does to names without quotes, and how many bytes a name may have.
    fn identifiers(&self) -> (Fold, usize);

    /// Selects one row for each column of the table, none where there is no table, in the order
    /// of the fields of [`Column`]: name text, type text, digits bigint null, length bigint null,
    /// collation text null, unique bigint 0 or 1, required bigint 0 or 1, server text.
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

    /// The statement that makes the table, with the two columns that ShedLock's lacks.
    fn create_table(&self, options: &Options) -> Statement;

    /// The statement that adds one of those columns, of 64 bits and nullable.
    fn add_column(&self, options: &Options, column: &str) -> Statement;

    /// What durations are rounded up to before they are sent, in microseconds.
    fn unit(&self, shape: &Shape) -> i64 {
        shape.unit()
    }

    /// The longest lease that a table of this shape can express, seen from now.
    fn longest_lease(&self, options: &Options, shape: &Shape) -> Duration;

    /// What a failure means here, where that is not what it means elsewhere.
    fn explain(&self, class: &Class, writes: bool) -> Option<(ErrorKind, &'static str)> {
        let _ = (class, writes);
        None
    }

    /// A warning about a table that works, but not as its users may think; logged once for each
    /// new shape.
    fn warning(&self, options: &Options, shape: &Shape) -> Option<String> {
        let _ = (options, shape);
        None
    }
}

/// A lease as long as a hundred years is as good as one for ever, and no store's arithmetic is near
/// its limits with it.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// The statements of one provider. Each names the [`Bind`](crate::statement::Bind)s it needs; all
/// act on one record.
#[derive(Clone, Debug)]
pub(crate) struct Statements {
    /// Takes the lock if its record is free. Changes one row, or none, or fails with the class
    /// [`Held`](crate::driver::Class::Held). Tells, in its row or (MySQL)
    /// as last insert id, the fencing token.
    pub(crate) attempt: Statement,
    /// The same, if the slot is newer than the last one, not ahead of now + tolerance, and no
    /// acquisition of Java's lies at or after it. None without the slot's column.
    pub(crate) attempt_slot: Option<Statement>,
    /// Makes the record, taken. Where it exists: changes nothing, or fails with the class
    /// [`Duplicate`](crate::driver::Class::Duplicate).
    pub(crate) insert: Statement,
    /// The same, if the slot is not ahead of now + tolerance.
    pub(crate) insert_slot: Option<Statement>,
    /// Exactly one row of [`RECORD`](crate::statement::RECORD): the record's, or one with only
    /// `now` in it.
    pub(crate) read: Statement,
    /// Sets the end to now + at-most, if the owner holds a running lease.
    pub(crate) extend: Statement,
    /// Sets the end to the later of now and acquisition + at-least and the owner to the released
    /// text, if the owner holds a running lease.
    pub(crate) unlock: Statement,
    /// Sets the end to now and the owner to the released text, if the owner (any text, not only
    /// ours) holds a running lease.
    pub(crate) withdraw: Statement,
    /// A page of [`RECORD`](crate::statement::RECORD)s in the byte order of their names.
    pub(crate) list: Statement,
    /// The same, only those whose end lies ahead of now.
    pub(crate) list_held: Statement,
}

/// A statement by what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Attempt { slot: bool },
    Insert { slot: bool },
    Read,
    Extend,
    Unlock,
    Withdraw,
    List { held_only: bool },
}

impl Step {
    /// True where a lost reply leaves open whether something was written.
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::List { .. })
    }

    /// For logs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Attempt { .. } => "attempt",
            Self::Insert { .. } => "insert",
            Self::Read => "read",
            Self::Extend => "extend",
            Self::Unlock => "unlock",
            Self::Withdraw => "withdraw",
            Self::List { .. } => "list",
        }
    }
}

impl Statements {
    /// The statement for this step; `None` where the table lacks the slot's column.
    pub(crate) fn get(&self, step: Step) -> Option<&Statement> {
        match step {
            Step::Attempt { slot: false } => Some(&self.attempt),
            Step::Attempt { slot: true } => self.attempt_slot.as_ref(),
            Step::Insert { slot: false } => Some(&self.insert),
            Step::Insert { slot: true } => self.insert_slot.as_ref(),
            Step::Read => Some(&self.read),
            Step::Extend => Some(&self.extend),
            Step::Unlock => Some(&self.unlock),
            Step::Withdraw => Some(&self.withdraw),
            Step::List { held_only: false } => Some(&self.list),
            Step::List { held_only: true } => Some(&self.list_held),
        }
    }
}
