//! A provider from a URL.

use std::sync::Arc;

use crate::{Error, ErrorKind, LockProvider, MemoryProvider};

/// Connects to the store that this URL names.
///
/// | URL | store | cargo feature |
/// |---|---|---|
/// | `postgres://…`, `postgresql://…` | PostgreSQL | `postgres`, or `tokio-postgres`; with both, sqlx connects |
/// | `mysql://…`, `mariadb://…` | MySQL, MariaDB | `mysql` |
/// | `sqlite:path`, `sqlite://path` | SQLite | `sqlite` |
/// | `redis://…`, `redis-sentinel://…`, `redis-cluster://…`; `rediss…` for TLS | Redis, Valkey | `redis` |
/// | `nats://…`, `tls://…` (TLS) | NATS JetStream | `nats` |
/// | `zookeeper://…`, `zookeepers://…` (TLS) | ZooKeeper | `zookeeper`, `zookeeper-tls` |
/// | `consul://…`, `consuls://…` (TLS) | Consul | `consul`, `consul-tls` |
/// | `etcd://…`, `etcds://…` (TLS) | etcd | `etcd` |
/// | `mongodb://…`, `mongodb+srv://…` | MongoDB | `mongodb` |
/// | `memory:` | this process alone, for tests | – |
///
/// What stands behind the scheme is the store's own; its provider says which options there are. A
/// program that has a pool already makes the provider from it instead, for instance with
/// `PostgresProvider::builder(pool).build()?`.
///
/// # Errors
/// `InvalidInput` for a text without a scheme, an unknown scheme, and one whose feature is
/// switched off; whatever the provider refuses or fails with. The URL itself, which may hold a
/// password, is in no message.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let provider = shedlock::connect("memory:").await?;
/// assert_eq!(provider.store(), "memory");
///
/// let error = shedlock::connect("oracle://db/locks").await.unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "there is no store for the URL scheme \"oracle\": use postgres (or postgresql), \
///      mysql (or mariadb), sqlite, redis (or rediss), nats (or tls), zookeeper (or zookeepers), \
///      consul (or consuls), etcd (or etcds), mongodb (or mongodb+srv), memory",
/// );
/// # Ok::<(), shedlock::Error>(()) }).unwrap();
/// ```
pub async fn connect(url: &str) -> Result<Arc<dyn LockProvider>, Error> {
    let (scheme, rest) = split(url)?;
    match scheme.as_str() {
        "memory" => memory(rest),
        "postgres" | "postgresql" => postgres(url).await,
        "mysql" | "mariadb" => mysql(url).await,
        "sqlite" => sqlite(url).await,
        "redis" | "redis-sentinel" | "redis-cluster" | "rediss" | "rediss-sentinel"
        | "rediss-cluster" => redis(url).await,
        "nats" | "tls" => nats(url).await,
        "zookeeper" | "zookeepers" => zookeeper(url).await,
        "consul" | "consuls" => consul(url).await,
        "etcd" | "etcds" => etcd(url).await,
        "mongodb" | "mongodb+srv" => mongodb(url).await,
        _ => Err(invalid(format!(
            "there is no store for the URL scheme {scheme:?}: use postgres (or postgresql), \
             mysql (or mariadb), sqlite, redis (or rediss), nats (or tls), zookeeper (or zookeepers), \
             consul (or consuls), etcd (or etcds), mongodb (or mongodb+srv), memory"
        ))),
    }
}

/// The scheme in lower case, and what stands behind its colon.
pub(crate) fn split(url: &str) -> Result<(String, &str), Error> {
    let split = url
        .split_once(':')
        .map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest));
    let split = split.filter(|(scheme, rest)| {
        let is_word = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
        // Without the slashes the word could as well be the user of `user:password@host`, which
        // belongs in no message.
        is_word && (rest.starts_with("//") || matches!(scheme.as_str(), "sqlite" | "memory"))
    });
    split.ok_or_else(|| {
        invalid(
            "a store is named by a URL with a scheme, like \"postgres://user@host/database\" or \
             \"sqlite:locks.db\"; this text has none",
        )
    })
}

