//! What went wrong, by what can be done about it.

use std::io;

use super::Backend;

/// A failed statement.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) class: Class,
    pub(crate) source: sqlx::Error,
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
    /// A table or column that was to be made is there already.
    Exists,
    /// A privilege is missing.
    Privilege,
    /// A text is too long for its column.
    TooLong,
    /// An instant is out of the column's range.
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
    /// An error while a connection was sought: nothing was sent.
    pub(crate) fn connecting<B: Backend>(source: sqlx::Error) -> Self {
        let class = match &source {
            sqlx::Error::Configuration(_) | sqlx::Error::Tls(_) => Class::Refused,
            sqlx::Error::Database(error) => match B::classify(&**error) {
                // Also one that crashes or drops us just then: what we ask for may be right.
                Class::Busy | Class::ReplyLost | Class::Contention | Class::Waited => {
                    Class::NotSent
                }
                _ => Class::Refused,
            },
            _ => Class::NotSent,
        };
        Self::new(class, source)
    }

    /// No answer within the time of the call.
    pub(crate) fn silent() -> Self {
        let silent = io::Error::new(io::ErrorKind::TimedOut, "the server gave no answer in time");
        Self::new(Class::ReplyLost, sqlx::Error::Io(silent))
    }

    /// An error while a statement ran.
    pub(crate) fn running<B: Backend>(source: sqlx::Error) -> Self {
        let class = match &source {
            sqlx::Error::Database(error) => B::classify(&**error),
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => Class::Foreign,
            sqlx::Error::Encode(_) | sqlx::Error::InvalidArgument(_) => Class::Other,
            // I/O, protocol, a crashed worker: how far the statement came is not known.
            _ => Class::ReplyLost,
        };
        Self::new(class, source)
    }

    fn new(class: Class, source: sqlx::Error) -> Self {
        Self {
            class,
            source,
            was_used: false,
        }
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

#[cfg(test)]
#[cfg(feature = "postgres")]
mod tests {
    use std::borrow::Cow;
    use std::error::Error as StdError;
    use std::fmt;

    use sqlx::error::{DatabaseError, ErrorKind};

    use super::*;

    /// What a server says.
    #[derive(Debug)]
    struct Told(&'static str);

    impl fmt::Display for Told {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl StdError for Told {}

    impl DatabaseError for Told {
        fn message(&self) -> &str {
            self.0
        }

        fn code(&self) -> Option<Cow<'_, str>> {
            Some(self.0.into())
        }

        fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
            self
        }

        fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
            self
        }

        fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
            self
        }

        fn kind(&self) -> ErrorKind {
            ErrorKind::Other
        }
    }

    fn connecting(code: &'static str) -> Class {
        let told = sqlx::Error::Database(Box::new(Told(code)));
        Failure::connecting::<sqlx::Postgres>(told).class
    }

    #[test]
    fn a_server_that_ends_while_it_lets_us_in_is_asked_again() {
        // Shut down, crashed, dropped while idle, starting, without connections to spare.
        for code in ["57P01", "57P02", "57P05", "57P03", "53300"] {
            assert_eq!(connecting(code), Class::NotSent, "{code}");
        }
        // No such user, wrong password, no such database.
        for code in ["28000", "28P01", "3D000"] {
            assert_eq!(connecting(code), Class::Refused, "{code}");
        }
    }
}
