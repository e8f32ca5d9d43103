//! Conversion of refusals and lost replies into errors that say what to do.

use ErrorKind::OutcomeUnknown;
use async_nats::client::{RequestError, RequestErrorKind};
use async_nats::{ConnectError, ConnectErrorKind};
use serde::Deserialize;
use serde_json::Value;
use shedlock_core::{Error, ErrorKind};
use shedlock_provider::{configuration, internal, root_cause, unavailable, unresolved, untrusted};

#[derive(Deserialize)]
pub(crate) struct ApiError {
    code: u64,
    #[serde(default)]
    pub(crate) err_code: u64,
    #[serde(default)]
    description: String,
}

/// Server failures (5xx) that last until the settings change: no cluster, an unsupported feature, a configuration
/// error, a limit.
const LASTING: [u64; 8] = [
    10_006, 10_036, 10_049, 10_052, 10_053, 10_069, 10_074, 10_111,
];
/// Failures that servers detect before they store anything: no leader for the call, a shortage of resources, an earlier
/// message of the key that is not stored yet.
const BEFORE_WRITING: [u64; 5] = [10_008, 10_023, 10_028, 10_047, 10_163];

/// The refusals of a bucket that has reached its own limits, besides the codes in `FULL`. Their code is that of any
/// failure to store.
const FULL_BUCKET: [&str; 2] = ["maximum bytes exceeded", "maximum messages exceeded"];
/// The account's limits, and the server's storage.
const FULL: [u64; 2] = [10_002, 10_047];

/// Returns the error for a refusal. `lost` is its kind if the request may have been executed. While a cluster elects a
/// leader, it returns various 5xx failures: the next try succeeds, and the previous leader may have stored a write.
pub(crate) fn refused(error: &ApiError, lost: ErrorKind) -> Error {
    let (code, err_code) = (error.code, &error.err_code);
    let said = &error.description;
    let is_full = FULL.contains(err_code) || FULL_BUCKET.contains(&&**said);
    let what = format!("JetStream returned error {code}: {said:?}");
    let settings = |what| {
        configuration(what).advise(
            "check JetStream's limits and settings for this account and bucket, and the server's log",
        )
    };
    match code {
        _ if is_full => unavailable(format!(
            "{what} (the bucket, its account or the server is full)"
        ))
        .nothing_written()
        .advise("raise the limit or make space")
        .retry(),
        500.. if LASTING.contains(err_code) => settings(what),
        500.. if !BEFORE_WRITING.contains(err_code) => Error::new(lost, what).retry(),
        500.. | 429 => unavailable(what).retry(),
        _ => settings(what),
    }
}

pub(crate) fn unconnected(error: ConnectError) -> Error {
    let explained = match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            configuration("the server refused the login")
                .advise("check the user name, password, token, credentials or nkey")
        }
        ConnectErrorKind::Tls => untrusted(&error).unwrap_or_else(|| {
            configuration("the TLS connection failed")
                .advise("check the server's certificate and its issuer (tls_ca in the URL)")
        }),
        _ => untrusted(&error)
            .or_else(|| unresolved(&error))
            .unwrap_or_else(unreachable_server),
    };
    let reason = root_cause(&error);
    explained.with_source(error).with_reason(reason)
}

pub(crate) fn unreachable_server() -> Error {
    unavailable("cannot reach the server")
        .nothing_written()
        .advise("check that it is running and that its address is right")
}

/// Returns the error for a request without a reply. A request that writes comes after one that found its bucket, so a
/// missing responder means that the bucket has no leader.
pub(crate) fn unanswered(error: RequestError, lost: ErrorKind) -> Error {
    let explained = match error.kind() {
        RequestErrorKind::NoResponders if lost == OutcomeUnknown => {
            unavailable("the bucket has no leader")
                .nothing_written()
                .retry()
        }
        RequestErrorKind::NoResponders => unavailable("JetStream does not respond")
            .advise("check that it is enabled (`nats-server -js`) and that this user may use it"),
        _ => shedlock_provider::unanswered(lost),
    };
    let reason = match error.kind() {
        RequestErrorKind::TimedOut => "timed out".to_owned(),
        _ => root_cause(&error),
    };
    explained.with_source(error).with_reason(reason)
}

/// Returns the error for a reply that JetStream should never send.
pub(crate) fn unreadable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    internal("cannot parse the server's reply").with_source(error)
}

pub(crate) fn failure(answer: &Value) -> Option<ApiError> {
    let error = answer.get("error")?;
    serde_json::from_value(error.clone()).ok()
}

#[cfg(test)]
mod tests {
    use ErrorKind::{Configuration, Unavailable};

    use super::*;

    fn kinds(answer: &str) -> [ErrorKind; 2] {
        let answer: Value = serde_json::from_str(answer).unwrap();
        let error = failure(&answer).unwrap();
        [Unavailable, OutcomeUnknown].map(|lost| refused(&error, lost).kind())
    }

    /// Replies of servers while another server became the leader. Keep-alive gives up on every kind of error except
    /// unavailable and unknown.
    #[test]
    fn a_failover_ends_no_keep_alive() {
        for (answer, expected) in [
            (
                r#"{"error":{"code":500,"err_code":10009,"description":"JetStream cluster can not handle request"}}"#,
                [Unavailable, OutcomeUnknown],
            ),
            (
                r#"{"error":{"code":500,"err_code":10041,"description":"raft: proposal failed"}}"#,
                [Unavailable, OutcomeUnknown],
            ),
            (
                r#"{"error":{"code":500,"err_code":10118,"description":"stream is offline"}}"#,
                [Unavailable, OutcomeUnknown],
            ),
            (
                r#"{"error":{"code":500,"description":"unknown to this version"}}"#,
                [Unavailable, OutcomeUnknown],
            ),
            (
                r#"{"error":{"code":503,"err_code":10077,"description":"error opening msg block file"}}"#,
                [Unavailable, OutcomeUnknown],
            ),
            (
                r#"{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"}}"#,
                [Unavailable, Unavailable],
            ),
            (
                r#"{"error":{"code":400,"err_code":10002,"description":"resource limits exceeded for account"}}"#,
                [Unavailable, Unavailable],
            ),
            (
                r#"{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}"#,
                [Unavailable, Unavailable],
            ),
            (
                r#"{"error":{"code":503,"err_code":10163,"description":"expected last sequence per subject temporarily unavailable"}}"#,
                [Unavailable, Unavailable],
            ),
            (
                r#"{"error":{"code":429,"err_code":10167,"description":"too many requests"}}"#,
                [Unavailable, Unavailable],
            ),
            (
                r#"{"error":{"code":500,"err_code":10074,"description":"replicas > 1 not supported in non-clustered mode"}}"#,
                [Configuration, Configuration],
            ),
            (
                r#"{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"}}"#,
                [Configuration, Configuration],
            ),
        ] {
            assert_eq!(kinds(answer), expected, "{answer}");
        }
    }
}
