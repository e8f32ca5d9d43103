//! A rustls configuration with its own crypto provider: nothing is installed for the process.

use std::error::Error;
use std::sync::Arc;

#[cfg(not(feature = "tls-ring"))]
use rustls::crypto::aws_lc_rs as library;
// With both features too, as sqlx chooses.
#[cfg(feature = "tls-ring")]
use rustls::crypto::ring as library;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::{TlsFile, TlsFiles};

/// Why certificate files cannot be used.
#[derive(Debug)]
pub enum UnusableTls {
    /// This system has no certificate authorities, and none are given.
    NoAuthorities,
    /// A file has no certificate or no key that can be used, and why, if that is known.
    File(TlsFile, Option<Box<dyn Error + Send + Sync>>),
}

impl TlsFiles {
    /// Returns the configuration of a client that verifies the server's certificate, including its host name. It
    /// verifies against `ca`, or against the system's certificate authorities if that is not set. If the system has none,
    /// the client trusts no server; if the connection must be encrypted, that is an error instead.
    ///
    /// # Errors
    /// For a file without a certificate or without a key, and for a connection that must be encrypted if the system has no
    /// certificate authorities.
    pub fn client_config(&self, must_encrypt: bool) -> Result<ClientConfig, UnusableTls> {
        let roots = self.roots()?;
        if must_encrypt && roots.is_empty() {
            return Err(UnusableTls::NoAuthorities);
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(library::default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| unusable(TlsFile::Authorities, error))?;
        let builder = builder.with_root_certificates(roots);
        let Some((certificate, key)) = &self.identity else {
            return Ok(builder.with_no_client_auth());
        };
        let key = PrivateKeyDer::from_pem_slice(key);
        let key = key.map_err(|error| unusable(TlsFile::Key, error))?;
        let certificates = certificates(TlsFile::Certificate, certificate)?;
        let config = builder.with_client_auth_cert(certificates, key);
        config.map_err(|error| unusable(TlsFile::Certificate, error))
    }

    fn roots(&self) -> Result<RootCertStore, UnusableTls> {
        let mut roots = RootCertStore::empty();
        let Some(ca) = &self.ca else {
            // If single files of the system cannot be read, the others are still used.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            return Ok(roots);
        };
        for certificate in certificates(TlsFile::Authorities, ca)? {
            let added = roots.add(certificate);
            added.map_err(|error| unusable(TlsFile::Authorities, error))?;
        }
        Ok(roots)
    }
}

fn certificates(file: TlsFile, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, UnusableTls> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|error| unusable(file, error))?;
    match certificates.is_empty() {
        true => Err(UnusableTls::File(file, None)),
        false => Ok(certificates),
    }
}

fn unusable(file: TlsFile, error: impl Error + Send + Sync + 'static) -> UnusableTls {
    UnusableTls::File(file, Some(Box::new(error)))
}
