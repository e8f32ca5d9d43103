//! Encrypted connections, with certificates on both sides.

use std::path::Path;
use std::process::{Command, Stdio};

use shedlock_conformance::support::warns_of_unverified;
use shedlock_core::{Error, ErrorKind, LockProvider, Unlock, UnlockRequest};
use shedlock_rig::port;
use shedlock_rig::wait::answered;
use shedlock_zookeeper::ZooKeeperProvider;

use crate::common::own::Own;
use crate::room::{common_server, take};

fn openssl(folder: &Path, arguments: &str) {
    let done = Command::new("openssl")
        .args(arguments.split(' '))
        .current_dir(folder)
        .stderr(Stdio::null())
        .status()
        .expect("openssl is installed, which Java's certificates need");
    assert!(done.success(), "openssl {arguments}");
}

/// Creates an authority and, for each name, a key with a certificate that the authority has signed.
fn certificates(folder: &Path, names: &[&str]) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(
        folder,
        &format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=tests"),
    );
    std::fs::write(folder.join("extensions"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    for name in names {
        let files = format!("-keyout {name}.key -out {name}.csr");
        openssl(folder, &format!("req {key} {files} -subj /CN={name}"));
        let by = "-CA ca.pem -CAkey ca.key -CAcreateserial -extfile extensions -days 2";
        openssl(
            folder,
            &format!("x509 -req -in {name}.csr {by} -out {name}.pem"),
        );
    }
}

#[tokio::test]
async fn servers_are_trusted_by_their_authority_and_clients_by_their_certificate() {
    // The build with all stores contains two crypto libraries, so the program must choose one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    common_server();
    let (folder, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    certificates(folder.path(), &["server", "client"]);
    certificates(others.path(), &["client"]);
    let at = |name: &str| folder.path().join(name).display().to_string();
    // Java expects both in one file.
    let parts = ["server.key", "server.pem"].map(|it| std::fs::read_to_string(at(it)).unwrap());
    std::fs::write(at("both.pem"), parts.concat()).unwrap();
    let port = port::free().unwrap();
    let settings = format!(
        "secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n\
         serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
         ssl.keyStore.location={}\nssl.trustStore.location={}\nssl.clientAuth=need\n",
        at("both.pem"),
        at("ca.pem")
    );
    let server = Own::start(&settings).await.unwrap();
    let url = format!("zookeepers://127.0.0.1:{port}/?connect_timeout=10s&response_timeout=10s");
    let (authority, own) = (
        format!("&tls_ca={}", at("ca.pem")),
        format!(
            "&tls_cert={}&tls_key={}",
            at("client.pem"),
            at("client.key")
        ),
    );

    // It opens this port after the other one, and its first connection takes long.
    let trusting = format!("{url}{authority}{own}");
    let connect = async || ZooKeeperProvider::connect(&trusting).await;
    let may_pass = |error: &Error| error.kind() == ErrorKind::Unavailable;
    let provider = answered("the encrypted port serves", may_pass, connect).await;
    let lease = take(&provider, "job").await;
    let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);

    let strange = format!("&tls_ca={}", others.path().join("ca.pem").display());
    for (options, kind) in [
        (authority.clone(), ErrorKind::Unavailable),
        (format!("{strange}{own}"), ErrorKind::Unavailable),
        (own, ErrorKind::InvalidInput),
        (
            format!("{authority}&tls_cert={}", at("client.pem")),
            ErrorKind::InvalidInput,
        ),
        (
            format!("&tls_ca={}", at("ca.key")),
            ErrorKind::Configuration,
        ),
        ("&tls_ca=/no/such.pem".to_owned(), ErrorKind::Configuration),
    ] {
        let refused = ZooKeeperProvider::connect(&format!("{url}{options}")).await;
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), kind, "{options}: {error}");
    }
    drop(server);
}

#[tokio::test]
async fn a_remote_server_that_is_not_verified_brings_one_warning() {
    common_server();
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path(), &[]);
    let authority = folder.path().join("ca.pem");
    let verified = format!(
        "zookeepers://db.example.invalid/?connect_timeout=1s&tls_ca={}",
        authority.display()
    );
    let urls = [
        ("zookeeper://db.example.invalid/?connect_timeout=1s", true),
        (&*verified, false),
        ("zookeeper://127.0.0.1:1/?connect_timeout=1s", false),
    ];
    warns_of_unverified(&urls, async |url| {
        ZooKeeperProvider::connect(url).await.err()
    })
    .await;
}
