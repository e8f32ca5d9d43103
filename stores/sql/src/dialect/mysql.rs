//! MySQL and MariaDB, with one text for both.
//!
//! Why the statements are as they are:
//!
//! - **Zone.** A `TIMESTAMP` column keeps an instant, but is written and read as the wall clock of
//!   the session's time zone, and around a change of summer time not every instant can be written.
//!   So each statement runs in a zone of its own, `+00:00` unless the table is shared with sessions
//!   of another one: MariaDB reads `/*M! SET STATEMENT … FOR */`, MySQL the hint `SET_VAR`, each
//!   skips the other's, and the session's own zone never matters. In that zone both kinds of
//!   columns hold what ShedLock's db-time writes: the wall clock of UTC.
//! - **Guard.** A server that knows neither (or a proxy that takes comments out) would run the
//!   statement in the wrong zone. So the statement itself looks: one more than the largest integer
//!   is an error of the server in every mode. With autocommit off nothing would ever be committed;
//!   that is looked at in the same place.
//! - **Names.** `name = …` finds the candidate by the index, in the column's collation, for which
//!   `Job` and `job ` may be the same; the second condition compares bytes.
//! - **Winner.** Told by the condition in WHERE and the number of rows found. The fencing token
//!   comes back in the same reply, as what `LAST_INSERT_ID(…)` was set to.
//! - **Rounding.** Columns that keep fewer digits than a microsecond are rounded in the statement,
//!   always to the safe side: MySQL would round to the nearest and MariaDB cut.
//! - **Both times are set in every UPDATE**, since the first `TIMESTAMP` column of a table may have
//!   been made with `ON UPDATE CURRENT_TIMESTAMP` without anybody asking for it.
//! - No assignment reads a column that another one sets: MySQL would show it the new value.
//! - `UTC_TIMESTAMP` is the time at which the statement began. After waiting for a row lock that is
//!   the past, in which leases only look longer than they are.

use std::time::{Duration, UNIX_EPOCH};

use shedlock_core::Error;

use super::{Dialect, Statements};
use crate::identifier::Fold;
use crate::options::{Options, SLOT_COLUMN, TOKEN_COLUMN};
use crate::shape::{Column, Columns, Shape, TextColumn, TimeColumn, TimeKind};
use crate::statement::{Placeholders, RECORD, Statement};

/// The statements of MySQL and MariaDB.
#[derive(Debug)]
pub(crate) struct MySql;

/// Characters of an identifier.
const LONGEST_NAME: usize = 64;

/// What the guard adds one to; also how its error is told from others of the same code.
pub(crate) const LARGEST: &str = "18446744073709551615";

/// The last second of `TIMESTAMP` less a day, so that no session's zone can push it over.
const TIMESTAMP_ENDS: Duration = Duration::from_secs(2_147_483_647 - 86_400);
/// The same, as a limit in a statement.
const TIMESTAMP_LIMIT: &str = "TIMESTAMP'2038-01-18 00:00:00'";
/// The end of the year 9998.
const DATETIME_ENDS: Duration = Duration::from_secs(253_370_764_800);

/// What the probe says of a server whose sessions do not start in UTC.
const NOT_UTC: &str = "which is not UTC";

impl Dialect for MySql {
    fn identifiers(&self) -> (Fold, usize) {
        (Fold::Keep, LONGEST_NAME)
    }

    fn probe(&self, options: &Options) -> Statement {
        let schema = match &options.table.schema {
            Some(schema) => format!("'{}'", schema.as_str()),
            None => "DATABASE()".to_owned(),
        };
        let table = options.table.name.as_str();
        // In January or in July: a zone with summer time is not UTC in both.
        let is_utc = |date: &str| {
            format!("COALESCE(CONVERT_TZ('{date}', '+00:00', @@global.time_zone) = '{date}', 0)")
        };
        // On servers that tell names by case, the views of the schema do not.
        let is_table = |of: &str| {
            format!(
                "{of}.TABLE_SCHEMA = {schema} AND {of}.TABLE_NAME = '{table}' \
                 AND (@@lower_case_table_names > 0 \
                 OR CAST({of}.TABLE_NAME AS BINARY) = CAST('{table}' AS BINARY))"
            )
        };
        let template = format!(
            "SELECT CAST(c.COLUMN_NAME AS CHAR), LOWER(CAST(c.DATA_TYPE AS CHAR)), \
             CAST(c.DATETIME_PRECISION AS SIGNED), CAST(c.CHARACTER_MAXIMUM_LENGTH AS SIGNED), \
             CAST(c.COLLATION_NAME AS CHAR), CAST(u.alone IS NOT NULL AS SIGNED), \
             CAST(c.IS_NULLABLE = 'NO' AND c.COLUMN_DEFAULT IS NULL \
             AND LOWER(c.EXTRA) NOT LIKE '%auto_increment%' \
             AND LOWER(c.EXTRA) NOT LIKE '%generated%' AS SIGNED), \
             CONCAT(VERSION(), ', sessions start with time_zone ', @@global.time_zone, \
             IF({} AND {}, '', ', {NOT_UTC}')) \
             FROM information_schema.COLUMNS c \
             LEFT JOIN (SELECT DISTINCT MIN(s.COLUMN_NAME) AS alone \
             FROM information_schema.STATISTICS s \
             WHERE {} GROUP BY s.INDEX_NAME \
             HAVING COUNT(*) = 1 AND MAX(s.NON_UNIQUE) = 0 AND COUNT(s.SUB_PART) = 0) u \
             ON u.alone = c.COLUMN_NAME WHERE {} ORDER BY c.ORDINAL_POSITION",
            is_utc("2027-01-01 00:00:00"),
            is_utc("2027-07-01 00:00:00"),
            is_table("s"),
            is_table("c"),
        );
        Statement::new(Placeholders::Positional, &template, &[])
    }

