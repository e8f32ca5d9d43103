//! Failures as errors that say what to do.

use std::time::Duration;

use mongodb::bson::Document;
use mongodb::error::{
    ErrorKind as Kind, NO_WRITES_PERFORMED, RETRYABLE_WRITE_ERROR, SYSTEM_OVERLOADED_ERROR,
};
use shedlock_core::{Error, ErrorKind};

/// A command that was not answered as it should be.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The driver's own.
    Driver(mongodb::error::Error),
    /// No answer within this time. It may not even have been sent.
    Silence(Duration),
}

/// What a server's refusal means, by its code.
const REFUSALS: &[(&[i32], ErrorKind, &str)] = &[
    (
        &[13, 18, 8_000],
        ErrorKind::Configuration,
        "the server does not let us do this: the user needs find, insert and update on the \
         collection (role readWrite); check user, password and authSource",
    ),
    (
        &[10_107, 13_435, 10_058, 13_436],
        ErrorKind::Unavailable,
        "the server is no primary, which alone takes writes; nothing was written: retry after the \
         election, or name the whole replica set in the URL",
    ),
    (
        &[112, 24, 290],
        ErrorKind::Unavailable,
        "other commands were in the way; nothing was written: retry",
    ),
    (
        &[
            14, 241, 16_554, 16_556, 17_276, 40_324, 40_333, 9, 168, 31_325,
        ],
        ErrorKind::Configuration,
        "the server does not understand a command that locks need: MongoDB 4.4 or later is needed, \
         and what only speaks its protocol may lack update pipelines",
    ),
    (
        &[121],
        ErrorKind::Configuration,
        "the collection's validator refuses the lock's document: let it have ShedLock's fields and \
         ours, or use another collection",
    ),
    (
        &[166, 20],
        ErrorKind::Configuration,
        "the collection is a view, or cannot be updated: use one that holds documents of its own",
    ),
];

/// Failures in the middle of a write, which may have taken effect: the server or the primary's term
/// ends, a time limit passes, or a router does not hear from the primary.
const INTERRUPTIONS: &[i32] = &[
    11_600, 11_601, 11_602, 91, 189, 50, 262, 6, 7, 89, 202, 9_001, 133, 134,
];

impl Failure {
    /// Whether a document was to be made that is there.
    pub(crate) fn is_duplicate(&self) -> bool {
        let Self::Driver(error) = self else {
            return false;
        };
        matches!(&*error.kind, Kind::Command(refusal) if refusal.code == 11_000)
    }
}

/// The error for a failed command that may write (`writes`) or only reads.
pub(crate) fn explain(failure: Failure, writes: bool) -> Error {
    match failure {
        Failure::Silence(limit) => {
            let (kind, message) = no_answer(writes);
            Error::new(kind, format!("no answer came within {limit:?}: {message}"))
        }
        Failure::Driver(error) => {
            let (kind, message) = sort(&error.kind, |label| error.contains_label(label), writes);
            Error::new(kind, message).with_source(error)
        }
    }
}

/// The error for a write that was done, but not acknowledged as it was to be: a new primary may not
/// know it.
pub(crate) fn unacknowledged(why: &Document) -> Error {
    let code = why.get_i32("code").unwrap_or_default();
    let said = why.get_str("errmsg").unwrap_or_default();
    Error::new(
        ErrorKind::Unknown,
        format!(
            "the write was not acknowledged by as many members as it has to be, so that an election \
             may undo it (code {code}: {said}): ask again, and look at the replica set"
        ),
    )
}

