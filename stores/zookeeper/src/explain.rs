//! What the client says, as errors that say what to do.

use shedlock_core::{Error, ErrorKind};
use zookeeper_client::Error as ClientError;

/// What a lost answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing: what was asked changes nothing, or nothing of a lock.
    Harmless,
    /// The lock may have been written.
    Writes,
}

/// A failed request.
pub(crate) fn explain(error: ClientError, effect: Effect) -> Error {
    use ClientError as E;
    let setup = |message| Error::new(ErrorKind::Configuration, message);
    let later = |message| Error::new(ErrorKind::Unavailable, message);
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
        E::BadArguments(_) | E::MarshallingError => Error::new(
            ErrorKind::Internal,
            "the client or the server does not understand the request",
        ),
        _ => lost(effect),
    };
    explained.with_source(error)
}

/// A request whose answer did not come.
pub(crate) fn lost(effect: Effect) -> Error {
    match effect {
        Effect::Harmless => Error::new(ErrorKind::Unavailable, "the server does not answer"),
        Effect::Writes => Error::new(
            ErrorKind::OutcomeUnknown,
            "the server's answer was lost: ask again with the same owner",
        ),
    }
}

/// A session that could not be made.
pub(crate) fn refused(error: ClientError) -> Error {
    match error {
        ClientError::AuthFailed | ClientError::BadArguments(_) => explain(error, Effect::Harmless),
        error => unreachable_server().with_source(error),
    }
}

/// There is no session, and so nothing was sent.
pub(crate) fn unreachable_server() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "no server of the ensemble can be reached: is it up, has it a quorum, and is the address \
         right?",
    )
}

/// Whether the request was refused unseen, so that it may be asked again on a new session.
pub(crate) fn is_refused_unseen(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::SessionExpired | ClientError::SessionMoved | ClientError::ClientClosed
    )
}

/// Whether a server said this, over a session that goes on.
pub(crate) fn is_told(error: &ClientError) -> bool {
    !is_refused_unseen(error)
        && explain(error.clone(), Effect::Writes).kind() != ErrorKind::OutcomeUnknown
}
