//! PostgreSQL.
//!
//! Why the statements are as they are:
//!
//! - An attempt goes by `CURRENT_TIMESTAMP`, the time at which it arrived: one instant for all
//!   columns. Where it had to wait for somebody else's row lock that instant is past, which can
//!   only refuse a lock that has just come free, or shorten a lease; it never grants one early.
//! - How late an attempt comes is judged by `clock_timestamp()`: in its condition, which is checked
//!   again where another transaction has changed the record meanwhile, and in what it returns, since
//!   after a wait for a transaction that only locked the record, or that was rolled back, nothing is
//!   checked again. There an attempt that comes too late fails, which undoes it.
//! - A withdrawal must not overlook an attempt whose commit is under way (on a disk that stalls),
//!   and an `UPDATE` does: it goes by the last record that was committed, sees that this is not its
//!   owner's, and does not wait. `ON CONFLICT DO UPDATE` does wait.
//! - Whatever needs a running lease goes by `clock_timestamp()`. An extension that had to wait for a
//!   change checks its condition again, and must then judge by the time it has become, or it could
//!   revive a lease that ran out meanwhile.
//! - A losing attempt is an `UPDATE` that matches no row: it takes no row lock and writes no WAL.
//!   `ON CONFLICT … DO UPDATE … WHERE` does both.
//! - `timestamp` columns hold UTC wall time, as ShedLock's db-time does; `timestamptz` columns hold
//!   instants. Neither depends on the session's zone.
//! - What promises something to the one who asked (an acquisition, an extension, the mark of a slot
//!   that must not be lost) waits for the server's disk, also in a session whose
//!   `synchronous_commit` is off. The statement itself looks and raises it to `local`, for its own
//!   transaction. What waits for standbys stays as it is.
//! - A read that decides carries an update that can change nothing, so that a proxy which splits reads
//!   from writes sends it to the primary, and a standby refuses it. It takes no row lock, no transaction
//!   id and no WAL.
//! - A column may hold `infinity`, which no integer does: records are read as if it were the year 9999.
//! - Parameters need no casts: they are sent with their types, and as literals their types are
//!   plain too.

mod statements;

use shedlock_store::HUNDRED_YEARS;

use self::statements::TOO_LATE;
use super::{ADD_COLUMN, Dialect};
use crate::failure::Class;
use crate::identifier::Fold;
use crate::options::Options;
use crate::shape::{Column, Shape, TimeKind};
use crate::statement::Placeholders;

// What the probe says of a server, and of the table.
const WAITS_FOR_DISK: &str = ", waits for its disk";
const FSYNC_OFF: &str = ", fsync is off";
const UNLOGGED: &str = ", the table is unlogged";

pub(crate) static POSTGRES: Dialect = Dialect {
    fold: Fold::Lower,
    // Longer ones are cut by the server.
    longest_name: 63,
    quotation_mark: '"',
    placeholders: Placeholders::Numbered,
    returns_rows: true,
    probe,
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
    // A limit for waits on row locks, unless one is set: no attempt waits long for a transaction that
    // keeps its row locked, and a statement whose sender has gone does not wait on, to win the lock for an
    // owner that has ended.
    session_init: Some(
        "SELECT set_config('lock_timeout', '5s', false) WHERE current_setting('lock_timeout') = '0'",
    ),
    explain: |_, _| None,
    forgets: &[
        (
            FSYNC_OFF,
            "the server runs with fsync=off: a crash of its machine forgets who holds a lock \
                          and which slots are done, and can damage the database; set fsync=on",
        ),
        (
            UNLOGGED,
            "the table is unlogged: a crash of the server empties it, so that every lock is \
                          free and every slot can run again; run ALTER TABLE … SET LOGGED",
        ),
    ],
    other_warnings: |_, _| Vec::new(),
    pieces: statements::pieces,
    create_table: statements::CREATE_TABLE,
    add_column: ADD_COLUMN,
};

fn probe(_: &Options) -> String {
    // to_regclass reads the name as a statement would: quoted, and by the search path.
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
         (extract(epoch FROM clock_timestamp()) * 1000000)::bigint \
         FROM pg_catalog.pg_attribute a \
         JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
         LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation \
         WHERE a.attrelid = pg_catalog.to_regclass('{{table}}') \
         AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    )
}

fn text(column: &Column, _: bool) -> Result<bool, &'static str> {
    match &*column.type_name {
        "varchar" | "text" => Ok(column.collation.is_none()),
        "citext" => Ok(false),
        // char(n) ignores trailing blanks, and cuts or pads what is put into it.
        _ => Err("varchar or text"),
    }
}

/// The form with `E` is right whatever `standard_conforming_strings` is set to.
fn quote(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if doubled.contains('\\') {
        format!("E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
}

/// What the codes of the server mean.
pub(crate) fn classify(code: &str, message: &str, constraint: Option<&str>) -> Class {
    match code {
        // Undefined table, column, schema; wrong type; a prepared plan that no longer fits.
        "42P01" | "42703" | "3F000" | "42804" | "42883" | "0A000" => Class::Shape,
        "42501" => Class::Privilege,
        "25006" => Class::ReadOnly,
        // Serialization failure, deadlock.
        "40001" | "40P01" => Class::Contention,
        // The time for a row lock, or for the statement, is over.
        "55P03" | "57014" => Class::Waited,
        "53300" | "57P03" | "53400" => Class::Busy,
        // The server shut down or dropped us: how far the statement came is not known.
        "57P01" | "57P02" | "57P05" => Class::ReplyLost,
        "22P02" if message.contains(TOO_LATE) => Class::Held,
        "22001" => Class::TooLong,
        "22008" => Class::OutOfRange,
        "42P07" | "42701" | "42710" => Class::Exists,
        // No such prepared statement, or one of this name already; a transaction that was
        // left open has failed.
        "26000" | "42P05" | "25P02" => Class::Prepared,
        // Two that make the table at once meet in the catalogue. The lock's own key never
        // comes here: an insert that meets it does nothing.
        "23505" if constraint.is_some_and(|name| name.starts_with("pg_")) => Class::Exists,
        code if code.starts_with("23") => Class::Constraint(constraint.map(str::to_owned)),
        code if code.starts_with("53") => Class::Busy,
        code if code.starts_with("08") => Class::ReplyLost,
        _ => Class::Other,
    }
}

#[cfg(test)]
mod tests;
