//! SQLite.
//!
//! Why the statements are as they are:
//!
//! - Instants are integers: milliseconds since 1970, which is what sqlite-jdbc writes for a
//!   `java.sql.Timestamp` unless told otherwise, so that a Java service with ShedLock in its
//!   client-time mode reads and writes the same. A record that holds text instead (sqlite-jdbc
//!   with `date_class=text`) is reported, never compared.
//! - An attempt reads first. Any `UPDATE`, also one that changes nothing, takes the one write lock
//!   of the file; a read takes none in WAL mode, so that those who find the lock held never stand
//!   in the holder's way. Reading and writing are two statements of one text, since what costs
//!   here is not the statement but the way to the connection's thread and back; the first fails
//!   where the second must not run, which is SQLite's only way to stop between two statements.
//! - `'now'` is the machine's clock, and the same throughout a statement. It is first looked at
//!   when the statement has the write lock, so that waiting for it makes no lease longer.

use std::time::Duration;

use shedlock_core::{Error, ErrorKind};

use super::{CENTURY, Dialect, Statements};
use crate::driver::Class;
use crate::identifier::Fold;
use crate::options::{Options, SLOT_COLUMN, TOKEN_COLUMN};
use crate::shape::{Column, Columns, Shape, TextColumn, TimeColumn, TimeKind};
use crate::statement::{Field, Placeholders, RECORD, Statement};

/// SQLite's statements.
#[derive(Debug)]
pub(crate) struct Sqlite;

/// Not the double quote: a name in those that no column has is a text to SQLite, so that a column
/// that was renamed would never be missed.
const QUOTE: char = '`';

const TIME: TimeColumn = TimeColumn {
    kind: TimeKind::EpochMillis,
    digits: 3,
};

impl Dialect for Sqlite {
    fn identifiers(&self) -> (Fold, usize) {
        (Fold::Keep, 255)
    }

    fn probe(&self, options: &Options) -> Statement {
        let table = options.table.name.as_str();
        let (table, schema) = match &options.table.schema {
            Some(schema) => (
                format!("'{table}', '{}'", schema.as_str()),
                format!(", '{}'", schema.as_str()),
            ),
            None => (format!("'{table}'"), String::new()),
        };
        let template = format!(
            "SELECT c.name, \
             lower(trim(CASE WHEN instr(c.type, '(') > 0 \
             THEN substr(c.type, 1, instr(c.type, '(') - 1) ELSE c.type END)), \
             NULL, NULL, NULL, \
             EXISTS (SELECT 1 FROM pragma_index_list({table}) l \
             WHERE l.\"unique\" = 1 AND l.partial = 0 \
             AND (SELECT count(*) FROM pragma_index_info(l.name{schema})) = 1 \
             AND (SELECT i.name FROM pragma_index_info(l.name{schema}) i) = c.name), \
             c.\"notnull\" = 1 AND c.dflt_value IS NULL AND c.pk = 0, \
             sqlite_version() \
             FROM pragma_table_info({table}) c ORDER BY c.cid"
        );
        Statement::new(Placeholders::Positional, &template, &[])
    }

    fn shape(&self, options: &Options, columns: &[Column]) -> Result<Shape, Error> {
        let found = Columns::check(options, columns)?;
        let names = &options.columns;
        for column in [&names.name, &names.locked_by] {
            let column = found.get(column.as_str())?;
            if Affinity::of(&column.type_name) != Affinity::Text {
                return Err(found.unfit(column, "varchar or text"));
            }
        }
        for column in [&names.lock_until, &names.locked_at] {
            let column = found.get(column.as_str())?;
            if !matches!(
                Affinity::of(&column.type_name),
                Affinity::Integer | Affinity::Numeric
            ) {
                return Err(found.unfit(column, "integer or timestamp"));
            }
        }
        let there = |name: &str| match found.find(name) {
            None => Ok(false),
            Some(column) if Affinity::of(&column.type_name) == Affinity::Integer => Ok(true),
            Some(column) => Err(found.unfit(column, "bigint")),
        };
        Ok(Shape {
            token: there(TOKEN_COLUMN)?,
            slot: there(SLOT_COLUMN)?,
            server: columns
                .first()
                .map(|column| column.server.clone())
                .unwrap_or_default(),
            ..self.assumed()
        })
    }

    fn assumed(&self) -> Shape {
        // SQLite holds no text to its declared length. The collation cannot be asked for; the
        // statements compare byte for byte in any case.
        let text = TextColumn {
            length: None,
            exact: false,
        };
        Shape {
            name: text.clone(),
            locked_by: text,
            lock_until: TIME,
            locked_at: TIME,
            token: true,
            slot: true,
            server: String::new(),
        }
    }

    fn statements(&self, options: &Options, shape: &Shape) -> Statements {
        Writer::new(options, shape).all()
    }

