//! MySQL and MariaDB, with one statement text for both.
//!
//! Why the statements are written this way:
//!
//! - **Zone.** A `TIMESTAMP` column stores an instant, but is written and read as wall-clock time of the session's time
//!   zone, and around a daylight saving change not every instant can be written. So each statement sets its own zone:
//!   `+00:00`, unless the table is shared with sessions in another one. MariaDB reads `/*M! SET STATEMENT … FOR */`,
//!   MySQL reads the hint `SET_VAR`, each skips the other's, and the session's own zone never matters. In that zone
//!   both kinds of columns contain what ShedLock's db-time writes: UTC wall-clock time.
//! - **Guard.** A server that supports neither (or a proxy that strips comments) would run the statement in the wrong
//!   zone. So each statement checks its zone itself and fails if it is wrong: one more than the largest integer is an
//!   error in every SQL mode. With autocommit off nothing would ever be committed, so the guard checks that too.
//! - **Names.** `name = …` finds the candidate through the index, in the column's collation, which may treat `Job` and
//!   `job ` as equal. The second condition compares bytes.
//! - **Winner.** Determined by the condition in WHERE and the number of rows found. The same reply contains the fencing
//!   token, as the value that `LAST_INSERT_ID(…)` was set to.
//! - **Rounding.** For columns with less than microsecond precision the statement itself rounds, always to the safe
//!   side: MySQL would round to the nearest value and MariaDB would truncate.
//! - **Both times are set in every UPDATE**, because the first `TIMESTAMP` column of a table may have received
//!   `ON UPDATE CURRENT_TIMESTAMP` implicitly.
//! - **Order.** Assignments run from left to right, and in MySQL later assignments see the new values. So the attempts
//!   at a slot are counted before the slot is set.
//! - **Now.** `UTC_TIMESTAMP` is the time at which the statement began. After a wait for a row lock that time is in the
//!   past, so leases only look longer than they are, which is right for an attempt. Steps that need a running lease use
//!   `SYSDATE`, the current time, so that an extension that had to wait does not revive a lease that expired meanwhile.
//!   If a statement does not run in UTC there is no such clock, and such an extension succeeds as long as no other
//!   owner has taken the lock.
//! - **Too late.** `SYSDATE`, evaluated once the row is locked, also decides whether an attempt arrives too late. The
//!   condition of an insert is evaluated before the insert waits for another insert of the same name, which may finally
//!   be rolled back. So a withdrawal that finds no record creates it itself, as released, or collides with that insert.
//! - **Splitting.** A read that decides ends with `FOR UPDATE`, so that a proxy that splits reads from writes sends it
//!   to the primary. The clause applies to the tables of its own query level. The record is read one level below, where
//!   the clause locks nothing.
//! - **Own transaction.** On a connection that is not ours, `SET TRANSACTION` precedes each statement in the same request.
//!   It fails in a transaction (also in one of XA). The level is for the session's next transaction, which is the user's
//!   if the statement fails or touches no table with transactions. So a `COMMIT` of nothing takes it back at once, and the
//!   statement runs at the session's own level. `@@in_transaction` would make statements unsafe for statement-based logs,
//!   and MySQL lacks it.
//! - **Replicas.** With statement-based binary logging, a replica runs the statements again, later, with the logged
//!   time for `UTC_TIMESTAMP` and its own for `SYSDATE`. There, a lease that was extended in time looks expired, and
//!   the extension or the mark of a slot changes nothing. So on such a server every statement uses `UTC_TIMESTAMP`.
//!   This is safe, because a statement begins after its request was sent, which is when the runtime starts to count a
//!   lease. After a wait for the row, an attempt's lease ends earlier than it could, but not before the runtime has
//!   stopped relying on it. An extension that waited past the end of its lease revives a lease that no other owner has
//!   taken (the condition names the owner), and the holder's own deadline has stopped it. Inside triggers and after
//!   `SET timestamp`, `UTC_TIMESTAMP` is the time of the outer statement, or the time that was set. No lock is taken
//!   inside a trigger. Sessions of a pool must not use `SET timestamp`, which would mislead attempts in every log
//!   format.

mod numbers;
mod statements;

use std::time::{Duration, UNIX_EPOCH};

use shedlock_core::Finding;
use shedlock_provider::{TlsNames, told};

pub use self::numbers::{at_login, classify, token_in};
use self::statements::SERVER_MICROS;
use super::{Alone, Check, Dialect, Follows, JournalWords};
use crate::identifier::Fold;
use crate::options::Options;
use crate::shape::{Column, Shape, TimeKind};
use crate::statement::Placeholders;

