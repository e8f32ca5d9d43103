//! Failures as errors that say what to do.

use std::error::Error as StdError;

use ErrorKind::{Configuration, Conflict, InvalidInput, OutcomeUnknown, Unavailable};
use redis::{ErrorKind as Kind, RedisError, ServerErrorKind};
use shedlock_core::{Error, ErrorKind};
use shedlock_provider::{
    Told, in_doubt, in_words, told, unanswered, unavailable, unresolved, untrusted,
};

use crate::connections::{Failure, SOCKET, Scheme, Sent};

/// Error replies caused by configuration, each with what to do. The text is the start of the reply, or occurs inside it
/// if a script failed.
const MISCONFIGURED: &[(&str, Told)] = &[
    (
        "NOAUTH",
        told("the server requires a password").advise("set it in the URL"),
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
        told("the server has no database of this number").advise(
            "correct the number in the URL, or raise `databases` in the server's configuration",
        ),
    ),
    (
        "SELECT is not allowed",
        told("a cluster has only database 0").advise("remove the number from the URL"),
    ),
    (
        "cluster support disabled",
        told("the server is not part of a cluster").advise(
            "use a URL that begins with redis:// (with TLS rediss://), or the client's Client",
        ),
    ),
    ("unknown command", TOO_OLD),
];

/// Temporary error replies. A script is rejected at its first write, so nothing was written.
const PASSING: &[(&str, Told)] = &[
    ("READONLY", READ_ONLY),
    (
        "MISCONF",
        told("the server cannot save writes to disk and takes none")
            .nothing_written()
            .advise("check its log")
            .retry(),
    ),
    (
        "OOM",
        told("the server has reached its maxmemory")
            .nothing_written()
            .advise("raise it, or keep locks apart from caches")
            .retry(),
    ),
    (
        "LOADING",
        told("the server is starting")
            .nothing_written()
            .retry_later(),
    ),
    (
        "MASTERDOWN",
        told("the server has lost its primary")
            .nothing_written()
            .retry_later(),
    ),
    (
        "CLUSTERDOWN",
        told("the cluster is down").nothing_written().retry_later(),
    ),
    ("TRYAGAIN", MOVING),
    (
        "NOREPLICAS",
        told("the server has fewer replicas than it requires for writes")
            .nothing_written()
            .advise("check its replicas")
            .retry(),
    ),
    (
        "BUSY",
        told("another script keeps the server busy")
            .nothing_written()
            .retry_later(),
    ),
    (
        "max number of clients",
        told("the server has no connections to spare")
            .nothing_written()
            .retry_later(),
    ),
];

const READ_ONLY: Told = told("the server is a replica and takes no writes")
    .nothing_written()
    .advise("check for a new primary")
    .retry();

const MOVING: Told = told("the cluster is moving keys, or failing over")
    .nothing_written()
    .retry_later();

const NOT_REDIS: Told = told("the server's reply is not Redis protocol")
    .nothing_written()
    .advise("check the host and the port in the URL");

const LOGIN: Told = told("login refused").advise("check the user, the password and the database");

const PERMISSION: Told = told("the user lacks a permission").advise(GRANT);

/// What a user needs.
pub(crate) const GRANT: &str = "grant it the commands evalsha, eval, time, get, set, del, append, pttl, pexpireat, \
             scan, ping and info on the locks' keys and on \"shedlock-rs:*\" (with wait_replicas \
             also wait, with sentinels role, in a cluster cluster|slots)";

const CLUSTER: Told = told("the server belongs to a cluster, and another node has this lock's key")
    .advise("use a URL that begins with redis-cluster://, or the client's ClusterClient");

const TOO_OLD: Told = told("the server lacks a command that locks need").advise(
    "use Redis 6.2 or later, or Valkey, and do not rename or disable commands (rename-command)",
);

/// The end of a connection that its user has made, and that the client does not open again.
const NEVER_AGAIN: Told = told(
    "the connection of this provider is broken, and a MultiplexedConnection does not open again",
)
.nothing_written()
.advise("create the provider from a Client or a ConnectionManager");

