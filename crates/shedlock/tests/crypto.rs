//! These features add two crypto libraries of rustls. The program itself chooses one of them.
#![cfg(all(
    feature = "redis",
    feature = "tls-aws-lc",
    feature = "tls-ring",
    feature = "zookeeper"
))]
#![allow(clippy::unwrap_used, reason = "a test fails there, and says where")]

use rustls::crypto::{CryptoProvider, ring};
use shedlock::{ErrorKind, connect};

/// The only test in its file, because the choice holds for the whole process.
#[tokio::test]
async fn a_url_with_tls_does_not_choose_the_crypto_library_of_the_program() {
    // Nothing listens on port 1.
    let urls = [
        "rediss://127.0.0.1:1",
        "zookeepers://127.0.0.1:1?tls_ca=/no.pem",
        #[cfg(feature = "postgres")]
        "postgres://127.0.0.1:1/d?sslmode=verify-ca",
        #[cfg(feature = "mysql")]
        "mysql://127.0.0.1:1/d?ssl-mode=VERIFY_CA",
    ];
    for url in urls {
        let error = connect(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains("install_default"), "{error}");
    }
    assert!(CryptoProvider::get_default().is_none());
    ring::default_provider().install_default().unwrap();
    let error = connect(urls[0]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}
