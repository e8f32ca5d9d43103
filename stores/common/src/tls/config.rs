//! A rustls configuration with its own crypto provider: nothing is installed for the process.

use std::sync::Arc;

use crate::errors::{Result, configuration};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::{TlsFiles, unusable_file};

impl TlsFiles {
    /// Returns the configuration of a client that verifies the server's certificate, including its host name. It
    /// verifies against `tls_ca`, or against the system's certificate authorities if `tls_ca` is not set. If the system
    /// has none, the client trusts no server; if the connection must be encrypted, that is an error instead.
    ///
    /// # Errors
    /// `Configuration` for a file without a certificate or without a key, and for a connection that must be encrypted
    /// if the system has no certificate authorities.
    pub fn client_config(&self, must_encrypt: bool) -> Result<ClientConfig> {
        let roots = self.roots()?;
        if must_encrypt && roots.is_empty() {
            return Err(configuration("this system has no CA certificates")
                .advise("set tls_ca in the URL to a PEM file of CA certificates"));
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| unusable_file("tls_ca").with_source(error))?;
        let builder = builder.with_root_certificates(roots);
        let Some((certificate, key)) = &self.identity else {
            return Ok(builder.with_no_client_auth());
        };
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| unusable_file("tls_key").with_source(error))?;
        builder
            .with_client_auth_cert(certificates("tls_cert", certificate)?, key)
            .map_err(|error| unusable_file("tls_cert").with_source(error))
    }

    fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        let Some(ca) = &self.ca else {
            // If single files of the system cannot be read, the others are still used.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            return Ok(roots);
        };
        for certificate in certificates("tls_ca", ca)? {
            let added = roots.add(certificate);
            added.map_err(|error| unusable_file("tls_ca").with_source(error))?;
        }
        Ok(roots)
    }
}

fn certificates(option: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|error| unusable_file(option).with_source(error))?;
    if certificates.is_empty() {
        return Err(unusable_file(option));
    }
    Ok(certificates)
}
