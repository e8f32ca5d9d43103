//! A rustls configuration with its own crypto provider: nothing is installed for the process.

use std::error::Error;
use std::sync::Arc;

#[cfg(not(feature = "tls-ring"))]
use rustls::crypto::aws_lc_rs as library;
// With both features too, as sqlx chooses.
use rustls::client::WantsClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
#[cfg(feature = "tls-ring")]
use rustls::crypto::ring as library;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme,
    WantsVerifier,
};

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
        let builder = builder(library::default_provider())?;
        self.identified(builder.with_root_certificates(roots))
    }

    /// Returns the configuration of a client that encrypts, but accepts any server: it may be another one than it says.
    ///
    /// # Errors
    /// For a file of the client's own certificate without a certificate or without a key.
    pub fn unverified_client_config(&self) -> Result<ClientConfig, UnusableTls> {
        let library = library::default_provider();
        let any = Arc::new(AnyServer(library.signature_verification_algorithms));
        let builder = builder(library)?.dangerous();
        self.identified(builder.with_custom_certificate_verifier(any))
    }

    /// Adds the client's own certificate, if it has one.
    fn identified(
        &self,
        builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    ) -> Result<ClientConfig, UnusableTls> {
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

fn builder(
    library: CryptoProvider,
) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, UnusableTls> {
    let builder = ClientConfig::builder_with_provider(Arc::new(library));
    let builder = builder.with_safe_default_protocol_versions();
    builder.map_err(|error| unusable(TlsFile::Authorities, error))
}

/// Accepts every certificate. The server must still have its key.
#[derive(Debug)]
struct AnyServer(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
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
