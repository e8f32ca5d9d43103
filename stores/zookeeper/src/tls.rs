//! Encrypted connections.

use shedlock_core::Error;
#[cfg(feature = "tls")]
use shedlock_core::ErrorKind;
use zookeeper_client::Connector;
#[cfg(feature = "tls")]
use zookeeper_client::TlsOptions;

use crate::address::invalid;

/// PEM files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) ca: Option<String>,
    pub(crate) cert: Option<String>,
    pub(crate) key: Option<String>,
}

/// The same with TLS.
#[cfg(feature = "tls")]
pub(crate) fn encrypted(connector: Connector, files: &Files) -> Result<Connector, Error> {
    let Some(ca) = &files.ca else {
        return Err(invalid(
            "zookeepers:// needs the option \"tls_ca\": a PEM file of the authorities that servers \
             are trusted by",
        ));
    };
    let mut options = TlsOptions::new()
        .with_pem_ca(&text(ca)?)
        .map_err(|error| unusable("tls_ca").with_source(error))?;
    options = match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => options
            .with_pem_identity(&text(cert)?, &text(key)?)
            .map_err(|error| unusable("tls_cert").with_source(error))?,
        (None, None) => options,
        _ => {
            return Err(invalid(
                "of the options \"tls_cert\" and \"tls_key\" each needs the other",
            ));
        }
    };
    // The client takes the program's own choice. Where it has made none, it could be asked for among
    // several that other crates bring.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Ok(connector.with_tls(options))
}

/// Without the feature there is none.
#[cfg(not(feature = "tls"))]
pub(crate) fn encrypted(_: Connector, _: &Files) -> Result<Connector, Error> {
    Err(invalid(
        "this program was built without TLS for ZooKeeper: switch on the feature \
         \"zookeeper-tls\" of shedlock or shedlock-cli, or \"tls\" of shedlock-zookeeper",
    ))
}

#[cfg(feature = "tls")]
fn text(file: &str) -> Result<String, Error> {
    std::fs::read_to_string(file).map_err(|error| {
        let message = format!("the file {file:?} cannot be read");
        Error::new(ErrorKind::Configuration, message).with_source(error)
    })
}

#[cfg(feature = "tls")]
fn unusable(option: &str) -> Error {
    let message = format!("the file of the option {option:?} holds nothing that TLS can use");
    Error::new(ErrorKind::Configuration, message)
}