/// The number to which the guard adds one. It also distinguishes the guard's error from others with the same code.
pub(crate) const LARGEST: &str = "18446744073709551615";

/// The guard of the journal's statements: autocommit is on.
const GUARDED: &str = " AND 18446744073709551615 + (@@autocommit = 0) > 0";

/// The last second of `TIMESTAMP` less a day, so that no session's zone can exceed the limit.
const TIMESTAMP_ENDS: Duration = Duration::from_secs(2_147_483_647 - 86_400);
/// The end of the year 9998.
const DATETIME_ENDS: Duration = Duration::from_secs(253_370_764_800);

// Properties of a server that the probe reports.
const NOT_UTC: &str = "which is not UTC";
const UNFLUSHED_LOG: &str = "innodb_flush_log_at_trx_commit is not 1";
/// After a crash the server's binary log decides what was committed, and it may lack the last commits.
const UNFLUSHED_BINLOG: &str = "sync_binlog is not 1";
/// The server's replicas run the statements again.
const LOGS_STATEMENTS: &str = "binlog_format is STATEMENT";
const GALERA: &str = "wsrep_on is ON";
const GROUP: &str = "group_replication_group_name is set";

/// The settings that the probe reads, in one row. It does not use `@@name`, because a server without that setting would
/// reject the statement. MariaDB reads the first comment, MySQL the second. On both, the session's list also contains
/// the global settings.
const SETTINGS: &str = "SELECT \
     MAX(IF(LOWER(VARIABLE_NAME) = 'innodb_flush_log_at_trx_commit', VARIABLE_VALUE, NULL)) AS flush, \
     MAX(IF(LOWER(VARIABLE_NAME) = 'sync_binlog', VARIABLE_VALUE, NULL)) AS flush_binlog, \
     MAX(IF(LOWER(VARIABLE_NAME) = 'log_bin', VARIABLE_VALUE, NULL)) AS log_bin, \
     MAX(IF(LOWER(VARIABLE_NAME) = 'binlog_format', VARIABLE_VALUE, NULL)) AS format, \
     MAX(IF(LOWER(VARIABLE_NAME) = 'wsrep_on', VARIABLE_VALUE, NULL)) AS wsrep, \
     MAX(IF(LOWER(VARIABLE_NAME) = 'wsrep_provider', VARIABLE_VALUE, NULL)) AS provider, \
     MAX(IF(LOWER(VARIABLE_NAME) = 'group_replication_group_name', VARIABLE_VALUE, NULL)) AS team \
     FROM /*M! information_schema.SESSION_VARIABLES */ \
     /*!50700 performance_schema.session_variables */";

/// The conditions under which the probe reports a property of the server, each with its text.
const FACTS: [(&str, &str); 5] = [
    ("v.flush NOT IN ('1', '3')", UNFLUSHED_LOG),
    (
        "v.log_bin = 'ON' AND v.flush_binlog <> '1'",
        UNFLUSHED_BINLOG,
    ),
    (
        "v.log_bin = 'ON' AND v.format = 'STATEMENT'",
        LOGS_STATEMENTS,
    ),
    ("v.wsrep = 'ON' AND v.provider NOT IN ('', 'none')", GALERA),
    ("v.team <> ''", GROUP),
];

