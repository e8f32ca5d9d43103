//! The statements of MySQL and MariaDB; why they are so is said in the module above.

use super::{LARGEST, LOGS_STATEMENTS, has_instants};
use crate::dialect::{Claim, End, Writing, open_slot_is_free, slot_after};
use crate::options::{ATTEMPTS_COLUMN, Options, SLOT_COLUMN, TOKEN_COLUMN};
use crate::shape::{Shape, TimeColumn, TimeKind};
use crate::statement::{Field, Placeholders, RECORD, RECORD_AND_SERVER_TIME, Statement};

/// The last second of `TIMESTAMP` less a day, as the module above has it.
const TIMESTAMP_LIMIT: &str = "TIMESTAMP'2038-01-18 03:14:07'";

/// Writes the statements for one table.
pub(super) struct Writer<'a> {
    shape: &'a Shape,
    client_time: bool,
    /// The statements run in UTC.
    in_utc: bool,
    /// Replicas run the statements again, later.
    is_replayed: bool,
    /// Before the statement and behind its verb: what sets the zone, for MariaDB and for MySQL.
    prefix: String,
    hint: String,
    guard: String,
    table: String,
    name: String,
    until: String,
    at: String,
    by: String,
}

impl<'a> Writer<'a> {
    pub(super) fn new(options: &Options, shape: &'a Shape) -> Self {
        let names = &options.columns;
        let zone = options.session_zone.as_deref().unwrap_or("+00:00");
        let (prefix, hint, zone_differs) = if has_instants(shape) {
            (
                format!("/*M! SET STATEMENT time_zone = '{zone}' FOR */ "),
                format!(" /*+ SET_VAR(time_zone = '{zone}') */"),
                format!("@@time_zone <> '{zone}' OR "),
            )
        } else {
            Default::default()
        };
        Self {
            shape,
            client_time: options.time.is_client(),
            in_utc: has_instants(shape) && zone == "+00:00",
            is_replayed: shape.server.contains(LOGS_STATEMENTS),
            prefix,
            hint,
            guard: format!("{LARGEST} + ({zone_differs}@@autocommit = 0"),
            table: options.table.quoted('`'),
            name: names.name.quoted('`'),
            until: names.lock_until.quoted('`'),
            at: names.locked_at.quoted('`'),
            by: names.locked_by.quoted('`'),
        }
    }
}