fn memory(rest: &str) -> Result<Arc<dyn LockProvider>, Error> {
    if !rest.trim_start_matches('/').is_empty() {
        return Err(invalid(
            "locks in memory have neither a name nor options: write \"memory:\"",
        ));
    }
    Ok(Arc::new(MemoryProvider::new()))
}

async fn postgres(url: &str) -> Result<Arc<dyn LockProvider>, Error> {
    #[cfg(feature = "postgres")]
    return Ok(Arc::new(crate::PostgresProvider::connect(url).await?));
    #[cfg(all(feature = "tokio-postgres", not(feature = "postgres")))]
    return Ok(Arc::new(crate::TokioPostgresProvider::connect(url).await?));
    #[cfg(not(any(feature = "postgres", feature = "tokio-postgres")))]
    return switched_off(url, "postgres");
}

async fn mysql(url: &str) -> Result<Arc<dyn LockProvider>, Error> {
    #[cfg(feature = "mysql")]
    return Ok(Arc::new(crate::MySqlProvider::connect(url).await?));
    #[cfg(not(feature = "mysql"))]
    return switched_off(url, "mysql");
}

async fn sqlite(url: &str) -> Result<Arc<dyn LockProvider>, Error> {
    #[cfg(feature = "sqlite")]
    return Ok(Arc::new(crate::SqliteProvider::connect(url).await?));
    #[cfg(not(feature = "sqlite"))]
    return switched_off(url, "sqlite");
}

async fn redis(url: &str) -> Result<Arc<dyn LockProvider>, Error> {
    #[cfg(feature = "redis")]
    return Ok(Arc::new(crate::RedisProvider::connect(url).await?));
    #[cfg(not(feature = "redis"))]
    return switched_off(url, "redis");
}

async fn nats(url: &str) -> Result<Arc<dyn LockProvider>, Error> {
    #[cfg(feature = "nats")]
    return Ok(Arc::new(crate::NatsProvider::connect(url).await?));
    #[cfg(not(feature = "nats"))]
    return switched_off(url, "nats");
}

async fn zookeeper(url: &str) -> Result<Arc<dyn LockProvider>, Error> {
    #[cfg(feature = "zookeeper")]
    return Ok(Arc::new(crate::ZooKeeperProvider::connect(url).await?));
    #[cfg(not(feature = "zookeeper"))]
    return switched_off(url, "zookeeper");
}

async fn consul(url: &str) -> Result<Arc<dyn LockProvider>, Error> {
    #[cfg(feature = "consul")]
    return Ok(Arc::new(
        shedlock_consul::ConsulProvider::connect(url).await?,
    ));
    #[cfg(not(feature = "consul"))]
    return switched_off(url, "consul");
}

async fn etcd(url: &str) -> Result<Arc<dyn LockProvider>, Error> {
    #[cfg(feature = "etcd")]
    return Ok(Arc::new(crate::EtcdProvider::connect(url).await?));
    #[cfg(not(feature = "etcd"))]
    return switched_off(url, "etcd");
}

async fn mongodb(url: &str) -> Result<Arc<dyn LockProvider>, Error> {
    #[cfg(feature = "mongodb")]
    return Ok(Arc::new(crate::MongoProvider::connect(url).await?));
    #[cfg(not(feature = "mongodb"))]
    return switched_off(url, "mongodb");
}

#[cfg(not(all(
    feature = "consul",
    any(feature = "postgres", feature = "tokio-postgres"),
    feature = "mysql",
    feature = "sqlite",
    feature = "redis",
    feature = "nats",
    feature = "zookeeper",
    feature = "etcd",
    feature = "mongodb"
)))]
fn switched_off(_url: &str, feature: &str) -> Result<Arc<dyn LockProvider>, Error> {
    Err(invalid(format!(
        "this program was built without {feature}: switch on the feature {feature:?} of the crate \
         shedlock, for instance with `cargo add shedlock --features {feature}`"
    )))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}
