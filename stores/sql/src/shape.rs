//! What the lock table looks like now.

use crate::options::COLUMNS;

/// The shape of the table as far as statements depend on it. Nothing of its rows is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) name: TextColumn,
    pub(crate) locked_by: TextColumn,
    pub(crate) lock_until: TimeColumn,
    pub(crate) locked_at: TimeColumn,
    /// Which of our columns are there.
    pub(crate) extras: Extras,
    /// What the dialect's probe said of the server: its version, then what in its settings matters, in
    /// the dialect's own words.
    pub(crate) server: String,
}

/// Which of the columns are there that are ours, in the order of [`COLUMNS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extras(pub(crate) [bool; 4]);

impl Extras {
    pub(crate) const ALL: Self = Self([true; 4]);

    pub(crate) fn token(self) -> bool {
        self.0[0]
    }

    pub(crate) fn slot(self) -> bool {
        self.0[1]
    }

    /// Slots can be kept open until they are done.
    pub(crate) fn completion(self) -> bool {
        self.0[1..] == [true; 3]
    }

    /// All columns that `migrate` adds, with whether they are there.
    pub(crate) fn columns(self) -> impl Iterator<Item = (bool, &'static str)> {
        self.0.into_iter().zip(COLUMNS)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextColumn {
    /// How many characters it holds at most: `usize::MAX` where there is no limit.
    pub(crate) length: usize,
    /// True where the column compares byte for byte; otherwise statements must see to it.
    pub(crate) exact: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeColumn {
    pub(crate) kind: TimeKind,
    /// Digits of a second that it keeps: 0 to 6.
    pub(crate) digits: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeKind {
    /// The digits of a wall clock, without a zone: UTC by our rule and by ShedLock's db-time.
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
    /// Characters, for types that have a limit.
    pub(crate) length: Option<i64>,
    /// The collation's name; whether it is exact is the dialect's to know.
    pub(crate) collation: Option<String>,
    /// Alone under a primary key or a unique index that holds for all rows.
    pub(crate) unique: bool,
    /// Whether an insert must give it a value: not nullable, no default.
    pub(crate) required: bool,
    /// What the dialect wants to know of the server beside the table; the same in every row.
    pub(crate) server: String,
    /// The server's time in microseconds since 1970 (UTC); the same in every row.
    pub(crate) server_time: i64,
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
        })
    }

    /// Databases differ in how they compare the names of columns; two that differ in case only would
    /// be a trap in any of them.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

impl TimeColumn {
    /// The unit of this column in microseconds.
    pub(crate) fn unit(self) -> i64 {
        10_i64.pow(6 - u32::from(self.digits.min(6)))
    }
}

impl Shape {
    /// The table that `migrate` makes, with such columns for the times.
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
            extras: Extras::ALL,
            server: String::new(),
        }
    }

    /// The unit in which leases are counted: the coarser of the two time columns', in microseconds.
    pub(crate) fn unit(&self) -> i64 {
        self.lock_until.unit().max(self.locked_at.unit())
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.extras == Extras::ALL
    }
}
