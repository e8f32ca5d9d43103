//! What went wrong, by what can be done about it.

use std::io;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

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
        Self::timed_out(Class::NotSent, "no connection could be had in time")
    }

    pub(crate) fn silent() -> Self {
        Self::timed_out(Class::ReplyLost, "the server gave no answer in time")
    }

    fn timed_out(class: Class, why: &str) -> Self {
        Self::new(class, io::Error::new(io::ErrorKind::TimedOut, why))
    }

    pub(crate) fn new(class: Class, source: impl Into<BoxError>) -> Self {
        Self {
            class,
            source: source.into(),
            was_used: false,
        }
    }

    pub(crate) fn while_connecting(self) -> Self {
        let class = self.class.while_connecting();
        Self { class, ..self }
    }
}

impl Class {
    /// What the server meant where it refused a session: one that crashes or drops us just then may be asked again,
    /// since what we ask for may be right.
    pub(crate) fn while_connecting(self) -> Self {
        match self {
            Self::Busy | Self::ReplyLost | Self::Contention | Self::Waited => Self::NotSent,
            _ => Self::Refused,
        }
    }

    /// The session no longer serves, although its server answers, and nothing was written: it leads
    /// to a server that was demoted, or is not what it was.
    pub(crate) fn is_of_session(&self) -> bool {
        matches!(self, Self::ReadOnly | Self::Session | Self::Prepared)
    }

    /// Altering the table can cause it.
    pub(crate) fn may_be_of_table(&self) -> bool {
        matches!(
            self,
            Self::Shape
                | Self::Constraint(_)
                | Self::TooLong
                | Self::OutOfRange
                | Self::Alphabet
                | Self::Foreign
                | Self::Other
        )
    }

    /// The connection can be used again. Not after an error that says the table has changed, since
    /// whatever the connection has prepared for the old table is of no use.
    pub(crate) fn spares_connection(&self) -> bool {
        !self.is_of_session() && !matches!(self, Self::ReplyLost | Self::Shape)
    }
}