    fn create_table(&self, options: &Options) -> Statement {
        let names = &options.columns;
        let template = format!(
            "CREATE TABLE {} ({} varchar(64) NOT NULL PRIMARY KEY, {} integer NOT NULL, \
             {} integer NOT NULL, {} varchar(255) NOT NULL, {TOKEN_COLUMN} bigint NULL, \
             {SLOT_COLUMN} bigint NULL)",
            options.table.quoted(QUOTE),
            names.name.quoted(QUOTE),
            names.lock_until.quoted(QUOTE),
            names.locked_at.quoted(QUOTE),
            names.locked_by.quoted(QUOTE),
        );
        Statement::new(Placeholders::Positional, &template, &[])
    }

    fn add_column(&self, options: &Options, column: &str) -> Statement {
        let template = format!(
            "ALTER TABLE {} ADD COLUMN {column} bigint NULL",
            options.table.quoted(QUOTE)
        );
        Statement::new(Placeholders::Positional, &template, &[])
    }

    fn longest_lease(&self, _: &Options, _: &Shape) -> Duration {
        CENTURY
    }

    fn explain(&self, class: &Class, writes: bool) -> Option<(ErrorKind, &'static str)> {
        Some(match class {
            Class::NotSent | Class::Refused => (
                ErrorKind::Configuration,
                "the file cannot be opened as a SQLite database; the reason is the source",
            ),
            Class::Busy => (
                ErrorKind::Unavailable,
                "another process kept the file locked for as long as busy_timeout lets one wait, \
                 or the disk is full; nothing was written: retry later, and look for long \
                 transactions on this file",
            ),
            Class::ReadOnly | Class::Privilege => (
                ErrorKind::Configuration,
                "the file or its folder cannot be written by this user: SQLite needs both",
            ),
            Class::ReplyLost if writes => (
                ErrorKind::Unknown,
                "the disk failed while the statement ran; it may have taken effect: ask again \
                 with the same owner",
            ),
            Class::ReplyLost => (
                ErrorKind::Unavailable,
                "the disk failed while the file was read; nothing was written: retry",
            ),
            _ => return None,
        })
    }
}

/// What SQLite makes of a declared type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Affinity {
    Integer,
    Text,
    Numeric,
    /// Real or blob: neither text nor whole numbers stay what they are.
    Other,
}

impl Affinity {
    /// By SQLite's own rules, in their order.
    fn of(type_name: &str) -> Self {
        let has = |part: &str| type_name.contains(part);
        if has("int") {
            Self::Integer
        } else if has("char") || has("clob") || has("text") {
            Self::Text
        } else if type_name.is_empty() || has("blob") || has("real") || has("floa") || has("doub") {
            Self::Other
        } else {
            Self::Numeric
        }
    }
}

/// Writes the statements for one table.
struct Writer<'a> {
    shape: &'a Shape,
    table: String,
    name: String,
    until: String,
    at: String,
    by: String,
    /// Now in milliseconds.
    now: &'static str,
}

impl<'a> Writer<'a> {
    fn new(options: &Options, shape: &'a Shape) -> Self {
        let names = &options.columns;
        Self {
            shape,
            table: options.table.quoted(QUOTE),
            name: names.name.quoted(QUOTE),
            until: names.lock_until.quoted(QUOTE),
            at: names.locked_at.quoted(QUOTE),
            by: names.locked_by.quoted(QUOTE),
            now: if options.time.is_client() {
                "(:now / 1000)"
            } else {
                // The fraction of `unixepoch('subsec')` is unknown to releases before 3.42.
                "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"
            },
        }
    }

    fn all(&self) -> Statements {
        let slot = |statement: fn(&Self, bool) -> Statement| {
            self.shape.slot.then(|| statement(self, true))
        };
        Statements {
            attempt: self.attempt(false),
            attempt_slot: slot(Self::attempt),
            insert: self.insert(false),
            insert_slot: slot(Self::insert),
            read: self.read(),
            extend: self.extend(),
            unlock: self.unlock(),
            withdraw: self.withdraw(),
            list: self.list(false),
            list_held: self.list(true),
        }
    }

    /// Two statements in one request: the first fails if the lock cannot be had, so that the
    /// second, which takes the write lock, is not reached.
    fn attempt(&self, slot: bool) -> Statement {
        let Self {
            table,
            until,
            at,
            by,
            now,
            ..
        } = self;
        let named = self.named();
        let mut set = format!("{until} = {now} + :at_most / 1000, {at} = {now}, {by} = :owner");
        if self.shape.token {
            set +=
                &format!(", {TOKEN_COLUMN} = max(coalesce({TOKEN_COLUMN}, 0) + 1, {now} * 1000)");
        }
        let mut free = format!("{until} <= {now}");
        if slot {
            set += &format!(", {SLOT_COLUMN} = :slot");
            free += &format!(
                " AND coalesce({SLOT_COLUMN} < :slot, 1) AND :slot <= {now} * 1000 + :tolerance \
                 AND ({at} * 1000 < :slot OR {by} LIKE '%/%/%')"
            );
        }
        // The least integer has no absolute value; the column is in it only so that this is not
        // computed where there is no row.
        let fail = format!("abs(min({until}, 0) - 9223372036854775807 - 1)");
        statement(
            &format!(
                "SELECT {fail} FROM {table} WHERE {named} AND NOT ({free}); \
                 UPDATE {table} SET {set} WHERE {named} AND {free} RETURNING {}",
                self.granted()
            ),
            GRANTED,
        )
    }

