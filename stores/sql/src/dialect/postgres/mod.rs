//! PostgreSQL.
//!
//! Why the statements are as they are:
//!
//! - An attempt goes by `CURRENT_TIMESTAMP`, the time at which it arrived: one instant for all
//!   columns. Where it had to wait for somebody else's row lock that instant is past, which can
//!   only refuse a lock that has just come free, or shorten a lease; it never grants one early.
//! - Whatever needs a running lease goes by `clock_timestamp()`. An extension that had to wait
//!   checks its condition again, and must then judge by the time it has become, or it could revive
//!   a lease that ran out meanwhile.
//! - A losing attempt is an `UPDATE` that matches no row: it takes no row lock and writes no WAL.
//!   `ON CONFLICT … DO UPDATE … WHERE` does both.
//! - `timestamp` columns hold UTC wall time, as ShedLock's db-time does; `timestamptz` columns hold
//!   instants. Neither depends on the session's zone.
//! - Parameters need no casts: they are sent with their types, and as literals their types are
//!   plain too.

mod time;

use std::time::Duration;

use shedlock_core::Error;

use self::time::{Now, later, micros, up};
use super::{CENTURY, Claim, Dialect, End, Statements, Step};
use crate::identifier::Fold;
use crate::options::{ATTEMPTS_COLUMN, DONE_COLUMN, Options, SLOT_COLUMN, TOKEN_COLUMN};
use crate::shape::{Column, Columns, Extras, Shape, TextColumn, TimeColumn, TimeKind};
use crate::statement::{Field, Placeholders, RECORD, Statement};

/// PostgreSQL's statements.
#[derive(Debug)]
pub(crate) struct Postgres;

/// Bytes of an identifier; longer ones are cut by the server.
const LONGEST_NAME: usize = 63;

impl Dialect for Postgres {
    fn identifiers(&self) -> (Fold, usize) {
        (Fold::Lower, LONGEST_NAME)
    }

    fn probe(&self, options: &Options) -> Statement {
        // to_regclass reads the name as a statement would: quoted, and by the search path.
        let table = options.table.quoted('"');
        let template = format!(
            "SELECT a.attname::text, t.typname::text, \
             CASE WHEN t.typname IN ('timestamp', 'timestamptz') \
             THEN CASE WHEN a.atttypmod < 0 THEN 6 ELSE a.atttypmod END END::bigint, \
             CASE WHEN t.typname IN ('varchar', 'bpchar') AND a.atttypmod >= 4 \
             THEN a.atttypmod - 4 END::bigint, \
             CASE WHEN c.collisdeterministic THEN NULL ELSE c.collname END::text, \
             (EXISTS (SELECT 1 FROM pg_catalog.pg_index i WHERE i.indrelid = a.attrelid \
             AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL \
             AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum))::int::bigint, \
             (a.attnotnull AND NOT a.atthasdef AND a.attidentity = '')::int::bigint, \
             pg_catalog.current_setting('server_version')::text \
             FROM pg_catalog.pg_attribute a \
             JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
             LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation \
             WHERE a.attrelid = pg_catalog.to_regclass('{table}') \
             AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
        );
        Statement::new(Placeholders::Numbered, &template, &[])
    }

    fn shape(&self, options: &Options, columns: &[Column]) -> Result<Shape, Error> {
        let found = Columns::check(options, columns)?;
        let names = &options.columns;
        let name = found.get(names.name.as_str())?;
        let locked_by = found.get(names.locked_by.as_str())?;
        let text = |column: &Column| {
            let exact = match column.type_name.as_str() {
                "varchar" | "text" => column.collation.is_none(),
                "citext" => false,
                // char(n) ignores trailing blanks, and cuts or pads what is put into it.
                _ => return Err(found.unfit(column, "varchar or text")),
            };
            Ok(TextColumn {
                length: column.length.and_then(|length| u32::try_from(length).ok()),
                exact,
            })
        };
        let time = |name: &str| {
            let column = found.get(name)?;
            let kind = match column.type_name.as_str() {
                "timestamp" => TimeKind::Wall,
                "timestamptz" => TimeKind::Instant,
                _ => return Err(found.unfit(column, "timestamp or timestamptz")),
            };
            let digits = column.digits.and_then(|digits| u8::try_from(digits).ok());
            Ok(TimeColumn {
                kind,
                digits: digits.unwrap_or(6),
            })
        };
        let extras = found.extras(|of| of == "int8", "bigint")?;
        Ok(Shape {
            name: text(name)?,
            locked_by: text(locked_by)?,
            lock_until: time(names.lock_until.as_str())?,
            locked_at: time(names.locked_at.as_str())?,
            extras,
            server: name.server.clone(),
        })
    }

