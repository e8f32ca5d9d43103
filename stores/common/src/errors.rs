//! Errors that are common to all stores.

use std::borrow::Cow;
use std::error::Error as StdError;

use ErrorKind::OutcomeUnknown;
use shedlock_core::{Error, ErrorKind};
use shedlock_support::causes;

/// The result of calls to a store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// How many rounds a call makes before it returns an error. A round is lost only if another client won it.
pub const ROUNDS: u32 = 4;

/// Returns the error for a call that lost every one of its [`ROUNDS`].
pub fn contended() -> Error {
    unavailable("other clients kept changing the lock before it could be written").retry()
}

/// Defines one constructor of errors per kind.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $kind:ident;)+) => {$(
        $(#[$doc])*
        pub fn $name(what: impl Into<Cow<'static, str>>) -> Error {
            Error::new(ErrorKind::$kind, what)
        }
    )+};
}

kinds! {
    /// Returns the error for an invalid setting or URL.
    invalid = InvalidInput;
    /// Returns the error for a store, a server or a file that is not set up for locks.
    configuration = Configuration;
    /// Returns the error for a call that has written nothing and can be retried.
    unavailable = Unavailable;
    /// Returns the error for a write that may have taken effect.
    unknown = OutcomeUnknown;
    /// Returns the error for foreign data in place of a lock's record.
    conflict = Conflict;
    /// Returns the error for a reply that the store should never send.
    internal = Internal;
}

/// Returns the error for a call over a client that its user has closed. No later call can succeed.
pub fn closed() -> Error {
    configuration("the store's client is closed")
        .nothing_written()
        .advise("close it after the scheduler and all tasks have ended")
        .of_closed_client()
}

/// Returns the error for a call without a reply. `kind` is `OutcomeUnknown` if the call may have written.
pub fn unanswered(kind: ErrorKind) -> Error {
    in_doubt("no reply arrived", kind)
}

/// Like [`unanswered`], for a call that failed in another way, described by `what`.
pub fn in_doubt(what: &str, kind: ErrorKind) -> Error {
    let error = Error::new(kind, what.to_owned());
    match kind {
        OutcomeUnknown => error.may_have_taken_effect(),
        _ => error
            .nothing_written()
            .advise("check that the host and the port of the store are right"),
    }
    .retry()
}

/// Returns the error for an attempt that may have won but whose record could not be read. The caller repeats the
/// attempt or withdraws it.
pub fn unread(error: Error) -> Error {
    unknown("the lock may have been taken, but its record could not be read")
        .retry()
        .with_source(error)
}

/// Returns the error for an unlock whose reply was lost and whose record now names another owner. This call may have
/// ended the lease. The runtime decides whether the lease can have expired instead.
pub fn overtaken() -> Error {
    unknown("the reply to an unlock was lost, and the lock has changed since").retry()
}

/// Returns the error for a connection that failed because the host name could not be resolved, or none if this failure
/// has another cause. It searches the text of each cause, as [`untrusted`](crate::untrusted) does.
pub fn unresolved(failure: &(dyn StdError + 'static)) -> Option<Error> {
    let texts = [
        "failed to lookup address",
        "no such host is known",
        "dns error",
    ];
    has_cause(failure, &texts).then(unresolvable)
}

/// Returns the error for a host name that cannot be resolved.
pub fn unresolvable() -> Error {
    unavailable("cannot resolve the host name")
        .nothing_written()
        .advise("check the host name in the URL")
        .retry()
}

fn has_cause(failure: &(dyn StdError + 'static), texts: &[&str]) -> bool {
    causes(failure).any(|cause| {
        let cause = cause.to_string().to_lowercase();
        texts.iter().any(|text| cause.contains(text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_that_does_not_resolve_is_found_in_any_cause() {
        let cause = "failed to lookup address information: Name or service not known";
        let cause = std::io::Error::other(cause);
        let failure = Error::new(ErrorKind::Unavailable, "no connection").with_source(cause);
        let error = unresolved(&failure).unwrap();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("the host name"), "{error}");
        assert!(unresolved(&Error::new(ErrorKind::Unavailable, "no connection")).is_none());
    }
}