impl Writing for Writer<'_> {
    fn attempt(&self, claim: Claim) -> Statement {
        let Self { until, at, by, .. } = self;
        let mut set = format!(
            "{until} = {}, {at} = {}, {by} = :owner",
            self.end("at_most"),
            cut(&self.now(), self.shape.locked_at),
        );
        if self.shape.extras.token {
            set += &format!(
                ", {TOKEN_COLUMN} = \
                 LAST_INSERT_ID(GREATEST(COALESCE({TOKEN_COLUMN}, 0) + 1, {SERVER_MICROS}))"
            );
        }
        let mut condition = format!(
            "{} AND {until} <= {} AND COALESCE(NOT ({}), 1) AND {}",
            self.named(),
            self.now(),
            self.is_owner("released"),
            self.in_time(),
        );
        match claim {
            Claim::OpenSlot => {
                set += &format!(
                    ", {ATTEMPTS_COLUMN} = IF(COALESCE({SLOT_COLUMN} = :slot, 0), \
                     COALESCE({ATTEMPTS_COLUMN}, 0) + 1, 1)"
                );
            }
            Claim::Slot if self.shape.extras.completion() => {
                set += &format!(", {ATTEMPTS_COLUMN} = NULL");
            }
            _ => {}
        }
        if claim != Claim::Nothing {
            let at_micros = micros(at);
            set += &format!(", {SLOT_COLUMN} = :slot");
            condition += &format!(
                " AND {} AND :slot <= {} + :tolerance \
                 AND (COALESCE({at_micros}, 0) < :slot OR {by} LIKE '%/%/%')",
                claimable(claim, by, &at_micros),
                self.now_micros(),
            );
        }
        self.update(&set, &condition)
    }

    fn insert(&self, claim: Claim) -> Statement {
        let mut columns = self.columns();
        let mut values = format!(
            ":name, {}, {}, :owner",
            self.end("at_most"),
            cut(&self.now(), self.shape.locked_at),
        );
        if self.shape.extras.token {
            columns += &format!(", {TOKEN_COLUMN}");
            values += &format!(", LAST_INSERT_ID({SERVER_MICROS})");
        }
        let mut condition = format!(" AND {}", self.in_time());
        if claim == Claim::OpenSlot {
            columns += &format!(", {ATTEMPTS_COLUMN}");
            values += ", 1";
        }
        if claim != Claim::Nothing {
            columns += &format!(", {SLOT_COLUMN}");
            values += ", :slot";
            condition += &format!(" AND :slot <= {} + :tolerance", self.now_micros());
        }
        self.make(&columns, &values, &condition)
    }

    fn read(&self) -> Statement {
        self.reading(&self.table, "")
    }

    /// `FOR UPDATE` is what proxies look for. It locks the rows that its own level reads from
    /// tables: none.
    fn read_to_decide(&self) -> Statement {
        let mut columns = self.columns();
        for (there, column) in self.shape.extras.columns() {
            if there {
                columns += &format!(", {column}");
            }
        }
        let record = format!(
            "(SELECT {columns} FROM {} WHERE {} = :name LIMIT 1) AS r",
            self.table, self.name
        );
        self.reading(&record, " FOR UPDATE")
    }

    fn extend(&self) -> Statement {
        let Self { until, at, .. } = self;
        let end = self.end("at_most");
        let set = format!("{until} = GREATEST({until}, {end}), {at} = {at}");
        self.update(&set, &self.held())
    }

    fn unlock(&self, end: End) -> Statement {
        let Self { until, at, by, .. } = self;
        let now = self.now_down();
        let kept = self.kept();
        let mut end_of_lease = format!("IF(:at_least = 0, {now}, GREATEST({now}, {kept}))");
        if end == End::Failed {
            end_of_lease = format!("GREATEST({end_of_lease}, {})", self.end("at_most"));
        }
        let slot = slot_after(end, self.shape.extras);
        let set = format!("{until} = {end_of_lease}, {at} = {at}, {by} = :released{slot}");
        self.update(&set, &self.held())
    }

    fn reset_slot(&self) -> Statement {
        let Self { until, at, .. } = self;
        let set = format!(
            "{until} = {until}, {at} = {at}, {ATTEMPTS_COLUMN} = NULL, {SLOT_COLUMN} = :slot"
        );
        self.update(
            &set,
            &format!("{} AND {SLOT_COLUMN} = :previous", self.named()),
        )
    }

    fn withdraw(&self) -> Statement {
        let Self { until, at, by, .. } = self;
        let set = format!(
            "{until} = {}, {at} = {at}, {by} = :released",
            self.now_down()
        );
        self.update(&set, &self.held())
    }

    fn settle(&self) -> Option<Statement> {
        let values = format!(
            ":name, {}, {}, :released",
            self.now_down(),
            cut(&self.now(), self.shape.locked_at)
        );
        Some(self.make(&self.columns(), &values, ""))
    }

    fn list(&self, held_only: bool) -> Statement {
        let held = if held_only {
            format!(" AND {} > {}", self.until, self.now())
        } else {
            String::new()
        };
        let (name, after) = if self.shape.name.exact {
            (self.name.clone(), ":after".to_owned())
        } else {
            (bytes(&self.name), "CAST(:after AS BINARY)".to_owned())
        };
        Statement::new(
            Placeholders::Positional,
            &format!(
                "{}SELECT{} {} FROM {} WHERE {name} > {after}{held} AND {} ORDER BY {name} \
                 LIMIT :limit",
                self.prefix,
                self.hint,
                self.record(),
                self.table,
                self.guarded(),
            ),
            &RECORD,
        )
    }
}

