//! The errors for TLS connections that failed.

use std::error::Error as StdError;

use ErrorKind::{Configuration, Unavailable};
use shedlock_core::{Error, ErrorKind};
use shedlock_support::TlsFailure;

use crate::told::{Told, told};

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
/// None if this failure has another cause.
pub fn untrusted(failure: &(dyn StdError + 'static)) -> Option<Error> {
    untrusted_by(failure, TlsNames::OURS)
}

/// Like [`untrusted`], for a store whose URL has these options.
pub fn untrusted_by(failure: &(dyn StdError + 'static), names: TlsNames) -> Option<Error> {
    let failure = TlsFailure::of(failure)?;
    let values = [
        ("ca", names.ca),
        ("certificate", names.certificate),
        ("key", names.key),
    ];
    let (kind, told) = match failure {
        TlsFailure::Closed => (Unavailable, CLOSED),
        other => (
            Configuration,
            told("the TLS connection failed").advise(advice(other)),
        ),
    };
    Some(told.with(kind, &values))
}

/// A server without TLS does this too, or one that is going away.
const CLOSED: Told = told("the server closed the connection during the TLS handshake")
    .nothing_written()
    .advise("check that the host and the port in the URL are those of a server that uses TLS")
    .retry();

fn advice(failure: TlsFailure) -> &'static str {
    match failure {
        TlsFailure::NotTls => {
            "check the host and the port in the URL, or use the URL's scheme without TLS"
        }
        TlsFailure::NoClientCertificate => "set {certificate} and {key} in the URL",
        TlsFailure::ClientCertificate => {
            "check the files of {certificate} and {key} in the URL, and the server's log"
        }
        TlsFailure::OfAuthority => {
            "issue a server certificate, and set {ca} in the URL to the file of its issuer"
        }
        TlsFailure::Issuer => {
            "set {ca} in the URL to the file of the authority that issued the server's certificate"
        }
        TlsFailure::Host => {
            "write a host into the URL that the certificate names, or issue a certificate for this host"
        }
        TlsFailure::NotYetValid => {
            "check the clock of this machine, then the certificate of the server"
        }
        TlsFailure::Expired => {
            "renew the certificate of the server, or correct the clock of this machine"
        }
        TlsFailure::Certificate | TlsFailure::Closed => {
            "check the server's certificate, the host name in it and its issuer ({ca} in the URL), and whether the \
             server requires a client certificate ({certificate}, {key})"
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use shedlock_core::ErrorKind;
    use shedlock_support::root_cause;

    use super::*;

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
