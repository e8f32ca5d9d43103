//! PostgreSQL.
//!
//! Why the statements are written this way:
//!
//! - An attempt uses `CURRENT_TIMESTAMP`, the time at which it arrived: one instant for all columns. If it had to wait
//!   for another transaction's row lock, that instant is in the past. This can only refuse a lock that has just become
//!   free, or shorten a lease. It never grants a lease early.
//! - `clock_timestamp()` decides whether an attempt arrives too late. It is evaluated in the condition, which is
//!   checked again if another transaction has changed the record meanwhile. It is also evaluated in the returned
//!   values, because after a wait for a transaction that only locked the record, or that was rolled back, the condition
//!   is not checked again. In that case an attempt that is too late fails, which rolls it back.
//! - A withdrawal must not miss an attempt whose commit is in flight (on a disk that stalls). An `UPDATE` does miss it:
//!   it reads the last committed record, finds another owner, and does not wait. `ON CONFLICT DO UPDATE` does wait.
//! - Steps that need a running lease use `clock_timestamp()`. An extension that had to wait for a change checks its
//!   condition again and must then use the current time. Otherwise it could revive a lease that expired meanwhile.
//! - A losing attempt is an `UPDATE` that matches no row: it takes no row lock and writes no WAL.
//!   `ON CONFLICT … DO UPDATE … WHERE` does both.
//! - `timestamp` columns contain UTC wall-clock time, as in ShedLock's db-time; `timestamptz` columns contain instants.
//!   Neither depends on the session's zone.
//! - Steps whose result the caller relies on (an acquisition, an extension, the mark of a slot that must not be lost)
//!   wait for the server's disk, even in a session whose `synchronous_commit` is off. The statement itself checks the
//!   setting and raises it to `local` for its own transaction. A setting that waits for standbys stays unchanged.
//! - A read that decides contains an update that can change nothing. So a proxy that splits reads from writes sends it
//!   to the primary, and a standby rejects it. It takes no row lock and no transaction ID, and writes no WAL.
//! - A column may contain `infinity`, which no integer can represent: such records are read as if it were the year
//!   9999.
//! - On a connection that is not ours a statement is one request of the simple protocol. There, `statement_timestamp()`
//!   is when the request arrived, and `now()` is the same instant unless the session was already in a transaction. Then
//!   a write finds no record, and a `SELECT` after it says so. In the extended protocol the two always differ.
//! - Parameters need no casts: they are sent with their types, and as literals their types are unambiguous too.

mod codes;
mod statements;

use shedlock_core::Operation;
use shedlock_provider::{HUNDRED_YEARS, TlsNames, told};

pub use self::codes::{at_login, classify};
use self::statements::TOO_LATE;
use super::{Alone, Check, Dialect, JournalWords};
use crate::identifier::Fold;
use crate::options::Options;
use crate::shape::{Column, Shape, TimeKind};
use crate::statement::Placeholders;

// Properties of a server and of the table that the probe reports.
const WAITS_FOR_DISK: &str = ", waits for its disk";
const FSYNC_OFF: &str = ", fsync is off";
const UNLOGGED: &str = ", the table is unlogged";

