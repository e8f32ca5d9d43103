//! SQLite over sqlx.

use sqlx::Sqlite;
use sqlx::error::DatabaseError;

use crate::dialect::{self, Dialect};
use crate::driver::{Class, Driver};

impl Driver for Sqlite {
    const STORE: &'static str = "sqlite";

    const DIALECT: &'static Dialect = &dialect::sqlite::SQLITE;

    super::execution!(Sqlite, |_| None);
}

fn classify(error: &dyn DatabaseError) -> Class {
    let code = error.code().unwrap_or_default();
    let code: i32 = code.parse().unwrap_or_default();
    let message = error.message();
    // The low byte is the primary code, the rest says more.
    match code & 0xff {
        // All that is wrong with a statement.
        1 if message == HELD => Class::Held,
        1 if is_about_shape(message) => Class::Shape,
        1 if is_about_existing(message) => Class::Exists,
        // Busy, locked, out of memory, full.
        5 | 6 | 7 | 13 => Class::Busy,
        8 => Class::ReadOnly,
        // No permission, cannot be opened, not authorized.
        3 | 14 | 23 => Class::Privilege,
        // How much of a write was done when the disk failed is not known.
        10 => Class::ReplyLost,
        17 => Class::Shape,
        18 => Class::TooLong,
        19 => Class::Constraint(None),
        _ => Class::Other,
    }
}

/// How an attempt stops between its two statements.
const HELD: &str = "integer overflow";

/// SQLite has one code for all that is wrong with a statement; its texts have not changed in
/// twenty years.
fn is_about_shape(message: &str) -> bool {
    message.starts_with("no such table") || message.contains("no such column") || {
        message.starts_with("table ") && message.contains(" has no column named ")
    }
}

fn is_about_existing(message: &str) -> bool {
    message.contains(" already exists") || message.starts_with("duplicate column name")
}
