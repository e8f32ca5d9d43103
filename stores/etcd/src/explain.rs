//! Failures as errors that say what to do.

use std::error::Error as StdError;
use std::iter;

use shedlock_core::{Error, ErrorKind};
use tonic::{Code, ConnectError, Status};

use crate::connections::Effect;

/// A request that failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// As the client tells.
    Client(etcd_client::Error),
    /// No answer came in time.
    Silent,
    /// There was no connection, or none that the server lets us use, in time.
    Connecting(Option<etcd_client::Error>),
}

/// What a failure means for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It never reached a server that could have carried it out: another one may.
    NotSent,
    /// Its answer was lost.
    Broken,
    /// It was answered by a refusal, and not carried out.
    Refused,
}

/// What a server says (or its beginning), what that means, and what to do. Unless broken, nothing
/// was written.
const REFUSALS: &[(&str, Trouble, ErrorKind, &str)] = &[
    (
        "etcdserver: no leader",
        Trouble::NotSent,
        ErrorKind::Unavailable,
        "the cluster has no leader, or this server cannot reach it; nothing was written: retry, and \
         look whether most servers of the cluster are up",
    ),
    (
        "etcdserver: not leader",
        Trouble::NotSent,
        ErrorKind::Unavailable,
        "the leader has changed; nothing was written: retry",
    ),
    (
        "etcdserver: rpc not supported for learner",
        Trouble::NotSent,
        ErrorKind::Configuration,
        "the server is a learner, which takes no requests: connect to the voting members",
    ),
    (
        "etcdserver: too many requests",
        Trouble::Refused,
        ErrorKind::Unavailable,
        "the cluster is overloaded; nothing was written: retry later",
    ),
    (
        "etcdserver: mvcc: database space exceeded",
        Trouble::Refused,
        ErrorKind::Unavailable,
        "the store has reached its space quota; nothing was written: compact and defragment it, \
         disarm its alarm, or give it more; retry then",
    ),
    (
        "etcdserver: corrupt cluster",
        Trouble::Refused,
        ErrorKind::Configuration,
        "the store says that its data is corrupt; nothing was written: look at its log",
    ),
    (
        "etcdserver: permission denied",
        Trouble::Refused,
        ErrorKind::Configuration,
        "the user lacks a permission: its role needs read and write on the locks' keys and on those \
         that begin with \"shedlock-rs:\"; both begin with \"shedlock\" by default",
    ),
    (
        "etcdserver: user name is empty",
        Trouble::Refused,
        ErrorKind::Configuration,
        "the store asks for a user: put user and password into the URL, or give them to the client",
    ),
    (
        "etcdserver: authentication failed",
        Trouble::Refused,
        ErrorKind::Configuration,
        "the store does not let us in: check user and password",
    ),
    (
        "etcdserver: authentication is not enabled",
        Trouble::Refused,
        ErrorKind::Configuration,
        "the store knows no users: leave user and password out of the URL",
    ),
    (
        // A client of ours is left for a new one, which logs in anew.
        "etcdserver: invalid auth token",
        Trouble::NotSent,
        ErrorKind::Unavailable,
        "the store has forgotten this login; nothing was written: retry; a client of one's own needs \
         `with_auto_token_refresh`",
    ),
    (
        "etcdserver: revision of auth store is old",
        Trouble::NotSent,
        ErrorKind::Unavailable,
        "the store's users have changed since this login; nothing was written: retry; a client of \
         one's own has to log in anew",
    ),
    (
        "etcdserver: request is too large",
        Trouble::Refused,
        ErrorKind::InvalidInput,
        "the store takes no request of this size: shorten the lock's name",
    ),
    (
        "etcdserver: too large lease TTL",
        Trouble::Refused,
        ErrorKind::InvalidInput,
        "the store keeps no lease for so long: shorten it",
    ),
];

/// What a server says of a lease that is over.
const LEASE_GONE: &str = "etcdserver: requested lease not found";

impl Failure {
    /// This failure, met while a client was made: nothing was asked yet.
    pub(crate) fn before_connected(self) -> Self {
        match self {
            Self::Client(error) if refusal(&error).is_none() => Self::Connecting(Some(error)),
            Self::Silent => Self::Connecting(None),
            failure => failure,
        }
    }

    pub(crate) fn trouble(&self) -> Trouble {
        match self {
            Self::Silent => Trouble::Broken,
            Self::Connecting(_) => Trouble::NotSent,
            Self::Client(error) => match refusal(error) {
                Some((trouble, ..)) => trouble,
                None if was_never_sent(error) => Trouble::NotSent,
                None if is_answer(error) => Trouble::Refused,
                None => Trouble::Broken,
            },
        }
    }

    /// Whether the server refused since a lease that was to hold a key is over.
    pub(crate) fn is_lease_gone(&self) -> bool {
        let Self::Client(error) = self else {
            return false;
        };
        status(error).is_some_and(|status| status.message() == LEASE_GONE)
    }

