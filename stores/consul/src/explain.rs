//! What to do where there is no answer, or none that helps.

use std::error::Error as _;

use shedlock_core::{Error, ErrorKind};

/// The error of a request that was not answered; `lost` is its kind where it may have been sent.
pub(crate) fn unanswered(error: reqwest::Error, lost: ErrorKind) -> Error {
    let (kind, message) = if !error.is_connect() {
        let message = "the agent was asked and did not answer in time, or hung up: ask again";
        (lost, message)
    } else if is_about_certificates(&error) {
        let message =
            "the agent's certificate is not trusted: look at tls_ca and at the host's name";
        (ErrorKind::Configuration, message)
    } else {
        let message = "the agent cannot be reached: is it up, and is the address right?";
        (ErrorKind::Unavailable, message)
    };
    Error::new(kind, message).with_source(error.without_url())
}

/// The error of an answer with another status than those that a call is made for; `lost` is its kind
/// where there is no telling what was done.
pub(crate) fn refused(status: u16, said: &str, lost: ErrorKind) -> Error {
    let (kind, what_to_do) = match status {
        429 => (ErrorKind::Unavailable, "it limits requests: try later"),
        // The one failure after which Consul's own agents ask again, also for a write.
        500.. if said.contains("No cluster leader") => (ErrorKind::Unavailable, "try later"),
        500.. => (lost, "look at its log, and try again"),
        // A write was done, perhaps; but something else than Consul says so.
        200 if lost == ErrorKind::OutcomeUnknown => (lost, "is it Consul that is at this URL?"),
        200 | 300..=399 | 404 | 405 => {
            let what_to_do = "is it Consul that is at this URL?";
            (ErrorKind::Configuration, what_to_do)
        }
        _ => (ErrorKind::Configuration, "look at the rights of its token"),
    };
    let said = said.trim();
    Error::new(
        kind,
        format!("the agent answered {status}, {said:.200}: {what_to_do}"),
    )
}

fn is_about_certificates(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.to_string().contains("certificate") {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_server_may_have_written_unless_it_says_that_nobody_leads() {
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