    fn shape(&self, options: &Options, columns: &[Column]) -> Result<Shape, Error> {
        let found = Columns::check(options, columns)?;
        let names = &options.columns;
        let name = found.get(names.name.as_str())?;
        let locked_by = found.get(names.locked_by.as_str())?;
        if name.type_name != "varchar" {
            // CHAR drops trailing blanks, VARBINARY counts bytes, TEXT has no full unique key.
            return Err(found.unfit(name, "varchar"));
        }
        if !matches!(
            locked_by.type_name.as_str(),
            "varchar" | "char" | "tinytext" | "text" | "mediumtext" | "longtext"
        ) {
            return Err(found.unfit(locked_by, "varchar or text"));
        }
        let time = |name: &str| {
            let column = found.get(name)?;
            let kind = match column.type_name.as_str() {
                "timestamp" => TimeKind::Instant,
                "datetime" => TimeKind::Wall,
                _ => return Err(found.unfit(column, "timestamp or datetime")),
            };
            let digits = column.digits.and_then(|digits| u8::try_from(digits).ok());
            Ok(TimeColumn {
                kind,
                digits: digits.unwrap_or(0),
            })
        };
        let (token, slot) = found.extras("bigint")?;
        Ok(Shape {
            name: text(name),
            locked_by: text(locked_by),
            lock_until: time(names.lock_until.as_str())?,
            locked_at: time(names.locked_at.as_str())?,
            token,
            slot,
            server: name.server.clone(),
        })
    }

