//! Certificates that a URL names, and connections that fail because of certificates.

#[cfg(feature = "crypto-choice")]
mod choice;
#[cfg(feature = "rustls")]
mod config;
mod failure;

#[cfg(feature = "crypto-choice")]
pub use choice::{check_crypto_choice, require_crypto_choice};
pub use failure::{TlsNames, in_words, untrusted, untrusted_by};

use std::fs;

use shedlock_core::Error;

use crate::errors::{Result, configuration, invalid};
use crate::url::UrlOptions;

/// The options `tls_ca`, `tls_cert` and `tls_key`: paths of PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// The certificate authorities that may have signed the server's certificate.
    pub ca: Option<String>,
    /// The client's own certificate and its key.
    pub identity: Option<(String, String)>,
}

/// The contents of the files.
#[derive(Clone, Default)]
pub struct TlsFiles {
    /// Certificates of the authorities that may have signed the server's certificate.
    pub ca: Option<Vec<u8>>,
    /// The client's own certificate and its key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl TlsOptions {
    /// Takes the options from a URL. `encrypted` is none if the URL's scheme uses TLS; otherwise it is the scheme that
    /// would.
    ///
    /// # Errors
    /// `InvalidInput` for a certificate without a key, for a key without a certificate, and for any of the three
    /// options without TLS.
    pub fn take(options: &mut UrlOptions, encrypted: Option<&str>) -> Result<Self> {
        let ca = options.text("tls_ca")?;
        let identity = match (options.text("tls_cert")?, options.text("tls_key")?) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                return Err(
                    invalid("options \"tls_cert\" and \"tls_key\" in the URL go together")
                        .advise("set both or neither"),
                );
            }
        };
        match encrypted {
            Some(scheme) if ca.is_some() || identity.is_some() => Err(invalid(
                "the URL sets certificates, but its scheme does not use TLS",
            )
            .advise(format!("use {scheme}://"))),
            _ => Ok(Self { ca, identity }),
        }
    }

    /// Reads the files. Returns `Configuration` if one cannot be read.
    pub fn read(&self) -> Result<TlsFiles> {
        let mut files = TlsFiles::default();
        if let Some(path) = &self.ca {
            files.ca = Some(read_file("tls_ca", path)?);
        }
        if let Some((certificate, key)) = &self.identity {
            let certificate = read_file("tls_cert", certificate)?;
            files.identity = Some((certificate, read_file("tls_key", key)?));
        }
        Ok(files)
    }
}

/// Reads the file that a URL option names. Returns `Configuration` if it cannot be read.
pub fn read_file(option: &str, path: &str) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| {
        configuration(format!(
            "cannot read file {path:?} of option {option:?} in the URL"
        ))
        .advise("check the path and who may read it")
        .with_source(error)
    })
}

/// Reads the text file that a URL option names. Returns `Configuration` if it cannot be read.
pub fn read_text(option: &str, path: &str) -> Result<String> {
    let text = read_file(option, path)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the error for a file that does not contain what the option requires.
pub fn unusable_file(option: &str) -> Error {
    configuration(format!(
        "the file of option {option:?} in the URL contains no usable PEM certificate or key"
    ))
    .advise("check the file")
}

#[cfg(test)]
mod tests {
    use shedlock_core::ErrorKind;

    use super::*;

    fn take(text: &str, encrypted: Option<&str>) -> Result<TlsOptions, Error> {
        TlsOptions::take(&mut UrlOptions::parse(text), encrypted)
    }

    #[test]
    fn a_certificate_needs_its_key_and_both_need_tls() {
        let options = take("tls_ca=a&tls_cert=b&tls_key=c", None).unwrap();
        assert_eq!(options.ca.as_deref(), Some("a"));
        assert_eq!(options.identity, Some(("b".to_owned(), "c".to_owned())));
        for (text, encrypted) in [
            ("tls_cert=b", None),
            ("tls_key=c", None),
            ("tls_ca=a", Some("rediss")),
        ] {
            let error = take(text, encrypted).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
        }
        assert_eq!(take("", Some("rediss")).unwrap(), TlsOptions::default());
    }

    #[test]
    fn a_missing_file_is_named() {
        let options = take("tls_ca=/no/such.pem", None).unwrap();
        let error = options.read().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains("/no/such.pem"), "{error}");
        assert!(error.to_string().contains("tls_ca"), "{error}");
    }
}
