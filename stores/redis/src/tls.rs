//! Certificates that a URL names.

use std::fs;

use redis::{ClientTlsConfig, TlsCertificates};
use shedlock_core::Error;

use crate::servers::invalid;

/// The files of a URL, as they are named.
#[derive(Default)]
pub(crate) struct Files {
    /// Of those who may have signed the server's certificate.
    pub(crate) authority: Option<String>,
    /// Ours, and its key.
    pub(crate) certificate: Option<String>,
    pub(crate) key: Option<String>,
}

impl Files {
    /// Reads them; nothing where none is named.
    ///
    /// # Errors
    /// `InvalidInput` for a file that cannot be read, and for a certificate without its key.
    pub(crate) fn read(&self) -> Result<Option<TlsCertificates>, Error> {
        let client_tls = match (&self.certificate, &self.key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(ClientTlsConfig {
                client_cert: read("tls_cert", certificate)?,
                client_key: read("tls_key", key)?,
            }),
            _ => {
                return Err(invalid(
                    "a certificate of our own needs both options of the URL, tls_cert and tls_key",
                ));
            }
        };
        let authority = self.authority.as_ref().map(|path| read("tls_ca", path));
        let root_cert = authority.transpose()?;
        let is_any = client_tls.is_some() || root_cert.is_some();
        Ok(is_any.then_some(TlsCertificates {
            client_tls,
            root_cert,
        }))
    }
}

fn read(option: &str, path: &str) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|error| {
        invalid(format!(
            "the file {path:?} of the option {option:?} in the URL cannot be read"
        ))
        .with_source(error)
    })
}
