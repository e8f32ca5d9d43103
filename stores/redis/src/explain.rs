//! Failures as errors that say what to do.

use ErrorKind::{Configuration, Conflict, InvalidInput, OutcomeUnknown, Unavailable};
use redis::{ErrorKind as Kind, RedisError, ServerErrorKind};
use shedlock_core::{Error, ErrorKind};
use shedlock_store::{
    configuration, in_doubt, in_words, unanswered, unavailable, unresolved, untrusted,
};

use crate::connections::{Failure, SOCKET, Scheme, Sent};

/// Error replies caused by configuration, each with what to do. The text is the start of the reply, or occurs inside it
/// if a script failed.
const MISCONFIGURED: &[(&str, &str)] = &[
    (
        "NOAUTH",
        "the server requires a password; set it in the URL",
    ),
    ("WRONGPASS", LOGIN),
    ("Password authentication failed", LOGIN),
    ("invalid password", LOGIN),
    ("NOPERM", PERMISSION),
    // Inside scripts: the texts of Redis 7.0 and of later versions.
    ("user executing the script can't run", PERMISSION),
    ("ACL failure in script", PERMISSION),
    ("MOVED", CLUSTER),
    (
        "DB index is out of range",
        "the server has no database of this number; correct the number in the URL, or raise \
         `databases` in the server's configuration",
    ),
    (
        "SELECT is not allowed",
        "a cluster has only database 0; remove the number from the URL",
    ),
    (
        "cluster support disabled",
        "the server is not part of a cluster; use a URL that begins with redis:// (with TLS \
         rediss://), or the client's Client",
    ),
    ("unknown command", TOO_OLD),
];

/// Temporary error replies. A script is rejected at its first write, so nothing was written.
const PASSING: &[(&str, &str)] = &[
    ("READONLY", READ_ONLY),
    (
        "MISCONF",
        "the server cannot save writes to disk and takes none; nothing was written; check its \
         log, then retry",
    ),
    (
        "OOM",
        "the server has reached its maxmemory; nothing was written; raise it, or keep locks \
         apart from caches, then retry",
    ),
    (
        "LOADING",
        "the server is starting; nothing was written; retry later",
    ),
    (
        "MASTERDOWN",
        "the server has lost its primary; nothing was written; retry later",
    ),
    (
        "CLUSTERDOWN",
        "the cluster is down; nothing was written; retry later",
    ),
    ("TRYAGAIN", MOVING),
    (
        "NOREPLICAS",
        "the server has fewer replicas than it requires for writes; nothing was written; check \
         its replicas, then retry",
    ),
    (
        "BUSY",
        "another script keeps the server busy; nothing was written; retry later",
    ),
    (
        "max number of clients",
        "the server has no connections to spare; nothing was written; retry later",
    ),
];

const READ_ONLY: &str = "the server is a replica and takes no writes; nothing was written; check for a new \
    primary, then retry";

const MOVING: &str =
    "the cluster is moving keys, or failing over; nothing was written; retry later";

const NOT_REDIS: &str = "the server's reply is not Redis protocol; nothing was written; check the \
    host and the port in the URL";

const LOGIN: &str = "login refused; check the user, the password and the database";

pub(crate) const PERMISSION: &str = "the user lacks a permission; grant it the commands evalsha, eval, time, \
    get, set, del, append, pttl, pexpireat, scan, ping and info on the locks' keys and on \
    \"shedlock-rs:*\" (with wait_replicas also wait, with sentinels role, in a cluster cluster|slots)";

const CLUSTER: &str = "the server belongs to a cluster, and another node has this lock's key; use \
    a URL that begins with redis-cluster://, or the client's ClusterClient";

const TOO_OLD: &str = "the server lacks a command that locks need; use Redis 6.2 or later, or Valkey, and do not rename or disable \
     commands (rename-command)";

/// The end of a connection that its user has made, and that the client does not open again.
const NEVER_AGAIN: &str = "the connection of this provider is broken, and a MultiplexedConnection does not open again; \
    nothing was written; create the provider from a Client or a ConnectionManager";

/// The error for a failed command that may write (`writes`) or only reads.
pub(crate) fn explain(failure: Failure, writes: bool) -> Error {
    let lost = if writes { OutcomeUnknown } else { Unavailable };
    let error = &failure.error;
    let moves = matches!(
        error.kind(),
        Kind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask)
    );
    let may_pass = |kind| kind == Unavailable || error.is_cluster_error();
    let explained = match refusal(&failure) {
        _ if failure.is_final => configuration(NEVER_AGAIN).of_closed_client(),
        Some((kind, _)) if failure.sent == Sent::Repeatedly && may_pass(kind) => {
            in_doubt("the cluster kept refusing", lost)
        }
        Some(_) if failure.is_of_cluster && moves => unavailable(MOVING),
        Some((kind, message)) if message == READ_ONLY => {
            Error::new(kind, message).rejecting_writes()
        }
        Some((kind, message)) => Error::new(kind, message),
        None if failure.sent != Sent::Never && error.code().is_none() => unanswered(lost),
        None => unlisted(error, failure.scheme),
    };
    // The client's text is about the bytes that it could not parse.
    let reason = match explained.message() {
        NOT_REDIS => String::new(),
        _ => reason(&failure.error),
    };
    explained.with_source(failure.error).with_reason(reason)
}

