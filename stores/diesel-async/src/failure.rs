//! What an error of diesel-async means.
//!
//! diesel keeps the server's message, but neither its code nor the error of the client below it. So the kind, where there
//! is one, and the message decide.

use diesel::ConnectionError;
use diesel::result::{DatabaseErrorKind, Error};
use shedlock_provider::untrusted;
use shedlock_sql::driver::{BoxError, Class, Failure, Refusal};
use shedlock_support::causes;

use crate::driver::Database;

/// What a server reported: diesel's kind of error, its message, and the constraint, if the server names it.
pub struct Report<'a> {
    pub kind: Option<DatabaseErrorKind>,
    pub message: &'a str,
    pub constraint: Option<&'a str>,
}

/// What the server reported, if it replied at all.
pub(crate) fn report(error: &Error) -> Option<Report<'_>> {
    match error {
        Error::DatabaseError(DatabaseErrorKind::UnableToSendCommand, _) => None,
        Error::DatabaseError(kind, information) => Some(Report {
            kind: Some(*kind),
            message: information.message(),
            constraint: information.constraint_name(),
        }),
        _ => None,
    }
}

/// The class of an error that occurred while a statement was running, if the server did not report it.
pub(crate) fn unreported(error: &Error) -> Class {
    match error {
        Error::DeserializationError(_) => Class::Foreign,
        Error::SerializationError(_) | Error::QueryBuilderError(_) | Error::InvalidCString(_) => {
            Class::Other
        }
        // How far the statement got is unknown.
        _ => Class::ReplyLost,
    }
}

/// A failure of this class, with what the server said.
pub(crate) fn failed(class: Class, error: Error) -> Failure {
    let said = report(&error).map(|report| report.message.to_owned());
    Failure::new(class, error).said(said)
}

/// Classifies an error that occurred while a connection was being acquired: nothing was sent.
pub(crate) fn connecting<C: Database>(error: BoxError) -> Failure {
    if untrusted(&*error).is_some() {
        return Failure::new(Class::Untrusted, error);
    }
    let Some(message) = causes(&*error).last().map(ToString::to_string) else {
        return Failure::new(Class::NotSent, error);
    };
    let login = causes(&*error).find_map(at_login);
    if let Some(Login::Client(class)) = login {
        return Failure::new(class, error);
    }
    let report = Report {
        kind: None,
        message: &message,
        constraint: None,
    };
    match C::classify(&report) {
        Some(class) => {
            let special = C::at_login(&report);
            let failure = Failure::new(class, error).while_connecting(special);
            failure.said(Some(message))
        }
        None if matches!(login, Some(Login::Server)) => {
            Failure::new(Class::Refused(Refusal::Other), error).said(Some(message))
        }
        // The pool had no connection to lend.
        None => Failure::new(Class::NotSent, error),
    }
}

/// Who failed while a connection was being opened.
enum Login {
    Client(Class),
    Server,
}

fn at_login(cause: &(dyn std::error::Error + 'static)) -> Option<Login> {
    #[cfg(any(feature = "bb8", feature = "deadpool", feature = "mobc"))]
    if let Some(error) = cause.downcast_ref() {
        use diesel_async::pooled_connection::PoolError;
        return Some(match error {
            PoolError::ConnectionError(error) => opening(error),
            PoolError::QueryError(error) => checking(error),
        });
    }
    let opening = cause.downcast_ref().map(opening);
    opening.or_else(|| cause.downcast_ref().map(checking))
}

fn opening(error: &ConnectionError) -> Login {
    match error {
        ConnectionError::CouldntSetupConfiguration(error) => checking(error),
        ConnectionError::BadConnection(text) => Login::Client(broken(text)),
        _ => Login::Client(Class::Refused(Refusal::Other)),
    }
}

fn checking(error: &Error) -> Login {
    match report(error) {
        Some(_) => Login::Server,
        None => Login::Client(broken(&error.to_string())),
    }
}

/// The clients have no public kinds of errors here, but the start of their texts is theirs.
fn broken(text: &str) -> Class {
    if text.contains("TLS") {
        Class::Refused(Refusal::Tls)
    } else if text.contains("invalid config") {
        Class::Refused(Refusal::Other)
    } else {
        Class::Unreachable
    }
}
