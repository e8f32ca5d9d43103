//! Conversion of failures into errors that say what to do.

use std::error::Error as StdError;
use std::iter;

use ErrorKind::{Configuration, InvalidInput, Lost, Unavailable};
use Fault::{Broken, NotSent, Refused};
use shedlock_core::{Error, ErrorKind};
use shedlock_provider::{Told, in_words, told, unanswered, unresolved, untrusted};
use tonic::{Code, ConnectError, Status};

/// The refusal of a store that is full. It refuses puts and leases, and transactions with puts.
const FULL: &str = "mvcc: database space exceeded";

/// What a failure means for the request. Nothing was written unless it is `Broken` or `Silent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It never reached a server that could have executed it. Another server may succeed.
    NotSent,
    /// Its reply was lost.
    Broken,
    /// Its reply did not arrive in time.
    Silent,
    /// The server refused it and did not execute it.
    Refused,
}

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) fault: Fault,
    pub(crate) error: Error,
}

impl Failure {
    /// Converts an error of the client. `lost` is the kind of the error if the reply was lost.
    pub(crate) fn of(source: etcd_client::Error, lost: ErrorKind) -> Self {
        let failure = match refusal(&source) {
            Some(failure) => failure,
            None if was_never_sent(&source) => Self::not_sent(),
            None if is_answer(&source) => {
                let refused = told("the server refused the request")
                    .nothing_written()
                    .advise("check that the server at this address is etcd, and its log");
                Self::new(Refused, Configuration, refused)
            }
            None => Self::unanswered(Broken, lost),
        };
        failure.with(source)
    }

    pub(crate) fn unconnected(source: etcd_client::Error) -> Self {
        refusal(&source).unwrap_or_else(Self::not_sent).with(source)
    }

    pub(crate) fn not_sent() -> Self {
        let unconnected = told("cannot connect")
            .nothing_written()
            .advise("check that the servers are up, and that their hosts and ports are right")
            .retry();
        Self::new(NotSent, Unavailable, unconnected)
    }

    pub(crate) fn unanswered(fault: Fault, lost: ErrorKind) -> Self {
        let error = unanswered(lost);
        Self { fault, error }
    }

    fn new(fault: Fault, kind: ErrorKind, told: Told) -> Self {
        let error = told.error(kind);
        Self { fault, error }
    }

    fn with(self, source: etcd_client::Error) -> Self {
        let reason = reason(&source);
        let error = self.error.with_source(source).with_reason(reason);
        Self { error, ..self }
    }
}

/// The reason in the client's error, whose own text is a dump of its fields.
fn reason(error: &etcd_client::Error) -> String {
    match (causes(error).last(), status(error)) {
        (Some(cause), _) => in_words(&cause.to_string()),
        (None, Some(status)) if !status.message().is_empty() => said(status).to_owned(),
        (None, Some(status)) => status.code().to_string(),
        (None, None) => error.to_string(),
    }
}

/// What the server said, without its name.
fn said(status: &Status) -> &str {
    let message = status.message();
    message.strip_prefix("etcdserver: ").unwrap_or(message)
}

fn status(error: &etcd_client::Error) -> Option<&Status> {
    match error {
        etcd_client::Error::GRpcStatus(status) => Some(status),
        _ => None,
    }
}