/// What the server said, otherwise the client's text without the name of its error's kind.
fn reason(error: &RedisError) -> String {
    let without_kind = || {
        let kind = format!(" - {:?}", error.kind());
        error.to_string().replacen(&kind, "", 1)
    };
    let reason = error.detail().map_or_else(without_kind, str::to_owned);
    in_words(&reason)
}

/// The error for a reply that is in no list, or for a connection that could not be opened.
fn unlisted(error: &RedisError, scheme: Option<Scheme>) -> Error {
    let (kind, message) = match error.kind() {
        _ if error.code().is_some() => (
            Configuration,
            "the server refused the command; check its version (Redis 6.2 or later, or Valkey) and \
             its log",
        ),
        Kind::AuthenticationFailed => (Configuration, LOGIN),
        Kind::Parse => (Unavailable, NOT_REDIS),
        // A cluster's client keeps only the text.
        _ if error.to_string().contains("Parse error") => (Unavailable, NOT_REDIS),
        Kind::InvalidClientConfig => (
            InvalidInput,
            "the client cannot use this address; correct the address or its options",
        ),
        kind => match untrusted(error).or_else(|| unresolved(error)) {
            Some(error) => return error,
            None if kind == Kind::MasterNameNotFoundBySentinel => (
                Unavailable,
                "the sentinels report no usable primary; nothing was written; retry after the \
                 failover, or check the primary's name in the URL",
            ),
            None => return unconnected(error, scheme),
        },
    };
    Error::new(kind, message)
}

/// The error for a connection that could not be opened. A server without TLS does not reply to the start of a handshake,
/// and one with TLS ends a connection that does not start with it.
fn unconnected(error: &RedisError, scheme: Option<Scheme>) -> Error {
    // A cluster's client keeps only the text.
    let text = error.to_string().to_lowercase();
    let is_about = |texts: &[&str]| texts.iter().any(|it| text.contains(it));
    let check = match scheme {
        Some(scheme) if scheme.plain == SOCKET => {
            ", and that the path in the URL is that of its socket".to_owned()
        }
        Some(scheme) if scheme.is_encrypted && is_about(&["timed out"]) => format!(
            ", that the host and the port in the URL are those of Redis, and that this port uses \
             TLS (if not, write {}:// instead of {}://)",
            scheme.plain, scheme.encrypted
        ),
        Some(scheme) if !scheme.is_encrypted && is_about(BROKEN) => format!(
            ", and that the host and the port in the URL are those of Redis (if the server uses \
             TLS, write {}://)",
            scheme.encrypted
        ),
        _ => ", and that the host and the port in the URL are those of Redis".to_owned(),
    };
    unavailable(format!(
        "cannot connect; nothing was written; check that the server is up{check}, then retry"
    ))
}

/// How connections end that the server closes.
const BROKEN: &[&str] = &[
    "reset by peer",
    "broken pipe",
    "end of file",
    "early eof",
    "closed",
    "dropped",
];

/// The server's own error reply, even if the client has converted it into an error of its own.
fn refusal(failure: &Failure) -> Option<(ErrorKind, String)> {
    let error = &failure.error;
    let is_said = error.code().is_some()
        || error.kind() == Kind::AuthenticationFailed
        // A cluster's client reports the last server to which it could not connect.
        || (failure.sent == Sent::Never && error.detail().is_some());
    let said = is_said.then(|| error.to_string())?;
    let known = |words: &[(&str, &'static str)]| {
        let exact = words.iter().find(|(word, _)| error.code() == Some(word));
        let found = exact.or_else(|| words.iter().find(|(word, _)| said.contains(word)));
        found.map(|(_, message)| *message)
    };
    if said.contains("WRONGTYPE") {
        let message = "the lock's key or its \"shedlock-rs:\" key holds something other than a \
            lock; check what wrote it, then delete it or use another key prefix";
        return Some((Conflict, message.to_owned()));
    }
    if let Some(message) = known(MISCONFIGURED) {
        return Some((Configuration, message.to_owned()));
    }
    known(PASSING).map(|message| (Unavailable, message.to_owned()))
}