    fn insert(&self, slot: bool) -> Statement {
        let Self {
            table,
            name,
            until,
            at,
            by,
            now,
            ..
        } = self;
        let mut columns = format!("{name}, {until}, {at}, {by}");
        let mut values = format!(":name, {now} + :at_most / 1000, {now}, :owner");
        if self.shape.token {
            columns += &format!(", {TOKEN_COLUMN}");
            values += &format!(", {now} * 1000");
        }
        // Without any condition the grammar takes the conflict clause for a join's.
        let mut condition = "true".to_owned();
        if slot {
            columns += &format!(", {SLOT_COLUMN}");
            values += ", :slot";
            condition = format!(":slot <= {now} * 1000 + :tolerance");
        }
        statement(
            &format!(
                "INSERT INTO {table} ({columns}) SELECT {values} WHERE {condition} \
                 ON CONFLICT ({name}) DO NOTHING RETURNING {}",
                self.granted()
            ),
            GRANTED,
        )
    }

    /// By the column's own collation, so that a record of a name that it takes for the same is
    /// found, and reported.
    fn read(&self) -> Statement {
        statement(
            &format!(
                "SELECT {}, n.now * 1000 FROM (SELECT {} AS now) n LEFT JOIN {} ON {} = :name",
                self.record(),
                self.now,
                self.table,
                self.name,
            ),
            &RECORD,
        )
    }

    fn extend(&self) -> Statement {
        let (until, now) = (&self.until, self.now);
        statement(
            &format!(
                "UPDATE {} SET {until} = {now} + :at_most / 1000 WHERE {} RETURNING {}",
                self.table,
                self.held(),
                micros(until),
            ),
            &[Field::LockUntil],
        )
    }

    fn unlock(&self) -> Statement {
        let (until, at, by, now) = (&self.until, &self.at, &self.by, self.now);
        statement(
            &format!(
                "UPDATE {} SET {until} = max({now}, {at} + :at_least / 1000), {by} = :released \
                 WHERE {}",
                self.table,
                self.held(),
            ),
            &[],
        )
    }

    fn withdraw(&self) -> Statement {
        let (until, by, now) = (&self.until, &self.by, self.now);
        statement(
            &format!(
                "UPDATE {} SET {until} = {now}, {by} = :released WHERE {}",
                self.table,
                self.held(),
            ),
            &[],
        )
    }

    fn list(&self, held_only: bool) -> Statement {
        let name = format!("{} COLLATE BINARY", self.name);
        let held = if held_only {
            format!(" AND {} > {}", self.until, self.now)
        } else {
            String::new()
        };
        statement(
            &format!(
                "SELECT {}, {} * 1000 FROM {} WHERE {name} > :after{held} ORDER BY {name} \
                 LIMIT :limit",
                self.record(),
                self.now,
                self.table,
            ),
            &RECORD,
        )
    }

    /// The record of exactly this name: found by the column's collation, which has the index, and
    /// compared byte for byte.
    fn named(&self) -> String {
        let name = &self.name;
        format!("{name} = :name AND {name} COLLATE BINARY = :name")
    }

    /// The record of this name, while this owner's lease runs.
    fn held(&self) -> String {
        format!(
            "{} AND {} = :owner AND {} > {}",
            self.named(),
            self.by,
            self.until,
            self.now
        )
    }

    fn granted(&self) -> String {
        let token = if self.shape.token {
            TOKEN_COLUMN
        } else {
            "NULL"
        };
        format!("{}, {}, {token}", micros(&self.at), micros(&self.until))
    }

    /// All of a record but the time at which it is read.
    fn record(&self) -> String {
        let or_null = |there: bool, column: &'static str| if there { column } else { "NULL" };
        format!(
            "{}, {}, {}, {}, {}, {}",
            self.name,
            self.by,
            micros(&self.at),
            micros(&self.until),
            or_null(self.shape.token, TOKEN_COLUMN),
            or_null(self.shape.slot, SLOT_COLUMN),
        )
    }
}

/// What an attempt or insert that took the lock returns.
const GRANTED: &[Field] = &[Field::LockedAt, Field::LockUntil, Field::Token];

fn statement(template: &str, fields: &[Field]) -> Statement {
    Statement::new(Placeholders::Positional, template, fields)
}

/// A column in microseconds; what is no integer stays as it is, and then cannot be read as one.
fn micros(column: &str) -> String {
    format!("CASE typeof({column}) WHEN 'integer' THEN {column} * 1000 ELSE {column} END")
}

#[cfg(test)]
mod tests;
