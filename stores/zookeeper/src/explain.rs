//! Conversion of the client's errors into errors that say what to do.

use ErrorKind::{OutcomeUnknown, Unavailable};
use shedlock_core::{Error, ErrorKind};
use shedlock_store::{configuration, internal, unanswered, unavailable};
use zookeeper_client::Error as ClientError;

/// Returns the error for a failed request. `lost` is its kind if the reply was lost: `OutcomeUnknown` if a lock may
/// have been written.
pub(crate) fn explain(error: ClientError, lost: ErrorKind) -> Error {
    use ClientError as E;
    let setup = |message| configuration(message);
    let later = |message| unavailable(message);
    let explained = match &error {
        E::NoAuth => setup(
            "this user may not read or write the nodes of locks: look at their ACL, and at the user \
             and password in the URL",
        ),
        E::AuthFailed => setup("the server refuses this user: check how it authenticates"),
        E::InvalidAcl => setup(
            "the server refuses the ACL of new nodes: with acl=creator there has to be a user",
        ),
        E::QuotaExceeded => setup("the nodes of locks exceed their quota: raise it"),
        E::NoChildrenForEphemerals => {
            setup("a node above those of locks is ephemeral: use another path")
        }
        E::NoNode => {
            setup("the chroot does not exist: is it spelt right? `shedlock migrate` makes it")
        }
        E::Unimplemented => setup("the server is too old: ZooKeeper 3.6 or later is needed"),
        E::NotReadOnly => later("the server can only be read, since it has lost its ensemble"),
        E::Throttled => later("the server has too much to do"),
        E::SessionExpired | E::SessionMoved | E::ClientClosed => {
            later("the session is over, and the request was refused: ask again")
        }
        E::BadArguments(_) | E::MarshallingError => {
            internal("the client or the server does not understand the request")
        }
        _ => unanswered(lost),
    };
    explained.with_source(error)
}

pub(crate) fn refused(error: ClientError) -> Error {
    match error {
        ClientError::AuthFailed | ClientError::BadArguments(_) => explain(error, Unavailable),
        error => unreachable_server().with_source(error),
    }
}

pub(crate) fn unreachable_server() -> Error {
    unavailable(
        "no server of the ensemble can be reached: is it up, has it a quorum, and is the address \
         right?",
    )
}

/// Whether the request was refused unprocessed, so that it can be sent again over a new session.
pub(crate) fn is_refused_unseen(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::SessionExpired | ClientError::SessionMoved | ClientError::ClientClosed
    )
}

/// Whether a server returned this error over a session that is still valid.
pub(crate) fn is_told(error: &ClientError) -> bool {
    !is_refused_unseen(error) && explain(error.clone(), OutcomeUnknown).kind() != OutcomeUnknown
}
