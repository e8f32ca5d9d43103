//! The codes of the server.

use super::TOO_LATE;
use crate::failure::Class;

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