/// Pieces of statements.
impl Writer<'_> {
    fn update(&self, set: &str, condition: &str) -> Statement {
        statement(&format!(
            "{}UPDATE{} {} SET {set} WHERE {condition} AND {}",
            self.prefix,
            self.hint,
            self.table,
            self.guarded(),
        ))
    }

    /// Reads the record from this, with this end of the statement.
    fn reading(&self, from: &str, end: &str) -> Statement {
        let (server_time, fields): (_, &[Field]) = if self.client_time {
            (format!(", {SERVER_MICROS}"), &RECORD_AND_SERVER_TIME)
        } else {
            (String::new(), &RECORD)
        };
        Statement::new(
            Placeholders::Positional,
            &format!(
                "{}SELECT{} {}{server_time} FROM (SELECT 1 AS one) AS n LEFT JOIN {from} ON {} = :name WHERE {}{end}",
                self.prefix,
                self.hint,
                self.record(),
                self.name,
                self.guarded(),
            ),
            fields,
        )
    }

    /// The columns of every table.
    fn columns(&self) -> String {
        format!("{}, {}, {}, {}", self.name, self.until, self.at, self.by)
    }

    /// Inserts a record.
    fn make(&self, columns: &str, values: &str, condition: &str) -> Statement {
        let Self {
            prefix,
            hint,
            guard,
            table,
            ..
        } = self;
        // A session of another character set would store another name than it was given. The
        // comparison stands aside, so that an error of the guard does not quote the name in that
        // character set.
        let name_differs = "(SELECT CAST(CONVERT(:name USING utf8mb4) AS BINARY) \
                            <> CAST(:name AS BINARY) AS differs) AS n";
        statement(&format!(
            "{prefix}INSERT{hint} INTO {table} ({columns}) SELECT {values} FROM {name_differs} \
             WHERE {guard} OR n.differs) > 0{condition}"
        ))
    }

    fn guarded(&self) -> String {
        format!("{}) > 0", self.guard)
    }

    /// The record of exactly this name.
    fn named(&self) -> String {
        let name = &self.name;
        if self.shape.name.exact {
            format!("{name} = :name")
        } else {
            format!("{name} = :name AND {} = CAST(:name AS BINARY)", bytes(name))
        }
    }

    /// The record of exactly this name, while this owner's lease runs.
    fn held(&self) -> String {
        format!(
            "{} AND {} AND {} > {}",
            self.named(),
            self.is_owner("owner"),
            self.until,
            self.now_by_then()
        )
    }

    /// The record names exactly this value as its owner.
    fn is_owner(&self, value: &str) -> String {
        if self.shape.locked_by.exact {
            format!("{} = :{value}", self.by)
        } else {
            format!("{} = CAST(:{value} AS BINARY)", bytes(&self.by))
        }
    }

    /// The attempt does not come too late, whoever's clock rules: by the server's, read when the row
    /// is in hand.
    fn in_time(&self) -> String {
        if self.is_replayed {
            // A replica that runs the statement again, later, must not find that it came late.
            return format!("{SERVER_MICROS} <= :not_after");
        }
        if self.in_utc {
            return format!("{} <= :not_after", micros("SYSDATE(6)"));
        }
        // There is no such clock in UTC, but how long the statement has waited is the same in every
        // zone.
        let waited = "TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))";
        format!("{SERVER_MICROS} + {waited} <= :not_after")
    }

    /// All of a record and the time at which it is read.
    fn record(&self) -> String {
        format!(
            "CONVERT({} USING utf8mb4), CONVERT({} USING utf8mb4), {}, {}, {}, {}",
            self.name,
            self.by,
            micros(&self.at),
            micros(&self.until),
            self.shape.extras.or_null("CAST(NULL AS SIGNED)"),
            self.now_micros(),
        )
    }

    /// Now, in UTC, to the microsecond.
    fn now(&self) -> String {
        if self.client_time {
            format!("({EPOCH} + INTERVAL :now MICROSECOND)")
        } else {
            "UTC_TIMESTAMP(6)".to_owned()
        }
    }

    /// Now, read when the row is in hand, where the server has such a clock in UTC, and no replica
    /// reads its own later.
    fn now_by_then(&self) -> String {
        if self.in_utc && !self.is_replayed && !self.client_time {
            "SYSDATE(6)".to_owned()
        } else {
            self.now()
        }
    }

    fn now_micros(&self) -> &'static str {
        if self.client_time {
            ":now"
        } else {
            SERVER_MICROS
        }
    }

    /// Now as `lock_until` can hold it, never later than now: what frees a lock at once.
    fn now_down(&self) -> String {
        cut(&self.now(), self.shape.lock_until)
    }

    /// Until when at-least keeps the lock. A coarse column tells the acquisition to a unit only; the
    /// fencing token tells it to the microsecond, unless it had to go on from an older one.
    fn kept(&self) -> String {
        let (at, unit) = (&self.at, self.shape.locked_at.unit());
        if unit == 1 {
            return up(at, ":at_least", self.shape.lock_until);
        }
        if !self.shape.extras.token || self.client_time {
            return up(at, &format!("{unit} + :at_least"), self.shape.lock_until);
        }
        let acquired = format!("LEAST({TOKEN_COLUMN}, {} + {unit})", micros(at));
        let duration = format!("{acquired} + :at_least");
        up(EPOCH, &duration, self.shape.lock_until)
    }

    /// When a lease ends that begins now.
    fn end(&self, duration: &str) -> String {
        let column = self.shape.lock_until;
        let end = up(&self.now(), &format!(":{duration}"), column);
        match column.kind {
            // What is longer was refused before; this is for clients whose clock is years behind,
            // since without strict mode a server stores the year 0 for what it cannot hold.
            TimeKind::Instant => format!("LEAST({end}, {TIMESTAMP_LIMIT})"),
            _ => end,
        }
    }
}

