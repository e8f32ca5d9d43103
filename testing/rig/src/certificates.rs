//! Certificates of an authority, a server on loopback and a client.

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A folder with certificates and keys, deleted with this value.
#[derive(Debug)]
pub struct Certificates(TempDir);

impl Certificates {
    /// `ca.pem`, and what it signed: `server.pem`, `server.key`, `client.pem` and `client.key`.
    ///
    /// # Errors
    /// If they cannot be made or written.
    pub fn make() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (authority, key) = authority(&[])?;
        write(folder.path(), "ca.pem", &authority.self_signed(&key)?.pem())?;
        let issuer = Issuer::new(authority, key);
        for name in ["server", "client"] {
            let key = KeyPair::generate()?;
            let signed = CertificateParams::new(names(&["localhost", "127.0.0.1"]))?;
            let signed = signed.signed_by(&key, &issuer)?;
            write(folder.path(), &format!("{name}.pem"), &signed.pem())?;
            write(folder.path(), &format!("{name}.key"), &key.serialize_pem())?;
        }
        Ok(Self(folder))
    }

    /// `ca.pem`, which is `server.pem` too, and `server.key`.
    ///
    /// # Errors
    /// If they cannot be made or written.
    pub fn of_an_authority_alone() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (authority, key) = authority(&["localhost"])?;
        let signed = authority.self_signed(&key)?.pem();
        for name in ["ca.pem", "server.pem"] {
            write(folder.path(), name, &signed)?;
        }
        write(folder.path(), "server.key", &key.serialize_pem())?;
        Ok(Self(folder))
    }

    /// The path of this file.
    #[must_use]
    pub fn path(&self, file: &str) -> String {
        self.0.path().join(file).to_string_lossy().into_owned()
    }
}

fn authority(hosts: &[&str]) -> Result<(CertificateParams, KeyPair)> {
    let mut authority = CertificateParams::new(names(hosts))?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let name = &mut authority.distinguished_name;
    name.push(DnType::CommonName, "authority of a test");
    Ok((authority, KeyPair::generate()?))
}

fn names(hosts: &[&str]) -> Vec<String> {
    hosts.iter().map(|host| (*host).to_owned()).collect()
}

fn write(folder: &Path, file: &str, text: &str) -> Result<()> {
    Ok(fs::write(folder.join(file), text)?)
}
