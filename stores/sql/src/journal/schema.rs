//! The journal's tables.

use shedlock_core::JOURNAL_VERSION;
use shedlock_store::{Result, invalid};

use super::statements::Statements;
use crate::dialect::Dialect;
use crate::identifier::Table;
use crate::options::Options;
use crate::schema::{Definition, Verb};
use crate::shape::Column;
use crate::statement::{Value, Values};

/// What the names of the journal's tables add to the name of the lock table.
pub(super) const TABLES: [&str; 4] = ["_journal", "_job", "_run", "_audit"];

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

/// A table of the journal, without its quotes.
pub(super) struct TableOf {
    /// What the table's name adds to that of the lock table.
    pub(super) suffix: &'static str,
    columns: Vec<(&'static str, String)>,
    /// Each has an index, together with the columns by which the rows are ordered.
    indexed: &'static [&'static str],
    order: &'static str,
}

/// The tables, in the order in which they are created. The first one has the version, which is written last.
pub(super) fn tables(dialect: &Dialect) -> [TableOf; 4] {
    let words = &dialect.journal;
    let key = |of: &str| format!("{of} NOT NULL PRIMARY KEY");
    let must = |of: &str| format!("{of} NOT NULL");
    let may = |of: &str| format!("{of} NULL");
    let id = (words.text)(64);
    let text = (words.text)(u32::try_from(LONGEST_TEXT).unwrap_or(u32::MAX));
    let line = (words.text)(u32::try_from(LONGEST_LINE).unwrap_or(u32::MAX));
    let (word, error) = ((words.text)(16), (words.text)(2_048));
    let number = "bigint";
    [
        TableOf {
            suffix: "_journal",
            columns: vec![("version", key(number)), ("identity", must(&id))],
            indexed: &[],
            order: "",
        },
        TableOf {
            suffix: "_job",
            columns: vec![
                ("job", key(&text)),
                ("schedule", may(&text)),
                ("zone", may(&text)),
                ("lock_at_most_us", may(number)),
                ("registered_us", must(number)),
                ("last_started_us", may(number)),
                ("last_name", may(&text)),
                ("last_owner", may(&text)),
                ("last_lock_at_most_us", may(number)),
                ("last_slot_us", may(number)),
                ("last_lock_store", may(&text)),
                ("last_outcome", may(&word)),
                ("last_succeeded_us", may(number)),
                ("last_failed_us", may(number)),
                ("last_error", may(&line)),
                ("last_duration_us", may(number)),
                ("next_slot_us", may(number)),
                ("deadline_us", may(number)),
                ("registered_by", may(&text)),
                ("other_by", may(&text)),
                ("other_at_us", may(number)),
                ("other_schedule", may(&text)),
                ("other_zone", may(&text)),
                ("other_lock_at_most_us", may(number)),
                ("elsewhere_slot_us", may(number)),
                ("elsewhere_at_us", may(number)),
                ("elsewhere_by", may(&text)),
                ("elsewhere_slots", may(number)),
                ("watched_elsewhere", may(number)),
            ],
            indexed: &[],
            order: "",
        },
        TableOf {
            suffix: "_run",
            columns: vec![
                ("id", key(&id)),
                ("job", must(&text)),
                ("name", must(&text)),
                ("owner", must(&text)),
                ("slot_us", may(number)),
                ("attempt", may(number)),
                ("fencing_token", may(number)),
                ("started_us", must(number)),
                ("lock_at_most_us", may(number)),
                ("lock_store", may(&text)),
                ("ran_for_us", may(number)),
                ("outcome", may(&word)),
                ("error", may(&error)),
            ],
            // The outcome for runs that are rare: those that failed, and those without an end.
            indexed: &["job", "name", "outcome", "started_us"],
            order: "started_us, id",
        },
        TableOf {
            suffix: "_audit",
            columns: vec![
                ("id", key(&id)),
                ("at_us", must(number)),
                ("actor", must(&text)),
                ("is_authenticated", must(number)),
                ("action", must(&word)),
                ("name", must(&text)),
                ("detail", must(&line)),
                ("reason", may(&line)),
                ("until_us", may(number)),
                ("lock_store", may(&text)),
            ],
            indexed: &["name"],
            order: "id",
        },
    ]
}

impl TableOf {
    pub(super) fn name(&self, options: &Options) -> Table {
        options.table.with_suffix(self.suffix)
    }

    pub(super) fn creation(&self, dialect: &Dialect, options: &Options) -> Definition {
        let columns = self.columns.iter();
        let mut lines: Vec<_> = columns.map(|(name, of)| format!("{name} {of}")).collect();
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
        let missing = self.columns.iter().filter(|(name, _)| is_missing(name));
        let table = self.name(options);
        let quoted = table.quoted(dialect.quotation_mark);
        let addition = |(name, of): &(&str, String)| {
            let text = format!("ALTER TABLE {quoted} ADD COLUMN {name} {of}");
            Definition::new(
                Verb::Add,
                format!("column {name:?} to table {table}"),
                &text,
            )
        };
        missing.map(addition).collect()
    }
}

/// The row with the version.
pub(super) fn version_record(dialect: &Dialect, options: &Options) -> Definition {
    let words = [("j_version", Value::Integer(i64::from(JOURNAL_VERSION)))];
    let values = Values {
        more: &words,
        ..Values::default()
    };
    let insert = Statements::new(dialect, options).version_insert;
    let what = format!("version {JOURNAL_VERSION} of the journal");
    let text = insert.inlined(&values, dialect.quote);
    Definition::new(Verb::Record, what, &text)
}

/// Everything that an empty database needs.
pub(crate) fn definitions(dialect: &Dialect, options: &Options) -> Result<Vec<Definition>> {
    check_names(dialect, options)?;
    let mut all = Vec::new();
    for table in tables(dialect) {
        all.push(table.creation(dialect, options));
        let indexes = table.indexes(dialect, options).into_iter();
        all.extend(indexes.map(|(_, definition)| definition));
    }
    all.push(version_record(dialect, options));
    Ok(all)
}
