//! The statements of MySQL and MariaDB. The documentation of the parent module explains them.

use super::{LARGEST, LOGS_STATEMENTS, has_instants};
use crate::dialect::pieces::words;
use crate::dialect::{End, Pieces, Step};
use crate::options::Options;
use crate::shape::{Shape, TimeColumn, TimeKind};

/// The last second of `TIMESTAMP` less a day, as in the parent module.
const TIMESTAMP_LIMIT: &str = "TIMESTAMP'2038-01-18 03:14:07'";

/// The server's time, whichever clock judges leases. Fencing tokens start from it.
pub(super) const SERVER_MICROS: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

const EPOCH: &str = "TIMESTAMP'1970-01-01 00:00:00'";

/// Collations that compare every byte, including trailing spaces, have different names on the two servers. Both times
/// have a default, or an old server would add one of its own.
pub(super) const CREATE_TABLE: &str = "CREATE TABLE {table} (
    {name} VARCHAR(64) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ \
     NOT NULL PRIMARY KEY,
    {until} TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    {at} TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    {by} VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL{ours}
) ENGINE = InnoDB";

fn steps(pieces: &mut Pieces) {
    words! { pieces:
        attempt = "{update} {until} = {end}, {at} = {now_at}, {by} = :owner{set_token}{set_slot}{keep_skipped} \
             WHERE {named} AND {until} <= {now} AND COALESCE(NOT ({is_released}), 1) AND {in_time}\
             {slot_is_free} AND {guarded}";
        insert = "{insert_into} ({columns}{token_column}{attempts_column}{slot_column}) \
             SELECT :name, {end}, {now_at}, :owner{token_value}{attempts_value}{slot_value} \
             {if_named} AND {in_time}{is_not_ahead}";
        read = "{select} {record}, {now_micros}{server_time} FROM (SELECT 1 AS one) AS n \
             LEFT JOIN {table} ON {name} = :name WHERE {guarded}";
        // Proxies look for `FOR UPDATE`. It locks the rows that its own level reads from tables: none.
        read_to_decide = "{select} {record}, {now_micros}{server_time} FROM (SELECT 1 AS one) AS n \
             LEFT JOIN (SELECT {columns}{our_columns} FROM {table} WHERE {name} = :name LIMIT 1) AS r \
             ON {name} = :name WHERE {guarded} FOR UPDATE";
        extend = "{update} {until} = GREATEST({until}, {end}), {at} = {at} WHERE {held} AND {guarded}";
        unlock = "{update} {until} = {end_of_lease}, {at} = {at}, {by} = :released{slot_after} \
             WHERE {ended} AND {guarded}";
        withdraw = "{update} {until} = {now_down}, {at} = {at}, {by} = :released WHERE {held} AND {guarded}";
        settle = "{insert_into} ({columns}) SELECT :name, {now_down}, {now_at}, :released {if_named}";
        list = "{select} {record}, {now_micros} FROM {table} WHERE {exact_name} > {after}{held_only} \
             AND {guarded} ORDER BY {exact_name} LIMIT :limit";
        reset_slot = "{update} {until} = {until}, {at} = {at}, {set_slots} \
             WHERE {named} AND {are_same_slots} AND {guarded}";
        pause_lock = "{update} {until} = {pause_end}, {at} = {now_at}, {by} = :released{set_token}{pause_slots} \
             WHERE {is_same} AND {guarded}";
        resume_lock = "{update} {until} = GREATEST({now_down}, {pause_end}), {at} = {at}, {by} = :released{pause_slots} \
             WHERE {held} AND {guarded}";
        remove = "{zone}DELETE{hint} FROM {table} WHERE {is_idle} AND {guarded}";
    }
}

pub(super) fn pieces(options: &Options, shape: &Shape, step: Step, pieces: &mut Pieces) {
    steps(pieces);
    let (until, at) = (shape.lock_until, shape.locked_at);
    frame(options, shape, pieces);
    clocks(options, shape, pieces);
    words! { pieces:
        now_down = cut("{now}", until);
        now_at = cut("{now}", at);
        // Longer leases were rejected before. The limit is for clients whose clock is years behind: without strict mode
        // a server stores the year 0 for values out of range.
        end = limited(&up("{now}", ":at_most", until), until);
        pause_end = limited(&up("{epoch}", ":ends_at", until), until);
        columns = "{name}, {until}, {at}, {by}";
        our_columns = if shape.is_complete { ", {ours}" } else { "" };
        at_micros = micros("{at}");
        until_micros = micros("{until}");
        record = "CONVERT({name} USING utf8mb4), CONVERT({by} USING utf8mb4), {at_micros}, {until_micros}, {ours}";
        null = "CAST(NULL AS SIGNED)";
        true = "1";
        named = "{name} = :name";
        exact_name = "{name}";
        after = ":after";
        is_owner = "{by} = :owner";
        is_released = "{by} IN (:released, :freed)";
        own = "{named} AND {is_owner}";
        held = "{own} AND {until} > {now_by_then}";
        first_token = "LAST_INSERT_ID({server_micros})";
        next_token = "LAST_INSERT_ID(GREATEST(COALESCE({token}, 0) + 1, {server_micros}))";
        next_attempt = "IF(COALESCE({slot} = :slot, 0), COALESCE({attempts}, 0) + 1, 1)";
        is_before_slot = "COALESCE({acquired}, 0) < :slot";
        sets_slot = "{set_attempts}, {slot} = :slot";
        kept = kept(options, shape);
        least_end = "IF(:at_least = 0, {now_down}, GREATEST({now_down}, {kept}))";
        end_of_lease = match step {
            Step::Unlock(End::Failed) => "GREATEST({least_end}, {end})",
            _ => "{least_end}",
        };
    }
    if !shape.name.exact {
        words! { pieces:
            named = "{name} = :name AND {exact_name} = CAST(:name AS BINARY)";
            exact_name = bytes("{name}");
            after = "CAST(:after AS BINARY)";
        }
    }
    if !shape.locked_by.exact {
        words! { pieces:
            exact_by = bytes("{by}");
            is_owner = "{exact_by} = CAST(:owner AS BINARY)";
            is_released = "{exact_by} IN (CAST(:released AS BINARY), CAST(:freed AS BINARY))";
        }
    }
}

