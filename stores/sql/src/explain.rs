//! Failures as errors that say what to do.

use ErrorKind::{Configuration, Conflict, InvalidInput, OutcomeUnknown, Unavailable};
use shedlock_core::{Error, ErrorKind};

use crate::dialect::Dialect;
use crate::failure::{Class, Failure};
use crate::identifier::Table;

/// The error for a failure of a statement that may write (`writes`) or only reads.
pub(crate) fn explain(dialect: &Dialect, table: &Table, failure: Failure, writes: bool) -> Error {
    let explained = (dialect.explain)(&failure.class, writes);
    let (kind, message) = explained.unwrap_or_else(|| plainly(&failure.class, writes));
    let mut message = message.replace("{table}", &table.to_string());
    if let Class::Constraint(Some(name)) = &failure.class {
        message = message.replace("a constraint", &format!("constraint {name:?}"));
    }
    Error::new(kind, message).with_source(failure.source)
}

fn plainly(class: &Class, writes: bool) -> (ErrorKind, &'static str) {
    match class {
        Class::NotSent => (
            Unavailable,
            "no connection could be had; nothing was written: check that the server is up and has \
             connections to spare, then retry",
        ),
        Class::Refused => (
            Configuration,
            "the server does not let us in: check user, password, database and TLS settings",
        ),
        Class::ReplyLost if writes => (
            OutcomeUnknown,
            "no answer came (the connection broke, or the server fell silent); the statement may \
             have taken effect: ask again with the same owner",
        ),
        Class::ReplyLost => (
            Unavailable,
            "no answer came (the connection broke, or the server fell silent); nothing was \
             written: retry",
        ),
        Class::Shape => (
            Configuration,
            "table {table} is not as it was found just before: is it being changed?",
        ),
        Class::Contention => (
            Unavailable,
            "other transactions were in the way on table {table}, also when tried again; nothing \
             was written: retry later, and look for long transactions on this table",
        ),
        Class::Waited => (
            Unavailable,
            "another transaction kept the record in table {table} locked for as long as the server \
             lets one wait; nothing was written: retry later, and look for long transactions on \
             this table",
        ),
        Class::Busy => (
            Unavailable,
            "the server takes no work now (starting, stopping, busy or full); nothing was \
             written: retry later",
        ),
        Class::ReadOnly => (
            Unavailable,
            "the server takes no writes: it is a standby or set to read only; nothing was \
             written: connect to the primary, or retry when it has been promoted",
        ),
        Class::Privilege => (
            Configuration,
            "the database user lacks a privilege: it needs SELECT, INSERT and UPDATE on table \
             {table}, and usage of its schema",
        ),
        Class::TooLong => (
            InvalidInput,
            "a text is longer than its column in table {table}: shorten the lock's name",
        ),
        Class::OutOfRange => (
            InvalidInput,
            "the lease would end later than a column of table {table} can hold: shorten \
             lock_at_most_for",
        ),
        Class::Alphabet => (
            InvalidInput,
            "a text has characters that its column in table {table} cannot hold: change the \
             lock's name, or the column's character set to utf8mb4",
        ),
        Class::Session => (
            Configuration,
            "the session is not fit for locks in table {table}, and nothing was done: its time_zone \
             is neither UTC nor the one named as shared_session_zone (and the server, older than \
             MySQL 8.0.17, or a proxy cannot change it for one statement; or it knows no zone of \
             that name), autocommit is off, or its character set is not utf8mb4",
        ),
        Class::Prepared => (
            Configuration,
            "the session does not keep its prepared statements, and nothing was written: if a \
             proxy such as PgBouncer shares sessions between clients, set prepared=false",
        ),
        Class::Duplicate | Class::Exists | Class::Held => (
            Configuration,
            "a unique key of table {table} that is not the lock's refused the record",
        ),
        Class::Constraint(_) => (
            Configuration,
            "a constraint of table {table} refused the record: remove it",
        ),
        Class::Foreign => (
            Conflict,
            "the record in table {table} holds what neither shedlock nor ShedLock writes there: \
             look at it",
        ),
        Class::Other => (
            Configuration,
            "the server refused a statement on table {table}; its reason is the source",
        ),
    }
}
