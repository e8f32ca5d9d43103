//! Failures as errors that say what to do.

use redis::RedisError;
use shedlock_core::{Error, ErrorKind};

use crate::connections::Failure;

/// What a server's refusal begins with, or holds where a script met it, with what to do. A script
/// is refused at its first write, so that nothing was written.
const REFUSALS: &[(&str, ErrorKind, &str)] = &[
    (
        "WRONGTYPE",
        ErrorKind::Conflict,
        "the lock's key, or the one beside it, holds what is not a lock: look at it, and delete it \
         or choose another key prefix",
    ),
    (
        "NOAUTH",
        ErrorKind::Configuration,
        "the server asks for a password: put it into the URL",
    ),
    (
        "WRONGPASS",
        ErrorKind::Configuration,
        "the server does not let us in: check user and password",
    ),
    (
        "Password authentication failed",
        ErrorKind::Configuration,
        "the server does not let us in: check user and password",
    ),
    (
        "invalid password",
        ErrorKind::Configuration,
        "the server does not let us in: check user and password",
    ),
    ("NOPERM", ErrorKind::Configuration, PERMISSION),
    // Of a script, in the words of Redis 7.0 and of later ones.
    (
        "user executing the script can't run",
        ErrorKind::Configuration,
        PERMISSION,
    ),
    (
        "ACL failure in script",
        ErrorKind::Configuration,
        PERMISSION,
    ),
    (
        "READONLY",
        ErrorKind::Unavailable,
        "the server is a replica, which takes no writes; nothing was written: retry after a \
         failover, or connect to the primary",
    ),
    (
        "MISCONF",
        ErrorKind::Unavailable,
        "the server takes no writes since it cannot save them to disk; nothing was written: look \
         at its log, and retry later",
    ),
    (
        "OOM",
        ErrorKind::Unavailable,
        "the server has reached its maxmemory; nothing was written: retry later, and give it more, \
         or keep locks apart from caches",
    ),
    (
        "MOVED",
        ErrorKind::Configuration,
        "the server is one of a cluster, and not the one that has this lock's key: use a URL that \
         begins with redis-cluster://, or the client's ClusterClient",
    ),
    (
        "CROSSSLOT",
        ErrorKind::Internal,
        "the cluster takes the lock's two keys for those of two slots, which they never are",
    ),
    (
        "LOADING",
        ErrorKind::Unavailable,
        "the server is starting; nothing was written: retry later",
    ),
    (
        "MASTERDOWN",
        ErrorKind::Unavailable,
        "the server has lost its primary; nothing was written: retry later",
    ),
    (
        "CLUSTERDOWN",
        ErrorKind::Unavailable,
        "the cluster is down; nothing was written: retry later",
    ),
    (
        "TRYAGAIN",
        ErrorKind::Unavailable,
        "the cluster is moving keys; nothing was written: retry later",
    ),
    (
        "NOREPLICAS",
        ErrorKind::Unavailable,
        "the server has fewer replicas than it must have for writes; nothing was written: retry \
         later",
    ),
    (
        "BUSY",
        ErrorKind::Unavailable,
        "somebody's script keeps the server busy; nothing was written: retry later",
    ),
    (
        "max number of clients",
        ErrorKind::Unavailable,
        "the server has no connections to spare; nothing was written: retry later",
    ),
    (
        "unknown command",
        ErrorKind::Configuration,
        "the server does not know a command that locks need: Redis 6.2 or later, or Valkey, is \
         needed",
    ),
];

const PERMISSION: &str = "the user lacks a permission: it needs the commands evalsha, eval, time, get, set, del, \
    append, pttl, pexpireat, scan, ping and info on the locks' keys and on \
    \"shedlock-rs:*\"; behind sentinels also role, in a cluster cluster|slots";

/// The error for a failed command that may write (`writes`) or only reads.
pub(crate) fn explain(failure: Failure, writes: bool) -> Error {
    let (kind, message) = sort(&failure, writes);
    let (Failure::Connecting(source) | Failure::Running(source) | Failure::Repeated(source)) =
        failure;
    Error::new(kind, message).with_source(source)
}

fn sort(failure: &Failure, writes: bool) -> (ErrorKind, &'static str) {
    let error = failure.error();
    if let Some((kind, message)) = refusal(failure) {
        let is_passing = kind == ErrorKind::Unavailable || error.is_cluster_error();
        return match failure {
            Failure::Repeated(_) if is_passing && writes => (
                ErrorKind::Unknown,
                "the cluster refused the call in the end, and may have taken it before: ask again \
                 with the same owner",
            ),
            Failure::Repeated(_) if is_passing => (
                ErrorKind::Unavailable,
                "the cluster refused: retry later; its reason is the source",
            ),
            _ => (kind, message),
        };
    }
    match failure {
        _ if error.code().is_some() => (
            ErrorKind::Configuration,
            "the server refused; its reason is the source",
        ),
        Failure::Connecting(error) if error.kind() == redis::ErrorKind::AuthenticationFailed => (
            ErrorKind::Configuration,
            "the server does not let us in: check user, password and database",
        ),
        Failure::Connecting(error) if error.kind() == redis::ErrorKind::InvalidClientConfig => (
            ErrorKind::InvalidInput,
            "the client cannot use this address; its reason is the source",
        ),
        Failure::Connecting(error) if is_about_certificates(error) => (
            ErrorKind::Configuration,
            "no encrypted connection could be made: check the server's certificate, who has signed \
             it (tls_ca in the URL), and whether it asks for one of ours (tls_cert, tls_key)",
        ),
        Failure::Connecting(error)
            if error.kind() == redis::ErrorKind::MasterNameNotFoundBySentinel =>
        {
            (
                ErrorKind::Unavailable,
                "the sentinels name no primary that is one; nothing was written: retry after the \
                 failover, or check the primary's name in the URL",
            )
        }
        Failure::Connecting(_) => (
            ErrorKind::Unavailable,
            "no connection could be had; nothing was written: check that the server is up, then \
             retry",
        ),
        Failure::Running(_) | Failure::Repeated(_) if writes => (
            ErrorKind::Unknown,
            "the answer did not come; the call may have taken effect: ask again with the same \
             owner",
        ),
        Failure::Running(_) | Failure::Repeated(_) => (
            ErrorKind::Unavailable,
            "the answer did not come; nothing was written: retry",
        ),
    }
}

/// Whether one side did not like the other's certificate. Clients keep the words alone.
fn is_about_certificates(error: &RedisError) -> bool {
    error.to_string().to_lowercase().contains("certificate")
}

/// What the server itself said, also where the client has made it into a failure of its own.
fn refusal(failure: &Failure) -> Option<(ErrorKind, &'static str)> {
    let error = failure.error();
    let is_said = error.code().is_some()
        || error.kind() == redis::ErrorKind::AuthenticationFailed
        // A cluster's client tells of the last server that it could not connect to.
        || (matches!(failure, Failure::Connecting(_)) && error.detail().is_some());
    let said = is_said.then(|| error.to_string())?;
    let code = error.code().unwrap_or_default();
    let found = REFUSALS
        .iter()
        .find(|(word, ..)| *word == code)
        .or_else(|| REFUSALS.iter().find(|(word, ..)| said.contains(word)));
    found.map(|(_, kind, message)| (*kind, *message))
}

/// The server answered, with what is no answer to the question.
pub(crate) fn malformed(source: redis::ParsingError) -> Error {
    Error::new(
        ErrorKind::Internal,
        "the server's answer cannot be read: is it Redis or Valkey?",
    )
    .with_source(source)
}