/// PostgreSQL's statements.
pub static POSTGRES: Dialect = Dialect {
    fold: Fold::Lower,
    // The server truncates longer ones.
    longest_name: 63,
    quotation_mark: '"',
    placeholders: Placeholders::Numbered,
    returns_rows: true,
    probe,
    follows: None,
    schemas: "pg_catalog.pg_namespace WHERE nspname = '{schema}'",
    // By the number *and* the start of the process: numbers are used again.
    written_until: Some(
        "SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN \
         (EXTRACT(EPOCH FROM pg_catalog.pg_last_xact_replay_timestamp()) * 1000000)::bigint END",
    ),
    cancels: Some(
        "SELECT COALESCE((SELECT CASE WHEN a.wait_event IS DISTINCT FROM 'SyncRep' THEN 'there' \
         WHEN pg_catalog.pg_cancel_backend(a.pid) THEN 'cancelled' ELSE 'there' END \
         FROM pg_catalog.pg_stat_activity a WHERE a.pid::text || ' ' || \
         (extract(epoch FROM a.backend_start) * 1000000)::bigint::text = '{session}'), 'gone')",
    ),
    // Columns of type citext: compared with a text, they are texts.
    spelling: Some(
        "SELECT min({name}::text) FROM {table} WHERE lower({name}::text) = lower(:name) AND {name}::text <> :name",
    ),
    // The views of information_schema hide the tables of other roles.
    others: "SELECT CASE WHEN n.nspname <> current_schema() THEN n.nspname END::text, c.relname::text \
             FROM (SELECT a.attrelid FROM pg_catalog.pg_attribute a \
             WHERE a.attnum > 0 AND NOT a.attisdropped AND lower(a.attname::text) IN ({columns}) \
             GROUP BY a.attrelid HAVING count(*) = 4) s \
             JOIN pg_catalog.pg_class c ON c.oid = s.attrelid \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relkind IN ('r', 'p', 'f') AND NOT c.relispartition \
             AND n.nspname NOT LIKE 'pg!_%' ESCAPE '!' AND c.oid IS DISTINCT FROM pg_catalog.to_regclass('{table}') \
             ORDER BY 1 NULLS FIRST, 2",
    comparable: "{name}::text COLLATE \"C\"",
    readable: "{name}",
    select: "SELECT",
    has_usage: true,
    text,
    time: |type_name| match type_name {
        "timestamp" => Ok(TimeKind::Wall),
        "timestamptz" => Ok(TimeKind::Instant),
        _ => Err("timestamp or timestamptz"),
    },
    is_integer: |type_name| type_name == "int8",
    assumed: Shape::assumed(TimeKind::Wall, 6),
    unit: 1,
    // `bigint * interval` is computed in floating point: exact up to 285 years.
    longest_lease: |_, _| HUNDRED_YEARS,
    quote,
    // Limits waits for row locks, unless a limit is set: no attempt waits long for a transaction that keeps its row
    // locked. A statement whose sender has gone does not keep waiting either, so it cannot win the lock for an owner
    // that has ended.
    // Each statement of a lock goes by the key. While the table is small the planner prefers to read all of it, and a
    // prepared statement keeps that plan as the table grows, until the server analyzes it. What has no index looks so
    // expensive then that it would be compiled.
    session_init: Some(
        "SELECT set_config('enable_seqscan', 'off', false), set_config('jit', 'off', false), \
         CASE WHEN current_setting('lock_timeout') = '0' THEN set_config('lock_timeout', '5s', false) END",
    ),
    alone: Alone {
        before: "",
        after: "; SELECT CASE WHEN now() <> statement_timestamp() THEN 'it is in a transaction'{shadowed} ELSE '' END",
        shadowed: " WHEN pg_catalog.pg_my_temp_schema() <> 0 AND EXISTS (SELECT 1 FROM pg_catalog.pg_class \
             WHERE oid = pg_catalog.to_regclass('{table}') AND relpersistence = 't') \
             THEN 'it has a temporary table of the same name'",
    },
    makes_space: None,
    tls: TLS,
    explain: |_, _| None,
    forgets: &[
        (
            FSYNC_OFF,
            told(
                "the server runs with fsync=off: a crash of its machine can lose held locks and \
                 marks of done slots, and can damage the database",
            )
            .advise("set fsync=on"),
        ),
        (
            UNLOGGED,
            told(
                "the table is unlogged: a crash of the server empties it, so every lock is free \
                 and every slot can run again",
            )
            .advise("run ALTER TABLE … SET LOGGED"),
        ),
    ],
    other_warnings: |_, _| Vec::new(),
    misreads_java: |_, _| false,
    checks,
    pieces: statements::pieces,
    create_table: statements::CREATE_TABLE,
    // A key in another collation does not serve this order, not even if the collation sorts alike.
    index: Some((
        "NOT EXISTS (SELECT 1 FROM pg_catalog.pg_index i JOIN pg_catalog.pg_collation c ON c.oid = i.indcollation[0] \
         WHERE i.indrelid = pg_catalog.to_regclass('{table}') AND i.indisvalid AND i.indpred IS NULL \
         AND c.collname IN ('C', 'POSIX')) \
         AND pg_catalog.pg_has_role((SELECT r.relowner FROM pg_catalog.pg_class r \
         WHERE r.oid = pg_catalog.to_regclass('{table}')), 'USAGE')",
        "CREATE INDEX {index} ON {table} ({name} COLLATE \"C\")",
    )),
    has_one_writer: false,
    journal: JournalWords {
        text: |length| format!("varchar({length}) COLLATE \"C\""),
        clock: "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
        random: "md5(random()::text || clock_timestamp()::text)",
        inline_indexes: false,
        qualified_indexes: false,
        has_index: |index| {
            format!(
                "pg_catalog.to_regclass('{}') IS NOT NULL",
                index.quoted('"')
            )
        },
        for_update: " FOR UPDATE",
        ignores: ["", " ON CONFLICT DO NOTHING"],
        guarded: "",
        frame: (&["BEGIN"], &["COMMIT"]),
        lent_frame: (&["BEGIN", "SET LOCAL lock_timeout = '1s'"], &["COMMIT"]),
        may_not_create: "NOT pg_catalog.has_schema_privilege(COALESCE(\
             (SELECT c.relnamespace FROM pg_catalog.pg_class c \
             WHERE c.oid = pg_catalog.to_regclass('{table}')), \
             pg_catalog.to_regnamespace(current_schema()::text)), 'CREATE')",
    },
    own_column: "bigint NULL",
    adds_one_column_at_a_time: false,
};

