//! The statements of SQLite; why they are so is said in the module above.

use crate::dialect::pieces::words;
use crate::dialect::{Pieces, Step};
use crate::options::Options;
use crate::shape::Shape;

/// The machine's clock in milliseconds. The fraction of `unixepoch('subsec')` is unknown to releases
/// before 3.42.
pub(super) const CLOCK: &str = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)";

pub(super) const CREATE_TABLE: &str = "CREATE TABLE {table} ({name} varchar(64) NOT NULL PRIMARY KEY, {until} integer NOT NULL, \
     {at} integer NOT NULL, {by} varchar(255) NOT NULL, {token} bigint NULL, \
     {slot} bigint NULL, {done} bigint NULL, {attempts} bigint NULL)";

/// The statement of each step.
fn steps(pieces: &mut Pieces) {
    words! { pieces:
        // Two statements in one request: the first fails if the lock cannot be had, so that the second, which takes the
        // write lock, is not reached. The least integer has no absolute value; the column is in it only so that this is
        // not computed where there is no row.
        attempt = "SELECT abs(min({until}, 0) - 9223372036854775807 - 1) FROM {table} \
             WHERE {named} AND NOT ({free}); \
             UPDATE {table} SET {until} = {end}, {at} = {now}, {by} = :owner{set_token}{set_slot} \
             WHERE {named} AND {free} RETURNING {granted}";
        // Without any condition the grammar would take the conflict clause for a join's.
        insert = "INSERT INTO {table} ({name}, {until}, {at}, {by}\
             {token_column}{slot_column}{attempts_column}) \
             SELECT :name, {end}, {now}, :owner{token_value}{slot_value}{attempts_value} \
             WHERE {in_time}{is_not_ahead} ON CONFLICT ({name}) DO NOTHING RETURNING {granted}";
        // By the column's own collation, so that a record of a name that it takes for the same is found, and reported.
        read = "SELECT {record}, n.now * 1000{server_time} FROM (SELECT {now} AS now) n \
             LEFT JOIN {table} ON {name} = :name";
        read_to_decide = "{read}";
        extend = "UPDATE {table} SET {until} = max({until}, {end}) WHERE {held} RETURNING {until_micros}";
        unlock = "UPDATE {table} SET {until} = max({now}, {at} + :at_least / 1000{pause}), \
             {by} = :released{slot_after} WHERE {ended}";
        withdraw = "UPDATE {table} SET {until} = {now}, {by} = :released WHERE {held}";
        list = "SELECT {record}, {now_micros} FROM {table} \
             WHERE {name} COLLATE BINARY > :after{held_only} ORDER BY {name} COLLATE BINARY LIMIT :limit";
        reset_slot = "UPDATE {table} SET {slot} = :slot, {attempts} = NULL \
             WHERE {named} AND {slot} = :previous";
    }
}

pub(super) fn pieces(options: &Options, shape: &Shape, _: Step, pieces: &mut Pieces) {
    steps(pieces);
    let is_client = options.time.is_client();
    words! { pieces:
        // In milliseconds.
        now = if is_client { "(:now / 1000)" } else { CLOCK };
        now_micros = "{now} * 1000";
        end = "{now} + :at_most / 1000";
        clock = CLOCK;
        server_micros = "{clock} * 1000";
        // What is no integer stays as it is, and then cannot be read as one.
        at_micros = "CASE typeof({at}) WHEN 'integer' THEN {at} * 1000 ELSE {at} END";
        until_micros = "CASE typeof({until}) WHEN 'integer' THEN {until} * 1000 ELSE {until} END";
        null = "NULL";
        // Found by the column's collation, which has the index, and compared byte for byte.
        named = "{name} = :name AND {name} COLLATE BINARY = :name";
        free = "{until} <= {now} AND {by} IS NOT :released AND {in_time}{slot_is_free}{token_grows}";
        token_grows = if shape.extras.token { "{token_can_grow}" } else { "" };
        // One more than the largest integer is a real to SQLite.
        token_can_grow = " AND coalesce({token}, 0) < 9223372036854775807";
        granted = "{at_micros}, {until_micros}, {granted_token}{granted_attempts}";
        next_token = "max(coalesce({token}, 0) + 1, {now_micros})";
        next_attempt = "CASE WHEN {slot} = :slot THEN coalesce({attempts}, 0) + 1 ELSE 1 END";
        acquired = "{at} * 1000";
        // Never null, or the look before the write would pass.
        claimable_once = "coalesce({slot} < :slot, 1)";
        claimable_open = "coalesce({open_slot_is_free}, 0)";
    }
}
