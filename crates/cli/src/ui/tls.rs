//! TLS for the dashboard.

use std::path::Path;
use std::sync::Arc;

use axum_server::tls_rustls::RustlsConfig;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::exit::Failure;

/// The configuration with this certificate chain and key.
pub(super) fn config(cert: &Path, key: &Path) -> Result<RustlsConfig, Failure> {
    let wrong = |option: &str, file: &Path, why: &dyn std::fmt::Display| {
        let file = file.display();
        Failure::usage(format!(
            "{option}: cannot use {file}: {why}; check the path, and that the file is PEM"
        ))
    };
    let of_cert = |why: &dyn std::fmt::Display| wrong("--tls-cert", cert, why);
    let of_key = |why: &dyn std::fmt::Display| wrong("--tls-key", key, why);
    let chain = CertificateDer::pem_file_iter(cert).map_err(|why| of_cert(&why))?;
    let chain: Vec<_> = chain
        .collect::<Result<_, _>>()
        .map_err(|why| of_cert(&why))?;
    if chain.is_empty() {
        return Err(of_cert(&"there is no certificate in it"));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|why| of_key(&why))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|why| of_cert(&why))?
        .with_no_client_auth()
        .with_single_cert(chain, private);
    let mut config = config.map_err(|why| of_key(&why))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(RustlsConfig::from_config(Arc::new(config)))
}
