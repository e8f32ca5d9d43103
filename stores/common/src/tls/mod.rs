//! Certificates that a URL names, and connections that fail because of certificates.

mod failure;

pub use failure::{TlsNames, untrusted, untrusted_by};

use std::fs;

use shedlock_core::Error;
use shedlock_support::{TlsFiles, lacks_crypto_choice, tls_features};

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

/// Returns the configuration of a client that verifies the server's certificate; see [`TlsFiles::client_config`].
///
/// # Errors
/// `Configuration`, with the names of the options of the store's URL.
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
pub fn client_config(
    files: &TlsFiles,
    names: TlsNames,
    must_encrypt: bool,
) -> Result<rustls::ClientConfig> {
    usable(files.client_config(must_encrypt), names)
}

/// Returns the configuration of a client that accepts any server; see [`TlsFiles::unverified_client_config`].
///
/// # Errors
/// `Configuration`, with the names of the options of the store's URL.
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
pub fn unverified_client_config(files: &TlsFiles, names: TlsNames) -> Result<rustls::ClientConfig> {
    usable(files.unverified_client_config(), names)
}

#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
fn usable(
    config: std::result::Result<rustls::ClientConfig, shedlock_support::UnusableTls>,
    names: TlsNames,
) -> Result<rustls::ClientConfig> {
    use shedlock_support::{TlsFile, UnusableTls};

    config.map_err(|why| match why {
        UnusableTls::NoAuthorities => {
            let ca = names.ca;
            configuration("this system has no CA certificates").advise(format!(
                "set {ca} in the URL to a PEM file of CA certificates"
            ))
        }
        UnusableTls::File(file, source) => {
            let error = unusable_file(match file {
                TlsFile::Authorities => names.ca,
                TlsFile::Certificate => names.certificate,
                TlsFile::Key => names.key,
            });
            match source {
                Some(source) => error.with_source(source),
                None => error,
            }
        }
    })
}

/// Returns the error for a connection that requires TLS in a program that was built without it. `driver` is the crate
/// that makes the connection.
pub fn built_without_tls(driver: &str) -> Error {
    invalid("this program was built without TLS").advise(tls_features(driver))
}

/// The same as [`require_crypto_choice`] for a URL whose scheme begins with `encrypted`; other URLs need no TLS.
pub fn check_crypto_choice(url: &str, encrypted: &str, driver: &str) -> Result<()> {
    let scheme = url.get(..encrypted.len());
    match scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(encrypted)) {
        true => require_crypto_choice(driver),
        false => Ok(()),
    }
}

/// For a connection with TLS whose client takes no crypto provider. Such a client uses the one that the program has
/// installed, or the only library that it contains, and panics if it contains two and has installed none. `driver` is
/// the crate that makes the connection.
///
/// # Errors
/// `Configuration` if the program contains two crypto libraries and has not chosen one, and [`built_without_tls`] if
/// this crate was built without TLS.
pub fn require_crypto_choice(driver: &str) -> Result<()> {
    if cfg!(not(any(feature = "tls-ring", feature = "tls-aws-lc"))) {
        return Err(built_without_tls(driver));
    }
    match lacks_crypto_choice() {
        false => Ok(()),
        true => Err(configuration(
            "this program contains two TLS crypto libraries, ring and aws-lc-rs, and sets no default",
        )
        .advise("call install_default of a rustls::crypto::CryptoProvider at startup")),
    }
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
    fn a_program_without_tls_is_advised_of_both_features() {
        let error = built_without_tls("shedlock-redis");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(
            error.to_string(),
            "this program was built without TLS; enable the feature \"tls-ring\" or \"tls-aws-lc\" of \
             the crate shedlock (or of shedlock-redis)"
        );
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
