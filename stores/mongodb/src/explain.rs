//! Failures as errors that say what to do.

use std::error::Error as StdError;

use ErrorKind::Unavailable;
use mongodb::bson::Document;
use mongodb::error::{
    ErrorKind as Kind, NO_WRITES_PERFORMED, RETRYABLE_WRITE_ERROR, SYSTEM_OVERLOADED_ERROR,
};
use shedlock_core::{Error, ErrorKind, LockName};
use shedlock_provider::{
    closed, configuration, conflict, in_words, invalid, unanswered, unavailable, unknown,
    unresolvable,
};

/// The error for a failed command. `lost` is its kind if no reply arrived: `OutcomeUnknown` if the command may have
/// written.
pub(crate) fn explain(error: mongodb::error::Error, lost: ErrorKind) -> Error {
    let reason = reason(&error);
    let sorted = sort(&error.kind, |label| error.contains_label(label), lost);
    sorted.with_source(error).with_reason(reason)
}

/// The error for a write that was made but not acknowledged as required: a new primary may lack it.
pub(crate) fn unacknowledged(why: &Document) -> Error {
    let code = why.get_i32("code").unwrap_or_default();
    let said = why.get_str("errmsg").unwrap_or_default();
    unknown(format!(
        "too few members acknowledged the write: code {code}, {said}; an election may undo it"
    ))
    .advise("check the replica set")
    .retry()
}

/// Whether a document of this very name prevented its creation, and none that only counts as equal.
pub(crate) fn is_conflict_with_itself(error: &Error, name: &LockName) -> bool {
    let server = error.source().and_then(|cause| cause.downcast_ref());
    let reply = server.and_then(mongodb::error::Error::server_response);
    let key = reply.and_then(|reply| reply.get_document("keyValue").ok()?.get_str("_id").ok());
    key == Some(name.as_str())
}

fn sort(kind: &Kind, has_label: impl Fn(&str) -> bool, lost: ErrorKind) -> Error {
    match kind {
        Kind::Command(refusal) => {
            let is_interruption = INTERRUPTIONS.contains(&refusal.code);
            match refused(refusal.code) {
                Some(sorted) => sorted,
                None if has_label(NO_WRITES_PERFORMED) => unanswered(Unavailable),
                None if is_interruption || has_label(RETRYABLE_WRITE_ERROR) => unanswered(lost),
                None => configuration("the server refused the command"),
            }
        }
        Kind::Authentication { .. } => configuration("login refused")
            .advise("check the user, the password, authSource and authMechanism"),
        Kind::ServerSelection { message, .. } if none_resolves(message) => unresolvable(),
        Kind::ServerSelection { .. } | Kind::DnsResolve { .. } => {
            unavailable("cannot reach a primary")
                .nothing_written()
                .advise("check that the servers are up and that the hosts in the URL are right")
                .retry()
        }
        Kind::Io(_) if has_label(SYSTEM_OVERLOADED_ERROR) => unavailable("cannot connect")
            .nothing_written()
            .advise("check that the server is up")
            .retry(),
        Kind::InvalidTlsConfig { .. } => configuration("the TLS connection failed")
            .advise("check the certificate files and TLS options"),
        Kind::InvalidArgument { .. } => invalid("the driver refused the command or its options")
            .advise("correct the client's options"),
        Kind::IncompatibleServer { .. } | Kind::SessionsNotSupported => {
            configuration("the driver does not support this server")
                .advise("use MongoDB 4.4 or later")
        }
        Kind::Shutdown => closed(),
        // This includes `ConnectionPoolCleared`, which the driver also returns for calls whose request it has sent.
        _ => unanswered(lost),
    }
}

/// The codes of a server that denies a permission.
const FORBIDDEN: [i32; 3] = [13, 18, 8_000];

/// Whether the server denied this user a permission.
pub(crate) fn is_forbidden(error: &Error) -> bool {
    let source = error.source().and_then(<dyn StdError>::downcast_ref);
    source.is_some_and(|source: &mongodb::error::Error| match &*source.kind {
        Kind::Command(refusal) => FORBIDDEN.contains(&refusal.code),
        _ => false,
    })
}

/// The meaning of a server's error code.
pub(crate) fn refused(code: i32) -> Option<Error> {
    Some(match code {
        11_000 => conflict(
            "another document conflicts; the collection's collation treats both names as equal, or \
             the collection has another unique index",
        )
        .advise("rename one of the locks, or use a collection without them"),
        code if FORBIDDEN.contains(&code) => configuration(
            "permission denied; the user needs find, insert and update on the collection (role readWrite)",
        )
        .advise("check the user, the password and authSource"),
        10_107 | 13_435 | 10_058 | 13_436 => {
            unavailable("the server is not the primary and refuses writes")
                .nothing_written()
                .advise("retry after the election, or list the whole replica set in the URL")
        }
        112 | 24 | 290 => unavailable("conflicting commands")
            .nothing_written()
            .retry(),
        14 | 241 | 16_554 | 16_556 | 17_276 | 40_324 | 40_333 | 9 | 168 | 31_325 => {
            configuration("the server lacks a command that locks need").advise(
                "use MongoDB 4.4 or later (a server that only emulates MongoDB may lack update \
                 pipelines)",
            )
        }
        121 => configuration("the collection's validator refuses the lock's document")
            .advise("allow ShedLock's and shedlock's fields, or use another collection"),
        166 | 20 => configuration("the collection is a view or cannot be updated")
            .advise("use a regular collection"),
        _ => return None,
    })
}