    fn assumed(&self) -> Shape {
        let time = TimeColumn {
            kind: TimeKind::Wall,
            digits: 6,
        };
        Shape {
            name: TextColumn {
                length: Some(64),
                exact: true,
            },
            locked_by: TextColumn {
                length: Some(255),
                exact: true,
            },
            lock_until: time,
            locked_at: time,
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
            "CREATE TABLE {} ({} varchar(64) NOT NULL PRIMARY KEY, {} timestamp NOT NULL, \
             {} timestamp NOT NULL, {} varchar(255) NOT NULL, {TOKEN_COLUMN} bigint NULL, \
             {SLOT_COLUMN} bigint NULL, {DONE_COLUMN} bigint NULL, \
             {ATTEMPTS_COLUMN} bigint NULL)",
            options.table.quoted('"'),
            names.name.quoted('"'),
            names.lock_until.quoted('"'),
            names.locked_at.quoted('"'),
            names.locked_by.quoted('"'),
        );
        Statement::new(Placeholders::Numbered, &template, &[])
    }

    fn add_column(&self, options: &Options, column: &str) -> Statement {
        let template = format!(
            "ALTER TABLE {} ADD COLUMN {column} bigint NULL",
            options.table.quoted('"')
        );
        Statement::new(Placeholders::Numbered, &template, &[])
    }

    /// The statements round, where a column is coarse: the instant, not the duration.
    fn unit(&self, _: &Shape) -> i64 {
        1
    }

    fn longest_lease(&self, _: &Options, _: &Shape) -> Duration {
        // `bigint * interval` is computed in floating point: exact up to 285 years.
        CENTURY
    }
}

/// Writes the statements for one table.
struct Writer<'a> {
    shape: &'a Shape,
    /// What an attempt goes by.
    arrival: Now,
    /// What everything else goes by.
    clock: Now,
    durable_unlock: bool,
    table: String,
    name: String,
    until: String,
    at: String,
    by: String,
}

