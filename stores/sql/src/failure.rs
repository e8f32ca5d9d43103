//! What went wrong, by what can be done about it; and errors that say what to do.

use ErrorKind::{Configuration, Conflict, InvalidInput, OutcomeUnknown, Unavailable};
use shedlock_core::{Error, ErrorKind};

use crate::identifier::Table;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The kind and the message of the error for a class, of a statement that may write or only reads.
pub(crate) type Explain = fn(&Class, bool) -> Option<(ErrorKind, &'static str)>;

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) class: Class,
    pub(crate) source: BoxError,
    /// The connection had been used before: another one may do what this one refused.
    pub(crate) was_used: bool,
}

/// The classes of failures; each dialect sorts its server's codes into them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The statement was never sent: no connection could be had.
    NotSent,
    /// No connection could be had, and waiting will not help: wrong password, unknown database,
    /// no TLS where it is demanded.
    Refused,
    /// The connection broke between sending and the reply.
    ReplyLost,
    /// Table or column unknown, or not as it was: the shape must be looked at again.
    Shape,
    /// Another transaction was in the way (serialization, deadlock, lock timeout): at once again.
    Contention,
    /// Another transaction was in the way for as long as the server lets one wait: not again.
    Waited,
    /// The server takes no work now: starting, stopping, too many connections, busy.
    Busy,
    /// The server takes no writes: a standby, or set to read only.
    ReadOnly,
    Exists,
    Privilege,
    TooLong,
    OutOfRange,
    /// A text has characters that its column cannot hold.
    Alphabet,
    /// The session is not in the state that a statement needs, and the statement saw to it.
    Session,
    /// The session has lost what was prepared in it, or has something else of that name.
    Prepared,
    /// The statement stopped before it wrote, or was undone, since the lock cannot be had.
    Held,
    /// The unique key refused the insert: the record exists.
    Duplicate,
    /// A constraint that is not the lock's refused the write; its name where the server tells.
    Constraint(Option<String>),
    /// The record holds what no lock of ours or of ShedLock's holds.
    Foreign,
    /// The statement reached the server and was refused for another reason.
    Other,
}

impl Failure {
    pub(crate) fn no_connection() -> Self {
        Self::new(Class::NotSent, "no connection could be had in time")
    }

    pub(crate) fn new(class: Class, source: impl Into<BoxError>) -> Self {
        Self {
            class,
            source: source.into(),
            was_used: false,
        }
    }

    /// The error for a failure on this table, of a statement that may write (`writes`) or only reads; `special` is what
    /// classes mean on its database, where that is not what they mean elsewhere.
    pub(crate) fn explained(self, special: Explain, table: &Table, writes: bool) -> Error {
        let plain = || (self.class.kind(writes), self.class.message(writes));
        let (kind, message) = special(&self.class, writes).unwrap_or_else(plain);
        let mut message = message.replace("{table}", &table.to_string());
        if let Class::Constraint(Some(name)) = &self.class {
            message = message.replace("a constraint", &format!("constraint {name:?}"));
        }
        Error::new(kind, message).with_source(self.source)
    }

    /// What the server meant where it refused a session: one that crashes or drops us just then may be asked again,
    /// since what we ask for may be right.
    pub(crate) fn while_connecting(mut self) -> Self {
        self.class = match self.class {
            Class::Busy | Class::ReplyLost | Class::Contention | Class::Waited => Class::NotSent,
            _ => Class::Refused,
        };
        self
    }
}

impl Class {
    /// The session no longer serves, although its server answers, and nothing was written: it leads
    /// to a server that was demoted, or is not what it was.
    pub(crate) fn is_of_session(&self) -> bool {
        matches!(self, Self::ReadOnly | Self::Session | Self::Prepared)
    }

    /// Altering the table can cause it.
    pub(crate) fn may_be_of_table(&self) -> bool {
        let is_unfit_for_column = self.kind(true) == InvalidInput;
        is_unfit_for_column
            || matches!(
                self,
                Self::Shape | Self::Constraint(_) | Self::Foreign | Self::Other
            )
    }

    /// The connection can be used again. Not after an error that says the table has changed, since
    /// whatever the connection has prepared for the old table is of no use.
    pub(crate) fn spares_connection(&self) -> bool {
        !self.is_of_session() && !matches!(self, Self::ReplyLost | Self::Shape)
    }

    /// The kind of the error.
    fn kind(&self, writes: bool) -> ErrorKind {
        match self {
            Self::ReplyLost if writes => OutcomeUnknown,
            Self::NotSent | Self::ReplyLost | Self::ReadOnly => Unavailable,
            Self::Contention | Self::Waited | Self::Busy => Unavailable,
            Self::TooLong | Self::OutOfRange | Self::Alphabet => InvalidInput,
            Self::Foreign => Conflict,
            _ => Configuration,
        }
    }

    /// What has happened, and what to do.
    fn message(&self, writes: bool) -> &'static str {
        match self {
            Self::NotSent => {
                "no connection could be had; nothing was written: check that the server is up and has \
                 connections to spare, then retry"
            }
            Self::Refused => {
                "the server does not let us in: check user, password, database and TLS settings"
            }
            Self::ReplyLost if writes => {
                "no answer came (the connection broke, or the server fell silent); the statement may \
                 have taken effect: ask again with the same owner"
            }
            Self::ReplyLost => {
                "no answer came (the connection broke, or the server fell silent); nothing was \
                 written: retry"
            }
            Self::Shape => "table {table} is not as it was found just before: is it being changed?",
            Self::Contention => {
                "other transactions were in the way on table {table}, also when tried again; nothing \
                 was written: retry later, and look for long transactions on this table"
            }
            Self::Waited => {
                "another transaction kept the record in table {table} locked for as long as the server \
                 lets one wait; nothing was written: retry later, and look for long transactions on \
                 this table"
            }
            Self::Busy => {
                "the server takes no work now (starting, stopping, busy or full); nothing was \
                 written: retry later"
            }
            Self::ReadOnly => {
                "the server takes no writes: it is a standby or set to read only; nothing was \
                 written: connect to the primary, or retry when it has been promoted"
            }
            Self::Privilege => {
                "the database user lacks a privilege: it needs SELECT, INSERT and UPDATE on table \
                 {table}, and usage of its schema"
            }
            Self::TooLong => {
                "a text is longer than its column in table {table}: shorten the lock's name"
            }
            Self::OutOfRange => {
                "the lease would end later than a column of table {table} can hold: shorten \
                 lock_at_most_for"
            }
            Self::Alphabet => {
                "a text has characters that its column in table {table} cannot hold: change the \
                 lock's name, or the column's character set to utf8mb4"
            }
            Self::Session => {
                "the session is not fit for locks in table {table}, and nothing was done: its time_zone \
                 is neither UTC nor the one named as shared_session_zone (and the server, older than \
                 MySQL 8.0.17, or a proxy cannot change it for one statement; or it knows no zone of \
                 that name), autocommit is off, or its character set is not utf8mb4"
            }
            Self::Prepared => {
                "the session does not keep its prepared statements, and nothing was written: if a \
                 proxy such as PgBouncer shares sessions between clients, set prepared=false"
            }
            Self::Duplicate | Self::Exists | Self::Held => {
                "a unique key of table {table} that is not the lock's refused the record"
            }
            Self::Constraint(_) => "a constraint of table {table} refused the record: remove it",
            Self::Foreign => {
                "the record in table {table} holds what neither shedlock nor ShedLock writes there: \
                 look at it"
            }
            Self::Other => {
                "the server refused a statement on table {table}; its reason is the source"
            }
        }
    }
}