/// The options of a URL that name certificate files.
pub const TLS: TlsNames = TlsNames {
    ca: "sslrootcert",
    certificate: "sslcert",
    key: "sslkey",
};

/// The setting by which a connection recognizes a session as its own. Only its startup packet sets it.
pub const MARK: &str = "shedlock.session";

/// Sets up a session that has this mark, and returns the number and the start of its process; otherwise sets nothing and
/// returns null.
#[must_use]
pub fn session_init(mark: &str) -> String {
    format!(
        "SELECT CASE WHEN current_setting('{MARK}', true) = '{mark}' THEN \
         left(set_config('enable_seqscan', 'off', false) || set_config('jit', 'off', false) || \
         CASE WHEN current_setting('lock_timeout') = '0' \
         THEN set_config('lock_timeout', '5s', false) ELSE '' END, 0) || \
         (SELECT a.pid::text || ' ' || (extract(epoch FROM a.backend_start) * 1000000)::bigint::text \
         FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) a) END"
    )
}

fn probe(_: &Options) -> String {
    // to_regclass resolves the name as a statement would: quoted, and by the search path.
    format!(
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
         (pg_catalog.current_setting('server_version') || CASE \
         WHEN pg_catalog.current_setting('fsync') <> 'on' THEN '{FSYNC_OFF}' \
         WHEN pg_catalog.current_setting('synchronous_commit') <> 'off' \
         THEN '{WAITS_FOR_DISK}' ELSE '' END || CASE WHEN EXISTS (SELECT 1 \
         FROM pg_catalog.pg_class r WHERE r.oid = a.attrelid AND r.relpersistence <> 'p') \
         THEN '{UNLOGGED}' ELSE '' END)::text, \
         (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, \
         (COALESCE(pg_catalog.inet_server_addr()::text, '') || ':' \
         || COALESCE(pg_catalog.inet_server_port()::text, '') || '/' \
         || pg_catalog.current_database() || '/' || a.attrelid::bigint::text), \
         (SELECT n.nspname::text FROM pg_catalog.pg_class r \
         JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace \
         WHERE r.oid = a.attrelid AND r.relpersistence <> 't') \
         FROM pg_catalog.pg_attribute a \
         JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
         LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation \
         WHERE a.attrelid = pg_catalog.to_regclass('{{table}}') \
         AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    )
}

/// From this many dead rows on, they count.
const MOST_DEAD: u32 = 10_000;

/// A server that received its writes from another one, and now takes its own. Both functions keep what they returned
/// last as a standby, until the server is restarted.
const PROMOTED: &str = "NOT pg_catalog.pg_is_in_recovery() AND pg_catalog.pg_last_wal_receive_lsn() IS NOT NULL \
     AND pg_catalog.pg_last_xact_replay_timestamp() > pg_catalog.clock_timestamp() - interval '1 day'";

/// The oldest of those who keep the server from removing dead rows, if a thousand transactions began after it.
const HOLDS_THE_HORIZON: &str = "COALESCE((SELECT h.who FROM (\
     SELECT 'the transaction of process ' || a.pid || COALESCE(' of ' || a.usename, '') \
     || COALESCE(' (' || NULLIF(a.application_name, '') || ')', '') AS who, \
     pg_catalog.age(a.backend_xmin) AS age FROM pg_catalog.pg_stat_activity a \
     WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_catalog.pg_backend_pid() \
     AND (a.datname = pg_catalog.current_database() OR a.datname IS NULL) \
     UNION ALL SELECT 'the prepared transaction ' || p.gid, pg_catalog.age(p.transaction) \
     FROM pg_catalog.pg_prepared_xacts p WHERE p.database = pg_catalog.current_database() \
     UNION ALL SELECT 'the replication slot ' || r.slot_name, pg_catalog.age(r.xmin) \
     FROM pg_catalog.pg_replication_slots r WHERE r.xmin IS NOT NULL) h \
     WHERE h.age > 1000 ORDER BY h.age DESC LIMIT 1), '')";

fn checks(_: &Options) -> Vec<Check> {
    // Long: one list of checks.
    vec![
        Check {
            culprit: Some(HOLDS_THE_HORIZON),
            ..Check::new(
                "old-versions",
                format!(
                    "pg_catalog.pg_stat_get_dead_tuples(pg_catalog.to_regclass('{{table}}')) > {MOST_DEAD} \
                     AND pg_catalog.pg_stat_get_dead_tuples(pg_catalog.to_regclass('{{table}}')) \
                     > 10 * pg_catalog.pg_stat_get_live_tuples(pg_catalog.to_regclass('{{table}}'))"
                ),
                told(
                    "the server cannot remove old versions of the locks, and each attempt reads \
                     those of its lock: {culprit} may still read them",
                )
                .advise("end it, and set idle_in_transaction_session_timeout"),
                "no old transaction keeps the server from removing old versions of the locks",
            )
        },
        Check::new(
            "synchronous-commit",
            "pg_catalog.current_setting('synchronous_commit') = 'off'",
            told(
                "sessions of this user have synchronous_commit=off: locks wait for the disk \
                 anyway, but a crash of the server can lose unlocks and what your jobs have \
                 written",
            )
            .advise("set synchronous_commit=on for this user, this database or the server"),
            "commits wait for the server's disk (synchronous_commit)",
        ),
        Check::new(
            "commits",
            "pg_catalog.current_setting('synchronous_standby_names') <> '' \
             AND (NOT EXISTS (SELECT 1 FROM pg_catalog.pg_stat_replication) \
             OR EXISTS (SELECT 1 FROM pg_catalog.pg_stat_activity a WHERE a.wait_event = 'SyncRep' \
             AND a.state_change < pg_catalog.clock_timestamp() - interval '2 seconds'))",
            told(
                "commits wait for a standby that does not confirm them \
                 (synchronous_standby_names): no lock can be taken, extended or given back until \
                 it is there again",
            )
            .advise("start the standby, or take its name out of synchronous_standby_names"),
            "no commit waits for a standby that is away",
        ),
        Check::new(
            "replicas",
            "EXISTS (SELECT 1 FROM pg_catalog.pg_stat_replication) \
             AND pg_catalog.current_setting('synchronous_standby_names') = ''",
            told(
                "commits do not wait for the standbys: after a failover, the new primary can lack \
                 the last locks, tokens and slots, and another process can take a held lock",
            )
            .advise("set synchronous_standby_names if two runs would do harm"),
            "commits wait for a standby, or none is connected",
        ),
        Check {
            culprit: Some(
                "pg_catalog.to_char(pg_catalog.pg_last_xact_replay_timestamp() AT TIME ZONE 'UTC', \
                 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')",
            ),
            ..Check::new(
                "promotion",
                PROMOTED,
                told(
                    "this server was promoted within the last day, and has what its former primary \
                     committed until {culprit}: locks, tokens and slots that were committed there \
                     later are not here, and a process that still uses it excludes no one here",
                )
                .advise_with(
                    "make sure that no process uses it, and compare what both have in",
                    Operation::History,
                ),
                "the server was not promoted within the last day, or was restarted since",
            )
        },
        Check::new(
            "subscription",
            "EXISTS (SELECT 1 FROM pg_catalog.pg_subscription_rel r \
             WHERE r.srrelid = pg_catalog.to_regclass('{table}'))",
            told(
                "a subscription of logical replication feeds the lock table: its publisher and \
                 this server grant the same locks, and a lock that is taken here for the first \
                 time stops the whole subscription",
            )
            .advise(
                "let no job use this server before the subscription is dropped, or leave the table \
                 out of the publication",
            ),
            "no subscription feeds the lock table",
        ),
        Check::new(
            "row-security",
            "pg_catalog.row_security_active(pg_catalog.to_regclass('{table}'))",
            told(
                "row-level security is active for this user: a lock whose row the policies hide \
                 can neither be taken nor shown",
            )
            .advise("disable row-level security on the table, or grant this user BYPASSRLS"),
            "no row-level security hides locks from this user",
        ),
        Check::new(
            "triggers",
            "EXISTS (SELECT 1 FROM pg_catalog.pg_trigger g \
             WHERE g.tgrelid = pg_catalog.to_regclass('{table}') \
             AND NOT g.tgisinternal AND g.tgenabled <> 'D')",
            told(
                "the table has triggers: one that changes or discards a write breaks locks, and \
                 each of them slows every lock down",
            )
            .advise("drop them, or make sure that they change nothing"),
            "the table has no triggers",
        ),
    ]
}

fn text(column: &Column, _: bool) -> Result<bool, &'static str> {
    match &*column.type_name {
        "varchar" | "text" => Ok(column.collation.is_none()),
        "citext" => Ok(false),
        // char(n) ignores trailing spaces, and truncates or pads its values.
        _ => Err("varchar or text"),
    }
}

/// The `E` form is correct whatever the value of `standard_conforming_strings`.
fn quote(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if doubled.contains('\\') {
        format!("E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
}

#[cfg(test)]
mod tests;
