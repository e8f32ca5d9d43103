//! Certificate files, and connections that fail because of certificates.

#[cfg(feature = "crypto-choice")]
mod choice;
#[cfg(feature = "rustls")]
mod config;
mod failure;

#[cfg(feature = "crypto-choice")]
pub use choice::lacks_crypto_choice;
#[cfg(feature = "rustls")]
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