/// The server's time, whoever's clock rules: what fencing tokens start from.
pub(super) const SERVER_MICROS: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

const EPOCH: &str = "TIMESTAMP'1970-01-01 00:00:00'";

fn statement(template: &str) -> Statement {
    Statement::new(Placeholders::Positional, template, &[])
}

/// The record's slots let this one be taken.
fn claimable(claim: Claim, by: &str, at_micros: &str) -> String {
    if claim == Claim::OpenSlot {
        return open_slot_is_free(by, at_micros);
    }
    format!("COALESCE({SLOT_COLUMN} < :slot, 1)")
}

/// A text column byte for byte, whatever its character set.
fn bytes(column: &str) -> String {
    format!("CAST(CONVERT({column} USING utf8mb4) AS BINARY)")
}

/// Microseconds since 1970 of a UTC wall clock; null for null and for the year 0.
fn micros(instant: &str) -> String {
    format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {instant})")
}

/// An instant to the microsecond, cut to what the column can hold.
fn cut(instant: &str, column: TimeColumn) -> String {
    match column.digits {
        6.. => instant.to_owned(),
        0 => format!("CAST(LEFT({instant}, 19) AS DATETIME)"),
        digits => format!(
            "CAST(LEFT({instant}, {}) AS DATETIME({digits}))",
            20 + digits
        ),
    }
}

/// An instant and a duration in microseconds, rounded up to what the column can hold.
fn up(instant: &str, duration: &str, column: TimeColumn) -> String {
    let duration = match column.unit() - 1 {
        0 => duration.to_owned(),
        rest => format!("{duration} + {rest}"),
    };
    cut(
        &format!("{instant} + INTERVAL {duration} MICROSECOND"),
        column,
    )
}