/// The error for a failed command that may write (`writes`) or only reads.
pub(crate) fn explain(failure: Failure, writes: bool) -> Error {
    let lost = if writes { OutcomeUnknown } else { Unavailable };
    let error = &failure.error;
    let moves = matches!(
        error.kind(),
        Kind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask)
    );
    let may_pass = |kind| kind == Unavailable || error.is_cluster_error();
    let refused = refusal(&failure);
    let is_of_another_protocol = !failure.is_final
        && refused.is_none()
        && failure.sent == Sent::Never
        && is_of_another_protocol(error);
    let explained = match refused {
        _ if failure.is_final => NEVER_AGAIN.error(Configuration).of_closed_client(),
        Some((kind, _)) if failure.sent == Sent::Repeatedly && may_pass(kind) => {
            in_doubt("the cluster kept refusing", lost)
        }
        Some(_) if failure.is_of_cluster && moves => MOVING.error(Unavailable),
        Some((kind, READ_ONLY)) => READ_ONLY.error(kind).rejecting_writes(),
        Some((kind, told)) => told.error(kind),
        None if failure.sent != Sent::Never && error.code().is_none() => unanswered(lost),
        None => unlisted(error, failure.scheme),
    };
    // The client's text is about the bytes that it could not parse.
    let reason = match is_of_another_protocol {
        true => String::new(),
        false => reason(error),
    };
    explained.with_source(failure.error).with_reason(reason)
}

/// Whether the server denied this user a permission.
pub(crate) fn is_forbidden(error: &Error) -> bool {
    let source = error
        .source()
        .and_then(<dyn StdError>::downcast_ref::<RedisError>);
    source.is_some_and(|source| known(MISCONFIGURED, source) == Some(PERMISSION))
}

/// What the list says about this reply.
fn known(list: &[(&str, Told)], error: &RedisError) -> Option<Told> {
    let said = error.to_string();
    let exact = list.iter().find(|(word, _)| error.code() == Some(word));
    let found = exact.or_else(|| list.iter().find(|(word, _)| said.contains(word)));
    found.map(|(_, told)| *told)
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
    let (kind, told) = match error.kind() {
        _ if error.code().is_some() => (
            Configuration,
            told("the server refused the command")
                .advise("check its version (Redis 6.2 or later, or Valkey) and its log"),
        ),
        Kind::AuthenticationFailed => (Configuration, LOGIN),
        _ if is_of_another_protocol(error) => (Unavailable, NOT_REDIS),
        Kind::InvalidClientConfig => (
            InvalidInput,
            told("the client cannot use this address").advise("correct the address or its options"),
        ),
        kind => match untrusted(error).or_else(|| unresolved(error)) {
            Some(error) => return error,
            None if kind == Kind::MasterNameNotFoundBySentinel => (
                Unavailable,
                told("the sentinels report no usable primary")
                    .nothing_written()
                    .advise("retry after the failover, or check the primary's name in the URL"),
            ),
            None => return unconnected(error, scheme),
        },
    };
    told.error(kind)
}

fn is_of_another_protocol(error: &RedisError) -> bool {
    // A cluster's client keeps only the text.
    error.code().is_none()
        && (error.kind() == Kind::Parse || error.to_string().contains("Parse error"))
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
    unavailable("cannot connect")
        .nothing_written()
        .advise(format!("check that the server is up{check}"))
        .retry()
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
fn refusal(failure: &Failure) -> Option<(ErrorKind, Told)> {
    let error = &failure.error;
    let is_said = error.code().is_some()
        || error.kind() == Kind::AuthenticationFailed
        // A cluster's client reports the last server to which it could not connect.
        || (failure.sent == Sent::Never && error.detail().is_some());
    if !is_said {
        return None;
    }
    if error.to_string().contains("WRONGTYPE") {
        let foreign =
            told("the lock's key or its \"shedlock-rs:\" key holds something other than a lock")
                .advise("check what wrote it, then delete it or use another key prefix");
        return Some((Conflict, foreign));
    }
    if let Some(told) = known(MISCONFIGURED, error) {
        return Some((Configuration, told));
    }
    known(PASSING, error).map(|told| (Unavailable, told))
}