/// MySQL's and MariaDB's statements.
pub static MYSQL: Dialect = Dialect {
    fold: Fold::Keep,
    longest_name: 64,
    quotation_mark: '`',
    placeholders: Placeholders::Positional,
    // Writes return no rows. An attempt returns its fencing token as the last insert ID.
    returns_rows: false,
    probe,
    follows: Some(Follows {
        running: "EXISTS (SELECT 1 FROM /*M! information_schema.GLOBAL_STATUS */ \
                  /*!50700 performance_schema.global_status */ s \
                  WHERE UPPER(s.VARIABLE_NAME) = 'SLAVES_RUNNING' AND s.VARIABLE_VALUE + 0 > 0)",
        sources: &[
            "SHOW /*M! ALL SLAVES */ /*!50700 REPLICA */ STATUS",
            // MySQL before 8.0.22.
            "SHOW SLAVE STATUS",
        ],
        unless: GROUP,
        privileges: "REPLICATION CLIENT (MariaDB: SLAVE MONITOR)",
    }),
    schemas: "information_schema.SCHEMATA WHERE SCHEMA_NAME = '{schema}'",
    cancels: None,
    written_until: None,
    spelling: None,
    // Only in the database of the connection, which the URL names: those beside it are usually of other applications.
    others: "SELECT NULL, CAST(c.TABLE_NAME AS CHAR) FROM information_schema.COLUMNS c \
             WHERE c.TABLE_SCHEMA = DATABASE() AND LOWER(c.COLUMN_NAME) IN ({columns}) \
             AND NOT (c.TABLE_NAME = '{bare}' AND (@@lower_case_table_names > 0 \
             OR CAST(c.TABLE_NAME AS BINARY) = CAST('{bare}' AS BINARY))) \
             AND EXISTS (SELECT 1 FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = c.TABLE_SCHEMA \
             AND t.TABLE_NAME = c.TABLE_NAME AND t.TABLE_TYPE = 'BASE TABLE') \
             GROUP BY c.TABLE_NAME HAVING COUNT(*) = 4 ORDER BY 2",
    comparable: "CAST(CONVERT({name} USING utf8mb4) AS BINARY)",
    readable: "CONVERT({name} USING utf8mb4)",
    select: "{select}",
    has_usage: false,
    text,
    time: |type_name| match type_name {
        "timestamp" => Ok(TimeKind::Instant),
        "datetime" => Ok(TimeKind::Wall),
        _ => Err("timestamp or datetime"),
    },
    is_integer: |type_name| type_name == "bigint",
    assumed: Shape::assumed(TimeKind::Instant, 3),
    unit: 1,
    longest_lease,
    quote,
    // Limits waits for row locks to 5 s, unless a shorter limit is set. With the default (50 s) an attempt would wait
    // long for a transaction that keeps its row locked. A statement whose sender has gone would also keep waiting, and
    // could win the lock for an owner that has ended. A server may start its sessions with autocommit off.
    session_init: Some(
        "SET SESSION innodb_lock_wait_timeout = \
         CAST(LEAST(@@innodb_lock_wait_timeout, 5) AS SIGNED), SESSION autocommit = 1",
    ),
    alone: Alone {
        before: "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; COMMIT AND NO CHAIN NO RELEASE; ",
        after: "",
        shadowed: "",
    },
    makes_space: None,
    tls: TlsNames {
        ca: "ssl-ca",
        certificate: "ssl-cert",
        key: "ssl-key",
    },
    explain: |_, _| None,
    forgets: &[
        (
            UNFLUSHED_LOG,
            told(
                "the server confirms a commit before its log is on disk: a crash (in a cluster, of \
                 all nodes at once) can lose held locks and marks of done slots",
            )
            .advise("set innodb_flush_log_at_trx_commit=1"),
        ),
        (
            UNFLUSHED_BINLOG,
            told(
                "the server has a binary log and does not sync it at each commit: a crash of its \
                 machine undoes commits that the log lacks, and so can lose held locks and marks \
                 of done slots",
            )
            .advise("set sync_binlog=1"),
        ),
    ],
    other_warnings,
    misreads_java,
    checks,
    pieces: statements::pieces,
    create_table: statements::CREATE_TABLE,
    index: None,
    has_one_writer: false,
    journal: JournalWords {
        // As in the lock table: collations that compare every byte have different names.
        text: |length| {
            format!(
                "VARCHAR({length}) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ \
                 /*!80017 COLLATE utf8mb4_0900_bin */"
            )
        },
        clock: SERVER_MICROS,
        random: "LEFT(SHA2(CONCAT(UUID(), RAND()), 256), 32)",
        inline_indexes: true,
        qualified_indexes: false,
        has_index: |_| "1 = 1".to_owned(),
        for_update: " FOR UPDATE",
        ignores: ["IGNORE ", ""],
        guarded: GUARDED,
        frame: (&["BEGIN"], &["COMMIT"]),
        lent_frame: (
            &[
                "SET @shedlock_waits = @@lock_wait_timeout, @shedlock_row_waits = @@innodb_lock_wait_timeout, \
                 SESSION lock_wait_timeout = 1, SESSION innodb_lock_wait_timeout = 1",
                "BEGIN",
            ],
            &[
                "COMMIT",
                "SET SESSION lock_wait_timeout = @shedlock_waits, \
                 SESSION innodb_lock_wait_timeout = @shedlock_row_waits",
            ],
        ),
        may_not_create: "COALESCE(CURRENT_ROLE(), 'NONE') = 'NONE' AND NOT EXISTS (\
             SELECT 1 FROM information_schema.USER_PRIVILEGES p \
             WHERE p.PRIVILEGE_TYPE = 'CREATE' AND p.GRANTEE = \
             CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')) AND NOT EXISTS (\
             SELECT 1 FROM information_schema.SCHEMA_PRIVILEGES p \
             WHERE p.PRIVILEGE_TYPE = 'CREATE' AND DATABASE() LIKE p.TABLE_SCHEMA AND p.GRANTEE = \
             CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), ''''))",
    },
    own_column: "BIGINT NULL",
    adds_one_column_at_a_time: false,
};

