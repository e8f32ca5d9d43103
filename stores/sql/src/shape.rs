//! The current shape of the lock table.

use crate::identifier::Identifier;

/// The shape of the table, as far as statements depend on it. It contains nothing from the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) name: TextColumn,
    pub(crate) locked_by: TextColumn,
    pub(crate) lock_until: TimeColumn,
    pub(crate) locked_at: TimeColumn,
    /// ShedLock's columns as the catalogue spells them. `None` if there is no table: as the options do.
    pub(crate) columns: Option<[Identifier; 4]>,
    /// The schema in which it was found, if the options name none. Statements name it, because sessions of one pool may
    /// find another table by the same name. `None` if its name needs escaping.
    pub(crate) schema: Option<Identifier>,
    /// Whether it has all of our own columns. A table without any is ShedLock's; one with some of them is refused.
    pub(crate) is_complete: bool,
    /// What the dialect's probe returned about the server: its version, then the settings that matter, in the dialect's
    /// own format.
    pub(crate) server: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextColumn {
    /// The maximum number of characters; `usize::MAX` if there is no limit.
    pub(crate) length: usize,
    /// True if the column compares byte for byte. Otherwise the statements must do so.
    pub(crate) exact: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeColumn {
    pub(crate) kind: TimeKind,
    /// Number of digits of a second that the column stores: 0 to 6.
    pub(crate) digits: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeKind {
    /// Wall-clock time without a zone: UTC by our rule and by ShedLock's db-time.
    Wall,
    /// An instant that the server shows in the session's zone.
    Instant,
    /// An integer: milliseconds since 1970 (UTC).
    EpochMillis,
}

/// One column as the dialect's probe reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// The type's name, lower case, without its arguments.
    pub(crate) type_name: String,
    /// Digits of a second, for types that have them.
    pub(crate) digits: Option<i64>,
    /// Maximum number of characters, for types that have a limit.
    pub(crate) length: Option<i64>,
    /// The collation's name. The dialect decides whether it is exact.
    pub(crate) collation: Option<String>,
    /// The only column of a primary key, or of a unique index that covers all rows.
    pub(crate) unique: bool,
    /// Whether an insert must provide a value: not nullable, no default.
    pub(crate) required: bool,
    /// What the dialect needs from the server in addition to the table; the same in every row.
    pub(crate) server: String,
    /// The server's time in microseconds since 1970 (UTC); the same in every row.
    pub(crate) server_time: i64,
    /// Which table this is: its server, its database and itself. The same in every row; empty if there is no telling.
    pub(crate) place: String,
    /// The schema of the table (on MySQL: its database). The same in every row; `None` for a temporary table.
    pub(crate) schema: Option<String>,
}

impl Column {
    /// Reads a row of the dialect's probe.
    pub(crate) fn read<E>(
        text: impl Fn(usize) -> Result<Option<String>, E>,
        number: impl Fn(usize) -> Result<Option<i64>, E>,
    ) -> Result<Self, E> {
        Ok(Self {
            name: text(0)?.unwrap_or_default(),
            type_name: text(1)?.unwrap_or_default(),
            digits: number(2)?,
            length: number(3)?,
            collation: text(4)?,
            unique: number(5)? == Some(1),
            required: number(6)? == Some(1),
            server: text(7)?.unwrap_or_default(),
            server_time: number(8)?.unwrap_or_default(),
            place: text(9)?.unwrap_or_default(),
            schema: text(10)?,
        })
    }
}

impl TimeColumn {
    /// The unit of this column in microseconds.
    pub(crate) fn unit(self) -> i64 {
        10_i64.pow(6 - u32::from(self.digits.min(6)))
    }
}

impl Shape {
    /// The table that `migrate` creates, with this type of time columns.
    pub(crate) const fn assumed(kind: TimeKind, digits: u8) -> Self {
        let time = TimeColumn { kind, digits };
        let name = TextColumn {
            length: 64,
            exact: true,
        };
        let mut locked_by = name;
        locked_by.length = 255;
        Self {
            name,
            locked_by,
            lock_until: time,
            locked_at: time,
            columns: None,
            schema: None,
            is_complete: true,
            server: String::new(),
        }
    }

    /// The unit in which leases are counted, in microseconds: the coarser of the two time columns' units.
    pub(crate) fn unit(&self) -> i64 {
        self.lock_until.unit().max(self.locked_at.unit())
    }
}
