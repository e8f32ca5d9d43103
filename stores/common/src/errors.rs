//! Failures that every store meets.

use std::error::Error as StdError;
use std::iter;

use ErrorKind::{Configuration, OutcomeUnknown};
use shedlock_core::{Error, ErrorKind};

/// What calls of a store return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The errors of one kind each.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $kind:ident;)+) => {$(
        $(#[$doc])*
        pub fn $name(message: impl Into<String>) -> Error {
            Error::new(ErrorKind::$kind, message)
        }
    )+};
}

kinds! {
    /// The error of a setting or a URL that cannot be meant.
    invalid = InvalidInput;
    /// The error of a store, a server or a file that is not set up for locks.
    configuration = Configuration;
    /// The error of a call that has written nothing, and may be asked again.
    unavailable = Unavailable;
    /// The error of a write that may have taken effect.
    unknown = OutcomeUnknown;
    /// The error of data of others where a lock's should be.
    conflict = Conflict;
    /// The error of an answer that the store does not give.
    internal = Internal;
}

/// The error of a call whose answer did not come. `kind` is `OutcomeUnknown` where the call may have written.
pub fn unanswered(kind: ErrorKind) -> Error {
    in_doubt("the answer did not come", kind)
}

/// The same, where something else happened to it.
pub fn in_doubt(what: &str, kind: ErrorKind) -> Error {
    let what_to_do = if kind == OutcomeUnknown {
        "the call may have taken effect: ask again with the same owner"
    } else {
        "nothing was written: retry"
    };
    Error::new(kind, format!("{what}; {what_to_do}"))
}

/// The error of an attempt that may have won, and whose record could not be read: whoever asked asks again, or withdraws.
pub fn unread(error: Error) -> Error {
    unknown("the lock may have been taken, but its record could not be read: ask again")
        .with_source(error)
}

/// The error of an unlock whose answer was lost, where the record names another owner now. The lease may have ended by
/// this call; the runtime decides whether it can have ended by itself.
pub fn overtaken() -> Error {
    unknown("the answer to an unlock was lost, and the lock has changed since: ask again")
}

/// The error of a connection that failed over certificates, if this failure is one of that kind. Of the reason most
/// clients keep the words alone.
pub fn untrusted<'a>(failure: &'a (dyn StdError + 'static)) -> Option<Error> {
    let next = |cause: &&'a (dyn StdError + 'static)| (*cause).source();
    let mut causes = iter::successors(Some(failure), next);
    let is_one = causes.any(|cause| cause.to_string().to_lowercase().contains("certificate"));
    is_one.then(|| {
        Error::new(
            Configuration,
            "no encrypted connection could be made: check the server's certificate, the name in it, who has signed \
             it (tls_ca in the URL), and whether the server asks for one of yours (tls_cert, tls_key)",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_found_in_any_cause() {
        let cause = std::io::Error::other("invalid peer Certificate: UnknownIssuer");
        let failure = Error::new(ErrorKind::Unavailable, "no connection").with_source(cause);
        assert_eq!(untrusted(&failure).unwrap().kind(), Configuration);
        assert!(untrusted(&Error::new(ErrorKind::Unavailable, "no connection")).is_none());
    }
}
