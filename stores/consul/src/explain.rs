//! Errors for requests without a reply or with an unusable one, with what to do about them.

use ErrorKind::{Configuration, OutcomeUnknown};
use serde_json::Value;
use shedlock_core::{Error, ErrorKind};
use shedlock_provider::{configuration, invalid, root_cause, unavailable, unresolved, untrusted};

pub(crate) fn no_url(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    invalid("invalid URL of the agent")
        .advise("write it like http://127.0.0.1:8500")
        .with_source(error)
        .with_store("consul")
}

/// Returns the error for a request without a reply. `lost` is its kind if the request may have been sent.
pub(crate) fn unanswered(error: reqwest::Error, lost: ErrorKind) -> Error {
    let unreachable = || {
        unavailable("cannot reach the agent")
            .nothing_written()
            .advise("check that it is running and that its address is right")
    };
    let explained = if error.is_connect() {
        let explained = untrusted(&error).or_else(|| unresolved(&error));
        explained.unwrap_or_else(unreachable)
    } else {
        shedlock_provider::unanswered(lost)
    };
    let reason = root_cause(&error);
    explained
        .with_source(error.without_url())
        .with_reason(reason)
}

/// Returns the error for an operation that the token does not permit.
pub(crate) fn denied(operation: &Value, prefix: &str) -> Error {
    let right = match operation["Verb"].as_str() {
        Some("get" | "get-tree") => "read",
        _ => "write",
    };
    let key = &operation["Key"];
    configuration(format!("cannot {right} the key {key}: permission denied")).advise(format!(
        "add `key_prefix {prefix:?} {{ policy = \"write\" }}` to a policy of the token"
    ))
}

/// Returns the error for a reply with an unexpected status. `lost` is its kind if the reply does not show whether the
/// request took effect.
pub(crate) fn refused(status: u16, said: &str, lost: ErrorKind) -> Error {
    let what = match said.trim() {
        "" => format!("the agent returned {status}"),
        said => format!("the agent returned {status}: {said:.200}"),
    };
    let not_consul =
        |kind, what| Error::new(kind, what).advise("check that the server at this URL is Consul");
    match status {
        429 => unavailable(format!("{what} (it limits the rate of requests)")).retry_later(),
        // The one failure after which Consul's own agents retry, even a write.
        500.. if said.contains("No cluster leader") => unavailable(what).retry_later(),
        500.. => Error::new(lost, what).advise("check its log").retry(),
        // A write may have been done, but the reply does not come from Consul.
        200 if lost == OutcomeUnknown => not_consul(lost, what),
        200 | 300..=399 | 404 | 405 => not_consul(Configuration, what),
        403 if said.contains("ACL not found") => configuration(what)
            .advise("check the token: it does not exist in this datacenter, or it has expired"),
        _ => configuration(what).advise("check the permissions of the token"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_server_may_have_written_unless_it_reports_that_there_is_no_leader() {
        let kind = |status, said| refused(status, said, ErrorKind::OutcomeUnknown).kind();
        assert_eq!(kind(500, "No cluster leader"), ErrorKind::Unavailable);
        let lost = "leadership lost while committing log";
        assert_eq!(kind(500, lost), ErrorKind::OutcomeUnknown);
        assert_eq!(kind(504, "<html>"), ErrorKind::OutcomeUnknown);
        assert_eq!(kind(200, "<html>"), ErrorKind::OutcomeUnknown);
        assert_eq!(kind(429, "rate limit"), ErrorKind::Unavailable);
        assert_eq!(kind(403, "Permission denied"), ErrorKind::Configuration);
        assert_eq!(kind(404, ""), ErrorKind::Configuration);
        let read = refused(200, "<html>", ErrorKind::Unavailable);
        assert_eq!(read.kind(), ErrorKind::Configuration);
    }
}