/// The reason in the driver's error, whose own text is a dump of its fields.
pub(crate) fn reason(error: &mongodb::error::Error) -> String {
    let cause = error.source();
    let cause = cause.map(|cause| in_words(without_dump(&cause.to_string())));
    let why = match &*error.kind {
        Kind::Command(refusal) => refusal.message.clone(),
        Kind::ServerSelection { message, .. } => unreachable_servers(message),
        Kind::DnsResolve { message, .. } => without_query(message),
        // It repeats its cause.
        Kind::Authentication { .. } if cause.is_some() => return cause.unwrap_or_default(),
        kind => in_words(without_dump(&kind.to_string())),
    };
    match cause {
        Some(cause) => format!("{why}: {cause}"),
        None => why,
    }
}

/// The reason in the text of a driver's error.
fn without_dump(text: &str) -> &str {
    let text = text.strip_prefix("Kind: ").unwrap_or(text);
    let text = text
        .split_once(", labels: ")
        .map_or(text, |(reason, _)| reason);
    let refusal = text.split_once("Command failed: Error code ");
    if let Some((_, said)) = refusal.and_then(|(_, refusal)| refusal.split_once("): ")) {
        return said;
    }
    text.strip_prefix("I/O error: ").unwrap_or(text)
}

/// The reason in the text of a failed DNS lookup, without the fields of the query. A text in another form is returned
/// as it is.
fn without_query(message: &str) -> String {
    let why = message.strip_prefix("DNS error: ").unwrap_or(message);
    let missing = || {
        let query = why.strip_prefix("no records found for Query { name: Name(\"")?;
        let (name, query) = query.split_once("\")")?;
        let (_, kind) = query.split_once("query_type: ")?;
        let (kind, _) = kind.split_once(',')?;
        let name = name.trim_end_matches('.');
        Some(format!("no {kind} record for {name}"))
    };
    missing().unwrap_or_else(|| why.to_owned())
}

/// Whether a server selection failed because no host name has an address.
fn none_resolves(message: &str) -> bool {
    let unresolved = message.matches("failed to lookup address").count();
    unresolved > 0 && unresolved == message.matches("{ Address: ").count()
}

/// The reason in the text of a failed server selection: what each server's connection failed with, or the server's
/// type, which is unknown while the server has not replied. A text in another form is returned as it is.
fn unreachable_servers(message: &str) -> String {
    let Some((why, topology)) = message.split_once(". Topology: ") else {
        return message.to_owned();
    };
    let why = why
        .strip_prefix("Server selection timeout: ")
        .unwrap_or(why);
    let servers: Vec<String> = topology
        .split("{ Address: ")
        .skip(1)
        .map(|server| {
            let (address, state) = server.split_once(", ").unwrap_or((server, ""));
            match state.split_once("Error: ") {
                Some((_, error)) if error.starts_with("Kind: ") => {
                    format!("{address}: {}", in_words(without_dump(error)))
                }
                Some((_, error)) => {
                    let error = error.split_once(" }").map_or(error, |(error, _)| error);
                    format!("{address}: {error}")
                }
                None => {
                    let kind = state.split([',', ' ']).nth(1).unwrap_or_default();
                    let kind = if kind == "Unknown" { "no reply" } else { kind };
                    format!("{address}: {kind}")
                }
            }
        })
        .collect();
    if servers.is_empty() {
        why.to_owned()
    } else if why == "No available servers" {
        servers.join(", ")
    } else {
        format!("{why} ({})", servers.join(", "))
    }
}

/// Failures in the middle of a write, which may have taken effect: the server or the primary's term ends, a time limit
/// passes, or a router gets no reply from the primary.
const INTERRUPTIONS: &[i32] = &[
    11_600, 11_601, 11_602, 91, 189, 50, 262, 6, 7, 89, 202, 9_001, 133, 134,
];

#[cfg(test)]
mod tests {
    use ErrorKind::{Configuration, OutcomeUnknown};
    use mongodb::bson::doc;

    use super::*;

    /// The kind for a command that writes.
    fn written(kind: Kind) -> ErrorKind {
        explain(kind.into(), OutcomeUnknown).kind()
    }

    fn read(kind: Kind) -> ErrorKind {
        explain(kind.into(), Unavailable).kind()
    }

    fn broken() -> Kind {
        let error = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        Kind::Io(std::sync::Arc::new(error))
    }

