//! Failures as errors that say what to do.

use shedlock_core::{Error, ErrorKind};

use crate::driver::{Class, Driver, Failure};
use crate::options::Options;

/// The error for a failure of a statement that may write (`writes`) or only reads.
pub(crate) fn explain<B: Driver>(failure: Failure, options: &Options, writes: bool) -> Error {
    let (kind, message) = match B::dialect().explain(&failure.class, writes) {
        Some((kind, message)) => (kind, message.to_owned()),
        None => plainly(&failure.class, options, writes),
    };
    Error::new(kind, message).with_source(failure.source)
}

fn plainly(class: &Class, options: &Options, writes: bool) -> (ErrorKind, String) {
    let table = &options.table;
    match class {
        Class::NotSent => (
            ErrorKind::Unavailable,
            "no connection could be had; nothing was written: check that the server is up and has \
             connections to spare, then retry"
                .to_owned(),
        ),
        Class::Refused => (
            ErrorKind::Configuration,
            "the server does not let us in: check user, password, database and TLS settings"
                .to_owned(),
        ),
        Class::ReplyLost if writes => (
            ErrorKind::OutcomeUnknown,
            "no answer came (the connection broke, or the server fell silent); the statement may \
             have taken effect: ask again with the same owner"
                .to_owned(),
        ),
        Class::ReplyLost => (
            ErrorKind::Unavailable,
            "no answer came (the connection broke, or the server fell silent); nothing was \
             written: retry"
                .to_owned(),
        ),
        Class::Shape => (
            ErrorKind::Configuration,
            format!("table {table} is not as it was found just before: is it being changed?"),
        ),
        Class::Contention => (
            ErrorKind::Unavailable,
            format!(
                "other transactions were in the way on table {table}, also when tried again; \
                 nothing was written: retry later, and look for long transactions on this table"
            ),
        ),
        Class::Waited => (
            ErrorKind::Unavailable,
            format!(
                "another transaction kept the record in table {table} locked for as long as the \
                 server lets one wait; nothing was written: retry later, and look for long \
                 transactions on this table"
            ),
        ),
        Class::Busy => (
            ErrorKind::Unavailable,
            "the server takes no work now (starting, stopping, busy or full); nothing was \
             written: retry later"
                .to_owned(),
        ),
        Class::ReadOnly => (
            ErrorKind::Unavailable,
            "the server takes no writes: it is a standby or set to read only; nothing was \
             written: connect to the primary, or retry when it has been promoted"
                .to_owned(),
        ),
        Class::Privilege => (
            ErrorKind::Configuration,
            format!(
                "the database user lacks a privilege: it needs SELECT, INSERT and UPDATE on table \
                 {table}, and usage of its schema"
            ),
        ),
        Class::TooLong => (
            ErrorKind::InvalidInput,
            format!("a text is longer than its column in table {table}: shorten the lock's name"),
        ),
        Class::OutOfRange => (
            ErrorKind::InvalidInput,
            format!(
                "the lease would end later than a column of table {table} can hold: shorten \
                 lock_at_most_for"
            ),
        ),
        Class::Alphabet => (
            ErrorKind::InvalidInput,
            format!(
                "a text has characters that its column in table {table} cannot hold: change the \
                 lock's name, or the column's character set to utf8mb4"
            ),
        ),
        Class::Session => (
            ErrorKind::Configuration,
            format!(
                "the session is not fit for locks in table {table}, and nothing was done: its \
                 time_zone is neither UTC nor the one named as shared_session_zone (and the \
                 server, older than MySQL 8.0.17, or a proxy cannot change it for one statement; \
                 or it knows no zone of that name), autocommit is off, or its character set is \
                 not utf8mb4"
            ),
        ),
        Class::Prepared => (
            ErrorKind::Configuration,
            "the session does not keep its prepared statements, and nothing was written: if a \
             proxy such as PgBouncer shares sessions between clients, set prepared=false"
                .to_owned(),
        ),
        Class::Duplicate | Class::Exists | Class::Held => (
            ErrorKind::Configuration,
            format!("a unique key of table {table} that is not the lock's refused the record"),
        ),
        Class::Constraint(Some(name)) => (
            ErrorKind::Configuration,
            format!("constraint {name:?} of table {table} refused the record: remove it"),
        ),
        Class::Constraint(None) => (
            ErrorKind::Configuration,
            format!("a constraint of table {table} refused the record: remove it"),
        ),
        Class::Foreign => (
            ErrorKind::Conflict,
            format!(
                "the record in table {table} holds what neither shedlock nor ShedLock writes \
                 there: look at it"
            ),
        ),
        Class::Other => (
            ErrorKind::Configuration,
            format!("the server refused a statement on table {table}; its reason is the source"),
        ),
    }
}
