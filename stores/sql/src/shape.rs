//! What the lock table looks like now.

use shedlock_core::Error;
use shedlock_store::{Result, configuration};

use crate::dialect::Dialect;
use crate::identifier::Identifier;
use crate::options::{ATTEMPTS_COLUMN, COLUMNS, DONE_COLUMN, Options, SLOT_COLUMN, TOKEN_COLUMN};
use crate::statement::{Answer, Field};

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

/// Which of the columns are there that are ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extras {
    pub(crate) token: bool,
    pub(crate) slot: bool,
    pub(crate) done: bool,
    pub(crate) attempts: bool,
}

impl Extras {
    pub(crate) const ALL: Self = Self {
        token: true,
        slot: true,
        done: true,
        attempts: true,
    };

    /// All columns that `migrate` adds, with whether they are there.
    pub(crate) fn columns(self) -> [(bool, &'static str); 4] {
        [
            (self.token, TOKEN_COLUMN),
            (self.slot, SLOT_COLUMN),
            (self.done, DONE_COLUMN),
            (self.attempts, ATTEMPTS_COLUMN),
        ]
    }

    /// Our columns in the order of [`RECORD`](crate::statement::RECORD), with this null for each that
    /// is not there.
    pub(crate) fn or_null(self, null: &str) -> String {
        self.columns()
            .map(|(there, column)| if there { column } else { null })
            .join(", ")
    }

    /// Slots can be kept open until they are done.
    pub(crate) fn completion(self) -> bool {
        self.slot && self.done && self.attempts
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
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

impl Answer for Column {
    fn decoded<E>(
        _: &[Field],
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
}

impl TimeColumn {
    /// The unit of this column in microseconds.
    pub(crate) fn unit(self) -> i64 {
        10_i64.pow(6 - u32::from(self.digits.min(6)))
    }
}

impl Shape {
    /// The shape that these columns show.
    ///
    /// # Errors
    /// `Configuration` where the table cannot serve as it is.
    pub(crate) fn of(dialect: &Dialect, options: &Options, columns: &[Column]) -> Result<Self> {
        let found = Columns {
            dialect,
            options,
            columns,
        };
        found.check()?;
        let names = &options.columns;
        let server = columns.first().map(|column| column.server.clone());
        Ok(Self {
            name: found.text(&names.name, true)?,
            locked_by: found.text(&names.locked_by, false)?,
            lock_until: found.time(&names.lock_until)?,
            locked_at: found.time(&names.locked_at)?,
            extras: Extras {
                token: found.has(TOKEN_COLUMN)?,
                slot: found.has(SLOT_COLUMN)?,
                done: found.has(DONE_COLUMN)?,
                attempts: found.has(ATTEMPTS_COLUMN)?,
            },
            server: server.unwrap_or_default(),
        })
    }

    /// The table that `migrate` makes, with such columns for the times.
    pub(crate) fn assumed(kind: TimeKind, digits: u8) -> Self {
        let text = |length| TextColumn {
            length,
            exact: true,
        };
        let time = TimeColumn { kind, digits };
        Self {
            name: text(64),
            locked_by: text(255),
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

/// The columns of a table that exists, looked up by name, with errors that say what is wrong.
struct Columns<'a> {
    dialect: &'a Dialect,
    options: &'a Options,
    columns: &'a [Column],
}

impl<'a> Columns<'a> {
    /// What holds for every dialect: the four columns are there, the name is unique, and nothing else must
    /// be filled.
    fn check(&self) -> Result<()> {
        let (names, table) = (&self.options.columns, &self.options.table);
        for name in names.all() {
            self.get(name)?;
        }
        if !self.get(names.name.as_str())?.unique {
            return Err(configuration(format!(
                "column {} of table {table} is neither primary key nor unique: without that two processes \
                 can both insert the lock; add a primary key on it",
                names.name
            )));
        }
        let is_known = |column: &Column| {
            let mut known = names.all().into_iter().chain(COLUMNS);
            known.any(|known| column.is_called(known))
        };
        let mut required = self.columns.iter().filter(|column| column.required);
        match required.find(|column| !is_known(column)) {
            None => Ok(()),
            Some(column) => Err(configuration(format!(
                "table {table} has a column {:?} that must be filled and is not the lock's: give it a \
                 default or allow null",
                column.name
            ))),
        }
    }

    fn get(&self, name: &str) -> Result<&'a Column> {
        self.find(name).ok_or_else(|| {
            configuration(format!(
                "table {} has no column {name:?}: set the column's name if it has another one, or create \
                 the table with `shedlock migrate`",
                self.options.table
            ))
        })
    }

    fn find(&self, name: &str) -> Option<&'a Column> {
        self.columns.iter().find(|column| column.is_called(name))
    }

    fn unfit(&self, column: &Column, wanted: &str) -> Error {
        configuration(format!(
            "column {:?} of table {} has the type {}: {wanted} is needed",
            column.name, self.options.table, column.type_name
        ))
    }

    fn text(&self, name: &Identifier, is_name: bool) -> Result<TextColumn> {
        let column = self.get(name.as_str())?;
        let length = column.length.map(usize::try_from);
        let exact = (self.dialect.text)(column, is_name);
        let wanted = self.dialect.wanted[usize::from(!is_name)];
        Ok(TextColumn {
            length: length.and_then(Result::ok).unwrap_or(usize::MAX),
            exact: exact.ok_or_else(|| self.unfit(column, wanted))?,
        })
    }

    fn time(&self, name: &Identifier) -> Result<TimeColumn> {
        let column = self.get(name.as_str())?;
        let kind = (self.dialect.time)(&column.type_name);
        let digits = column.digits.and_then(|digits| u8::try_from(digits).ok());
        Ok(TimeColumn {
            kind: kind.ok_or_else(|| self.unfit(column, self.dialect.wanted[2]))?,
            digits: digits.unwrap_or((self.dialect.assumed)().lock_until.digits),
        })
    }

    /// Whether one of our columns is there; all are integers of 64 bits.
    fn has(&self, name: &str) -> Result<bool> {
        match self.find(name) {
            None => Ok(false),
            Some(column) if (self.dialect.is_integer)(&column.type_name) => Ok(true),
            Some(column) => Err(self.unfit(column, "bigint")),
        }
    }
}

impl Column {
    /// Databases differ in how they compare the names of columns; two that differ in case only would
    /// be a trap in any of them.
    fn is_called(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}
