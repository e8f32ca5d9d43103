//! Conversion of the client's errors into errors that say what to do.

use ErrorKind::{OutcomeUnknown, Unavailable};
use shedlock_core::{Error, ErrorKind, Operation};
use shedlock_provider::{configuration, internal, unanswered, unavailable, unresolved};
use zookeeper_client::Error as ClientError;

/// Returns the error for a failed request. `lost` is its kind if the reply was lost: `OutcomeUnknown` if a lock may
/// have been written.
pub(crate) fn explain(error: ClientError, lost: ErrorKind) -> Error {
    use ClientError as E;
    let setup = |message| configuration(message);
    let later = |message| unavailable(message);
    let explained = match &error {
        E::NoAuth => setup("this user may not read or write the lock nodes").advise(
            "grant READ, WRITE and CREATE in their ACL, or check the user and password in the URL",
        ),
        E::AuthFailed => setup("the server refused the login")
            .advise("check the user, the password and the server's authentication settings"),
        E::InvalidAcl => setup("the server rejects the ACL of new nodes")
            .advise("check it (acl=creator needs a user)"),
        E::QuotaExceeded => setup("the lock nodes exceed their quota").advise("raise it"),
        E::NoChildrenForEphemerals => {
            setup("a parent of the lock nodes is ephemeral").advise("use another path")
        }
        E::NoNode => setup("the chroot does not exist")
            .advise(("check its spelling, or create it with", Operation::Migrate)),
        E::Unimplemented => setup("the server is too old").advise("use ZooKeeper 3.6 or later"),
        E::NotReadOnly => {
            later("the server is read-only because it has lost contact with its ensemble")
                .retry_later()
        }
        E::Throttled => later("the server is overloaded").retry_later(),
        E::SessionExpired | E::SessionMoved | E::ClientClosed => {
            later("the session has ended, and the request was refused").retry()
        }
        E::BadArguments(_) | E::MarshallingError => {
            return internal("the client or the server rejected the request as invalid")
                .with_source(error);
        }
        _ => return unanswered(lost).with_source(error),
    };
    // Each message above says what the client's error says.
    explained.with_source(error).with_reason("")
}

pub(crate) fn refused(error: ClientError) -> Error {
    match error {
        ClientError::AuthFailed | ClientError::BadArguments(_) => explain(error, Unavailable),
        error => unresolved(&error)
            .unwrap_or_else(|| unreachable_ensemble(""))
            .with_source(error),
    }
}

/// Returns the error for an ensemble none of whose servers could be connected to. The client does not report why.
pub(crate) fn unreachable_server() -> Error {
    unreachable_ensemble(": each server refused or closed the connection, or did not reply")
}

fn unreachable_ensemble(why: &str) -> Error {
    unavailable(format!("cannot reach any server of the ensemble{why}"))
        .nothing_written()
        .advise(
            "check that it is up, that it has a quorum, and that the address is right (with \
             zookeepers://, the certificates too)",
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
pub(crate) fn is_answered(error: &ClientError) -> bool {
    !is_refused_unseen(error) && explain(error.clone(), OutcomeUnknown).kind() != OutcomeUnknown
}
