//! Servers that authenticate clients: certificates, and users with permissions for locks only.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::path::PathBuf;
use std::time::Duration;

use common::own::{Own, QUICK};
use etcd_client::{Client, Permission};
use shedlock_conformance::support::warns_of_unverified;
use shedlock_core::{
    Attempt, AttemptRequest, ErrorKind, ExtendRequest, Extension, ForceUnlockRequest, ForcedUnlock,
    ListRequest, LockName, LockProvider, Owner, Unlock, UnlockRequest, admin,
};
use shedlock_etcd::EtcdProvider;
use shedlock_rig::Certificates;
use shedlock_rig::given::{program, server};

const MINUTE: Duration = Duration::from_secs(60);

fn installed() -> PathBuf {
    program("etcd", "etcd")
}

fn request() -> AttemptRequest {
    AttemptRequest::new(LockName::new("job").unwrap(), Owner::generate(), MINUTE)
}

/// Uses every operation of a provider.
async fn works(provider: &EtcdProvider) {
    let attempt = provider.attempt(&request()).await.unwrap();
    let lease = attempt.acquired().expect("the lock should be free");
    let longer = ExtendRequest::new(2 * MINUTE);
    let Extension::Extended(lease) = provider.extend(&lease, &longer).await.unwrap() else {
        panic!("the lease runs");
    };
    let skipped = provider.attempt(&request()).await.unwrap();
    assert!(matches!(skipped, Attempt::Skipped(_)), "{skipped:?}");
    assert_eq!(provider.list(&ListRequest::new()).await.unwrap().len(), 1);
    let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
    let attempt = provider.attempt(&request()).await.unwrap();
    assert!(attempt.acquired().is_some(), "the lock should be free");
    let force = ForceUnlockRequest::new(LockName::new("job").unwrap());
    let freed = admin::force_unlock(provider, &force).await.unwrap();
    assert!(matches!(freed, ForcedUnlock::Freed(_)), "{freed:?}");
}

#[tokio::test]
async fn certificates_of_both_sides() {
    let files = Certificates::make().unwrap();
    let server = Own::start_encrypted(installed(), &files).await.unwrap();
    let url = server.url().replace("etcd://", "etcds://");
    let ca = format!("tls_ca={}", files.path("ca.pem"));
    let ours = format!(
        "tls_cert={}&tls_key={}",
        files.path("client.pem"),
        files.path("client.key")
    );
    let provider = EtcdProvider::connect(&format!("{url}/?{ca}&{ours}")).await;
    works(&provider.unwrap()).await;
    let named = format!("{url}/?{ca}&{ours}&tls_domain=localhost");
    EtcdProvider::connect(&named).await.unwrap();

    let limit = "response_timeout=2s";
    let refused = async |options: &str| {
        let error = EtcdProvider::connect(&format!("{url}/?{options}&{limit}")).await;
        error.unwrap_err()
    };
    // The server's certificate has an unknown authority, or another name.
    for (options, says) in [
        (
            ours.clone(),
            "was issued by an authority that is not trusted; set tls_ca in the URL to the file of \
             the authority that issued the server's certificate",
        ),
        (
            format!("{ca}&{ours}&tls_domain=elsewhere.example"),
            "is not valid for \"elsewhere.example\", but for localhost or 127.0.0.1; write a host \
             into the URL that the certificate names, or issue a certificate for this host",
        ),
    ] {
        let error = refused(&options).await;
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
        let error = format!("{error:#}");
        let start = "the TLS connection failed: the server's certificate ";
        assert!(error.ends_with(&format!("{start}{says}")), "{error}");
    }
    // Our certificate is missing: the server closes the connection, and its reason may be lost.
    let error = refused(&ca).await;
    assert!(
        matches!(
            error.kind(),
            ErrorKind::Configuration | ErrorKind::Unavailable
        ),
        "{error:?}"
    );
    let error = EtcdProvider::connect(&format!("{}/?{limit}", server.url())).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn users_passwords_and_permissions() {
    let server = Own::start(installed(), 1, &QUICK).await.unwrap();
    let mut admin = Client::connect([server.endpoint(0)], None).await.unwrap();
    for (user, role) in [("root", "root"), ("locks", "locks"), ("guest", "guest")] {
        admin.user_add(user, "geheim", None).await.unwrap();
        admin.role_add(role).await.unwrap();
        admin.user_grant_role(user, role).await.unwrap();
    }
    let permission = Permission::read_write("shedlock").with_prefix();
    admin
        .role_grant_permission("locks", permission)
        .await
        .unwrap();
    admin.auth_enable().await.unwrap();

    let url = server.url();
    let with = |login: &str| url.replace("//", &format!("//{login}@"));
    let provider = EtcdProvider::connect(&with("locks:geheim")).await.unwrap();
    works(&provider).await;

    for url in [&url, &with("locks:hunter2"), &with("guest:geheim")] {
        let error = EtcdProvider::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_an_error_of_a_url_with_it() {
    let url = server("etcd").replace("etcd://", "etcds://");
    let error = EtcdProvider::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}

#[tokio::test]
async fn a_remote_server_that_is_not_verified_brings_one_warning() {
    let urls = [
        ("etcd://db.example.invalid", true),
        ("etcds://db.example.invalid", false),
        ("etcd://127.0.0.1:1", false),
    ];
    warns_of_unverified(&urls, async |url| EtcdProvider::connect(url).await).await;
}
