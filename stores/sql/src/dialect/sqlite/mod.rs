//! SQLite.
//!
//! Why the statements are written this way:
//!
//! - Instants are integers: milliseconds since 1970, which is what sqlite-jdbc writes for a `java.sql.Timestamp` by
//!   default. So a Java service with ShedLock in its client-time mode reads and writes the same values. A record that
//!   contains text instead (sqlite-jdbc with `date_class=text`) is reported, never compared.
//! - An attempt reads first. Any `UPDATE`, even one that changes nothing, takes the file's only write lock. A read
//!   takes none in WAL mode, so processes that find the lock held never block the holder. The read and the write are
//!   two statements in one text, because the cost here is not the statement but the way to the connection's thread and
//!   back. The first statement fails if the second must not run, which is SQLite's only way to stop between two
//!   statements.
//! - `'now'` is the machine's clock, and constant throughout a statement. It is first evaluated when the statement has
//!   the write lock. So a wait for that lock makes no lease longer, and an attempt that waited too long is refused.

use shedlock_core::ErrorKind;
use shedlock_provider::{HUNDRED_YEARS, TlsNames, Told, told};

use super::pieces::words;
use super::{Alone, Dialect, JournalWords, Pieces, Step};
use crate::failure::{Class, effect};
use crate::identifier::Fold;
use crate::options::Options;
use crate::shape::{Shape, TextColumn, TimeKind};
use crate::statement::Placeholders;

/// The machine's clock in milliseconds. Releases before 3.42 do not support `unixepoch('subsec')`.
const CLOCK: &str = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)";

const CREATE_TABLE: &str = "CREATE TABLE {table} (
    {name} varchar(64) NOT NULL PRIMARY KEY,
    {until} integer NOT NULL,
    {at} integer NOT NULL,
    {by} varchar(255) NOT NULL{ours}
)";

/// What the probe reports for a file that a crash can damage, or whose committed data it can lose.
const FORGETS: &str = "synchronous or journal_mode is off or in memory";

/// What the probe reports for a file that can lose its last commits if the machine crashes.
const LAGS: &str = "synchronous is NORMAL in WAL mode";

/// SQLite does not enforce the declared length of a text.
const UNLIMITED: TextColumn = TextColumn {
    length: usize::MAX,
    exact: false,
};

