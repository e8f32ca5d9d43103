//! TLS connections that failed. Most clients keep only the text of rustls's error, which is a Rust value for many
//! causes, so causes are recognized by their text, and put into words.

use std::error::Error;

use jiff::Timestamp;

use crate::causes;

/// Why a TLS connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFailure {
    /// The server's reply is not TLS.
    NotTls,
    /// The server closed the connection during the handshake: one without TLS does, or one that is going away.
    Closed,
    /// The server requires a client certificate.
    NoClientCertificate,
    /// The server rejected the client certificate.
    ClientCertificate,
    /// The server identifies itself with the certificate of an authority.
    OfAuthority,
    /// The issuer of the server's certificate is not trusted.
    Issuer,
    /// The server's certificate is for another host.
    Host,
    /// The server's certificate is not valid yet.
    NotYetValid,
    /// The server's certificate has expired.
    Expired,
    /// The server's certificate is rejected for another reason.
    Certificate,
}

/// What rustls writes before the reason for which it rejected a certificate.
const REJECTED: &str = "invalid peer certificate: ";
/// What it writes before the reason for which the server ended the handshake.
const ALERT: &str = "received fatal alert: ";
/// What it writes about a reply that is no TLS record.
const NOT_TLS: &str = "received corrupt message of type InvalidContentType";

const OF_CERTIFICATES: &[&str] = &["certificate"];

/// The signs of each failure in a text in lower case: all of the first words, and one of the second. The first failure
/// counts.
const SIGNS: &[(TlsFailure, &[&str], &[&str])] = &[
    (TlsFailure::NotTls, &[], &["invalidcontenttype"]),
    (TlsFailure::Closed, &[], &["tls handshake eof"]),
    (
        TlsFailure::NoClientCertificate,
        &[],
        &["fatal alert: certificaterequired"],
    ),
    (
        TlsFailure::ClientCertificate,
        &["fatal alert: "],
        &["certificate", "unknownca"],
    ),
    (
        TlsFailure::OfAuthority,
        OF_CERTIFICATES,
        &["causedasendentity"],
    ),
    (
        TlsFailure::Issuer,
        OF_CERTIFICATES,
        &["unknownissuer", "badsignature"],
    ),
    (
        TlsFailure::Host,
        OF_CERTIFICATES,
        &["notvalidforname", "not valid for name"],
    ),
    (
        TlsFailure::NotYetValid,
        OF_CERTIFICATES,
        &["notvalidyet", "not valid yet"],
    ),
    (TlsFailure::Expired, OF_CERTIFICATES, &["expired"]),
    (TlsFailure::Certificate, &[], OF_CERTIFICATES),
];

impl TlsFailure {
    /// Returns why a connection failed, if that was because of TLS. It searches the text of each cause, and the innermost
    /// first, which says most.
    pub fn of(failure: &(dyn Error + 'static)) -> Option<Self> {
        let causes: Vec<_> = causes(failure).collect();
        let mut innermost = causes.into_iter().rev();
        innermost.find_map(|cause| Self::of_text(&cause.to_string().to_lowercase()))
    }

    fn of_text(text: &str) -> Option<Self> {
        let has = |words: &&str| text.contains(words);
        let mut signs = SIGNS.iter();
        let found = signs.find(|(_, all, one)| all.iter().all(has) && one.iter().any(has));
        found.map(|(failure, ..)| *failure)
    }
}

/// Returns the text of a cause, with rustls's part of it in words.
pub fn in_words(cause: &str) -> String {
    if let Some((before, _)) = cause.split_once(NOT_TLS) {
        return format!("{before}the server's reply is not TLS");
    }
    for (start, words) in [(REJECTED, rejected as fn(&str) -> String), (ALERT, alerted)] {
        if let Some((before, reason)) = cause.split_once(start) {
            return format!("{before}{}", words(reason.trim()));
        }
    }
    cause.to_owned()
}

/// Why the server's certificate was rejected, in words.
fn rejected(reason: &str) -> String {
    let known = match reason {
        "Other(OtherError(CaUsedAsEndEntity))" => {
            "is a CA certificate (CA:TRUE), which cannot identify a server"
        }
        "UnknownIssuer" => "was issued by an authority that is not trusted",
        "NotValidForName" => "is not valid for the host",
        "Expired" => "has expired",
        "NotValidYet" => "is not valid yet",
        "Revoked" => "is revoked",
        "BadEncoding" => "cannot be parsed",
        "BadSignature" => "was not signed by the trusted authority that has its issuer's name",
        "InvalidPurpose" => "is not one for servers",
        _ if reason.contains("extended key usage") => "is not one for servers",
        _ => return format!("the server's certificate {}", detailed(reason)),
    };
    format!("the server's certificate {known}")
}

fn detailed(reason: &str) -> String {
    let named = || {
        let (_, rest) = reason.split_once("not valid for name \"")?;
        let (host, names) = rest.split_once('"')?;
        let only = names.split_once("only valid for ").map(|(_, names)| {
            let names = names.replace("DnsName(\"", "").replace("IpAddress(", "");
            names.replace("\")", "").replace(')', "")
        });
        Some(match only {
            Some(names) => format!("is not valid for {host:?}, but for {names}"),
            None => format!("is not valid for {host:?}, nor for any other name"),
        })
    };
    let dated = |start: &str| {
        let (_, rest) = reason.split_once(start)?;
        let (seconds, _) = rest.split_once(' ')?;
        Timestamp::from_second(seconds.parse().ok()?).ok()
    };
    named()
        .or_else(|| Some(format!("expired at {}", dated("not valid after ")?)))
        .or_else(|| {
            Some(format!(
                "is valid only from {}",
                dated("not valid before ")?
            ))
        })
        .unwrap_or_else(|| {
            let reason = reason.trim_start_matches("Other(OtherError(");
            format!("is rejected ({})", reason.trim_end_matches(')'))
        })
}

/// Why the server ended the handshake, in words.
fn alerted(reason: &str) -> String {
    match reason {
        "CertificateRequired" => "the server requires a client certificate".to_owned(),
        "UnknownCA" => "the server does not trust the issuer of the client certificate".to_owned(),
        "CertificateExpired" => {
            "the server reports that the client certificate has expired".to_owned()
        }
        "BadCertificate"
        | "CertificateUnknown"
        | "UnsupportedCertificate"
        | "CertificateRevoked" => {
            format!("the server rejected the client certificate ({reason})")
        }
        _ => format!("the server ended the TLS handshake ({reason})"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn the_words_of_the_client_around_it_stay() {
        let cause = "connection error: invalid peer certificate: UnknownIssuer";
        assert_eq!(
            in_words(cause),
            "connection error: the server's certificate was issued by an authority that is not \
             trusted"
        );
        assert_eq!(in_words("connection refused"), "connection refused");
    }

    #[test]
    fn certificates_are_found_in_any_cause() {
        let failure = io::Error::other("invalid peer Certificate: UnknownIssuer");
        let failure = io::Error::other(failure);
        assert_eq!(TlsFailure::of(&failure), Some(TlsFailure::Issuer));
        assert_eq!(TlsFailure::of(&io::Error::other("no connection")), None);
    }
}
