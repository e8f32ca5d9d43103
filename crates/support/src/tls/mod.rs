//! Certificate files, and connections that fail because of certificates.

mod choice;
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
mod config;
mod failure;

pub use choice::lacks_crypto_choice;
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
pub use config::UnusableTls;
pub use failure::{TlsFailure, in_words};

/// The contents of certificate files, as PEM.
#[derive(Clone, Default)]
pub struct TlsFiles {
    /// Certificates of the authorities that may have signed the server's certificate.
    pub ca: Option<Vec<u8>>,
    /// The client's own certificate and its key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// What to do about a URL that requires TLS in a program that was built without it. `driver` is the crate that connects.
pub fn tls_features(driver: &str) -> String {
    format!(
        "enable the feature \"tls-ring\" or \"tls-aws-lc\" of the crate shedlock (or of {driver})"
    )
}

/// One of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFile {
    /// The authorities that may have signed the server's certificate.
    Authorities,
    /// The client's own certificate.
    Certificate,
    /// Its key.
    Key,
}
