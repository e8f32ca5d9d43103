//! A provider from a URL.

use std::time::Duration;

use shedlock_core::warn_unverified;
use shedlock_provider::{
    FromUrl, Result, StoreUrl, TlsOptions, Versioned, VersionedSettings, invalid, maybe,
};
use zookeeper_client::{Acl, Client, Connector, Permission};

use crate::ZooKeeperProvider;
use crate::sessions::Origin;
use crate::store::{Builder, ZooKeeperStore};

impl FromUrl for ZooKeeperStore {
    const NAME: &'static str = "zookeeper";

    type Store = Versioned<Self>;

    async fn from_url(url: &str) -> Result<ZooKeeperProvider> {
        #[cfg(feature = "tls-aws-lc")]
        shedlock_provider::check_crypto_choice(url, "zookeepers", "shedlock-zookeeper")?;
        read(url)
    }

    /// Establishes a session. A missing chroot is left for `migrate` to create.
    async fn reach(store: &Versioned<Self>) -> Result<()> {
        store.records().sessions.reach().await
    }
}

/// Makes the provider that a URL describes. Reads certificate files and performs no other I/O.
pub(crate) fn read(text: &str) -> Result<ZooKeeperProvider> {
    let url = StoreUrl::parse(
        text,
        "zookeeper://user:password@host:2181,host:2181/chroot?option=value",
    )?;
    let is_encrypted = url.is_encrypted("zookeeper", "zookeepers")?;
    let login = url.login()?;
    let scheme = if is_encrypted { "tcp+tls" } else { "tcp" };
    let servers = url.servers(scheme, 2181).collect::<Vec<_>>().join(",");

    let mut options = url.options.clone();
    let common = VersionedSettings::take(&mut options)?;
    let path = options.text("path")?;
    let creators = vec![Acl::new_const(Permission::ALL, "auth", "")];
    let acls = [("anyone", None), ("creator", Some(&creators))];
    let acl = options.choice("acl", &acls)?.flatten();
    let connect = options.timeout("connect_timeout")?;
    let response = options.timeout("response_timeout")?;
    let session = options.timeout("session_timeout")?;
    let tls = TlsOptions::take(&mut options, (!is_encrypted).then_some("zookeepers"))?;
    options.finish()?;
    if acl.is_some() && login.is_none() {
        return Err(invalid("acl=creator in the URL needs a user")
            .advise("write zookeeper://user:password@host"));
    }

    let connector = Client::connector()
        .with_session_timeout(session.unwrap_or(Duration::from_secs(10)))
        .with_fail_eagerly();
    let mut connector = maybe(connector, login, |connector, (user, password)| {
        connector.with_auth("digest", format!("{user}:{password}").as_bytes())
    });
    if is_encrypted {
        connector = encrypted(connector, &tls)?;
    } else {
        let remedy = "use zookeepers:// with tls_ca";
        warn_unverified("zookeeper", url.host_names(), remedy);
    }
    let origin = Origin::Own {
        connector: Box::new(connector),
        servers,
        chroot: format!("/{}", url.path),
    };
    let mut builder = Builder::over(origin);
    builder.common = common;
    let builder = maybe(builder, path, Builder::path);
    let builder = maybe(builder, acl.cloned(), Builder::acl);
    let builder = maybe(builder, connect, Builder::connect_timeout);
    maybe(builder, response, Builder::response_timeout).build()
}

#[cfg(feature = "tls-aws-lc")]
fn encrypted(connector: Connector, tls: &TlsOptions) -> Result<Connector> {
    use shedlock_provider::unusable_file;
    let files = tls.read()?;
    let Some(ca) = &files.ca else {
        return Err(invalid("zookeepers:// needs the option \"tls_ca\"")
            .advise("set it to a PEM file of trusted CA certificates"));
    };
    let mut options = zookeeper_client::TlsOptions::new()
        .with_pem_ca(&String::from_utf8_lossy(ca))
        .map_err(|error| unusable_file("tls_ca").with_source(error))?;
    if let Some((certificate, key)) = &files.identity {
        let [certificate, key] = [certificate, key].map(|pem| String::from_utf8_lossy(pem));
        options = options
            .with_pem_identity(&certificate, &key)
            .map_err(|error| unusable_file("tls_cert").with_source(error))?;
    }
    Ok(connector.with_tls(options))
}

