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

use super::{CENTURY, Claim, Dialect, End, Statements, Step};
use crate::driver::Class;
use crate::identifier::Fold;
use crate::options::{ATTEMPTS_COLUMN, DONE_COLUMN, Options, SLOT_COLUMN, TOKEN_COLUMN};
use crate::shape::{Column, Columns, Extras, Shape, TextColumn, TimeColumn, TimeKind};
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
        Ok(Shape {
            extras: found.extras(|of| Affinity::of(of) == Affinity::Integer, "bigint")?,
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
            extras: Extras::ALL,
            server: String::new(),
        }
    }

    fn statements(&self, options: &Options, shape: &Shape) -> Statements {
        let writer = Writer::new(options, shape);
        Statements::write(shape.extras, |step| writer.statement(step))
    }

    fn create_table(&self, options: &Options) -> Statement {
        let names = &options.columns;
        let template = format!(
            "CREATE TABLE {} ({} varchar(64) NOT NULL PRIMARY KEY, {} integer NOT NULL, \
             {} integer NOT NULL, {} varchar(255) NOT NULL, {TOKEN_COLUMN} bigint NULL, \
             {SLOT_COLUMN} bigint NULL, {DONE_COLUMN} bigint NULL, \
             {ATTEMPTS_COLUMN} bigint NULL)",
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

    fn statement(&self, step: Step) -> Statement {
        match step {
            Step::Attempt(claim) => self.attempt(claim),
            Step::Insert(claim) => self.insert(claim),
            Step::Read => self.read(),
            Step::Extend => self.extend(),
            Step::Unlock(end) => self.unlock(end),
            Step::Withdraw => self.withdraw(),
            Step::List { held_only } => self.list(held_only),
            Step::ResetSlot => self.reset_slot(),
        }
    }

    /// Two statements in one request: the first fails if the lock cannot be had, so that the
    /// second, which takes the write lock, is not reached.
    fn attempt(&self, claim: Claim) -> Statement {
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
        if self.shape.extras.token {
            set +=
                &format!(", {TOKEN_COLUMN} = max(coalesce({TOKEN_COLUMN}, 0) + 1, {now} * 1000)");
        }
        let mut free = format!("{until} <= {now}");
        if claim != Claim::Nothing {
            set += &format!(", {SLOT_COLUMN} = :slot");
            free += &format!(
                " AND {} AND :slot <= {now} * 1000 + :tolerance \
                 AND ({at} * 1000 < :slot OR {by} LIKE '%/%/%')",
                claimable(claim, by, at),
            );
        }
        match claim {
            Claim::OpenSlot => {
                set += &format!(
                    ", {ATTEMPTS_COLUMN} = CASE WHEN {SLOT_COLUMN} = :slot \
                     THEN coalesce({ATTEMPTS_COLUMN}, 0) + 1 ELSE 1 END"
                );
            }
            Claim::Slot if self.shape.extras.completion() => {
                set += &format!(", {ATTEMPTS_COLUMN} = NULL");
            }
            _ => {}
        }
        // The least integer has no absolute value; the column is in it only so that this is not
        // computed where there is no row.
        let fail = format!("abs(min({until}, 0) - 9223372036854775807 - 1)");
        statement(
            &format!(
                "SELECT {fail} FROM {table} WHERE {named} AND NOT ({free}); \
                 UPDATE {table} SET {set} WHERE {named} AND {free} RETURNING {}",
                self.granted(claim)
            ),
            granted(claim),
        )
    }

    fn insert(&self, claim: Claim) -> Statement {
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
        if self.shape.extras.token {
            columns += &format!(", {TOKEN_COLUMN}");
            values += &format!(", {now} * 1000");
        }
        // Without any condition the grammar takes the conflict clause for a join's.
        let mut condition = "true".to_owned();
        if claim != Claim::Nothing {
            columns += &format!(", {SLOT_COLUMN}");
            values += ", :slot";
            condition = format!(":slot <= {now} * 1000 + :tolerance");
        }
        if claim == Claim::OpenSlot {
            columns += &format!(", {ATTEMPTS_COLUMN}");
            values += ", 1";
        }
        statement(
            &format!(
                "INSERT INTO {table} ({columns}) SELECT {values} WHERE {condition} \
                 ON CONFLICT ({name}) DO NOTHING RETURNING {}",
                self.granted(claim)
            ),
            granted(claim),
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

    fn unlock(&self, end: End) -> Statement {
        let (until, at, by, now) = (&self.until, &self.at, &self.by, self.now);
        let mut ends = format!("{now}, {at} + :at_least / 1000");
        let slot = match end {
            End::Done { .. } => format!(", {DONE_COLUMN} = :slot, {ATTEMPTS_COLUMN} = NULL"),
            End::Failed => {
                ends += &format!(", {now} + :at_most / 1000");
                String::new()
            }
            End::Nothing => String::new(),
        };
        statement(
            &format!(
                "UPDATE {} SET {until} = max({ends}), {by} = :released{slot} WHERE {}",
                self.table,
                self.held(),
            ),
            &[],
        )
    }

    fn reset_slot(&self) -> Statement {
        statement(
            &format!(
                "UPDATE {} SET {SLOT_COLUMN} = :slot, {ATTEMPTS_COLUMN} = NULL \
                 WHERE {} AND {SLOT_COLUMN} = :previous",
                self.table,
                self.named(),
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

    fn granted(&self, claim: Claim) -> String {
        let token = or_null(self.shape.extras.token, TOKEN_COLUMN);
        let mut columns = format!("{}, {}, {token}", micros(&self.at), micros(&self.until));
        if claim == Claim::OpenSlot {
            columns += &format!(", {ATTEMPTS_COLUMN}");
        }
        columns
    }

    /// All of a record but the time at which it is read.
    fn record(&self) -> String {
        let extras = self.shape.extras;
        format!(
            "{}, {}, {}, {}, {}, {}, {}, {}",
            self.name,
            self.by,
            micros(&self.at),
            micros(&self.until),
            or_null(extras.token, TOKEN_COLUMN),
            or_null(extras.slot, SLOT_COLUMN),
            or_null(extras.done, DONE_COLUMN),
            or_null(extras.attempts, ATTEMPTS_COLUMN),
        )
    }
}

fn or_null(there: bool, column: &'static str) -> &'static str {
    if there { column } else { "NULL" }
}

/// The record's slots let this one be taken. Never null, or the look before the write would pass.
fn claimable(claim: Claim, by: &str, at: &str) -> String {
    if claim != Claim::OpenSlot {
        return format!("coalesce({SLOT_COLUMN} < :slot, 1)");
    }
    format!(
        "coalesce({SLOT_COLUMN} IS NULL \
         OR ({SLOT_COLUMN} = :slot AND {ATTEMPTS_COLUMN} < :most_attempts) \
         OR ({SLOT_COLUMN} < :slot AND {SLOT_COLUMN} >= :previous \
         AND (coalesce({ATTEMPTS_COLUMN}, :most_attempts) >= :most_attempts \
         OR (coalesce({by}, '') NOT LIKE '%/%/%' AND {at} * 1000 >= {SLOT_COLUMN}))), 0)"
    )
}

/// What an attempt or insert that took the lock returns.
fn granted(claim: Claim) -> &'static [Field] {
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

fn statement(template: &str, fields: &[Field]) -> Statement {
    Statement::new(Placeholders::Positional, template, fields)
}

/// A column in microseconds; what is no integer stays as it is, and then cannot be read as one.
fn micros(column: &str) -> String {
    format!("CASE typeof({column}) WHEN 'integer' THEN {column} * 1000 ELSE {column} END")
}

#[cfg(test)]
mod tests;
