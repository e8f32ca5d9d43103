//! Servers that authenticate clients, and domains.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use async_nats::rustls::crypto::CryptoProvider;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use common::{Own, give_back, take};
use nkeys::KeyPair;
use serde_json::{Value, json};
use shedlock_conformance::support::warns_of_unverified;
use shedlock_core::{ErrorKind, LockProvider};
use shedlock_nats::NatsProvider;
use shedlock_rig::Certificates;
use shedlock_rig::given::server;

const JETSTREAM: &str = "jetstream { store_dir: \"$DIR\" }\n";

/// Uses the first operations of every provider.
async fn works(url: &str) {
    let provider = NatsProvider::connect(url).await.unwrap();
    provider.migrate().await.unwrap();
    provider.check().await.unwrap();
    let lease = take(&provider, "job").await;
    give_back(&provider, &lease).await;
}

async fn is_refused(url: &str) -> String {
    let error = NatsProvider::connect(url).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    format!("{error:#}")
}

#[tokio::test]
async fn users_tokens_and_nkeys_are_let_in() {
    let settings = "authorization { users: [ { user: ann, password: \"p@ss/word\" } ] }";
    let server = Own::start(&format!("{JETSTREAM}{settings}")).await;
    let host = server.address();
    works(&format!("nats://ann:p%40ss%2Fword@{host}")).await;
    is_refused(&format!("nats://ann:hunter2@{host}")).await;
    is_refused(&format!("nats://{host}")).await;

    let settings = "authorization { token: \"s3cret&\" }";
    let server = Own::start(&format!("{JETSTREAM}{settings}")).await;
    let host = server.address();
    works(&format!("nats://s3cret%26@{host}")).await;
    is_refused(&format!("nats://hunter2@{host}")).await;

    let key = KeyPair::new_user();
    let settings = format!(
        "authorization {{ users: [ {{ nkey: {} }} ] }}",
        key.public_key()
    );
    let server = Own::start(&format!("{JETSTREAM}{settings}")).await;
    let host = server.address();
    let folder = tempfile::tempdir().unwrap();
    let seed = folder.path().join("seed.nk");
    std::fs::write(&seed, format!("{}\n", key.seed().unwrap())).unwrap();
    works(&format!("nats://{host}?nkey={}", seed.display())).await;
    std::fs::write(&seed, KeyPair::new_user().seed().unwrap()).unwrap();
    is_refused(&format!("nats://{host}?nkey={}", seed.display())).await;
    is_refused(&format!("nats://{host}?nkey=/no/such/file")).await;
}

/// Returns a token in which one key signs claims about another.
fn token(signer: &KeyPair, subject: &KeyPair, claims: &Value) -> String {
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let body = json!({
        "jti": "test",
        "iat": 1_767_225_600,
        "iss": signer.public_key(),
        "sub": subject.public_key(),
        "name": "test",
        "nats": claims,
    });
    let signed = format!("{}.{}", encoded(&header), encoded(&body));
    let signature = signer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[tokio::test]
async fn a_file_of_credentials_is_let_in() {
    let operator = KeyPair::new_operator();
    let (system, account, user) = (
        KeyPair::new_account(),
        KeyPair::new_account(),
        KeyPair::new_user(),
    );
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
        "conn": -1, "leaf": -1, "mem_storage": -1, "disk_storage": -1, "streams": -1,
        "consumer": -1,
    });
    let of_operator = json!({ "type": "operator", "version": 2 });
    let of_system = json!({ "type": "account", "version": 2 });
    let of_account = json!({ "type": "account", "version": 2, "limits": limits });
    let of_user = json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1 });
    let settings = format!(
        "{JETSTREAM}operator: {}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n\
         {}: {}\n{}: {}\n}}",
        token(&operator, &operator, &of_operator),
        system.public_key(),
        system.public_key(),
        token(&operator, &system, &of_system),
        account.public_key(),
        token(&operator, &account, &of_account),
    );
    let server = Own::start(&settings).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("user.creds");
    let url = format!("nats://{}?credentials={}", server.address(), file.display());
    let write = |signer: &KeyPair| {
        let token = token(signer, &user, &of_user);
        let seed = user.seed().unwrap();
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    write(&account);
    works(&url).await;
    write(&KeyPair::new_account());
    is_refused(&url).await;
}

fn encrypted(files: &Certificates, asks_clients: bool) -> String {
    format!(
        "{JETSTREAM}tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: \
         {asks_clients} }}",
        files.path("server.pem"),
        files.path("server.key"),
        files.path("ca.pem"),
    )
}

#[tokio::test]
async fn a_server_is_trusted_by_the_authority_that_the_url_names() {
    let files = Certificates::make().unwrap();
    let server = Own::start(&encrypted(&files, false)).await;
    let url = format!("nats://localhost:{}", server.port);
    works(&format!("{url}?tls_ca={}", files.path("ca.pem"))).await;
    let tls = url.replace("nats://", "tls://");
    works(&format!("{tls}?tls_ca={}", files.path("ca.pem"))).await;
    let of_process = CryptoProvider::get_default();
    assert!(of_process.is_none(), "other libraries may want another");
    let strangers = Certificates::make().unwrap();
    is_refused(&format!("{url}?tls_ca={}", strangers.path("ca.pem"))).await;
    let error = is_refused(&url).await;
    let says = "the TLS connection failed: the server's certificate was issued by an authority that \
                is not trusted; set tls_ca in the URL to the file of the authority that issued the \
                server's certificate";
    assert!(error.ends_with(says), "{error}");
}

/// As in a minimal container. A child process runs without the system's certificate authorities.
#[tokio::test]
async fn a_server_without_tls_needs_no_authorities_of_the_system() {
    const NAME: &str = "a_server_without_tls_needs_no_authorities_of_the_system";
    let url = server("nats");
    if std::env::var_os("SSL_CERT_FILE").is_some_and(|file| file == "/dev/null") {
        NatsProvider::connect(&url).await.unwrap();
        let encrypted = url.replace("nats://", "tls://");
        is_refused(&encrypted).await;
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
async fn a_server_that_asks_for_a_certificate_gets_ours() {
    let files = Certificates::make().unwrap();
    let server = Own::start(&encrypted(&files, true)).await;
    let url = format!(
        "nats://localhost:{}?tls_ca={}",
        server.port,
        files.path("ca.pem")
    );
    let (certificate, key) = (files.path("client.pem"), files.path("client.key"));
    works(&format!("{url}&tls_cert={certificate}&tls_key={key}")).await;
    is_refused(&url).await;
}

#[tokio::test]
async fn a_domain_is_addressed_by_its_name() {
    let server = Own::start("jetstream { store_dir: \"$DIR\", domain: hub }").await;
    let host = server.address();
    works(&format!("nats://{host}?domain=hub")).await;
    // The same bucket, without naming the domain.
    let provider = NatsProvider::connect(&format!("nats://{host}"))
        .await
        .unwrap();
    assert_eq!(provider.list(&Default::default()).await.unwrap().len(), 1);
    let elsewhere = format!("nats://{host}?domain=leaf");
    let elsewhere = NatsProvider::connect(&elsewhere).await.unwrap();
    let error = elsewhere.check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}

#[tokio::test]
async fn a_remote_server_that_is_not_verified_brings_one_warning() {
    let urls = [
        ("nats://db.example.invalid", true),
        ("nats://db.example.invalid?tls=true", false),
        ("nats://127.0.0.1:1", false),
    ];
    warns_of_unverified(&urls, async |url| NatsProvider::connect(url).await.err()).await;
}