/// SQLite's statements.
pub static SQLITE: Dialect = Dialect {
    fold: Fold::Keep,
    longest_name: 255,
    // Not the double quote: SQLite treats a double-quoted name that matches no column as a text, so a renamed column
    // would go unnoticed.
    quotation_mark: '`',
    placeholders: Placeholders::Positional,
    returns_rows: true,
    probe,
    follows: None,
    schemas: "pragma_database_list WHERE name = '{schema}'",
    cancels: None,
    written_until: None,
    spelling: None,
    others: "SELECT NULL, m.name FROM sqlite_master m \
             WHERE m.type = 'table' AND lower(m.name) <> lower('{bare}') \
             AND (SELECT count(*) FROM pragma_table_info(m.name) p WHERE lower(p.name) IN ({columns})) = 4 \
             ORDER BY 2",
    comparable: "{name} COLLATE BINARY",
    readable: "{name}",
    select: "SELECT",
    has_usage: false,
    // The collation cannot be queried. The statements always compare byte for byte.
    text: |column, _| match Affinity::of(&column.type_name) {
        Affinity::Text => Ok(false),
        _ => Err("varchar or text"),
    },
    time: |type_name| match Affinity::of(type_name) {
        Affinity::Integer | Affinity::Numeric => Ok(TimeKind::EpochMillis),
        _ => Err("integer or timestamp"),
    },
    is_integer: |type_name| Affinity::of(type_name) == Affinity::Integer,
    assumed: {
        let mut shape = Shape::assumed(TimeKind::EpochMillis, 3);
        (shape.name, shape.locked_by) = (UNLIMITED, UNLIMITED);
        shape
    },
    // Milliseconds.
    unit: 1_000,
    longest_lease: |_, _| HUNDRED_YEARS,
    quote: |text| format!("'{}'", text.replace('\'', "''")),
    session_init: None,
    // It takes no lock.
    alone: Alone {
        before: "BEGIN; ROLLBACK; ",
        after: "",
        shadowed: "",
    },
    // In WAL mode a write is appended to the log. A checkpoint moves what the log contains into pages that the file has
    // already, and the next write starts at the beginning of the log, which has these blocks on the disk.
    makes_space: Some("PRAGMA wal_checkpoint(PASSIVE)"),
    // Unused: a file has no connections.
    tls: TlsNames::OURS,
    explain,
    forgets: &[
        (
            FORGETS,
            told(
                "the file has synchronous=OFF, or its journal is off or in memory: a crash can \
                 damage it, and can lose held locks and marks of done slots",
            )
            .advise("set synchronous=FULL and journal_mode=WAL for the pool's connections"),
        ),
        (
            LAGS,
            told(
                "the file is in WAL mode with synchronous=NORMAL: a crash of the machine can lose \
                 the last commits, and with them marks of done slots",
            )
            .advise("set synchronous=FULL for the pool's connections"),
        ),
    ],
    other_warnings: |_, _| Vec::new(),
    misreads_java: |_, _| false,
    checks: |_| Vec::new(),
    pieces,
    create_table: CREATE_TABLE,
    index: None,
    has_one_writer: true,
    journal: JournalWords {
        text: |length| format!("varchar({length})"),
        clock: "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000",
        random: "lower(hex(randomblob(16)))",
        inline_indexes: false,
        qualified_indexes: true,
        has_index: |index| {
            let name = index.name.as_str();
            let schema = index
                .schema
                .as_ref()
                .map(|schema| format!(", '{}'", schema.as_str()));
            let schema = schema.unwrap_or_default();
            format!("EXISTS (SELECT 1 FROM pragma_index_info('{name}'{schema}))")
        },
        for_update: "",
        ignores: ["", " ON CONFLICT DO NOTHING"],
        guarded: "",
        // It keeps other writers away from the start. Two transactions that read first would deadlock.
        frame: (&["BEGIN IMMEDIATE"], &["COMMIT"]),
        lent_frame: (&["BEGIN IMMEDIATE"], &["COMMIT"]),
        may_not_create: "",
    },
    own_column: "bigint NULL",
    adds_one_column_at_a_time: true,
};

fn probe(options: &Options) -> String {
    let table = options.table.name.as_str();
    let (table, schema, here) = match &options.table.schema {
        Some(schema) => (
            format!("'{table}', '{}'", schema.as_str()),
            format!(", '{}'", schema.as_str()),
            format!(" WHERE schema = '{}'", schema.as_str()),
        ),
        None => (format!("'{table}'"), String::new(), String::new()),
    };
    format!(
        "SELECT c.name, \
         lower(trim(CASE WHEN instr(c.type, '(') > 0 \
         THEN substr(c.type, 1, instr(c.type, '(') - 1) ELSE c.type END)), \
         NULL, NULL, NULL, \
         EXISTS (SELECT 1 FROM pragma_index_list({table}) l \
         WHERE l.\"unique\" = 1 AND l.partial = 0 \
         AND (SELECT count(*) FROM pragma_index_info(l.name{schema})) = 1 \
         AND (SELECT i.name FROM pragma_index_info(l.name{schema}) i) = c.name), \
         c.\"notnull\" = 1 AND c.dflt_value IS NULL AND c.pk = 0, \
         sqlite_version() || CASE \
         WHEN (SELECT synchronous FROM pragma_synchronous{here}) = 0 \
         OR (SELECT journal_mode FROM pragma_journal_mode{here}) IN ('off', 'memory') \
         THEN ', {FORGETS}' \
         WHEN (SELECT synchronous FROM pragma_synchronous{here}) = 1 \
         AND (SELECT journal_mode FROM pragma_journal_mode{here}) = 'wal' \
         THEN ', {LAGS}' ELSE '' END, {CLOCK} * 1000, '', NULL \
         FROM pragma_table_info({table}) c ORDER BY c.cid"
    )
}