fn frame(options: &Options, shape: &Shape, pieces: &mut Pieces) {
    words! { pieces:
        // The parts that set the zone: before the statement for MariaDB, after its verb for MySQL.
        update = "{zone}UPDATE{hint} {table} SET";
        insert_into = "{zone}INSERT{hint} INTO {table}";
        select = "{zone}SELECT{hint}";
        zone = "";
        hint = "";
        zone_differs = "";
        largest = LARGEST;
        guard = "{largest} + ({zone_differs}@@autocommit = 0";
        guarded = "{guard}) > 0";
        // In a session with another character set the stored name would differ from the given one. The comparison has
        // its own subquery, so that an error of the guard does not quote the name in that character set.
        if_named = "FROM (SELECT CAST(CONVERT(:name USING utf8mb4) AS BINARY) \
             <> CAST(:name AS BINARY) AS differs) AS n WHERE {guard} OR n.differs) > 0";
    }
    if has_instants(shape) {
        let zone = options.zone();
        words! { pieces:
            zone = format!("/*M! SET STATEMENT time_zone = '{zone}' FOR */ ");
            hint = format!(" /*+ SET_VAR(time_zone = '{zone}') */");
            zone_differs = format!("@@time_zone <> '{zone}' OR ");
        }
    }
}

fn clocks(options: &Options, shape: &Shape, pieces: &mut Pieces) {
    let is_in_utc = has_instants(shape) && options.zone() == "+00:00";
    // Replicas run the statements again, later.
    let is_replayed = shape.server.contains(LOGS_STATEMENTS);
    words! { pieces:
        epoch = EPOCH;
        server_micros = SERVER_MICROS;
        now = "UTC_TIMESTAMP(6)";
        now_micros = "{server_micros}";
        // The time once the row is locked, if the server has such a clock in UTC and no replica evaluates it later.
        now_by_then = if is_in_utc && !is_replayed { "SYSDATE(6)" } else { "{now}" };
        // Whichever clock judges leases: the attempt is not too late by the server's clock, evaluated once the row is
        // locked.
        in_time = "{micros_by_then} <= :not_after";
        micros_by_then = match (is_replayed, is_in_utc) {
            // When a replica runs the statement again, later, it must not come to the result that the attempt was late.
            (true, _) => "{server_micros}".to_owned(),
            (false, true) => micros("SYSDATE(6)"),
            // There is no such clock in UTC, but the time that the statement has waited is the same in every zone.
            (false, false) => "{server_micros} + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))".to_owned(),
        };
    }
    if options.time.is_client() {
        words! { pieces:
            now = "({epoch} + INTERVAL :now MICROSECOND)";
            now_micros = ":now";
            now_by_then = "{now}";
        }
    }
}

/// The end up to which at-least keeps the lock. A coarse column stores the acquisition to one unit only. The fencing
/// token contains it to the microsecond, unless it had to continue from an older token.
fn kept(options: &Options, shape: &Shape) -> String {
    let (until, unit) = (shape.lock_until, shape.locked_at.unit());
    if unit == 1 {
        return up("{at}", ":at_least", until);
    }
    if !shape.is_complete || options.time.is_client() {
        return up("{at}", &format!("{unit} + :at_least"), until);
    }
    let acquired = format!("LEAST({{token}}, {{at_micros}} + {unit})");
    up("{epoch}", &format!("{acquired} + :at_least"), until)
}

fn limited(end: &str, column: TimeColumn) -> String {
    match column.kind {
        TimeKind::Instant => format!("LEAST({end}, {TIMESTAMP_LIMIT})"),
        _ => end.to_owned(),
    }
}

/// Compares a text column byte for byte, whatever its character set.
fn bytes(column: &str) -> String {
    format!("CAST(CONVERT({column} USING utf8mb4) AS BINARY)")
}

/// Microseconds since 1970 of UTC wall-clock time; null for null and for the year 0.
fn micros(instant: &str) -> String {
    format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {instant})")
}

/// An instant with microseconds, truncated to the column's precision: never later.
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

/// An instant plus a duration in microseconds, rounded up to the column's precision.
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
