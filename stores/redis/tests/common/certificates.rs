//! Throwaway certificates of an authority, a server on loopback, and a client.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use shedlock_conformance::BoxError;

pub(crate) struct Certificates {
    folder: tempfile::TempDir,
}

impl Certificates {
    pub(crate) fn make() -> Result<Self, BoxError> {
        let folder = tempfile::tempdir()?;
        let key = KeyPair::generate()?;
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = &mut authority.distinguished_name;
        name.push(DnType::CommonName, "authority of a test");
        let signed = authority.self_signed(&key)?;
        std::fs::write(folder.path().join("ca.pem"), signed.pem())?;
        let issuer = Issuer::new(authority, key);
        for name in ["server", "client"] {
            sign(folder.path(), name, &issuer)?;
        }
        Ok(Self { folder })
    }

    /// A server with the certificate of its authority, and no other.
    pub(crate) fn of_an_authority_alone() -> Result<Self, BoxError> {
        let folder = tempfile::tempdir()?;
        let key = KeyPair::generate()?;
        let mut authority = CertificateParams::new(vec!["localhost".to_owned()])?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let signed = authority.self_signed(&key)?;
        for name in ["ca.pem", "server.pem"] {
            std::fs::write(folder.path().join(name), signed.pem())?;
        }
        std::fs::write(folder.path().join("server.key"), key.serialize_pem())?;
        Ok(Self { folder })
    }

    /// `ca.pem`, `server.pem`, `server.key`, `client.pem` or `client.key`.
    pub(crate) fn path(&self, file: &str) -> String {
        self.folder.path().join(file).to_string_lossy().into_owned()
    }
}

fn sign(folder: &Path, name: &str, issuer: &Issuer<'_, KeyPair>) -> Result<(), BoxError> {
    let key = KeyPair::generate()?;
    let hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let signed = CertificateParams::new(hosts)?.signed_by(&key, issuer)?;
    std::fs::write(folder.join(format!("{name}.pem")), signed.pem())?;
    std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem())?;
    Ok(())
}