fn explain(class: &Class, writes: bool) -> Option<(ErrorKind, Told)> {
    let explained = match class {
        Class::NotSent | Class::Broken { .. } | Class::Unreachable | Class::Unready => told(
            "cannot get a connection to the file in time: another process keeps the file locked, \
             or other calls of this process are waiting for it",
        )
        .nothing_written()
        .advise("look for long transactions on this file")
        .retry_later(),
        Class::Refused(_) => told("cannot open the file as a SQLite database")
            .advise("check the file, or set another one"),
        Class::Busy => told(
            "another process kept the database locked for longer than busy_timeout, which the \
             store's URL can set",
        )
        .nothing_written()
        .advise("look for long transactions on this file")
        .retry_later(),
        Class::Full => told("the disk of the file is full")
            .nothing_written()
            .advise("free space on it")
            .retry(),
        Class::ReadOnly | Class::Privilege => {
            told("this user cannot write the file or its directory")
                .advise("give this user write access to both")
        }
        Class::ReplyLost => {
            let what = match writes {
                true => {
                    "the statement did not finish: another process kept the file locked, or the disk failed"
                }
                false => "the file could not be read in time, or the disk failed",
            };
            effect(told(what), writes)
                .advise("look for long transactions on this file")
                .retry()
        }
        _ => return None,
    };
    let kind = match class {
        Class::ReplyLost if writes => ErrorKind::OutcomeUnknown,
        Class::NotSent | Class::Broken { .. } | Class::Unreachable | Class::Unready => {
            ErrorKind::Unavailable
        }
        Class::Busy | Class::Full | Class::ReplyLost => ErrorKind::Unavailable,
        _ => ErrorKind::Configuration,
    };
    Some((kind, explained))
}

/// The affinity that SQLite derives from a declared type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Affinity {
    Integer,
    Text,
    Numeric,
    /// Real or blob: neither text nor integers are stored unchanged.
    Other,
}

