//! The statements of PostgreSQL. The documentation of the parent module explains them.

use super::WAITS_FOR_DISK;
use crate::dialect::pieces::words;
use crate::dialect::{End, Pieces, Step};
use crate::options::Options;
use crate::shape::{Shape, TimeColumn, TimeKind};

/// The start of the error with which an attempt that is too late fails.
pub(crate) const TOO_LATE: &str = "the attempt came after its not-after: ";

/// A condition that is always true. If the session would return before the commit is on the server's disk, this one
/// makes it wait: `local`, because `on` would also wait for standbys. A setting that waits for more stays unchanged.
///
/// This is part of the statement, because only the session that runs it has the current setting: a pool's sessions may
/// differ, behind PgBouncer each transaction may run in another session, and a server that reloads its configuration
/// changes open sessions.
pub(super) const FLUSHED: &str = "CASE current_setting('synchronous_commit') WHEN 'off' \
     THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END";

/// A condition that is always true. It makes the commit return before it is on the disk.
pub(super) const UNFLUSHED: &str = "set_config('synchronous_commit', 'off', true) IS NOT NULL";

/// Names are listed in the order of their bytes, which only a key in this collation serves.
pub(super) const CREATE_TABLE: &str = "CREATE TABLE {table} (
    {name} varchar(64) COLLATE \"C\" NOT NULL PRIMARY KEY,
    {until} timestamp NOT NULL,
    {at} timestamp NOT NULL,
    {by} varchar(255) NOT NULL{ours}
)";

fn steps(pieces: &mut Pieces) {
    words! { pieces:
        attempt = "UPDATE {table} SET {until} = {end}, {at} = {now_at}, {by} = :owner{set_token}{set_slot}{keep_skipped} \
             WHERE {named} AND {until} <= {now} AND COALESCE({by}, '') NOT IN (:released, :freed) AND {in_time}\
             {slot_is_free} AND {flushed} RETURNING {granted}";
        insert = "INSERT INTO {table} ({name}, {until}, {at}, {by}\
             {token_column}{slot_column}{attempts_column}) \
             SELECT :name, {end}, {now_at}, :owner{token_value}{slot_value}{attempts_value} \
             WHERE {in_time} AND {flushed}{is_not_ahead}{alone} \
             ON CONFLICT ({name}) DO NOTHING RETURNING {granted}";
        // Uses the column's own collation, so that a record whose name it treats as equal is found and reported.
        read = "SELECT {record}, n.now{server_time} FROM (SELECT {now_micros} AS now) n \
             LEFT JOIN {table} ON {name} = :name";
        // An update that can change nothing makes this a write for the server and for every proxy that parses
        // statements. pgpool also reads the comment.
        read_to_decide = "/*NO LOAD BALANCE*/ WITH \"a write\" AS (UPDATE {table} SET {until} = {until} \
             WHERE false) {read}";
        extend = "UPDATE {table} SET {until} = GREATEST({until}, {end}) \
             WHERE {held} AND {flushed} RETURNING {until_micros}";
        unlock = "UPDATE {table} SET {until} = GREATEST({now_down}, {kept}{pause}), \
             {by} = :released{slot_after} WHERE {ended}{flush_unlock}";
        withdraw = "UPDATE {table} SET {until} = {now_down}, {by} = :released WHERE {held} AND {unflushed}";
        settle = "INSERT INTO {table} AS found ({name}, {until}, {at}, {by}) \
             SELECT :name, {now_down}, {now_at}, :released WHERE {unflushed}{alone} \
             ON CONFLICT ({name}) DO UPDATE SET {until} = {now_down} \
             WHERE found.{until} <= {now}{is_found}";
        list = "SELECT {record}, {now_micros} FROM {table} \
             WHERE {name} COLLATE \"C\" > :after{held_only} ORDER BY {name} COLLATE \"C\" LIMIT :limit";
        reset_slot = "UPDATE {table} SET {set_slots} WHERE {named} AND {are_same_slots} AND {flushed}";
        pause_lock = "UPDATE {table} SET {until} = {pause_end}, {at} = {now_at}, {by} = :released{set_token}{pause_slots} \
             WHERE {is_same} AND {flushed}";
        resume_lock = "UPDATE {table} SET {until} = GREATEST({now_down}, {pause_end}), {by} = :released{pause_slots} \
             WHERE {held} AND {flushed}";
        remove = "DELETE FROM {table} WHERE {is_idle}";
    }
}