fn sort(kind: &Kind, has_label: impl Fn(&str) -> bool, writes: bool) -> (ErrorKind, &'static str) {
    match kind {
        Kind::Command(refusal) if INTERRUPTIONS.contains(&refusal.code) => {
            no_answer(writes && !has_label(NO_WRITES_PERFORMED))
        }
        Kind::Command(refusal) => {
            let known = REFUSALS
                .iter()
                .find(|(codes, ..)| codes.contains(&refusal.code));
            match known {
                Some((_, kind, message)) => (*kind, *message),
                None if has_label(NO_WRITES_PERFORMED) => no_answer(false),
                None if has_label(RETRYABLE_WRITE_ERROR) => no_answer(writes),
                None => (
                    ErrorKind::Configuration,
                    "the server refused; its reason is the source",
                ),
            }
        }
        Kind::Authentication { .. } => (
            ErrorKind::Configuration,
            "the server does not let us in: check user, password, authSource and authMechanism",
        ),
        Kind::ServerSelection { .. } | Kind::DnsResolve { .. } => (
            ErrorKind::Unavailable,
            "no primary could be reached; nothing was written: check that the servers are up and \
             that the URL names them, then retry",
        ),
        Kind::ConnectionPoolCleared { .. } => (
            ErrorKind::Unavailable,
            "the connections to the server were given up before the call was sent; nothing was \
             written: retry",
        ),
        Kind::Io(_) if has_label(SYSTEM_OVERLOADED_ERROR) => (
            ErrorKind::Unavailable,
            "no connection could be made; nothing was written: check that the server is up, then \
             retry",
        ),
        Kind::InvalidTlsConfig { .. } => (
            ErrorKind::Configuration,
            "no encrypted connection could be made; the reason is the source",
        ),
        Kind::InvalidArgument { .. } => (
            ErrorKind::InvalidInput,
            "the driver refuses the command or its options; its reason is the source",
        ),
        Kind::IncompatibleServer { .. } | Kind::SessionsNotSupported => (
            ErrorKind::Configuration,
            "the driver cannot work with this server: MongoDB 4.4 or later is needed",
        ),
        Kind::Shutdown => (
            ErrorKind::Configuration,
            "the client was shut down: make the provider from one that is not",
        ),
        _ => no_answer(writes),
    }
}

fn no_answer(writes: bool) -> (ErrorKind, &'static str) {
    if writes {
        (
            ErrorKind::Unknown,
            "the answer did not come; the call may have taken effect: ask again with the same owner",
        )
    } else {
        (
            ErrorKind::Unavailable,
            "the answer did not come; nothing was written: retry",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::doc;

    fn said(kind: Kind, writes: bool) -> ErrorKind {
        explain(Failure::Driver(kind.into()), writes).kind()
    }

    fn broken() -> Kind {
        let error = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        Kind::Io(std::sync::Arc::new(error))
    }

    #[test]
    fn a_lost_answer_to_a_write_is_unknown() {
        assert_eq!(said(broken(), true), ErrorKind::Unknown);
        assert_eq!(said(broken(), false), ErrorKind::Unavailable);
        let silence = Failure::Silence(Duration::from_secs(5));
        assert_eq!(explain(silence, true).kind(), ErrorKind::Unknown);
        let undone = unacknowledged(&doc! { "code": 64, "errmsg": "waiting timed out" });
        assert_eq!(undone.kind(), ErrorKind::Unknown);
        assert!(undone.message().contains("64: waiting"), "{undone}");
    }

    fn refused(code: i32) -> Kind {
        let refusal = doc! { "code": code, "codeName": "", "errmsg": "" };
        Kind::Command(mongodb::bson::deserialize_from_document(refusal).unwrap())
    }

    /// What servers and routers report while another member becomes primary. Keep-alive gives up on
    /// any kind of error but these two.
    #[test]
    fn a_failover_ends_no_keep_alive() {
        for code in [6, 7, 89, 202, 9_001, 133, 11_600, 11_602, 189, 91] {
            assert_eq!(said(refused(code), true), ErrorKind::Unknown, "{code}");
            assert_eq!(said(refused(code), false), ErrorKind::Unavailable, "{code}");
        }
        for code in [10_107, 13_435] {
            assert_eq!(said(refused(code), true), ErrorKind::Unavailable, "{code}");
        }
        assert_eq!(said(refused(13), true), ErrorKind::Configuration);
    }

    /// Of a code that this version does not know.
    #[test]
    fn the_drivers_labels_tell_whether_a_write_may_stand() {
        let sorted =
            |code, labels: &[&str]| sort(&refused(code), |it| labels.contains(&it), true).0;
        let retryable = "RetryableWriteError";
        let unwritten = "NoWritesPerformed";
        assert_eq!(sorted(4_711, &[]), ErrorKind::Configuration);
        assert_eq!(sorted(4_711, &[retryable]), ErrorKind::Unknown);
        let both = [retryable, unwritten];
        assert_eq!(sorted(4_711, &both), ErrorKind::Unavailable);
        assert_eq!(sorted(91, &both), ErrorKind::Unavailable);
        assert_eq!(sorted(91, &[retryable]), ErrorKind::Unknown);
    }

    #[test]
    fn a_client_that_was_shut_down_is_no_ones_outage() {
        assert_eq!(said(Kind::Shutdown, true), ErrorKind::Configuration);
    }
}
