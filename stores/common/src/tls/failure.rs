//! TLS connections that failed. Most clients keep only the text of rustls's error, which is a Rust value for many
//! causes, so causes are recognized by their text.

use std::error::Error as StdError;

use ErrorKind::{Configuration, Unavailable};
use jiff::Timestamp;
use shedlock_core::{Error, ErrorKind};

use crate::errors::causes;
use crate::told::{Told, told};

/// What rustls writes before the reason for which it rejected a certificate.
const REJECTED: &str = "invalid peer certificate: ";
/// What it writes before the reason for which the server ended the handshake.
const ALERT: &str = "received fatal alert: ";

/// What it writes about a reply that is no TLS record.
const NOT_TLS: &str = "received corrupt message of type InvalidContentType";

/// A cause, by words of its text in lower case: all of the first, and one of the second.
struct Cause {
    all: &'static [&'static str],
    one: &'static [&'static str],
    told: Told,
}

const fn cause(all: &'static [&'static str], one: &'static [&'static str], told: Told) -> Cause {
    Cause { all, one, told }
}

const fn failed(advice: &'static str) -> Told {
    told("the TLS connection failed").advise(advice)
}

const OF_CERTIFICATES: &[&str] = &["certificate"];

/// The first one counts.
const CAUSES: &[Cause] = &[
    cause(
        &[],
        &["invalidcontenttype"],
        failed("check the host and the port in the URL, or use the URL's scheme without TLS"),
    ),
    cause(
        &[],
        &[CLOSED],
        told("the server closed the connection during the TLS handshake")
            .nothing_written()
            .advise(
                "check that the host and the port in the URL are those of a server that uses TLS",
            )
            .retry(),
    ),
    cause(
        &[],
        &["fatal alert: certificaterequired"],
        failed("set {certificate} and {key} in the URL"),
    ),
    cause(
        &["fatal alert: "],
        &["certificate", "unknownca"],
        failed("check the files of {certificate} and {key} in the URL, and the server's log"),
    ),
    cause(
        OF_CERTIFICATES,
        &["causedasendentity"],
        failed("issue a server certificate, and set {ca} in the URL to the file of its issuer"),
    ),
    cause(
        OF_CERTIFICATES,
        &["unknownissuer", "badsignature"],
        failed(
            "set {ca} in the URL to the file of the authority that issued the server's certificate",
        ),
    ),
    cause(
        OF_CERTIFICATES,
        &["notvalidforname", "not valid for name"],
        failed(
            "write a host into the URL that the certificate names, or issue a certificate for this host",
        ),
    ),
    cause(
        OF_CERTIFICATES,
        &["notvalidyet", "not valid yet"],
        failed("check the clock of this machine, then the certificate of the server"),
    ),
    cause(
        OF_CERTIFICATES,
        &["expired"],
        failed("renew the certificate of the server, or correct the clock of this machine"),
    ),
    cause(
        &[],
        OF_CERTIFICATES,
        failed(
            "check the server's certificate, the host name in it and its issuer ({ca} in the URL), and whether the \
             server requires a client certificate ({certificate}, {key})",
        ),
    ),
];

/// A server without TLS does this too, or one that is going away.
const CLOSED: &str = "tls handshake eof";

/// The names of the options in a store's URL that name certificate files.
#[derive(Clone, Copy, Debug)]
pub struct TlsNames {
    /// The authorities that may have signed the server's certificate.
    pub ca: &'static str,
    /// The client's own certificate.
    pub certificate: &'static str,
    /// Its key.
    pub key: &'static str,
}

impl TlsNames {
    /// The names that [`TlsOptions`](crate::TlsOptions) reads.
    pub const OURS: Self = Self {
        ca: "tls_ca",
        certificate: "tls_cert",
        key: "tls_key",
    };
}

