//! Tokens and certificates, on the tests' own servers.

#![allow(
    clippy::unwrap_used,
    reason = "the lint knows test functions, but not helpers"
)]

use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use shedlock_conformance::support::warns_of_unverified;
use shedlock_consul::ConsulProvider;
use shedlock_core::{
    Attempt, AttemptRequest, ErrorKind, ListRequest, LockName, LockProvider, Owner, UnlockRequest,
};
use shedlock_rig::given::server;
use shedlock_rig::port;
use shedlock_rig::wait::found_async;
use shedlock_rig::{Certificates, OwnServer};

/// The permissions that a token needs, according to the documentation.
const RIGHTS: &str = r#"key_prefix "shedlock/" { policy = "write" }"#;

fn own(settings: &str) -> OwnServer {
    // Ends the test target if Consul was not selected.
    let _ = server("consul");
    let _ = rustls::crypto::ring::default_provider().install_default();
    OwnServer::start("consul", &[&format!("-hcl={settings}")]).unwrap()
}

async fn lock_and_unlock(provider: &dyn LockProvider) {
    let name = LockName::new("job").unwrap();
    let request = AttemptRequest::new(name, Owner::generate(), Duration::from_secs(60));
    let Attempt::Acquired(lease) = provider.attempt(&request).await.unwrap() else {
        panic!("no one holds it");
    };
    assert_eq!(provider.list(&ListRequest::new()).await.unwrap().len(), 1);
    provider
        .unlock(&lease, &UnlockRequest::new())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_token_needs_the_rights_that_are_documented_and_no_more() {
    const MASTER: &str = "6d8f3f7e-41f3-4a43-9a8e-3b0e4c1f5a10";
    let own = own(&format!(
        "acl {{ enabled = true default_policy = \"deny\" tokens {{ master = \"{MASTER}\" }} }}"
    ));
    let client = Client::new();
    let admin = async |path: &str, body: Value| -> Value {
        let url = format!(
            "{}/v1/acl/{path}",
            own.url().replace("consul://", "http://")
        );
        let asked = client.put(url).header("X-Consul-Token", MASTER).json(&body);
        // A server that has just started replies 500 until its rules are in force.
        let answer = found_async("the server accepts rules", async || {
            let answer = asked.try_clone().unwrap().send().await.unwrap();
            (answer.status() != StatusCode::INTERNAL_SERVER_ERROR).then_some(answer)
        });
        let answer = answer.await.error_for_status().unwrap();
        answer.json().await.unwrap()
    };
    let mut tokens = Vec::new();
    for rights in [RIGHTS, &RIGHTS.replace("write", "read")] {
        let name = format!("policy{}", tokens.len());
        admin("policy", json!({ "Name": name, "Rules": rights })).await;
        let token = admin("token", json!({ "Policies": [{ "Name": name }] })).await;
        tokens.push(token["SecretID"].as_str().unwrap().to_owned());
    }
    let host = own.url().trim_start_matches("consul://");

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{}\n", tokens[0])).unwrap();
    let url = format!("consul://{host}?token_file={}", file.path().display());
    lock_and_unlock(&ConsulProvider::connect(&url).await.unwrap()).await;
    let url = format!("consul://:{}@{host}", tokens[0]);
    lock_and_unlock(&ConsulProvider::connect(&url).await.unwrap()).await;

    for refused in [
        format!("consul://{host}"),
        format!("consul://:no-such-token@{host}"),
        format!("consul://:{}@{host}/elsewhere", tokens[0]),
        format!("consul://:{}@{host}", tokens[1]),
    ] {
        let error = ConsulProvider::connect(&refused).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{refused}: {error}");
    }
}

#[tokio::test]
async fn certificates_are_checked_on_both_sides() {
    let files = Certificates::make().unwrap();
    let path = |file: &str| files.path(file);
    let port = port::free().unwrap();
    let own = own(&format!(
        "ports {{ https = {port} }} ca_file = \"{}\" cert_file = \"{}\" key_file = \"{}\" \
         verify_incoming_https = true",
        path("ca.pem"),
        path("server.pem"),
        path("server.key"),
    ));
    let ours = format!(
        "tls_cert={}&tls_key={}",
        path("client.pem"),
        path("client.key")
    );
    let trusting = format!("consuls://127.0.0.1:{port}?tls_ca={}", path("ca.pem"));

    let url = format!("{trusting}&{ours}");
    lock_and_unlock(&ConsulProvider::connect(&url).await.unwrap()).await;

    let url = format!("consuls://127.0.0.1:{port}?{ours}");
    let error = ConsulProvider::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
    let error = format!("{error:#}");
    let says = "the TLS connection failed: the server's certificate was issued by an authority that \
                is not trusted; set tls_ca in the URL to the file of the authority that issued the \
                server's certificate";
    assert!(error.ends_with(says), "{error}");
    ConsulProvider::connect(&trusting).await.unwrap_err();
    drop(own);
}

/// As in a minimal container. A child process runs without the system's certificate authorities.
#[tokio::test]
async fn an_agent_without_tls_needs_no_authorities_of_the_system() {
    const NAME: &str = "an_agent_without_tls_needs_no_authorities_of_the_system";
    let url = server("consul");
    if std::env::var_os("SSL_CERT_FILE").is_some_and(|file| file == "/dev/null") {
        ConsulProvider::connect(&url).await.unwrap();
        return;
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([NAME, "--exact"])
        .env("SSL_CERT_FILE", "/dev/null")
        .env_remove("SSL_CERT_DIR")
        .output();
    let child = child.unwrap();
    assert!(child.status.success(), "{child:?}");
}

#[tokio::test]
async fn a_remote_server_that_is_not_verified_brings_one_warning() {
    let urls = [
        ("consul://db.example.invalid", true),
        ("consuls://db.example.invalid", false),
        ("consul://127.0.0.1:1", false),
    ];
    warns_of_unverified(&urls, async |url| ConsulProvider::connect(url).await).await;
}