impl<'a> Writer<'a> {
    fn new(options: &Options, shape: &'a Shape) -> Self {
        let names = &options.columns;
        let client = options.time.is_client();
        Self {
            shape,
            arrival: if client { Now::Client } else { Now::Arrival },
            clock: if client { Now::Client } else { Now::Clock },
            durable_unlock: options.durable_unlock,
            table: options.table.quoted('"'),
            name: names.name.quoted('"'),
            until: names.lock_until.quoted('"'),
            at: names.locked_at.quoted('"'),
            by: names.locked_by.quoted('"'),
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

    fn attempt(&self, claim: Claim) -> Statement {
        let Self {
            shape,
            arrival: now,
            table,
            until,
            at,
            by,
            ..
        } = self;
        let at_micros = micros(at);
        let mut set = format!(
            "{until} = {}, {at} = {}, {by} = :owner",
            now.after(shape.lock_until, ":at_most"),
            now.down(shape.locked_at),
        );
        if shape.extras.token {
            set += &format!(
                ", {TOKEN_COLUMN} = GREATEST(COALESCE({TOKEN_COLUMN}, 0) + 1, {})",
                now.micros()
            );
        }
        let mut condition = format!(
            "{} AND {until} <= {}",
            self.named(),
            now.of(shape.lock_until)
        );
        if claim != Claim::Nothing {
            set += &format!(", {SLOT_COLUMN} = :slot");
            condition += &format!(
                " AND {} AND :slot <= {} + :tolerance AND ({at_micros} < :slot OR {by} LIKE '%/%/%')",
                claimable(claim, by, &at_micros),
                now.micros(),
            );
        }
        match claim {
            Claim::OpenSlot => {
                set += &format!(
                    ", {ATTEMPTS_COLUMN} = CASE WHEN {SLOT_COLUMN} = :slot \
                     THEN COALESCE({ATTEMPTS_COLUMN}, 0) + 1 ELSE 1 END"
                );
            }
            Claim::Slot if shape.extras.completion() => {
                set += &format!(", {ATTEMPTS_COLUMN} = NULL");
            }
            _ => {}
        }
        statement(
            &format!(
                "UPDATE {table} SET {set} WHERE {condition} RETURNING {}",
                self.granted(claim)
            ),
            granted(claim),
        )
    }

    fn insert(&self, claim: Claim) -> Statement {
        let Self {
            shape,
            arrival: now,
            table,
            name,
            until,
            at,
            by,
            ..
        } = self;
        let mut columns = format!("{name}, {until}, {at}, {by}");
        let mut values = format!(
            ":name, {}, {}, :owner",
            now.after(shape.lock_until, ":at_most"),
            now.down(shape.locked_at),
        );
        if shape.extras.token {
            columns += &format!(", {TOKEN_COLUMN}");
            values += &format!(", {}", now.micros());
        }
        let mut condition = String::new();
        if claim != Claim::Nothing {
            columns += &format!(", {SLOT_COLUMN}");
            values += ", :slot";
            condition = format!(" WHERE :slot <= {} + :tolerance", now.micros());
        }
        if claim == Claim::OpenSlot {
            columns += &format!(", {ATTEMPTS_COLUMN}");
            values += ", 1";
        }
        statement(
            &format!(
                "INSERT INTO {table} ({columns}) SELECT {values}{condition} \
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
                "SELECT {}, n.now FROM (SELECT {} AS now) n LEFT JOIN {} ON {} = :name",
                self.record(),
                self.clock.micros(),
                self.table,
                self.name,
            ),
            &RECORD,
        )
    }

    fn extend(&self) -> Statement {
        let until = &self.until;
        statement(
            &format!(
                "UPDATE {} SET {until} = {} WHERE {} RETURNING {}",
                self.table,
                self.clock.after(self.shape.lock_until, ":at_most"),
                self.held(),
                micros(until),
            ),
            &[Field::LockUntil],
        )
    }

    fn unlock(&self, end: End) -> Statement {
        let column = self.shape.lock_until;
        let mut until = format!("{}, {}", self.clock.down(column), self.kept());
        let slot = match end {
            End::Done { .. } => format!(", {DONE_COLUMN} = :slot, {ATTEMPTS_COLUMN} = NULL"),
            End::Failed => {
                until += &format!(", {}", self.clock.after(column, ":at_most"));
                String::new()
            }
            End::Nothing => String::new(),
        };
        // Losing an unlock in a crash of the server is safe: the lease then runs to its end. Losing
        // the mark of a slot that must not be lost would run it again.
        let flush = if self.durable_unlock || end == (End::Done { durable: true }) {
            ""
        } else {
            " AND set_config('synchronous_commit', 'off', true) IS NOT NULL"
        };
        statement(
            &format!(
                "UPDATE {} SET {} = GREATEST({until}), {} = :released{slot} WHERE {}{flush}",
                self.table,
                self.until,
                self.by,
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

    /// Until when at-least keeps the lock.
    fn kept(&self) -> String {
        let (until, at) = (self.shape.lock_until, self.shape.locked_at);
        let unit = at.unit();
        if unit > 1 {
            // The acquisition was up to a unit later than its column says. Without an at-least the
            // lock is free at once nevertheless.
            let kept = format!("{} + {unit} + :at_least", micros(&self.at));
            return format!(
                "CASE WHEN :at_least > 0 THEN {} ELSE {} END",
                up(until, &kept),
                self.clock.down(until),
            );
        }
        if until == at {
            return later(&self.at, ":at_least");
        }
        up(until, &format!("{} + :at_least", micros(&self.at)))
    }

    fn withdraw(&self) -> Statement {
        statement(
            &format!(
                "UPDATE {} SET {} = {}, {} = :released WHERE {}",
                self.table,
                self.until,
                self.clock.down(self.shape.lock_until),
                self.by,
                self.held(),
            ),
            &[],
        )
    }

    fn list(&self, held_only: bool) -> Statement {
        let name = format!("{} COLLATE \"C\"", self.name);
        let held = if held_only {
            format!(
                " AND {} > {}",
                self.until,
                self.clock.of(self.shape.lock_until)
            )
        } else {
            String::new()
        };
        statement(
            &format!(
                "SELECT {}, {} FROM {} WHERE {name} > :after{held} ORDER BY {name} LIMIT :limit",
                self.record(),
                self.clock.micros(),
                self.table,
            ),
            &RECORD,
        )
    }
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

fn or_null(there: bool, column: &'static str) -> &'static str {
    if there { column } else { "NULL::bigint" }
}

/// The record's slots let this one be taken.
fn claimable(claim: Claim, by: &str, at_micros: &str) -> String {
    if claim != Claim::OpenSlot {
        return format!("COALESCE({SLOT_COLUMN} < :slot, true)");
    }
    format!(
        "({SLOT_COLUMN} IS NULL \
         OR ({SLOT_COLUMN} = :slot AND {ATTEMPTS_COLUMN} < :most_attempts) \
         OR ({SLOT_COLUMN} < :slot AND {SLOT_COLUMN} >= :previous \
         AND (COALESCE({ATTEMPTS_COLUMN}, :most_attempts) >= :most_attempts \
         OR (COALESCE({by}, '') NOT LIKE '%/%/%' AND {at_micros} >= {SLOT_COLUMN}))))"
    )
}

fn statement(template: &str, fields: &[Field]) -> Statement {
    Statement::new(Placeholders::Numbered, template, fields)
}

/// Pieces of statements.
impl Writer<'_> {
    /// The record of this name. A collation that takes different names for the same finds the
    /// candidates (by the index), and the second condition tells them apart, byte for byte.
    fn named(&self) -> String {
        let name = &self.name;
        if self.shape.name.exact {
            format!("{name} = :name")
        } else {
            format!("{name} = :name AND {name}::text COLLATE \"C\" = :name")
        }
    }

    /// The record of this name, while this owner's lease runs.
    fn held(&self) -> String {
        format!(
            "{} AND {} = :owner AND {} > {}",
            self.named(),
            self.by,
            self.until,
            self.clock.of(self.shape.lock_until)
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

#[cfg(test)]
mod tests;
