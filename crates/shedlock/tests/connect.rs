//! Providers from URLs: which URLs are refused, and with which messages.
#![allow(clippy::unwrap_used, reason = "a test fails there, and says where")]

use shedlock::__stores::{STORES, StoreEntry};
#[cfg(all(
    feature = "pings",
    not(any(feature = "tls-ring", feature = "tls-aws-lc"))
))]
use shedlock::pings;
use shedlock::{ErrorKind, Executor, LockConfig, connect};

/// Returns a URL of this store and scheme where nothing listens, with a password if the URL can have one.
fn unreachable(entry: &StoreEntry, scheme: &str) -> String {
    let (_, rest) = entry.example.split_once(':').unwrap();
    // Nothing listens on port 1.
    let rest = rest.replace("password", "hunter2");
    format!("{scheme}:{}", rest.replace("host", "127.0.0.1:1"))
}

async fn refusal(url: &str) -> String {
    let error = connect(url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let text = format!("{error} {error:?}");
    assert!(!text.contains("hunter2"), "the password is shown: {text}");
    error.to_string().to_owned()
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
async fn an_unknown_scheme_lists_those_of_the_stores_that_are_built_in() {
    let message = refusal("oracle://scott:hunter2@db/locks").await;
    assert!(message.contains("\"oracle\""), "{message}");
    let known: Vec<_> = message.split([' ', ',', '(', ')']).collect();
    let is_shared = |entry: &StoreEntry| entry.is_built_in && entry.name != "memory";
    let has_shared = STORES.iter().any(is_shared);
    for entry in STORES {
        let is_listed = is_shared(entry) || entry.name == "memory" && !has_shared;
        for scheme in entry.schemes {
            let is_built_in = match *scheme {
                "zookeepers" => cfg!(feature = "tls-aws-lc"),
                scheme if is_encrypted(entry, scheme) => {
                    cfg!(any(feature = "tls-ring", feature = "tls-aws-lc"))
                }
                _ => true,
            };
            let is_listed = is_listed && is_built_in;
            assert_eq!(known.contains(scheme), is_listed, "{scheme}: {message}");
        }
    }
}

#[tokio::test]
async fn the_last_scheme_of_the_list_has_its_conjunction() {
    let message = refusal("oracle://db/locks").await;
    let built_in = STORES
        .iter()
        .filter(|entry| entry.is_built_in && entry.name != "memory");
    let expected = match built_in.count() {
        0 | 1 => 0,
        _ => 1,
    };
    let (_, listed) = message.split_once("; use ").unwrap();
    let outside: String = listed.split(['(', ')']).step_by(2).collect();
    assert_eq!(outside.matches(" or ").count(), expected, "{message}");
}

#[tokio::test]
async fn a_url_of_jdbc_is_not_refused_for_a_missing_scheme() {
    for (url, like) in [
        (
            "jdbc:postgresql://scott:hunter2@db/locks",
            "leave out \"jdbc:\" and write it like \"postgresql://host/database\"",
        ),
        (
            "JDBC:MySQL://db/locks?password=hunter2",
            "leave out \"jdbc:\" and write it like \"mysql://host/database\"",
        ),
        (
            "jdbc:sqlite:hunter2.db",
            "leave out \"jdbc:\" and write it like \"sqlite:file\"",
        ),
        ("jdbc:oracle:thin:scott/hunter2@db", "; use "),
        ("jdbc:hunter2", "; use "),
    ] {
        let message = refusal(url).await;
        assert!(
            message.starts_with("unknown URL scheme \"jdbc\"; "),
            "{url}: {message}"
        );
        assert!(message.contains(like), "{url}: {message}");
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
        assert!(message.contains("has no scheme"), "{text}: {message}");
    }
}

#[tokio::test]
async fn a_scheme_without_its_slashes_is_named() {
    for (url, like) in [
        (
            "postgres:/hunter2",
            "write it like \"postgres://host/database\"",
        ),
        (
            "postgres:hunter2@db",
            "write it like \"postgres://host/database\"",
        ),
        ("REDISS:hunter2", "write it like \"rediss://host/0\""),
        ("consul:", "write it like \"consul://host\""),
    ] {
        let message = refusal(url).await;
        assert!(message.contains("lacks \"//\" after"), "{url}: {message}");
        assert!(message.ends_with(like), "{url}: {message}");
    }
}

#[tokio::test]
async fn a_feature_that_is_off_is_named() {
    for entry in STORES.iter().filter(|entry| !entry.is_built_in) {
        let (feature, _) = entry.features[0];
        for scheme in entry.schemes {
            let message = refusal(&unreachable(entry, scheme)).await;
            let advice = format!("--features {feature}`");
            assert!(message.contains(&advice), "{scheme}: {message}");
        }
    }
}

#[tokio::test]
async fn an_unknown_option_is_refused_without_the_password() {
    for entry in STORES.iter().filter(|entry| entry.is_built_in) {
        if entry.features.is_empty() {
            continue;
        }
        let url = format!("{}?bukket=b", unreachable(entry, entry.schemes[0]));
        let message = refusal(&url).await;
        // One driver names the option only in the error's source.
        let is_plain = message.contains("bukket") || message.contains("allowed: ");
        assert!(is_plain, "{}: {message}", entry.name);
    }
}

/// The host would be `hunter2`, and the rest of the password a part of the path.
#[tokio::test]
async fn a_part_of_a_password_is_not_used_as_a_host() {
    for entry in STORES.iter().filter(|entry| entry.is_built_in) {
        if entry.servers.is_empty() {
            continue;
        }
        let scheme = entry.schemes[0];
        let message = refusal(&format!("{scheme}://app:se@hunter2/cret@127.0.0.1:1/0")).await;
        assert!(message.contains("may show a password"), "{message}");
        assert!(message.contains("%2F"), "{message}");
    }
}

#[tokio::test]
async fn a_missing_server_is_an_error_without_the_password() {
    for entry in STORES.iter().filter(|entry| entry.is_built_in) {
        if entry.servers.is_empty() {
            continue;
        }
        for scheme in entry.schemes {
            let error = connect(&unreachable(entry, scheme)).await.unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(!text.contains("hunter2"), "{text}");
            // Other schemes may need TLS, which needs a crypto library to be chosen, or host names.
            let is_plain = *scheme == entry.schemes[0];
            let expected = match error.kind() {
                ErrorKind::Configuration | ErrorKind::InvalidInput => !is_plain,
                kind => kind == ErrorKind::Unavailable,
            };
            assert!(expected, "{scheme}: {text}");
        }
    }
}

#[tokio::test]
async fn a_program_without_tls_names_the_features_that_it_lacks() {
    let has_tls = cfg!(any(feature = "tls-ring", feature = "tls-aws-lc"));
    for entry in STORES.iter().filter(|entry| entry.is_built_in) {
        let schemes = entry.schemes.iter();
        for scheme in schemes.filter(|scheme| is_encrypted(entry, scheme)) {
            let url = unreachable(entry, scheme);
            let error = connect(&url).await.unwrap_err();
            let is_refused = error.to_string().contains("built without TLS");
            match *scheme {
                "zookeepers" => {
                    assert_eq!(is_refused, cfg!(not(feature = "tls-aws-lc")), "{error}")
                }
                _ => assert_eq!(is_refused, !has_tls, "{error}"),
            }
            if is_refused {
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
                assert!(error.to_string().contains("\"tls-aws-lc\""), "{error}");
            }
        }
    }
}

/// Whether it is a scheme of this store with TLS: another one with an `s`, or that of NATS.
fn is_encrypted(entry: &StoreEntry, scheme: &str) -> bool {
    let (kind, variant) = scheme.split_once('-').unwrap_or((scheme, ""));
    let plain = kind.strip_suffix('s').map(|plain| match variant {
        "" => plain.to_owned(),
        _ => format!("{plain}-{variant}"),
    });
    scheme == "tls" || plain.is_some_and(|plain| entry.schemes.contains(&&*plain))
}

/// Whether sqlx has TLS shows only when it connects, because another crate may have enabled it.
#[cfg(all(
    feature = "postgres",
    not(any(feature = "tls-ring", feature = "tls-aws-lc"))
))]
#[tokio::test]
async fn a_driver_without_tls_names_the_features_that_it_lacks() {
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = server.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let _connection = server.accept().await;
        }
    });
    for (options, is_certain) in [
        ("sslmode=require", true),
        ("sslmode=verify-full", true),
        ("sslmode=verify-ca", true),
        ("sslmode=prefer", false),
        ("", false),
    ] {
        let url = format!("postgres://u:hunter2@127.0.0.1:{port}/d?timeout=2s&{options}");
        let reached = match connect(&url).await {
            Ok(provider) => provider.check().await,
            Err(refused) => Err(refused),
        };
        let error = reached.unwrap_err();
        let text = format!("{error:#}");
        let says = "this program was built without TLS; enable the feature \"tls-ring\" or \
                    \"tls-aws-lc\" of the crate shedlock (or of shedlock-sqlx)";
        assert_eq!(text.contains(says), is_certain, "{options}: {text}");
        let is_invalid = error.kind() == ErrorKind::InvalidInput;
        assert_eq!(is_invalid, is_certain, "{options}: {text}");
    }
}

#[cfg(all(
    feature = "pings",
    not(any(feature = "tls-ring", feature = "tls-aws-lc"))
))]
#[tokio::test]
async fn pings_without_tls_refuse_https() {
    let refused = [
        pings::Healthchecks::new()
            .unwrap()
            .check("a", "https://h/hunter2")
            .err(),
        pings::SentryCrons::new("https://hunter2@h/1").err(),
    ];
    for error in refused.map(Option::unwrap) {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(
            error.to_string().contains("(or of shedlock-pings)"),
            "{error}"
        );
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    let pings = pings::Healthchecks::new().unwrap();
    assert!(pings.check("a", "http://h/x").is_ok());
}