fn probe(options: &Options) -> String {
    let (schema, table) = (schema(options), options.table.name.as_str());
    // Checked in January and in July: a zone with daylight saving time is not UTC in both.
    let is_utc = |date: &str| {
        format!("COALESCE(CONVERT_TZ('{date}', '+00:00', @@global.time_zone) = '{date}', 0)")
    };
    // The schema's views ignore case even on servers whose names are case-sensitive.
    let is_table = |of: &str| {
        format!(
            "{of}.TABLE_SCHEMA = {schema} AND {of}.TABLE_NAME = '{table}' AND \
             (@@lower_case_table_names > 0 OR CAST({of}.TABLE_NAME AS BINARY) = CAST('{table}' AS \
             BINARY))"
        )
    };
    let facts: String = FACTS
        .iter()
        .map(|(condition, fact)| format!(", IF({condition}, ', {fact}', '')"))
        .collect();
    format!(
        "SELECT CAST(c.COLUMN_NAME AS CHAR), LOWER(CAST(c.DATA_TYPE AS CHAR)), \
         CAST(c.DATETIME_PRECISION AS SIGNED), CAST(c.CHARACTER_MAXIMUM_LENGTH AS SIGNED), \
         CAST(c.COLLATION_NAME AS CHAR), CAST(u.alone IS NOT NULL AS SIGNED), \
         CAST(c.IS_NULLABLE = 'NO' AND c.COLUMN_DEFAULT IS NULL \
         AND LOWER(c.EXTRA) NOT LIKE '%auto_increment%' \
         AND LOWER(c.EXTRA) NOT LIKE '%generated%' AS SIGNED), \
         CONCAT(VERSION(), ', sessions start with time_zone ', @@global.time_zone, \
         IF({} AND {}, '', ', {NOT_UTC}'){facts}), {SERVER_MICROS}, \
         CONCAT(@@hostname, ':', @@port, '/', CAST(c.TABLE_SCHEMA AS CHAR)), CAST({schema} AS CHAR) \
         FROM information_schema.COLUMNS c CROSS JOIN ({SETTINGS}) v \
         LEFT JOIN (SELECT DISTINCT MIN(s.COLUMN_NAME) AS alone \
         FROM information_schema.STATISTICS s \
         WHERE {} GROUP BY s.INDEX_NAME \
         HAVING COUNT(*) = 1 AND MAX(s.NON_UNIQUE) = 0 AND COUNT(s.SUB_PART) = 0) u \
         ON u.alone = c.COLUMN_NAME WHERE {} ORDER BY c.ORDINAL_POSITION",
        is_utc("2027-01-01 00:00:00"),
        is_utc("2027-07-01 00:00:00"),
        is_table("s"),
        is_table("c"),
    )
}

fn text(column: &Column, is_name: bool) -> Result<bool, &'static str> {
    let collation = column.collation.as_deref().unwrap_or_default();
    let is_exact = collation == "utf8mb4_0900_bin" || collation.ends_with("_nopad_bin");
    match &*column.type_name {
        "varchar" => Ok(is_exact),
        // CHAR drops trailing spaces, VARBINARY counts bytes, TEXT cannot have a unique key over its full length.
        _ if is_name => Err("varchar"),
        "char" | "tinytext" | "text" | "mediumtext" | "longtext" => Ok(is_exact),
        _ => Err("varchar or text"),
    }
}

fn longest_lease(options: &Options, shape: &Shape) -> Duration {
    let ends = match has_instants(shape) {
        true => TIMESTAMP_ENDS,
        false => DATETIME_ENDS,
    };
    let now = options.clock.system_time().duration_since(UNIX_EPOCH);
    let left = ends.saturating_sub(now.unwrap_or_default());
    // Rounded down to whole days, so that the declared value is still true when it is used.
    Duration::from_secs(left.as_secs() / 86_400 * 86_400)
}

