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
        ERROR if message == HELD => Class::Held,
        ERROR if is_about_shape(message) => Class::Shape,
        ERROR if is_about_existing(message) => Class::Exists,
        BUSY | LOCKED | FULL | NOMEM => Class::Busy,
        READONLY => Class::ReadOnly,
        PERM | AUTH | CANTOPEN => Class::Privilege,
        // How much of a write was done when the disk failed is not known.
        IOERR => Class::ReplyLost,
        SCHEMA => Class::Shape,
        TOOBIG => Class::TooLong,
        CONSTRAINT => Class::Constraint(None),
        _ => Class::Other,
    }
}

const ERROR: i32 = 1;
const PERM: i32 = 3;
const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const NOMEM: i32 = 7;
const READONLY: i32 = 8;
const IOERR: i32 = 10;
const FULL: i32 = 13;
const CANTOPEN: i32 = 14;
const SCHEMA: i32 = 17;
const TOOBIG: i32 = 18;
const CONSTRAINT: i32 = 19;
const AUTH: i32 = 23;

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
