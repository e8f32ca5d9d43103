//! Providers from URLs: what is refused, and with which words.
#![allow(clippy::unwrap_used, reason = "a test fails there, and says where")]

use shedlock::{ErrorKind, Executor, LockConfig, connect};

async fn refusal(url: &str) -> String {
    let error = connect(url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let text = format!("{error} {error:?}");
    assert!(!text.contains("hunter2"), "the password is shown: {text}");
    error.message().to_owned()
}

#[tokio::test]
async fn memory_needs_nothing() {
    for url in ["memory:", "memory://", "MEMORY:"] {
        let executor = Executor::new(connect(url).await.unwrap());
        let config = LockConfig::new("a").lock_at_most_for("1m");
        assert!(
            executor
                .execute(&config, async {})
                .await
                .unwrap()
                .is_executed()
        );
    }
    assert!(
        refusal("memory://hunter2")
            .await
            .contains("write \"memory:\"")
    );
}

#[tokio::test]
async fn an_unknown_scheme_lists_the_known_ones() {
    let message = refusal("oracle://scott:hunter2@db/locks").await;
    for known in [
        "\"oracle\"",
        "postgres",
        "postgresql",
        "mysql",
        "mariadb",
        "sqlite",
        "redis",
        "rediss",
        "nats",
        "tls",
        "zookeeper",
        "consul",
        "consuls",
        "mongodb",
        "mongodb+srv",
        "memory",
    ] {
        assert!(message.contains(known), "{message}");
    }
}

#[tokio::test]
async fn a_text_without_a_scheme_is_not_repeated() {
    for text in [
        "",
        "hunter2",
        "hunter2:",
        "scott:hunter2@db/locks",
        "hunter2:scott@db",
        "hunter2 ://db",
        "://hunter2",
        "1hunter2://db",
    ] {
        let message = refusal(text).await;
        assert!(message.contains("this text has none"), "{text}: {message}");
    }
}

#[cfg(not(feature = "postgres"))]
#[tokio::test]
async fn a_feature_that_is_off_is_named() {
    for scheme in ["postgres", "postgresql"] {
        let message = refusal(&format!("{scheme}://scott:hunter2@db/locks")).await;
        assert!(message.contains("--features postgres"), "{message}");
    }
}

#[cfg(not(feature = "mysql"))]
#[tokio::test]
async fn the_feature_of_mysql_and_mariadb_is_one() {
    for scheme in ["mysql", "mariadb"] {
        let message = refusal(&format!("{scheme}://scott:hunter2@db/locks")).await;
        assert!(message.contains("--features mysql"), "{message}");
    }
}

#[cfg(not(feature = "sqlite"))]
#[tokio::test]
async fn the_feature_of_sqlite_is_named() {
    for url in [
        "sqlite:hunter2.db",
        "sqlite://hunter2.db",
        "sqlite::memory:",
    ] {
        let message = refusal(url).await;
        assert!(message.contains("--features sqlite"), "{message}");
    }
}

#[cfg(not(feature = "redis"))]
#[tokio::test]
async fn the_feature_of_redis_is_named() {
    for scheme in ["redis", "rediss"] {
        let message = refusal(&format!("{scheme}://scott:hunter2@db/0")).await;
        assert!(message.contains("--features redis"), "{message}");
    }
}

#[cfg(not(feature = "nats"))]
#[tokio::test]
async fn the_feature_of_nats_is_named() {
    for scheme in ["nats", "tls"] {
        let message = refusal(&format!("{scheme}://scott:hunter2@host")).await;
        assert!(message.contains("--features nats"), "{message}");
    }
}

#[cfg(feature = "nats")]
#[tokio::test]
async fn an_unknown_option_of_nats_is_refused_without_the_password() {
    for scheme in ["nats", "tls"] {
        let message = refusal(&format!("{scheme}://scott:hunter2@127.0.0.1:1?bukket=b")).await;
        assert!(message.contains("bukket"), "{message}");
    }
}

#[cfg(not(feature = "zookeeper"))]
#[tokio::test]
async fn the_feature_of_zookeeper_is_named() {
    for scheme in ["zookeeper", "zookeepers"] {
        let message = refusal(&format!("{scheme}://scott:hunter2@host")).await;
        assert!(message.contains("--features zookeeper"), "{message}");
    }
}

#[cfg(not(feature = "mongodb"))]
#[tokio::test]
async fn the_feature_of_mongodb_is_named() {
    for scheme in ["mongodb", "mongodb+srv"] {
        let message = refusal(&format!("{scheme}://scott:hunter2@host/db")).await;
        assert!(message.contains("--features mongodb"), "{message}");
    }
}

#[cfg(feature = "mongodb")]
#[tokio::test]
async fn an_unknown_option_of_mongodb_is_refused_without_the_password() {
    let message = refusal("mongodb://scott:hunter2@127.0.0.1:1/db?kollection=locks").await;
    assert!(message.contains("known are collection"), "{message}");
}

#[cfg(feature = "zookeeper")]
#[tokio::test]
async fn an_unknown_option_of_zookeeper_is_refused_without_the_password() {
    let message = refusal("zookeeper://scott:hunter2@127.0.0.1:1?paht=/locks").await;
    assert!(message.contains("paht"), "{message}");
}

#[cfg(any(
    feature = "postgres",
    feature = "mysql",
    feature = "redis",
    feature = "nats",
    feature = "zookeeper",
    feature = "mongodb"
))]
#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_without_the_password() {
    // Nobody listens on port 1.
    let mut urls = Vec::new();
    if cfg!(feature = "postgres") {
        urls.extend(["postgres", "postgresql"]);
    }
    if cfg!(feature = "mysql") {
        urls.extend(["mysql", "mariadb"]);
    }
    if cfg!(feature = "redis") {
        urls.push("redis");
    }
    // With both, the program has to choose a crypto library: see crypto.rs.
    if cfg!(feature = "redis") && cfg!(not(feature = "zookeeper-tls")) {
        urls.push("rediss");
    }
    if cfg!(feature = "nats") {
        urls.extend(["nats", "tls"]);
    }
    if cfg!(feature = "zookeeper") {
        urls.push("zookeeper");
    }
    if cfg!(feature = "mongodb") {
        urls.push("mongodb");
    }
    for scheme in urls {
        let database = match scheme {
            "redis" | "rediss" => "0",
            "nats" | "tls" => "",
            _ => "locks",
        };
        let url = format!("{scheme}://scott:hunter2@127.0.0.1:1/{database}");
        let error = connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(
            !format!("{error} {error:?}").contains("hunter2"),
            "{error:?}"
        );
    }
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn an_unknown_option_is_refused_without_the_password() {
    let message = refusal("postgres://scott:hunter2@127.0.0.1:1/locks?tabel=shedlock").await;
    assert!(message.contains("tabel"), "{message}");
}

#[cfg(not(feature = "consul"))]
#[tokio::test]
async fn the_feature_of_consul_is_named() {
    for scheme in ["consul", "consuls"] {
        let message = refusal(&format!("{scheme}://:hunter2@host")).await;
        assert!(message.contains("--features consul"), "{message}");
    }
}

#[cfg(feature = "consul")]
#[tokio::test]
async fn a_consul_that_is_not_there_is_an_error_without_the_token() {
    // Nobody listens on port 1.
    let error = connect("consul://:hunter2@127.0.0.1:1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
}

#[cfg(all(feature = "consul", not(feature = "consul-tls")))]
#[tokio::test]
async fn a_consul_with_tls_names_its_feature() {
    let message = refusal("consuls://:hunter2@host").await;
    assert!(message.contains("consul-tls"), "{message}");
}