fn checks(options: &Options) -> Vec<Check> {
    let (schema, table) = (schema(options), options.table.name.as_str());
    vec![
        Check::new(
            "engine",
            format!(
                "EXISTS (SELECT 1 FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = {schema} \
                 AND t.TABLE_NAME = '{table}' AND LOWER(t.ENGINE) <> 'innodb')"
            ),
            told(
                "the table's storage engine is not InnoDB: a crash can lose or damage locks, and \
                 writers may block each other",
            )
            .advise("run ALTER TABLE … ENGINE=InnoDB"),
            "the table's storage engine is InnoDB",
        ),
        Check::new(
            "triggers",
            format!(
                "EXISTS (SELECT 1 FROM information_schema.TRIGGERS g \
                 WHERE g.EVENT_OBJECT_SCHEMA = {schema} AND g.EVENT_OBJECT_TABLE = '{table}')"
            ),
            told(
                "the table has triggers: one that changes a write breaks locks, and each of them \
                 slows every lock down",
            )
            .advise("drop them, or make sure that they change nothing"),
            "the table has no triggers",
        ),
        // Users without the privilege PROCESS see only their own sessions.
        Check::new(
            "replicas",
            "EXISTS (SELECT 1 FROM information_schema.PROCESSLIST p \
             WHERE p.COMMAND LIKE 'Binlog Dump%') AND NOT EXISTS (SELECT 1 \
             FROM /*M! information_schema.SESSION_VARIABLES */ \
             /*!50700 performance_schema.session_variables */ v \
             WHERE LOWER(v.VARIABLE_NAME) IN ('rpl_semi_sync_master_enabled', \
             'rpl_semi_sync_source_enabled') AND v.VARIABLE_VALUE = 'ON')",
            told(
                "commits do not wait for the replicas: after a failover, the new primary can lack \
                 the last locks, tokens and slots, and another process can take a held lock",
            )
            .advise("use semisynchronous replication if two runs would do harm"),
            "no replica is visible to this user, or commits wait for one (semisynchronous)",
        ),
    ]
}

/// The schema of the table, as an expression.
fn schema(options: &Options) -> String {
    match &options.table.schema {
        Some(schema) => format!("'{}'", schema.as_str()),
        None => "DATABASE()".to_owned(),
    }
}

fn misreads_java(options: &Options, shape: &Shape) -> bool {
    let is_utc = !shape.server.contains(NOT_UTC);
    has_instants(shape) && !is_utc && options.shared_session_zone.is_none()
}

fn other_warnings(options: &Options, shape: &Shape) -> Vec<Finding> {
    let says = |fact: &str| shape.server.contains(fact);
    let mut warnings = Vec::new();
    if says(LOGS_STATEMENTS) {
        warnings.push(Finding::warning(
            "replicas",
            "the server replicates statements (binlog_format=STATEMENT): leases are judged by the \
             time at which a statement began, so that replicas get the same result",
            "set binlog_format=ROW",
        ));
    }
    if misreads_java(options, shape) {
        let wrong = format!(
            "TIMESTAMP columns on a server ({}): if ShedLock for Java uses this table, its times \
             are shifted by the offset of its sessions, and attempts are then refused",
            shape.server
        );
        let remedy = "set shared_session_zone to the time zone of Java's sessions, or to +00:00 if no Java \
             service uses this table, which ends this warning";
        warnings.push(Finding::warning("zone", wrong, remedy));
    }
    let is_one_of_several = says(GALERA) || says(GROUP);
    if is_one_of_several && options.server_skew.is_zero() && !options.time.is_client() {
        warnings.push(Finding::warning(
            "cluster",
            "several servers judge leases of this table (Galera or group replication), each by its \
             own clock: two clocks that differ by more than the runtime's margin can grant one \
             lock twice",
            "keep the clocks in sync, and set server_skew to their largest skew",
        ));
    }
    warnings
}

/// Writes the text in hexadecimal, which means the same in every `sql_mode` and character set of a session.
fn quote(text: &str) -> String {
    let bytes: String = text.bytes().map(|byte| format!("{byte:02X}")).collect();
    format!("_utf8mb4 X'{bytes}'")
}

fn has_instants(shape: &Shape) -> bool {
    let kinds = [shape.lock_until.kind, shape.locked_at.kind];
    kinds.contains(&TimeKind::Instant)
}

#[cfg(test)]
mod tests;