#[cfg(not(feature = "tls-aws-lc"))]
fn encrypted(_: Connector, _: &TlsOptions) -> Result<Connector> {
    Err(
        invalid("this program was built without TLS for ZooKeeper").advise(
            "enable the feature \"tls-aws-lc\" of the crate shedlock, shedlock-cli or shedlock-zookeeper; the client \
             of ZooKeeper has no TLS with ring",
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use shedlock_core::ErrorKind;

    #[test]
    fn urls_with_and_without_options_are_read() {
        for url in [
            "zookeeper://zk",
            "ZooKeeper://ann:s%40crt@zk1:2181,zk2,[::1]:7000/app/env?acl=creator",
            "zookeeper://zk/?path=%2Fteam%2Flocks&session_timeout=30s&response_timeout=500ms",
            "zookeeper://zk?tolerated_skew=0s&lock_at_most_for=10m&owner_prefix=blue",
        ] {
            assert!(read(url).is_ok(), "{url}: {:?}", read(url));
        }
    }

    #[test]
    fn errors_do_not_repeat_the_url() {
        for (url, says) in [
            ("zk:secret@h", "write it like"),
            ("http://u:secret@h", "zookeepers://"),
            ("zookeeper://u:secret@", "write it like"),
            ("zookeeper://u:secret@h:0", "write it like"),
            ("zookeeper://u:secret@h,,h", "write it like"),
            ("zookeeper://secret@h", "both a user and a password"),
            ("zookeeper://:secret@h", "both a user and a password"),
            ("zookeeper://u:secret@h?table=x", "unknown option \"table\""),
            (
                "zookeeper://u:secret@h?path=secret",
                "not an absolute node path",
            ),
            ("zookeeper://u:secret@h?path=/a&path=/b", "set twice"),
            (
                "zookeeper://u:secret@h?connect_timeout=soon",
                "connect_timeout",
            ),
            (
                "zookeeper://u:secret@h?session_timeout=0s",
                "session_timeout",
            ),
            ("zookeeper://u:secret@h?acl=me", "anyone or creator"),
            ("zookeeper://h?acl=creator", "needs a user"),
            ("zookeeper://u:secret@h?tls_ca=ca.pem", "zookeepers://"),
            ("zookeepers://u:secret@h", "tls"),
        ] {
            let said = read(url).unwrap_err();
            assert_eq!(said.kind(), ErrorKind::InvalidInput, "{url}");
            let said = said.to_string();
            assert!(said.to_lowercase().contains(says), "{said}");
            let is_path = url.contains("path=secret");
            assert!(is_path || !said.contains("secret"), "{said}");
        }
    }

    /// The choice belongs to the program. If it contains a single crypto library, rustls chooses that one when the
    /// client is made.
    #[cfg(feature = "tls-aws-lc")]
    #[test]
    fn a_url_installs_no_crypto_library_for_the_whole_process() {
        let folder = tempfile::tempdir().unwrap();
        let authority = folder.path().join("ca.pem");
        std::fs::write(&authority, AUTHORITY).unwrap();
        let url = format!("zookeepers://h?tls_ca={}", authority.display());
        read(&url).unwrap();
        assert!(rustls::crypto::CryptoProvider::get_default().is_none());
    }

    #[cfg(feature = "tls-aws-lc")]
    const AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----
MIIBeDCCAR2gAwIBAgIUZwj2HTB576T4uQ3AMNRy0XTjm+cwCgYIKoZIzj0EAwIw
EDEOMAwGA1UEAwwFdGVzdHMwIBcNMjYxMTIyMTc0NzI3WhgPMjEyNjEwMjkxNzQ3
MjdaMBAxDjAMBgNVBAMMBXRlc3RzMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
w4/8Ab2o/eAhQ3v2g5VB/FAdALgJx+zUzhtnfkSsb9eBEXfVKLSNsrhAFN2dJwSB
e1gOz8DiPVHdpBDm+7rcTqNTMFEwHQYDVR0OBBYEFHsfApDAcDjK/77KYEwaVuZO
jk7QMB8GA1UdIwQYMBaAFHsfApDAcDjK/77KYEwaVuZOjk7QMA8GA1UdEwEB/wQF
MAMBAf8wCgYIKoZIzj0EAwIDSQAwRgIhAMEDlbH6I6AFjz9gleRtG7ErR7k4lyOS
QsX8KJohrVi3AiEAiJloMvm8BoWZRMVN74brSwQ66/iHWJUbMXlXoZ3m308=
-----END CERTIFICATE-----";
}
