//! The statements of SQLite; why they are so is said in the module above.

use super::QUOTE;
use crate::dialect::{Claim, End, Writing, granted, open_slot_is_free, slot_after};
use crate::options::{ATTEMPTS_COLUMN, Options, SLOT_COLUMN, TOKEN_COLUMN};
use crate::shape::Shape;
use crate::statement::{Field, Placeholders, RECORD, RECORD_AND_SERVER_TIME, Statement};

/// The machine's clock in milliseconds. The fraction of `unixepoch('subsec')` is unknown to releases
/// before 3.42.
pub(super) const CLOCK: &str = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)";

/// Writes the statements for one table.
pub(super) struct Writer<'a> {
    shape: &'a Shape,
    client_time: bool,
    table: String,
    name: String,
    until: String,
    at: String,
    by: String,
    /// Now in milliseconds.
    now: &'static str,
}

impl<'a> Writer<'a> {
    pub(super) fn new(options: &Options, shape: &'a Shape) -> Self {
        let names = &options.columns;
        Self {
            shape,
            client_time: options.time.is_client(),
            table: options.table.quoted(QUOTE),
            name: names.name.quoted(QUOTE),
            until: names.lock_until.quoted(QUOTE),
            at: names.locked_at.quoted(QUOTE),
            by: names.locked_by.quoted(QUOTE),
            now: if options.time.is_client() {
                "(:now / 1000)"
            } else {
                CLOCK
            },
        }
    }
}

impl Writing for Writer<'_> {
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
        let mut free = format!(
            "{until} <= {now} AND {by} IS NOT :released AND {}",
            in_time()
        );
        if claim != Claim::Nothing {
            set += &format!(", {SLOT_COLUMN} = :slot");
            free += &format!(
                " AND {} AND :slot <= {now} * 1000 + :tolerance \
                 AND ({at} * 1000 < :slot OR {by} LIKE '%/%/%')",
                claimable(claim, by, at),
            );
        }
        if self.shape.extras.token {
            // One more than the largest integer is a real to SQLite.
            free += &format!(" AND coalesce({TOKEN_COLUMN}, 0) < {}", i64::MAX);
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
        // Without any condition the grammar would take the conflict clause for a join's.
        let mut condition = in_time();
        if claim != Claim::Nothing {
            columns += &format!(", {SLOT_COLUMN}");
            values += ", :slot";
            condition += &format!(" AND :slot <= {now} * 1000 + :tolerance");
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
        let (server_time, fields): (_, &[Field]) = if self.client_time {
            (format!(", {CLOCK} * 1000"), &RECORD_AND_SERVER_TIME)
        } else {
            (String::new(), &RECORD)
        };
        statement(
            &format!(
                "SELECT {}, n.now * 1000{server_time} FROM (SELECT {} AS now) n \
                 LEFT JOIN {} ON {} = :name",
                self.record(),
                self.now,
                self.table,
                self.name,
            ),
            fields,
        )
    }

    fn extend(&self) -> Statement {
        let (until, now) = (&self.until, self.now);
        statement(
            &format!(
                "UPDATE {} SET {until} = max({until}, {now} + :at_most / 1000) WHERE {} RETURNING {}",
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
        if end == End::Failed {
            ends += &format!(", {now} + :at_most / 1000");
        }
        let slot = slot_after(end, self.shape.extras);
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
}

/// Pieces of statements.
impl Writer<'_> {
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
        format!(
            "{}, {}, {}, {}, {}",
            self.name,
            self.by,
            micros(&self.at),
            micros(&self.until),
            self.shape.extras.or_null("NULL"),
        )
    }
}

/// The attempt does not come too late, whoever's clock rules: by the machine's.
fn in_time() -> String {
    format!("{CLOCK} * 1000 <= :not_after")
}

fn or_null(there: bool, column: &'static str) -> &'static str {
    if there { column } else { "NULL" }
}

/// The record's slots let this one be taken. Never null, or the look before the write would pass.
fn claimable(claim: Claim, by: &str, at: &str) -> String {
    if claim == Claim::OpenSlot {
        let is_free = open_slot_is_free(by, &format!("{at} * 1000"));
        return format!("coalesce({is_free}, 0)");
    }
    format!("coalesce({SLOT_COLUMN} < :slot, 1)")
}

fn statement(template: &str, fields: &[Field]) -> Statement {
    Statement::new(Placeholders::Positional, template, fields)
}

/// A column in microseconds; what is no integer stays as it is, and then cannot be read as one.
fn micros(column: &str) -> String {
    format!("CASE typeof({column}) WHEN 'integer' THEN {column} * 1000 ELSE {column} END")
}