/// Returns the error for a connection that failed because of TLS: its certificates, or a server that does not use it.
/// None if this failure has another cause. It searches the text of each cause, because most clients keep only the text,
/// and the innermost first, which says most.
pub fn untrusted(failure: &(dyn StdError + 'static)) -> Option<Error> {
    untrusted_by(failure, TlsNames::OURS)
}

/// Like [`untrusted`], for a store whose URL has these options.
pub fn untrusted_by(failure: &(dyn StdError + 'static), names: TlsNames) -> Option<Error> {
    let causes: Vec<_> = causes(failure).collect();
    let mut innermost = causes.into_iter().rev();
    innermost.find_map(|cause| of_text(&cause.to_string(), names))
}

fn of_text(text: &str, names: TlsNames) -> Option<Error> {
    let lower = text.to_lowercase();
    let has = |words: &&str| lower.contains(words);
    let mut causes = CAUSES.iter();
    let cause = causes.find(|it| it.all.iter().all(has) && it.one.iter().any(has))?;
    let kind = match cause.one {
        [CLOSED] => Unavailable,
        _ => Configuration,
    };
    let values = [
        ("ca", names.ca),
        ("certificate", names.certificate),
        ("key", names.key),
    ];
    Some(cause.told.with(kind, &values))
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
    use crate::errors::root_cause;

    /// The error as people read it.
    fn shown(cause: &str) -> String {
        let cause = io::Error::other(cause.to_owned());
        let failure = Error::new(ErrorKind::Unavailable, "no connection").with_source(cause);
        let error = untrusted(&failure).unwrap();
        assert_eq!(error.kind(), Configuration);
        let reason = root_cause(&failure);
        format!("{:#}", error.with_source(failure).with_reason(reason))
    }

    #[test]
    fn a_rejected_certificate_is_explained_in_words() {
        for (reason, says) in [
            (
                "Other(OtherError(CaUsedAsEndEntity))",
                "is a CA certificate (CA:TRUE), which cannot identify a server; issue a server \
                 certificate, and set tls_ca in the URL to the file of its issuer",
            ),
            (
                "UnknownIssuer",
                "was issued by an authority that is not trusted; set tls_ca in the URL to the file \
                 of the authority that issued the server's certificate",
            ),
            (
                "BadSignature",
                "was not signed by the trusted authority that has its issuer's name; set tls_ca in \
                 the URL to the file of the authority that issued the server's certificate",
            ),
            (
                "NotValidForName",
                "is not valid for the host; write a host into the URL that the certificate names, \
                 or issue a certificate for this host",
            ),
            (
                "certificate not valid for name \"db.example\"; certificate is only valid for \
                 DnsName(\"localhost\") or IpAddress(127.0.0.1)",
                "is not valid for \"db.example\", but for localhost or 127.0.0.1; write a host into \
                 the URL that the certificate names, or issue a certificate for this host",
            ),
            (
                "certificate not valid for name \"db.example\"; certificate is not valid for any \
                 names (according to its subjectAltName extension)",
                "is not valid for \"db.example\", nor for any other name; write a host into the URL \
                 that the certificate names, or issue a certificate for this host",
            ),
            (
                "Expired",
                "has expired; renew the certificate of the server, or correct the clock of this \
                 machine",
            ),
            (
                "certificate expired: verification time 1700000100 (UNIX), but certificate is not \
                 valid after 1700000000 (100 seconds ago)",
                "expired at 2023-11-14T22:13:20Z; renew the certificate of the server, or correct \
                 the clock of this machine",
            ),
            (
                "certificate not valid yet: verification time 1600000000 (UNIX), but certificate \
                 is not valid before 1700000000 (100000000 seconds in future)",
                "is valid only from 2023-11-14T22:13:20Z; check the clock of this machine, then the \
                 certificate of the server",
            ),
            (
                "Other(OtherError(UnsupportedCertVersion))",
                "is rejected (UnsupportedCertVersion); check the server's certificate, the host \
                 name in it and its issuer (tls_ca in the URL), and whether the server requires a \
                 client certificate (tls_cert, tls_key)",
            ),
        ] {
            let shown = shown(&format!("invalid peer certificate: {reason}"));
            let start = "the TLS connection failed: the server's certificate ";
            assert_eq!(shown, format!("{start}{says}"));
        }
    }

    #[test]
    fn a_client_certificate_that_the_server_rejects_is_not_taken_for_the_servers() {
        assert_eq!(
            shown("received fatal alert: CertificateRequired"),
            "the TLS connection failed: the server requires a client certificate; set tls_cert and \
             tls_key in the URL"
        );
        assert_eq!(
            shown("received fatal alert: UnknownCA"),
            "the TLS connection failed: the server does not trust the issuer of the client \
             certificate; check the files of tls_cert and tls_key in the URL, and the server's log"
        );
    }

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
    fn the_options_are_those_of_the_stores_url() {
        let names = TlsNames {
            ca: "ssl-ca",
            certificate: "ssl-cert",
            key: "ssl-key",
        };
        let cause = io::Error::other("received fatal alert: CertificateRequired");
        let error = untrusted_by(&cause, names).unwrap();
        assert!(
            error
                .to_string()
                .ends_with("set ssl-cert and ssl-key in the URL"),
            "{error}"
        );
    }

    #[test]
    fn certificates_are_found_in_any_cause() {
        let cause = io::Error::other("invalid peer Certificate: UnknownIssuer");
        let failure = Error::new(ErrorKind::Unavailable, "no connection").with_source(cause);
        assert_eq!(untrusted(&failure).unwrap().kind(), Configuration);
        assert!(untrusted(&Error::new(ErrorKind::Unavailable, "no connection")).is_none());
    }

    #[test]
    fn a_server_without_tls_is_no_matter_of_certificates() {
        for (cause, kind, says) in [
            (
                "received corrupt message of type InvalidContentType",
                Configuration,
                "the TLS connection failed: the server's reply is not TLS; check the host and the \
                 port in the URL, or use the URL's scheme without TLS",
            ),
            (
                "tls handshake eof",
                ErrorKind::Unavailable,
                "the server closed the connection during the TLS handshake: tls handshake eof; \
                 nothing was written; check that the host and the port in the URL are those of a \
                 server that uses TLS, then retry",
            ),
        ] {
            let cause = io::Error::other(cause);
            let error = untrusted(&cause).unwrap();
            assert_eq!(error.kind(), kind);
            let reason = root_cause(&cause);
            assert_eq!(format!("{:#}", error.with_reason(reason)), says);
        }
    }
}