pub(super) fn pieces(options: &Options, shape: &Shape, step: Step, pieces: &mut Pieces) {
    steps(pieces);
    let (until, at) = (shape.lock_until, shape.locked_at);
    let is_client = options.time.is_client();
    words! { pieces:
        // The parent module explains why there are two clocks: one returns when the statement arrived, the same value
        // throughout the statement; the other returns the current time at each place.
        clock = match step {
            Step::Attempt(_) | Step::Insert(_) => "CURRENT_TIMESTAMP",
            _ => "clock_timestamp()",
        };
        now = now(until, is_client);
        now_micros = if is_client { ":now".to_owned() } else { micros("{clock}") };
        now_down = now_down(until, is_client);
        now_at = now_down(at, is_client);
        // Rounded up to the column's precision.
        end = match until.unit() {
            1 => later(&now(until, is_client), ":at_most"),
            _ => up(until, "{now_micros} + :at_most"),
        };
        pause_end = up(until, ":ends_at");
        server_micros = micros("clock_timestamp()");
        at_micros = micros_of("{at}");
        until_micros = micros_of("{until}");
        null = "NULL::bigint";
        none = "-1::bigint";
        true = "true";
        named = "{name} = :name{alone}";
        alone = if options.checks_itself { " AND now() = statement_timestamp()" } else { "" };
        is_found = "";
        granted = "CASE WHEN {in_time} THEN {granted_at} ELSE {fail} END, {granted_until}, \
             {granted_token}{granted_attempts}";
        granted_at = micros("{at}");
        granted_until = micros("{until}");
        // It refers to a column. Otherwise it would be computed, and fail, when the statement is planned.
        fail = format!("('{TOO_LATE}' || {{name}})::bigint");
        next_token = "GREATEST(COALESCE({token}, 0) + 1, {now_micros})";
        next_attempt = "CASE WHEN {slot} = :slot THEN COALESCE({attempts}, 0) + 1 ELSE 1 END";
        kept = kept(shape);
        flushed = FLUSHED;
        unflushed = UNFLUSHED;
        flush_unlock = flush_unlock(options, shape, step);
    }
    if !shape.name.exact {
        // A collation that treats different names as equal finds the candidates (through the index). The second
        // condition distinguishes them byte for byte.
        words! { pieces:
            named = "{name} = :name AND {name}::text COLLATE \"C\" = :name{alone}";
            is_found = " AND found.{name}::text COLLATE \"C\" = :name";
        }
    }
}

/// It is safe to lose an unlock in a crash of the server: the lease then runs to its end. A slot that must not be lost
/// would run again if its mark were lost. A withdrawal, which is that of what never ran, must not wait for a standby that
/// is away: the claim that it withdraws may wait for it.
fn flush_unlock(options: &Options, shape: &Shape, step: Step) -> &'static str {
    let must_wait = options.durable_unlock || step == Step::Unlock(End::Done { durable: true });
    let hurries = shape.server.contains(WAITS_FOR_DISK);
    match (must_wait, hurries) {
        _ if step == Step::Unlock(End::NotStarted) => " AND {unflushed}",
        (true, _) => " AND {flushed}",
        (false, true) => " AND {unflushed}",
        (false, false) => "",
    }
}

fn kept(shape: &Shape) -> String {
    let (until, at) = (shape.lock_until, shape.locked_at);
    let unit = at.unit();
    if unit > 1 {
        // The acquisition was up to one unit later than its column shows. Without an at-least the lock is free at once
        // nevertheless.
        let kept = up(until, &format!("{{at_micros}} + {unit} + :at_least"));
        return format!("CASE WHEN :at_least > 0 THEN {kept} ELSE {{now_down}} END");
    }
    if until == at {
        return later("{at}", ":at_least");
    }
    up(until, "{at_micros} + :at_least")
}

/// Microseconds since 1970 (UTC) of an instant or of UTC wall-clock time.
fn micros(instant: &str) -> String {
    format!("(extract(epoch FROM {instant}) * 1000000)::bigint")
}

/// Microseconds since 1970 (UTC) of a column, limited to the years from 1 to 9999, because it may contain `infinity` or
/// a time that no 64-bit integer can represent. The literals take the column's type. For instants they are in the
/// session's zone, which makes no difference so far from any lease. `LEAST` and `GREATEST` ignore null.
pub(super) fn micros_of(column: &str) -> String {
    micros(&format!(
        "CASE WHEN {column} IS NOT NULL THEN \
         LEAST(GREATEST({column}, '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END"
    ))
}

/// An instant, or UTC wall-clock time, plus a duration in microseconds.
fn later(instant: &str, duration: &str) -> String {
    format!("{instant} + {duration} * interval '1 microsecond'")
}

/// The current time in the type of this column, with full precision.
fn now(column: TimeColumn, is_client: bool) -> String {
    match column.kind {
        kind if is_client => at(kind, "{now_micros}"),
        TimeKind::Instant => "{clock}".to_owned(),
        _ => "timezone('utc', {clock})".to_owned(),
    }
}

/// The current time, rounded down to the column's precision: never later.
fn now_down(column: TimeColumn, is_client: bool) -> String {
    match column.unit() {
        1 => now(column, is_client),
        unit => at(column.kind, &format!("({{now_micros}} / {unit} * {unit})")),
    }
}

/// Microseconds since 1970 (UTC) as a value of this column, rounded up. The server itself would round to the nearest
/// value, and could so end a lease early.
fn up(column: TimeColumn, micros: &str) -> String {
    match column.unit() {
        1 => at(column.kind, &format!("({micros})")),
        unit => at(
            column.kind,
            &format!("(({micros} + {}) / {unit} * {unit})", unit - 1),
        ),
    }
}

/// Converts microseconds since 1970 (UTC) to an instant or to UTC wall-clock time.
fn at(kind: TimeKind, micros: &str) -> String {
    let epoch = match kind {
        TimeKind::Instant => "timestamptz '1970-01-01 00:00:00+00'",
        _ => "timestamp '1970-01-01 00:00:00'",
    };
    format!("({})", later(epoch, micros))
}