impl Affinity {
    /// SQLite's own rules, in their order.
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

/// The statement of each step.
fn steps(pieces: &mut Pieces) {
    words! { pieces:
        // Two statements in one request. The first fails if the lock cannot be acquired, so that the second, which
        // takes the write lock, does not run. The smallest integer has no absolute value. The column is part of the
        // expression only so that it is not computed if there is no row.
        attempt = "SELECT abs(min({until}, 0) - 9223372036854775807 - 1) FROM {table} \
             WHERE {named} AND NOT ({free}); \
             UPDATE {table} SET {until} = {end}, {at} = {now}, {by} = :owner{set_token}{set_slot}{keep_skipped} \
             WHERE {named} AND {free} RETURNING {granted}";
        // Without any condition the parser would treat the conflict clause as a join's.
        insert = "INSERT INTO {table} ({name}, {until}, {at}, {by}\
             {token_column}{slot_column}{attempts_column}) \
             SELECT :name, {end}, {now}, :owner{token_value}{slot_value}{attempts_value} \
             WHERE {in_time}{is_not_ahead} ON CONFLICT ({name}) DO NOTHING RETURNING {granted}";
        // Uses the column's own collation, so that a record whose name it treats as equal is found and reported.
        read = "SELECT {record}, n.now * 1000{server_time} FROM (SELECT {now} AS now) n \
             LEFT JOIN {table} ON {name} = :name";
        read_to_decide = "{read}";
        extend = "UPDATE {table} SET {until} = max({until}, {end}) WHERE {held} RETURNING {until_micros}";
        unlock = "UPDATE {table} SET {until} = max({now}, {at} + :at_least / 1000{pause}), \
             {by} = :released{slot_after} WHERE {ended}";
        withdraw = "UPDATE {table} SET {until} = {now}, {by} = :released WHERE {held}";
        list = "SELECT {record}, {now_micros} FROM {table} \
             WHERE {name} COLLATE BINARY > :after{held_only} ORDER BY {name} COLLATE BINARY LIMIT :limit";
        reset_slot = "UPDATE {table} SET {set_slots} WHERE {named} AND {are_same_slots}";
        pause_lock = "UPDATE {table} SET {until} = :ends_at / 1000, {at} = {now}, {by} = :released{set_token}{pause_slots} \
             WHERE {is_same}";
        resume_lock = "UPDATE {table} SET {until} = max({now}, :ends_at / 1000), {by} = :released{pause_slots} WHERE {held}";
        remove = "DELETE FROM {table} WHERE {is_idle}";
    }
}

fn pieces(options: &Options, shape: &Shape, _: Step, pieces: &mut Pieces) {
    steps(pieces);
    let is_client = options.time.is_client();
    words! { pieces:
        // In milliseconds.
        now = if is_client { "(:now / 1000)" } else { CLOCK };
        now_micros = "{now} * 1000";
        end = "{now} + :at_most / 1000";
        clock = CLOCK;
        server_micros = "{clock} * 1000";
        // Values that are not integers stay unchanged, and reading them then fails.
        at_micros = "CASE typeof({at}) WHEN 'integer' THEN {at} * 1000 ELSE {at} END";
        until_micros = "CASE typeof({until}) WHEN 'integer' THEN {until} * 1000 ELSE {until} END";
        null = "NULL";
        // Found through the column's collation, which has the index, and compared byte for byte.
        named = "{name} = :name AND {name} COLLATE BINARY = :name";
        free = "{until} <= {now} AND coalesce({by}, '') NOT IN (:released, :freed) AND {in_time}{slot_is_free}{token_grows}";
        token_grows = if shape.is_complete { "{token_can_grow}" } else { "" };
        // One more than the largest integer is a real in SQLite.
        token_can_grow = " AND coalesce({token}, 0) < 9223372036854775807";
        granted = "{at_micros}, {until_micros}, {granted_token}{granted_attempts}";
        next_token = "max(coalesce({token}, 0) + 1, {now_micros})";
        next_attempt = "CASE WHEN {slot} = :slot THEN coalesce({attempts}, 0) + 1 ELSE 1 END";
        acquired = "{at} * 1000";
        // Never null, or the check before the write would pass.
        claimable_once = "coalesce({slot} < :slot, 1) AND {is_not_skipped}";
        true = "1";
        claimable_open = "coalesce({open_slot_is_free}, 0)";
    }
}

/// The error of a `BEGIN` in a transaction.
const INSIDE: &str = "cannot start a transaction within a transaction";

/// The error with which an attempt stops between its two statements.
const HELD: &str = "integer overflow";

/// The code of a file that is not a database.
const NOT_A_DATABASE: i32 = 26;

/// Classifies SQLite's codes; bytes above the lowest one, which only add details, are ignored.
#[must_use]
pub fn classify(code: i32, message: &str) -> Class {
    // SQLite has one code for everything that is wrong with a statement. Its texts have not changed in twenty years.
    let is_about_shape = message.starts_with("no such table")
        || message.contains("no such column")
        || message.starts_with("table ") && message.contains(" has no column named ");
    let is_about_existing =
        message.contains(" already exists") || message.starts_with("duplicate column name");
    match code & 0xff {
        // Anything that is wrong with a statement.
        1 if message == HELD => Class::Held,
        1 if message == INSIDE => Class::Inside,
        1 if is_about_shape => Class::Shape,
        1 if is_about_existing => Class::Exists,
        // Busy, locked, out of memory.
        5..=7 => Class::Busy,
        13 => Class::Full,
        8 => Class::ReadOnly,
        // No permission, cannot be opened, not authorized.
        3 | 14 | 23 => Class::Privilege,
        // How much of a write was done when the disk failed is unknown.
        10 => Class::ReplyLost,
        17 => Class::Shape,
        18 => Class::TooLong,
        19 => Class::Constraint(None),
        NOT_A_DATABASE => Class::NotADatabase,
        _ => Class::Other,
    }
}

/// What a code means while a file is opened, if that differs from its meaning for a statement.
#[must_use]
pub fn at_login(code: i32) -> Option<Class> {
    (code & 0xff == NOT_A_DATABASE).then_some(Class::NotADatabase)
}

#[cfg(test)]
mod tests;
