//! The statements of PostgreSQL; why they are so is said in the module above.

use super::WAITS_FOR_DISK;
use super::time::{Now, later, micros, micros_of, up};
use crate::dialect::{Claim, End, Writing, granted, open_slot_is_free, slot_after};
use crate::options::{ATTEMPTS_COLUMN, Options, SLOT_COLUMN, TOKEN_COLUMN};
use crate::shape::Shape;
use crate::statement::{Field, Placeholders, RECORD, RECORD_AND_SERVER_TIME, Statement};

/// How the error begins with which an attempt fails that comes too late.
pub(crate) const TOO_LATE: &str = "the attempt came after its not-after: ";

/// Writes the statements for one table.
pub(super) struct Writer<'a> {
    shape: &'a Shape,
    /// What an attempt goes by.
    arrival: Now,
    /// What everything else goes by.
    clock: Now,
    /// Whether an unlock is to be answered before it is on the disk.
    hurries_unlock: bool,
    /// Whether every unlock is to wait for the disk.
    durable_unlock: bool,
    table: String,
    name: String,
    until: String,
    at: String,
    by: String,
}

/// A condition that is always true. Where the session would be answered before the commit is on the
/// server's disk, this one waits for it: `local`, since `on` would wait for standbys that nobody asked
/// for. What waits for more stays as it is.
///
/// In the statement, since nothing else says what is so in the session that runs it: a pool's sessions
/// may differ, behind PgBouncer each transaction may meet another one, and a server that reads its
/// settings again changes the sessions that are open.
pub(super) const FLUSHED: &str = "CASE current_setting('synchronous_commit') WHEN 'off' \
     THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END";

/// A condition that is always true, by which the commit is answered before it is on the disk.
pub(super) const UNFLUSHED: &str = "set_config('synchronous_commit', 'off', true) IS NOT NULL";

impl<'a> Writer<'a> {
    pub(super) fn new(options: &Options, shape: &'a Shape) -> Self {
        let names = &options.columns;
        let client = options.time.is_client();
        Self {
            shape,
            arrival: if client { Now::Client } else { Now::Arrival },
            clock: if client { Now::Client } else { Now::Clock },
            hurries_unlock: !options.durable_unlock && shape.server.contains(WAITS_FOR_DISK),
            durable_unlock: options.durable_unlock,
            table: options.table.quoted('"'),
            name: names.name.quoted('"'),
            until: names.lock_until.quoted('"'),
            at: names.locked_at.quoted('"'),
            by: names.locked_by.quoted('"'),
        }
    }
}