    #[test]
    fn a_lost_answer_to_a_write_is_unknown() {
        assert_eq!(written(broken()), OutcomeUnknown);
        assert_eq!(read(broken()), Unavailable);
        let undone = unacknowledged(&doc! { "code": 64, "errmsg": "waiting timed out" });
        assert_eq!(undone.kind(), OutcomeUnknown);
        assert!(undone.to_string().contains("code 64, waiting"), "{undone}");
    }

    fn refusal(code: i32) -> Kind {
        let refusal = doc! { "code": code, "codeName": "", "errmsg": "" };
        Kind::Command(mongodb::bson::deserialize_from_document(refusal).unwrap())
    }

    /// The errors of servers and routers while another member becomes primary. Keep-alive gives up on all error kinds
    /// except these two.
    #[test]
    fn a_failover_ends_no_keep_alive() {
        for code in [6, 7, 89, 202, 9_001, 133, 11_600, 11_602, 189, 91] {
            assert_eq!(written(refusal(code)), OutcomeUnknown, "{code}");
            assert_eq!(read(refusal(code)), Unavailable, "{code}");
        }
        for code in [10_107, 13_435] {
            assert_eq!(written(refusal(code)), Unavailable, "{code}");
        }
        assert_eq!(written(refusal(13)), Configuration);
    }

    /// A code that this version does not handle.
    #[test]
    fn the_drivers_labels_decide_whether_a_write_may_have_happened() {
        let sorted = |code, labels: &[&str]| {
            sort(&refusal(code), |it| labels.contains(&it), OutcomeUnknown).kind()
        };
        let retryable = "RetryableWriteError";
        let unwritten = "NoWritesPerformed";
        assert_eq!(sorted(4_711, &[]), Configuration);
        assert_eq!(sorted(4_711, &[retryable]), OutcomeUnknown);
        let both = [retryable, unwritten];
        assert_eq!(sorted(4_711, &both), Unavailable);
        assert_eq!(sorted(91, &both), Unavailable);
        assert_eq!(sorted(91, &[retryable]), OutcomeUnknown);
    }

    /// As the driver writes it.
    const REFUSED: &str = "Server selection timeout: No available servers. Topology: \
        { Type: Unknown, Servers: [ { Address: 127.0.0.1:1, Type: Unknown, Error: Kind: I/O error: \
        Connection refused (os error 111), labels: {\"RetryableError\"}, source: None, server \
        response: None } ] }";

    const SILENT: &str = "Server selection timeout: No available servers. Topology: \
        { Type: Unknown, Servers: [ { Address: 127.0.0.1:1, Type: Unknown } ] }";

    const NO_PRIMARY: &str = "Server selection timeout: None of the available servers suitable for \
        criteria Primary. Topology: { Type: ReplicaSetNoPrimary, Servers: [ { Address: a:1, Type: \
        RsSecondary, Max Wire Version: 25 }, { Address: b:2, Type: Unknown, Compatiblity Error: too \
        old } ] }";

    #[test]
    fn servers_that_cannot_be_reached_are_reported_without_a_dump() {
        assert_eq!(
            unreachable_servers(REFUSED),
            "127.0.0.1:1: Connection refused (os error 111)"
        );
        assert_eq!(unreachable_servers(SILENT), "127.0.0.1:1: no reply");
        assert_eq!(
            unreachable_servers(NO_PRIMARY),
            "None of the available servers suitable for criteria Primary (a:1: RsSecondary, b:2: \
             too old)"
        );
        assert_eq!(unreachable_servers("no such host"), "no such host");
    }

    #[test]
    fn a_failed_dns_lookup_is_reported_without_a_dump() {
        let message = "DNS error: no records found for Query { name: \
            Name(\"_mongodb._tcp.no-such-host.invalid.\"), query_type: SRV, query_class: IN }";
        assert_eq!(
            without_query(message),
            "no SRV record for _mongodb._tcp.no-such-host.invalid"
        );
        assert_eq!(without_query("DNS error: timed out"), "timed out");
    }

    #[test]
    fn a_reason_is_not_a_dump() {
        let Kind::Io(error) = broken() else {
            panic!("it is an I/O error");
        };
        let reason = reason(&Kind::Io(error.clone()).into());
        assert_eq!(reason, error.to_string());
    }

    #[test]
    fn a_rejected_certificate_is_explained_in_words() {
        let message = "Server selection timeout: No available servers. Topology: { Type: Unknown, \
                       Servers: [ { Address: db:27017, Type: Unknown, Error: Kind: I/O error: \
                       invalid peer certificate: Other(OtherError(CaUsedAsEndEntity)), labels: {} \
                       } ] }";
        assert_eq!(
            unreachable_servers(message),
            "db:27017: the server's certificate is a CA certificate (CA:TRUE), which cannot \
             identify a server"
        );
    }

    #[test]
    fn a_client_that_was_shut_down_is_no_outage() {
        assert_eq!(written(Kind::Shutdown), Configuration);
    }
}