fn refusal(error: &etcd_client::Error) -> Option<Failure> {
    // Nothing is executed before the host is found and both sides accept each other's certificate.
    let explained =
        |cause: &(dyn StdError + 'static)| untrusted(cause).or_else(|| unresolved(cause));
    if let Some(error) = causes(error).next().and_then(explained) {
        let fault = NotSent;
        return Some(Failure { fault, error });
    }
    let message = status(error)?.message().strip_prefix("etcdserver: ")?;
    let (said, _) = message.split_once(',').unwrap_or((message, ""));
    let (fault, kind) = match said {
        "no leader" | "not leader" | "invalid auth token" | "revision of auth store is old" => {
            (NotSent, Unavailable)
        }
        "rpc not supported for learner" => (NotSent, Configuration),
        "too many requests" | FULL => (Refused, Unavailable),
        "request is too large" | "too large lease TTL" => (Refused, InvalidInput),
        "requested lease not found" => (Refused, Lost),
        _ => (Refused, Configuration),
    };
    Some(Failure::new(fault, kind, remedy(said)?))
}

/// Whether the store refused a write because it has reached its space quota.
pub(crate) fn is_full(error: &Error) -> bool {
    let source = error.source().and_then(<dyn StdError>::downcast_ref);
    let status = source.and_then(status);
    status.is_some_and(|status| said(status) == FULL)
}

/// Returns what to do about a refusal. Nothing was written.
fn remedy(said: &str) -> Option<Told> {
    Some(match said {
        "no leader" => told("the cluster has no leader, or this server cannot reach it")
            .nothing_written()
            .advise("check that a majority of the cluster's servers is up")
            .retry(),
        "not leader" => told("the leader has changed").nothing_written().retry(),
        // Our own client is replaced by a new one, which logs in again.
        "invalid auth token" => told("the store no longer accepts this login")
            .nothing_written()
            .advise("retry (a client that you supply needs `with_auto_token_refresh`)"),
        "revision of auth store is old" => told("the store's users have changed since this login")
            .nothing_written()
            .advise("retry (a client that you supply must log in again)"),
        "rpc not supported for learner" => {
            told("the server is a learner, which refuses this request")
                .advise("connect to the voting members")
        }
        "too many requests" => told("the cluster is overloaded")
            .nothing_written()
            .retry_later(),
        FULL => told("the store has reached its space quota")
            .nothing_written()
            .advise("compact and defragment it and disarm its alarm, or raise the quota")
            .retry(),
        "corrupt cluster" => told("the store reports that its data is corrupt")
            .nothing_written()
            .advise("check its log"),
        "permission denied" => told("the user lacks a permission").advise(
            "grant its role read and write access to the locks' keys and to the keys that begin \
             with \"shedlock-rs:\" (both begin with \"shedlock\" by default)",
        ),
        "user name is empty" => told("the store requires a user")
            .advise("set the user and the password in the URL or on the client"),
        "authentication failed" => {
            told("the store refused the login").advise("check the user and the password")
        }
        "authentication is not enabled" => told("authentication is not enabled on the store")
            .advise("remove the user and the password from the URL"),
        "request is too large" => {
            told("the request is too large for the store").advise("shorten the lock's name")
        }
        "too large lease TTL" => told("the lease is too long for the store").advise("shorten it"),
        "requested lease not found" => told("the store's lease has expired").nothing_written(),
        _ => return None,
    })
}

fn was_never_sent(error: &etcd_client::Error) -> bool {
    // Without a status, the client has not sent a request yet.
    status(error).is_none() || causes(error).any(<dyn StdError>::is::<ConnectError>)
}

/// Returns the causes of the client's failure, which the client's error does not expose as its source.
fn causes(error: &etcd_client::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    let first: Option<&(dyn StdError + 'static)> = match error {
        etcd_client::Error::GRpcStatus(status) => status.source(),
        etcd_client::Error::TransportError(error) => Some(error),
        _ => None,
    };
    iter::successors(first, |cause: &&(dyn StdError + 'static)| (*cause).source())
}

/// Whether the server refused to execute the request, rather than the request having been cut off. Requests that were
/// cut off, and those that may still be executed, have different codes.
fn is_answer(error: &etcd_client::Error) -> bool {
    let is_said = |status: &&Status| status.source().is_none();
    matches!(
        status(error).filter(is_said).map(Status::code),
        Some(
            Code::InvalidArgument
                | Code::NotFound
                | Code::AlreadyExists
                | Code::PermissionDenied
                | Code::FailedPrecondition
                | Code::OutOfRange
                | Code::Unimplemented
                | Code::Unauthenticated
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ErrorKind::OutcomeUnknown;

    fn said(code: Code, message: &str, lost: ErrorKind) -> (Fault, ErrorKind) {
        let failure = Failure::of(Status::new(code, message).into(), lost);
        (failure.fault, failure.error.kind())
    }

    #[test]
    fn a_reason_is_not_a_dump() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let status = Status::from_error(Box::new(ConnectError(Box::new(refused))));
        let failure = Failure::of(status.into(), OutcomeUnknown);
        assert_eq!(
            format!("{:#}", failure.error),
            "cannot connect: connection refused; nothing was written; check that the servers are \
             up, and that their hosts and ports are right, then retry"
        );
        let status = Status::new(Code::PermissionDenied, "etcdserver: permission denied");
        let failure = Failure::of(status.into(), OutcomeUnknown);
        let text = format!("{:#}", failure.error);
        let start = "the user lacks a permission: permission denied; grant its role ";
        assert!(text.starts_with(start), "{text}");
    }

    #[test]
    fn a_write_that_may_yet_be_carried_out_is_unknown() {
        for message in [
            "etcdserver: request timed out",
            "etcdserver: request timed out, possibly due to previous leader failure",
            "etcdserver: leader changed",
            "etcdserver: server stopped",
            "h2 protocol error: http2 error",
        ] {
            for lost in [OutcomeUnknown, Unavailable] {
                let answer = said(Code::Unavailable, message, lost);
                assert_eq!(answer, (Broken, lost), "{message}");
            }
        }
    }

    #[test]
    fn what_was_refused_or_never_sent_was_not_written() {
        let refused = (Refused, Configuration);
        for (code, message, answer) in [
            (Code::PermissionDenied, "permission denied", refused),
            (Code::NotFound, "key is not provided", refused),
            (Code::Unavailable, "no leader", (NotSent, Unavailable)),
            (Code::NotFound, "requested lease not found", (Refused, Lost)),
        ] {
            let message = format!("etcdserver: {message}");
            assert_eq!(said(code, &message, OutcomeUnknown), answer, "{message}");
        }
    }
}