impl Writing for Writer<'_> {
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
        let at_micros = micros_of(at);
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
            "{} AND {until} <= {} AND {by} IS DISTINCT FROM :released AND {}",
            self.named(),
            now.of(shape.lock_until),
            in_time(),
        );
        let flushed = format!(" AND {FLUSHED}");
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
                "UPDATE {table} SET {set} WHERE {condition}{flushed} RETURNING {}",
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
        let mut condition = format!("{} AND {FLUSHED}", in_time());
        if claim != Claim::Nothing {
            columns += &format!(", {SLOT_COLUMN}");
            values += ", :slot";
            condition += &format!(" AND :slot <= {} + :tolerance", now.micros());
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
        self.reading("")
    }

    /// An update that can change nothing makes it a write to the server and to every proxy that
    /// reads statements; pgpool also goes by the comment.
    fn read_to_decide(&self) -> Statement {
        let Self { table, until, .. } = self;
        self.reading(&format!(
            "/*NO LOAD BALANCE*/ WITH \"a write\" AS (UPDATE {table} SET {until} = {until} \
             WHERE false) "
        ))
    }

    fn extend(&self) -> Statement {
        let until = &self.until;
        statement(
            &format!(
                "UPDATE {} SET {until} = GREATEST({until}, {}) WHERE {} AND {FLUSHED} RETURNING {}",
                self.table,
                self.clock.after(self.shape.lock_until, ":at_most"),
                self.held(),
                micros_of(until),
            ),
            &[Field::LockUntil],
        )
    }

    fn unlock(&self, end: End) -> Statement {
        let column = self.shape.lock_until;
        let mut until = format!("{}, {}", self.clock.down(column), self.kept());
        if end == End::Failed {
            until += &format!(", {}", self.clock.after(column, ":at_most"));
        }
        let slot = slot_after(end, self.shape.extras);
        // Losing an unlock in a crash of the server is safe: the lease then runs to its end. Losing
        // the mark of a slot that must not be lost would run it again.
        let flush = if end == (End::Done { durable: true }) || self.durable_unlock {
            format!(" AND {FLUSHED}")
        } else if self.hurries_unlock {
            format!(" AND {UNFLUSHED}")
        } else {
            String::new()
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
                 WHERE {} AND {SLOT_COLUMN} = :previous AND {FLUSHED}",
                self.table,
                self.named(),
            ),
            &[],
        )
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

    fn settle(&self) -> Option<Statement> {
        let Self {
            shape,
            clock: now,
            table,
            name,
            until,
            at,
            by,
            ..
        } = self;
        let end = now.down(shape.lock_until);
        let mut condition = format!("found.{until} <= {}", now.of(shape.lock_until));
        if !shape.name.exact {
            condition += &format!(" AND found.{name}::text COLLATE \"C\" = :name");
        }
        Some(statement(
            &format!(
                "INSERT INTO {table} AS found ({name}, {until}, {at}, {by}) \
                 VALUES (:name, {end}, {}, :released) \
                 ON CONFLICT ({name}) DO UPDATE SET {until} = {end} WHERE {condition}",
                now.down(shape.locked_at),
            ),
            &[],
        ))
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

/// The attempt does not come too late, whoever's clock rules: by the server's, read at this place.
fn in_time() -> String {
    format!("{} <= :not_after", Now::Clock.micros())
}

fn or_null(there: bool, column: &'static str) -> &'static str {
    if there { column } else { "NULL::bigint" }
}

/// The record's slots let this one be taken.
fn claimable(claim: Claim, by: &str, at_micros: &str) -> String {
    if claim == Claim::OpenSlot {
        return open_slot_is_free(by, at_micros);
    }
    format!("COALESCE({SLOT_COLUMN} < :slot, true)")
}

fn statement(template: &str, fields: &[Field]) -> Statement {
    Statement::new(Placeholders::Numbered, template, fields)
}

/// Pieces of statements.
impl Writer<'_> {
    /// Until when at-least keeps the lock.
    fn kept(&self) -> String {
        let (until, at) = (self.shape.lock_until, self.shape.locked_at);
        let unit = at.unit();
        if unit > 1 {
            // The acquisition was up to a unit later than its column says. Without an at-least the
            // lock is free at once nevertheless.
            let kept = format!("{} + {unit} + :at_least", micros_of(&self.at));
            return format!(
                "CASE WHEN :at_least > 0 THEN {} ELSE {} END",
                up(until, &kept),
                self.clock.down(until),
            );
        }
        if until == at {
            return later(&self.at, ":at_least");
        }
        up(until, &format!("{} + :at_least", micros_of(&self.at)))
    }

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
        // It names a column, or it would be computed, and fail, when the statement is planned.
        let fail = format!("('{TOO_LATE}' || {})::bigint", self.name);
        let at = format!(
            "CASE WHEN {} THEN {} ELSE {fail} END",
            in_time(),
            micros(&self.at)
        );
        let mut columns = format!("{at}, {}, {token}", micros(&self.until));
        if claim == Claim::OpenSlot {
            columns += &format!(", {ATTEMPTS_COLUMN}");
        }
        columns
    }

    /// Reads the record after this beginning of the statement.
    fn reading(&self, before: &str) -> Statement {
        let (server_time, fields): (_, &[Field]) = match self.clock {
            Now::Client => (
                format!(", {}", Now::Clock.micros()),
                &RECORD_AND_SERVER_TIME,
            ),
            _ => (String::new(), &RECORD),
        };
        statement(
            &format!(
                "{before}SELECT {}, n.now{server_time} FROM (SELECT {} AS now) n LEFT JOIN {} ON {} = :name",
                self.record(),
                self.clock.micros(),
                self.table,
                self.name,
            ),
            fields,
        )
    }

    /// All of a record but the time at which it is read.
    fn record(&self) -> String {
        format!(
            "{}, {}, {}, {}, {}",
            self.name,
            self.by,
            micros_of(&self.at),
            micros_of(&self.until),
            self.shape.extras.or_null("NULL::bigint"),
        )
    }
}