    fn assumed(&self) -> Shape {
        let time = TimeColumn {
            kind: TimeKind::Instant,
            digits: 3,
        };
        let text = |length| TextColumn {
            length: Some(length),
            exact: true,
        };
        Shape {
            name: text(64),
            locked_by: text(255),
            lock_until: time,
            locked_at: time,
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
        // Collations that compare every byte, also trailing blanks, have another name in each
        // server. Both times have a default, or an old server would make one of its own.
        let template = format!(
            "CREATE TABLE {} ({} VARCHAR(64) CHARACTER SET utf8mb4 \
             /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ \
             NOT NULL PRIMARY KEY, \
             {} TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), \
             {} TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), \
             {} VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL, \
             {TOKEN_COLUMN} BIGINT NULL, {SLOT_COLUMN} BIGINT NULL) ENGINE = InnoDB",
            options.table.quoted('`'),
            names.name.quoted('`'),
            names.lock_until.quoted('`'),
            names.locked_at.quoted('`'),
            names.locked_by.quoted('`'),
        );
        Statement::new(Placeholders::Positional, &template, &[])
    }

    fn add_column(&self, options: &Options, column: &str) -> Statement {
        let template = format!(
            "ALTER TABLE {} ADD COLUMN {column} BIGINT NULL",
            options.table.quoted('`')
        );
        Statement::new(Placeholders::Positional, &template, &[])
    }

    /// The statements round, where a column is coarse: the instant, not the duration.
    fn unit(&self, _: &Shape) -> i64 {
        1
    }

    fn longest_lease(&self, options: &Options, shape: &Shape) -> Duration {
        let ends = if has_instants(shape) {
            TIMESTAMP_ENDS
        } else {
            DATETIME_ENDS
        };
        let now = options.clock.system_time().duration_since(UNIX_EPOCH);
        let left = ends.saturating_sub(now.unwrap_or_default());
        // In whole days, so that what is declared is still true when it is asked for.
        Duration::from_secs(left.as_secs() / 86_400 * 86_400)
    }

    fn warning(&self, options: &Options, shape: &Shape) -> Option<String> {
        let matters = has_instants(shape) && shape.server.ends_with(NOT_UTC);
        if !matters || options.session_zone.is_some() {
            return None;
        }
        Some(format!(
            "TIMESTAMP columns on a server ({}): Rust services agree among themselves, but a Java \
             ShedLock on this table writes instants shifted by the offset of its sessions, and \
             neither side would keep the other out; if Java uses the table, name the zone of its \
             sessions with shared_session_zone, if not, set it to +00:00 and this is not said \
             again",
            shape.server
        ))
    }
}

fn text(column: &Column) -> TextColumn {
    let exact = column.collation.as_deref().is_some_and(|collation| {
        collation == "utf8mb4_0900_bin" || collation.ends_with("_nopad_bin")
    });
    TextColumn {
        length: column.length.and_then(|length| u32::try_from(length).ok()),
        exact,
    }
}

fn has_instants(shape: &Shape) -> bool {
    [shape.lock_until, shape.locked_at]
        .iter()
        .any(|column| column.kind == TimeKind::Instant)
}

/// Writes the statements for one table.
struct Writer<'a> {
    shape: &'a Shape,
    client_time: bool,
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
    fn new(options: &Options, shape: &'a Shape) -> Self {
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

    fn attempt(&self, slot: bool) -> Statement {
        let Self { until, at, by, .. } = self;
        let mut set = format!(
            "{until} = {}, {at} = {}, {by} = :owner",
            self.end("at_most"),
            cut(&self.now(), self.shape.locked_at),
        );
        if self.shape.token {
            set += &format!(
                ", {TOKEN_COLUMN} = \
                 LAST_INSERT_ID(GREATEST(COALESCE({TOKEN_COLUMN}, 0) + 1, {SERVER_MICROS}))"
            );
        }
        let mut condition = format!("{} AND {until} <= {}", self.named(), self.now());
        if slot {
            set += &format!(", {SLOT_COLUMN} = :slot");
            condition += &format!(
                " AND COALESCE({SLOT_COLUMN} < :slot, 1) AND :slot <= {} + :tolerance \
                 AND (COALESCE({}, 0) < :slot OR {by} LIKE '%/%/%')",
                self.now_micros(),
                micros(at),
            );
        }
        self.update(&set, &condition)
    }

    fn insert(&self, slot: bool) -> Statement {
        let Self {
            prefix,
            hint,
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
            self.end("at_most"),
            cut(&self.now(), self.shape.locked_at),
        );
        if self.shape.token {
            columns += &format!(", {TOKEN_COLUMN}");
            values += &format!(", LAST_INSERT_ID({SERVER_MICROS})");
        }
        // A session of another character set would store another name than it was given.
        let mut condition = format!(
            "{} OR CAST(CONVERT(:name USING utf8mb4) AS BINARY) <> CAST(:name AS BINARY)) > 0",
            self.guard
        );
        if slot {
            columns += &format!(", {SLOT_COLUMN}");
            values += ", :slot";
            condition += &format!(" AND :slot <= {} + :tolerance", self.now_micros());
        }
        statement(&format!(
            "{prefix}INSERT{hint} INTO {table} ({columns}) SELECT {values} FROM DUAL \
             WHERE {condition}"
        ))
    }

    fn read(&self) -> Statement {
        Statement::new(
            Placeholders::Positional,
            &format!(
                "{}SELECT{} {} FROM (SELECT 1 AS one) AS n LEFT JOIN {} ON {} = :name WHERE {}",
                self.prefix,
                self.hint,
                self.record(),
                self.table,
                self.name,
                self.guarded(),
            ),
            &RECORD,
        )
    }

    fn extend(&self) -> Statement {
        let Self { until, at, .. } = self;
        let set = format!("{until} = {}, {at} = {at}", self.end("at_most"));
        self.update(&set, &self.held())
    }

    fn unlock(&self) -> Statement {
        let Self { until, at, by, .. } = self;
        let now = self.now_down();
        // The acquisition was up to a unit later than its column says.
        let at_least = match self.shape.locked_at.unit() {
            1 => ":at_least".to_owned(),
            unit => format!(":at_least + {unit}"),
        };
        let kept = up(at, &at_least, self.shape.lock_until);
        let set = format!(
            "{until} = IF(:at_least = 0, {now}, GREATEST({now}, {kept})), {at} = {at}, \
             {by} = :released"
        );
        self.update(&set, &self.held())
    }

    fn withdraw(&self) -> Statement {
        let Self { until, at, by, .. } = self;
        let set = format!(
            "{until} = {}, {at} = {at}, {by} = :released",
            self.now_down()
        );
        self.update(&set, &self.held())
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
        let owner = if self.shape.locked_by.exact {
            format!("{} = :owner", self.by)
        } else {
            format!("{} = CAST(:owner AS BINARY)", bytes(&self.by))
        };
        format!(
            "{} AND {owner} AND {} > {}",
            self.named(),
            self.until,
            self.now()
        )
    }

    /// All of a record and the time at which it is read.
    fn record(&self) -> String {
        let or_null = |there: bool, column: &'static str| {
            if there {
                column
            } else {
                "CAST(NULL AS SIGNED)"
            }
        };
        format!(
            "CONVERT({} USING utf8mb4), CONVERT({} USING utf8mb4), {}, {}, {}, {}, {}",
            self.name,
            self.by,
            micros(&self.at),
            micros(&self.until),
            or_null(self.shape.token, TOKEN_COLUMN),
            or_null(self.shape.slot, SLOT_COLUMN),
            self.now_micros(),
        )
    }

    /// Now, in UTC, to the microsecond.
    fn now(&self) -> String {
        if self.client_time {
            "(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :now MICROSECOND)".to_owned()
        } else {
            "UTC_TIMESTAMP(6)".to_owned()
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
const SERVER_MICROS: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

fn statement(template: &str) -> Statement {
    Statement::new(Placeholders::Positional, template, &[])
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
