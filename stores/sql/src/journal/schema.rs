//! The journal's tables.

use shedlock_core::JOURNAL_VERSION;
use shedlock_provider::{Result, invalid};

use super::statements::Statements;
use crate::dialect::Dialect;
use crate::identifier::Table;
use crate::options::Options;
use crate::schema::{Definition, Verb};
use crate::shape::Column;
use crate::statement::{Field, Value, Values};

/// The most characters of a job's or lock's name, an owner, a schedule.
pub(super) const LONGEST_TEXT: usize = 255;

/// The most characters of an audit record's texts, and of the first line of an error.
pub(super) const LONGEST_LINE: usize = 1_024;

/// Refuses a lock table whose name leaves no room for the names of the journal's tables.
pub(super) fn check_names(dialect: &Dialect, options: &Options) -> Result<()> {
    let name = options.table.name.as_str();
    let longest = dialect.longest_name - "_journal".len();
    if name.len() <= longest {
        return Ok(());
    }
    Err(invalid(format!(
        "the journal's tables are named after the lock table, and {name:?} is too long for \
             that: this database leaves {longest} bytes"
    ))
    .advise("give the journal a store of its own"))
}

/// A table of the journal.
pub(super) struct TableOf {
    /// What the table's name adds to that of the lock table.
    pub(super) suffix: &'static str,
    columns: &'static [ColumnOf],
    /// Each has an index, together with the columns by which the rows are ordered.
    indexed: &'static [&'static str],
    order: &'static str,
}

/// A column: its name, its type, and whether it may be null.
pub(super) type ColumnOf = (&'static str, Type, &'static str);

const KEY: &str = "NOT NULL PRIMARY KEY";
const MUST: &str = "NOT NULL";
const MAY: &str = "NULL";

#[derive(Clone, Copy)]
pub(super) enum Type {
    Number,
    Id,
    Text,
    Line,
    Word,
    Error,
}

use Type::{Error, Id, Line, Number, Text, Word};

impl Type {
    fn sql(self, dialect: &Dialect) -> String {
        let length = match self {
            Number => return "bigint".to_owned(),
            Id => 64,
            Text => LONGEST_TEXT,
            Line => LONGEST_LINE,
            Word => 16,
            Error => 2_048,
        };
        (dialect.journal.text)(length)
    }
}

/// How a reply's columns are read that are these.
pub(super) const fn fields<const N: usize>(columns: &[ColumnOf; N]) -> [Field; N] {
    let mut fields = [Field::Text; N];
    let mut at = 0;
    while at < N {
        if matches!(columns[at].1, Number) {
            fields[at] = Field::Number;
        }
        at += 1;
    }
    fields
}

/// The names of these columns, for a statement.
pub(super) fn names(columns: &[ColumnOf]) -> String {
    let names: Vec<_> = columns.iter().map(|(name, ..)| *name).collect();
    names.join(", ")
}

/// The values of a row in these columns, for a statement that writes it.
pub(super) fn values(columns: &[ColumnOf]) -> String {
    let values: Vec<_> = columns.iter().map(value).collect();
    values.join(", ")
}

/// The same as assignments. The first column is the key, which stays.
pub(super) fn assignments(columns: &[ColumnOf]) -> String {
    let columns = columns[1..].iter();
    let values: Vec<_> = columns
        .map(|column| format!("{} = {}", column.0, value(column)))
        .collect();
    values.join(", ")
}

fn value((name, of, null): &ColumnOf) -> String {
    match (*null, of) {
        (MAY, Number) => format!("NULLIF(:j_{name}, -1)"),
        (MAY, _) => format!("NULLIF(:j_{name}, '')"),
        _ => format!(":j_{name}"),
    }
}

/// The tables, in the order in which they are created. The first one has the version, which is written last.
pub(super) const TABLES: [TableOf; 4] = [
    TableOf {
        suffix: "_journal",
        columns: &JOURNAL,
        indexed: &[],
        order: "",
    },
    TableOf {
        suffix: "_job",
        columns: &JOB,
        indexed: &[],
        order: "",
    },
    TableOf {
        suffix: "_run",
        columns: &RUN,
        // The outcome for runs that are rare: those that failed, and those without an end.
        indexed: &["job", "name", "outcome", "started_us"],
        order: "started_us, id",
    },
    TableOf {
        suffix: "_audit",
        columns: &AUDIT,
        indexed: &["name"],
        order: "id",
    },
];

const JOURNAL: [ColumnOf; 2] = [("version", Number, KEY), ("identity", Id, MUST)];

pub(super) const JOB: [ColumnOf; 29] = [
    ("job", Text, KEY),
    ("schedule", Text, MAY),
    ("zone", Text, MAY),
    ("lock_at_most_us", Number, MAY),
    ("registered_us", Number, MUST),
    ("last_started_us", Number, MAY),
    ("last_name", Text, MAY),
    ("last_owner", Text, MAY),
    ("last_lock_at_most_us", Number, MAY),
    ("last_slot_us", Number, MAY),
    ("last_lock_store", Text, MAY),
    ("last_outcome", Word, MAY),
    ("last_succeeded_us", Number, MAY),
    ("last_failed_us", Number, MAY),
    ("last_error", Line, MAY),
    ("last_duration_us", Number, MAY),
    ("next_slot_us", Number, MAY),
    ("deadline_us", Number, MAY),
    ("registered_by", Text, MAY),
    ("other_by", Text, MAY),
    ("other_at_us", Number, MAY),
    ("other_schedule", Text, MAY),
    ("other_zone", Text, MAY),
    ("other_lock_at_most_us", Number, MAY),
    ("elsewhere_slot_us", Number, MAY),
    ("elsewhere_at_us", Number, MAY),
    ("elsewhere_by", Text, MAY),
    ("elsewhere_slots", Number, MAY),
    ("watched_elsewhere", Number, MAY),
];