    /// The error for this failure.
    pub(crate) fn explain(self, effect: Effect) -> Error {
        let said = match &self {
            Self::Client(error) | Self::Connecting(Some(error)) => refusal(error),
            _ => None,
        };
        let (kind, message) = match (said, self.trouble()) {
            (Some((_, kind, message)), _) => (kind, message),
            (None, Trouble::NotSent) => (
                ErrorKind::Unavailable,
                "no connection could be had; nothing was written: check that the servers are up, \
                 then retry",
            ),
            (None, Trouble::Broken) if effect == Effect::Writes => (
                ErrorKind::Unknown,
                "the answer did not come; the call may have taken effect: ask again with the same \
                 owner",
            ),
            (None, Trouble::Broken) => (
                ErrorKind::Unavailable,
                "the answer did not come; nothing was written: retry",
            ),
            (None, Trouble::Refused) => (
                ErrorKind::Configuration,
                "the server refused; its reason is the source",
            ),
        };
        let error = Error::new(kind, message);
        match self {
            Self::Client(source) | Self::Connecting(Some(source)) => error.with_source(source),
            _ => error,
        }
    }
}

fn status(error: &etcd_client::Error) -> Option<&Status> {
    match error {
        etcd_client::Error::GRpcStatus(status) => Some(status),
        _ => None,
    }
}

/// What the server itself said.
fn refusal(error: &etcd_client::Error) -> Option<(Trouble, ErrorKind, &'static str)> {
    if is_about_certificates(error) {
        return Some((
            Trouble::NotSent,
            ErrorKind::Configuration,
            "no encrypted connection could be made: check the servers' certificates, who has signed \
             them (tls_ca in the URL), the name in them (tls_domain), and whether the servers ask for \
             one of ours (tls_cert, tls_key)",
        ));
    }
    let said = status(error)?.message();
    let found = REFUSALS.iter().find(|(words, ..)| said.starts_with(words));
    found.map(|(_, trouble, kind, message)| (*trouble, *kind, *message))
}

/// Whether one side did not like the other's certificate. Nothing is carried out before they do;
/// what is left of their reasons is words.
fn is_about_certificates(error: &etcd_client::Error) -> bool {
    causes(error).any(|cause| cause.to_string().to_lowercase().contains("certificate"))
}

/// Whether no connection could be made to send it by.
fn was_never_sent(error: &etcd_client::Error) -> bool {
    // Without a status, the client has asked nobody yet.
    status(error).is_none() || causes(error).any(<dyn StdError>::is::<ConnectError>)
}

/// What the client's failure came from. It does not tell its causes itself.
fn causes(error: &etcd_client::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    let first: Option<&(dyn StdError + 'static)> = match error {
        etcd_client::Error::GRpcStatus(status) => status.source(),
        etcd_client::Error::TransportError(error) => Some(error),
        _ => None,
    };
    iter::successors(first, |cause: &&(dyn StdError + 'static)| (*cause).source())
}

/// Whether this is what a server answers that does not carry a request out, rather than what becomes
/// of one that is cut off: those, and what may yet be carried out, have codes of their own.
fn is_answer(error: &etcd_client::Error) -> bool {
    let Some(status) = status(error) else {
        return false;
    };
    let is_said = status.source().is_none();
    is_said
        && matches!(
            status.code(),
            Code::InvalidArgument
                | Code::NotFound
                | Code::AlreadyExists
                | Code::PermissionDenied
                | Code::FailedPrecondition
                | Code::OutOfRange
                | Code::Unimplemented
                | Code::Unauthenticated
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: Code, message: &str) -> Failure {
        Failure::Client(Status::new(code, message).into())
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
            let code = Code::Unavailable;
            assert_eq!(said(code, message).trouble(), Trouble::Broken, "{message}");
            let error = said(code, message).explain(Effect::Writes);
            assert_eq!(error.kind(), ErrorKind::Unknown, "{message}");
            let error = said(code, message).explain(Effect::None);
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{message}");
        }
        let error = Failure::Silent.explain(Effect::Writes);
        assert_eq!(error.kind(), ErrorKind::Unknown);
    }

    #[test]
    fn what_was_refused_or_never_sent_was_not_written() {
        let refused = said(Code::PermissionDenied, "etcdserver: permission denied");
        assert_eq!(refused.trouble(), Trouble::Refused);
        let error = refused.explain(Effect::Writes);
        assert_eq!(error.kind(), ErrorKind::Configuration);
        let leaderless = said(Code::Unavailable, "etcdserver: no leader");
        assert_eq!(leaderless.trouble(), Trouble::NotSent);
        let error = leaderless.explain(Effect::Writes);
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let error = Failure::Silent.before_connected().explain(Effect::Writes);
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn a_lease_that_is_over_is_told_from_other_refusals() {
        let gone = said(Code::NotFound, LEASE_GONE);
        assert!(gone.is_lease_gone());
        assert_eq!(gone.trouble(), Trouble::Refused);
        assert!(!said(Code::NotFound, "etcdserver: key is not provided").is_lease_gone());
    }
}
