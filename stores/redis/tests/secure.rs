//! Servers that authenticate clients: certificates, and users with privileges for locks only.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::time::Duration;

use common::own::Own;
use common::rights::allow;
use common::watched::{SENTINELS_PASSWORD, Watched};
use shedlock_conformance::support::warns_of_unverified;
use shedlock_core::{
    AttemptRequest, ErrorKind, ExtendRequest, ForceUnlockRequest, ForcedUnlock, ListRequest,
    LockName, LockProvider, Owner, Unlock, UnlockRequest, admin,
};
use shedlock_redis::RedisProvider;
use shedlock_rig::Certificates;
use shedlock_rig::given::program;
use shedlock_rig::port;

const MINUTE: Duration = Duration::from_secs(60);

fn request() -> AttemptRequest {
    AttemptRequest::new(LockName::new("job").unwrap(), Owner::generate(), MINUTE)
}

/// Everything that a provider does.
async fn works(provider: &RedisProvider) {
    let attempt = provider.attempt(&request()).await.unwrap();
    let lease = attempt.acquired().expect("the lock should be free");
    let longer = ExtendRequest::new(2 * MINUTE);
    provider.extend(&lease, &longer).await.unwrap();
    assert_eq!(provider.list(&ListRequest::new()).await.unwrap().len(), 1);
    let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
    let attempt = provider.attempt(&request()).await.unwrap();
    assert!(attempt.acquired().is_some(), "the lock should be free");
    let force = ForceUnlockRequest::new(LockName::new("job").unwrap());
    let freed = admin::force_unlock(provider, &force).await.unwrap();
    assert!(matches!(freed, ForcedUnlock::Freed(_)), "{freed:?}");
}

/// A server with TLS, and its TLS address.
async fn encrypted(files: &Certificates, asks_clients: &str) -> (Own, String) {
    // The build of all stores contains two libraries, so the program must choose.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let program = program("redis-server", "redis");
    let port = port::free().unwrap().to_string();
    let settings = [
        ["--tls-port", &port],
        ["--tls-cert-file", &files.path("server.pem")],
        ["--tls-key-file", &files.path("server.key")],
        ["--tls-ca-cert-file", &files.path("ca.pem")],
        ["--tls-auth-clients", asks_clients],
    ];
    let server = Own::start(program, settings.as_flattened()).await;
    (server.unwrap(), format!("rediss://localhost:{port}"))
}

#[tokio::test]
async fn a_server_is_trusted_by_the_authority_that_the_url_names() {
    let files = Certificates::make().unwrap();
    let (_server, url) = encrypted(&files, "no").await;
    let authority = files.path("ca.pem");
    let provider = RedisProvider::connect(&format!("{url}?tls_ca={authority}")).await;
    works(&provider.unwrap()).await;

    let strangers = Certificates::make().unwrap();
    let wrong = format!("{url}?tls_ca={}", strangers.path("ca.pem"));
    for (url, says) in [
        (url, "was issued by an authority that is not trusted"),
        // Its authority has the name of the right one.
        (
            wrong,
            "was not signed by the trusted authority that has its issuer's name",
        ),
    ] {
        let error = RedisProvider::connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
        let error = format!("{error:#}");
        let says = format!(
            "the TLS connection failed: the server's certificate {says}; set tls_ca in the URL to \
             the file of the authority that issued the server's certificate"
        );
        assert!(error.ends_with(&says), "{error}");
    }
}

/// As `openssl req -x509` makes it.
#[tokio::test]
async fn a_server_with_the_certificate_of_its_authority_is_refused_with_the_remedy() {
    let files = Certificates::of_an_authority_alone().unwrap();
    let (_server, url) = encrypted(&files, "no").await;
    let url = format!("{url}?tls_ca={}", files.path("ca.pem"));
    let error = RedisProvider::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
    let error = format!("{error:#}");
    let says = "the TLS connection failed: the server's certificate is a CA certificate (CA:TRUE), \
                which cannot identify a server; issue a server certificate, and set tls_ca in the \
                URL to the file of its issuer";
    assert!(error.ends_with(says), "{error}");
}

#[tokio::test]
async fn a_server_with_tls_is_an_error_of_a_url_without_it() {
    let files = Certificates::make().unwrap();
    let (_server, url) = encrypted(&files, "no").await;
    let host = url.replace("rediss://", "");
    for (plain, encrypted, path) in [
        ("redis", "rediss", ""),
        ("redis-sentinel", "rediss-sentinel", "/mymaster"),
        ("redis-cluster", "rediss-cluster", ""),
    ] {
        let error = RedisProvider::connect(&format!("{plain}://{host}{path}")).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        let says = format!(
            "cannot connect; nothing was written; check that the server is up, and that the host \
             and the port in the URL are those of Redis (if the server uses TLS, write \
             {encrypted}://), then retry"
        );
        assert_eq!(error.without_place().to_string(), says);
    }
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_ours() {
    let files = Certificates::make().unwrap();
    let (_server, url) = encrypted(&files, "yes").await;
    let url = format!("{url}?tls_ca={}", files.path("ca.pem"));
    let error = RedisProvider::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
    let (certificate, key) = (files.path("client.pem"), files.path("client.key"));
    let url = format!("{url}&tls_cert={certificate}&tls_key={key}");
    works(&RedisProvider::connect(&url).await.unwrap()).await;
}

#[tokio::test]
async fn a_user_with_the_documented_rights_alone_suffices() {
    let program = program("redis-server", "redis");
    let server = Own::start(program, &[]).await.unwrap();
    let admin = server.admin().unwrap();
    allow(&admin, "").await;
    let url = server.url().replace("//", "//locks:pw@");
    let provider = RedisProvider::connect(&url).await.unwrap();
    works(&provider).await;
    assert!(!provider.capabilities().durable);

    // Without one of them the error names what is missing.
    allow(&admin, "-set").await;
    let error = provider.attempt(&request()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
    assert!(error.to_string().contains("permission"), "{error:?}");
    allow(&admin, "").await;
    let url = format!("{url}?wait_replicas=1&wait_timeout=100ms");
    let error = RedisProvider::connect(&url).await.unwrap();
    let error = error.attempt(&request()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("WAIT"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_behind_sentinels_needs_one_more() {
    let watched = Watched::start(1).await.unwrap();
    allow(&watched.primary.admin().unwrap(), "+role").await;
    let port = watched.sentinels[0].port();
    let password = SENTINELS_PASSWORD.replace('&', "%26");
    let url = format!("redis-sentinel://locks:pw@127.0.0.1:{port}/mymaster");
    let url = format!("{url}?sentinel_password={password}");
    works(&RedisProvider::connect(&url).await.unwrap()).await;
}

#[tokio::test]
async fn a_remote_server_that_is_not_verified_brings_one_warning() {
    let urls = [
        ("redis://db.example.invalid/", true),
        ("redis-sentinel://db.example.invalid/mymaster", true),
        ("rediss://db.example.invalid/#insecure", true),
        ("rediss://db.example.invalid/", false),
        ("redis://127.0.0.1:1/", false),
    ];
    warns_of_unverified(&urls, async |url| RedisProvider::connect(url).await).await;
}