pub(super) const RUN: [ColumnOf; 13] = [
    ("id", Id, KEY),
    ("job", Text, MUST),
    ("name", Text, MUST),
    ("owner", Text, MUST),
    ("slot_us", Number, MAY),
    ("attempt", Number, MAY),
    ("fencing_token", Number, MAY),
    ("started_us", Number, MUST),
    ("lock_at_most_us", Number, MAY),
    ("lock_store", Text, MAY),
    ("ran_for_us", Number, MAY),
    ("outcome", Word, MAY),
    ("error", Error, MAY),
];

pub(super) const AUDIT: [ColumnOf; 10] = [
    ("id", Id, KEY),
    ("at_us", Number, MUST),
    ("actor", Text, MUST),
    ("is_authenticated", Number, MUST),
    ("action", Word, MUST),
    ("name", Text, MUST),
    ("detail", Line, MUST),
    ("reason", Line, MAY),
    ("until_us", Number, MAY),
    ("lock_store", Text, MAY),
];

impl TableOf {
    pub(super) fn name(&self, options: &Options) -> Table {
        options.table.with_suffix(self.suffix)
    }

    pub(super) fn creation(&self, dialect: &Dialect, options: &Options) -> Definition {
        let columns = self.columns.iter();
        let mut lines: Vec<_> = columns.map(|it| defined(*it, dialect)).collect();
        if dialect.journal.inline_indexes {
            let indexed = self.indexed.iter();
            lines.extend(indexed.map(|column| format!("INDEX ({})", self.index_on(column))));
        }
        let name = self.name(options);
        let quoted = name.quoted(dialect.quotation_mark);
        let text = format!("CREATE TABLE {quoted} (\n    {}\n)", lines.join(",\n    "));
        Definition::new(Verb::Create, format!("table {name}"), &text)
    }

    /// The columns of the index on this column.
    fn index_on(&self, column: &str) -> String {
        match self.order.starts_with(column) {
            true => self.order.to_owned(),
            false => format!("{column}, {}", self.order),
        }
    }

    /// The indexes that are created by statements of their own: their names, and the statements.
    pub(super) fn indexes(&self, dialect: &Dialect, options: &Options) -> Vec<(Table, Definition)> {
        if dialect.journal.inline_indexes {
            return Vec::new();
        }
        let (mark, table) = (dialect.quotation_mark, self.name(options));
        let index = |column: &&str| {
            let index = table.with_suffix(&format!("_{column}"));
            let (name, on) = dialect.journal.index_names(&index, &table, mark);
            let text = format!("CREATE INDEX {name} ON {on} ({})", self.index_on(column));
            let what = format!("index {index} on table {table}");
            (index, Definition::new(Verb::CreatePart, what, &text))
        };
        self.indexed.iter().map(index).collect()
    }

    /// The columns that are not among these.
    pub(super) fn additions(
        &self,
        dialect: &Dialect,
        options: &Options,
        there: &[Column],
    ) -> Vec<Definition> {
        let is_missing = |name: &str| !there.iter().any(|column| dialect.finds(column, name));
        let missing = self.columns.iter().filter(|(name, ..)| is_missing(name));
        let table = self.name(options);
        let quoted = table.quoted(dialect.quotation_mark);
        let addition = |column: &ColumnOf| {
            let text = format!(
                "ALTER TABLE {quoted} ADD COLUMN {}",
                defined(*column, dialect)
            );
            let what = format!("column {:?} to table {table}", column.0);
            Definition::new(Verb::Add, what, &text)
        };
        missing.map(addition).collect()
    }
}

fn defined((name, of, null): ColumnOf, dialect: &Dialect) -> String {
    format!("{name} {} {null}", of.sql(dialect))
}

/// The row with the version.
pub(super) fn version_record(dialect: &Dialect, options: &Options) -> Definition {
    let words = [("version", Value::Integer(i64::from(JOURNAL_VERSION)))];
    let values = Values {
        more: &words,
        ..Values::default()
    };
    let insert = Statements::new(dialect, options).version_insert;
    let what = format!("version {JOURNAL_VERSION} of the journal");
    let text = insert.inlined(&values, dialect);
    Definition::new(Verb::Record, what, &text)
}

/// Everything that an empty database needs.
pub(crate) fn definitions(dialect: &Dialect, options: &Options) -> Result<Vec<Definition>> {
    check_names(dialect, options)?;
    let mut all = Vec::new();
    for table in TABLES {
        all.push(table.creation(dialect, options));
        let indexes = table.indexes(dialect, options).into_iter();
        all.extend(indexes.map(|(_, definition)| definition));
    }
    all.push(version_record(dialect, options));
    Ok(all)
}
