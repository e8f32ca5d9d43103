//! The registry of stores. All code outside a store's folder that names the store is driven by it.
//!
//! [`STORES`] determines [`connect`], its errors, the command's help, the benchmarks, the tests that
//! cover all stores, `cargo xtask` and the order of the stores in README.md and docs/stores.md.

use std::sync::Arc;

use shedlock_support::text::listed;

use crate::connect::{invalid, memory, split, unknown};
use crate::{Error, LockProvider, Schema};

/// A store, as the project's own tools see it; not part of the stable API.
#[derive(Clone, Copy, Debug)]
pub struct StoreEntry {
    /// Its name in code, on command lines and in file names.
    pub name: &'static str,
    /// Its name in text.
    pub title: &'static str,
    /// The schemes of its URLs, the main one first.
    pub schemes: &'static [&'static str],
    /// A URL with every part that [`connect`] reads, except options.
    pub example: &'static str,
    /// The features that enable it, the recommended one first, each with the crates that no other store
    /// brings in.
    pub features: &'static [(&'static str, &'static [&'static str])],
    /// The tool that its client needs at build time, besides a Rust and a C compiler.
    pub build_tool: Option<&'static str>,
    /// Whether this program was built with the store.
    pub is_built_in: bool,
    /// The servers that its tests run on: `SHEDLOCK_TEST_{SERVER}_URL` holds the URL of one.
    pub servers: &'static [&'static str],
    /// The text between a server's URL and a name that selects a separate namespace for locks.
    pub place: &'static str,
    /// Whether an attempt reads before it writes, so that a bare write is no measure of its cost.
    pub reads_first: bool,
}

/// All stores, in the order in which text lists them.
pub const STORES: &[StoreEntry] = &[
    StoreEntry {
        name: "postgres",
        title: "PostgreSQL",
        schemes: &["postgres", "postgresql"],
        example: "postgres://user:password@host/database",
        features: &[
            ("postgres", &["sqlx", "sqlx-core", "sqlx-postgres"]),
            ("tokio-postgres", &["tokio-postgres"]),
        ],
        build_tool: None,
        is_built_in: cfg!(any(feature = "postgres", feature = "tokio-postgres")),
        servers: &["postgres"],
        place: "?table=",
        reads_first: false,
    },
    StoreEntry {
        name: "mysql",
        title: "MySQL, MariaDB",
        schemes: &["mysql", "mariadb"],
        example: "mysql://user:password@host/database",
        features: &[("mysql", &["sqlx", "sqlx-core", "sqlx-mysql"])],
        build_tool: None,
        is_built_in: cfg!(feature = "mysql"),
        servers: &["mariadb", "mysql"],
        place: "?table=",
        reads_first: false,
    },
    StoreEntry {
        name: "redis",
        title: "Redis, Valkey",
        schemes: &[
            "redis",
            "rediss",
            "valkey",
            "valkeys",
            "unix",
            "redis+unix",
            "redis-sentinel",
            "rediss-sentinel",
            "redis-cluster",
            "rediss-cluster",
        ],
        example: "redis://user:password@host/0",
        features: &[("redis", &["redis", "shedlock-redis"])],
        build_tool: None,
        is_built_in: cfg!(feature = "redis"),
        servers: &["redis"],
        place: "?environment=",
        reads_first: false,
    },
    StoreEntry {
        name: "nats",
        title: "NATS",
        schemes: &["nats", "tls"],
        example: "nats://user:password@host",
        features: &[("nats", &["async-nats", "shedlock-nats"])],
        build_tool: None,
        is_built_in: cfg!(feature = "nats"),
        servers: &["nats"],
        place: "?bucket=",
        reads_first: true,
    },
    StoreEntry {
        name: "zookeeper",
        title: "ZooKeeper",
        schemes: &["zookeeper", "zookeepers"],
        example: "zookeeper://user:password@host",
        features: &[("zookeeper", &["zookeeper-client", "shedlock-zookeeper"])],
        build_tool: None,
        is_built_in: cfg!(feature = "zookeeper"),
        servers: &["zookeeper"],
        place: "?path=/",
        reads_first: true,
    },
    StoreEntry {
        name: "etcd",
        title: "etcd",
        schemes: &["etcd", "etcds"],
        example: "etcd://user:password@host",
        features: &[("etcd", &["etcd-client", "shedlock-etcd"])],
        build_tool: Some(
            "`protoc`, the protobuf compiler (on Debian the packages protobuf-compiler and \
             libprotobuf-dev)",
        ),
        is_built_in: cfg!(feature = "etcd"),
        servers: &["etcd"],
        place: "?environment=",
        reads_first: true,
    },
    StoreEntry {
        name: "mongodb",
        title: "MongoDB",
        schemes: &["mongodb", "mongodb+srv"],
        example: "mongodb://user:password@host/database",
        features: &[("mongodb", &["mongodb", "shedlock-mongodb"])],
        build_tool: None,
        is_built_in: cfg!(feature = "mongodb"),
        servers: &["mongodb"],
        place: "?collection=",
        reads_first: false,
    },
    StoreEntry {
        name: "consul",
        title: "Consul",
        schemes: &["consul", "consuls"],
        example: "consul://:password@host",
        features: &[("consul", &["reqwest", "shedlock-consul"])],
        build_tool: None,
        is_built_in: cfg!(feature = "consul"),
        servers: &["consul"],
        place: "/",
        reads_first: true,
    },
    StoreEntry {
        name: "sqlite",
        title: "SQLite",
        schemes: &["sqlite"],
        example: "sqlite:file",
        features: &[(
            "sqlite",
            &["sqlx", "sqlx-core", "sqlx-sqlite", "libsqlite3-sys"],
        )],
        build_tool: None,
        is_built_in: cfg!(feature = "sqlite"),
        servers: &[],
        place: "?table=",
        reads_first: false,
    },
    StoreEntry {
        name: "memory",
        title: "memory",
        schemes: &["memory"],
        example: "memory:",
        features: &[],
        build_tool: None,
        is_built_in: true,
        servers: &[],
        place: "",
        reads_first: false,
    },
];

impl StoreEntry {
    /// Returns the URL of a namespace on this server, so that a test sees no locks but its own.
    pub fn url_of_place(&self, server: &str, name: &str) -> String {
        match self.place.strip_prefix('?') {
            Some(option) if server.contains('?') => format!("{server}&{option}{name}"),
            _ => format!("{server}{}{name}", self.place),
        }
    }
}

/// Calls this function of the entry's provider with the URL, and `$finish` with its result.
macro_rules! of_provider {
    ($entry:ident, $function:ident, $url:ident, $finish:path) => {
        match $entry.name {
            #[cfg(feature = "postgres")]
            "postgres" => shedlock_sqlx::PostgresProvider::$function($url)
                .await
                .map($finish),
            #[cfg(all(feature = "tokio-postgres", not(feature = "postgres")))]
            "postgres" => shedlock_tokio_postgres::TokioPostgresProvider::$function($url)
                .await
                .map($finish),
            #[cfg(feature = "mysql")]
            "mysql" => shedlock_sqlx::MySqlProvider::$function($url)
                .await
                .map($finish),
            #[cfg(feature = "redis")]
            "redis" => shedlock_redis::RedisProvider::$function($url)
                .await
                .map($finish),
            #[cfg(feature = "nats")]
            "nats" => shedlock_nats::NatsProvider::$function($url)
                .await
                .map($finish),
            #[cfg(feature = "zookeeper")]
            "zookeeper" => shedlock_zookeeper::ZooKeeperProvider::$function($url)
                .await
                .map($finish),
            #[cfg(feature = "etcd")]
            "etcd" => shedlock_etcd::EtcdProvider::$function($url)
                .await
                .map($finish),
            #[cfg(feature = "mongodb")]
            "mongodb" => shedlock_mongodb::MongoProvider::$function($url)
                .await
                .map($finish),
            #[cfg(feature = "consul")]
            "consul" => shedlock_consul::ConsulProvider::$function($url)
                .await
                .map($finish),
            #[cfg(feature = "sqlite")]
            "sqlite" => shedlock_sqlx::SqliteProvider::$function($url)
                .await
                .map($finish),
            _ => Err(switched_off($entry)),
        }
    };
}

/// Connects to the store at this URL.
///
/// | URL | store | cargo feature |
/// |---|---|---|
/// | `postgres://…`, `postgresql://…` | PostgreSQL | `postgres`, or `tokio-postgres` without sqlx; with both, sqlx connects |
/// | `mysql://…`, `mariadb://…` | MySQL, MariaDB | `mysql` |
/// | `redis://…`, `valkey://…`, `unix://…`, `redis+unix://…`, `redis-sentinel://…`, `redis-cluster://…`; `rediss://…`, `valkeys://…`, `rediss-sentinel://…`, `rediss-cluster://…` (TLS) | Redis, Valkey | `redis` |
/// | `nats://…`, `tls://…` (TLS) | NATS JetStream | `nats` |
/// | `zookeeper://…`, `zookeepers://…` (TLS) | ZooKeeper | `zookeeper` |
/// | `etcd://…`, `etcds://…` (TLS) | etcd | `etcd`; needs `protoc`, the protobuf compiler, when it is built |
/// | `mongodb://…`, `mongodb+srv://…` | MongoDB | `mongodb` |
/// | `consul://…`, `consuls://…` (TLS) | Consul | `consul` |
/// | `sqlite:path`, `sqlite://path` | SQLite: the processes of one machine | `sqlite` |
/// | `memory:` | memory: this process alone, for tests | – |
///
/// URLs that require TLS need the feature `tls-ring` or `tls-aws-lc`; `zookeepers:` needs `tls-aws-lc`.
///
/// The rest of the URL is specific to the store; its provider documents the options. If your program
/// already has a pool, create the provider from the pool instead, with the driver's crate:
/// `shedlock_sqlx::PostgresProvider::new(pool)`.
///
/// # Errors
/// Returns `InvalidInput` if the text has no scheme, if the scheme is unknown, or if its feature is
/// switched off. Also returns any error of the provider. No message contains the URL itself, which may
/// contain a password.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let provider = shedlock::connect("memory:").await?;
/// assert_eq!(provider.store(), "memory");
///
/// let error = shedlock::connect("oracle://db/locks").await.unwrap_err();
/// let message = error.to_string();
/// assert!(
///     message.starts_with("unknown URL scheme \"oracle\"; use "),
///     "{message}",
/// );
/// # Ok::<(), shedlock::Error>(()) }).unwrap();
/// ```
pub async fn connect(url: &str) -> Result<Arc<dyn LockProvider>, Error> {
    let (entry, rest) = entry_of(url)?;
    match entry.name {
        "memory" => memory(rest).map(shared),
        _ => {
            shedlock_core::check_runtime()?;
            of_provider!(entry, connect, url, shared)
        }
    }
}

/// Returns what the store at this URL needs before it can keep locks: the statements that
/// [`migrate`](LockProvider::migrate) sends to an empty store, and those for a container that ShedLock
/// created. Connects to nothing and creates nothing, so the server need not exist.
///
/// # Errors
/// Returns `InvalidInput` if the URL is wrong, as [`connect`] does, and `Configuration` if a file that it
/// names cannot be used.
///
/// ```
/// # #[cfg(feature = "postgres")]
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let schema = shedlock::schema("postgres://db.example/app?table=jobs.locks").await?;
/// let statement = schema.create[0].statement.as_deref();
/// assert!(statement.is_some_and(|sql| sql.starts_with("CREATE TABLE \"jobs\".\"locks\" (")));
/// # Ok::<(), shedlock::Error>(()) }).unwrap();
/// ```
pub async fn schema(url: &str) -> Result<Schema, Error> {
    let (entry, rest) = entry_of(url)?;
    match entry.name {
        "memory" => Ok(memory(rest)?.schema()),
        _ => of_provider!(entry, schema_of, url, std::convert::identity),
    }
}

/// The store of this URL, and what follows the scheme.
fn entry_of(url: &str) -> Result<(&'static StoreEntry, &str), Error> {
    let (scheme, rest) = split(url)?;
    let mut entries = STORES.iter();
    let entry = entries.find(|entry| entry.schemes.contains(&scheme.as_str()));
    let entry = entry.ok_or_else(|| unknown(&scheme, rest, &schemes()))?;
    Ok((entry, rest))
}

fn shared(provider: impl LockProvider) -> Arc<dyn LockProvider> {
    Arc::new(provider)
}

/// Lists the schemes that this program was built with, for the error message. Locks in memory
/// exclude no other process, so they are listed only if there is no other store.
fn schemes() -> String {
    let schemes: Vec<_> = STORES
        .iter()
        .filter(|entry| entry.is_built_in && entry.name != "memory")
        .map(|entry| {
            let mut schemes = entry.schemes.to_vec();
            schemes.retain(|scheme| is_usable(scheme));
            match &*schemes {
                [only] => (*only).to_owned(),
                [first, others @ ..] => format!("{first} (or {})", others.join(", ")),
                [] => String::new(),
            }
        })
        .collect();
    if schemes.is_empty() {
        return "memory".to_owned();
    }
    listed(&schemes, "or")
}

/// Whether this program was built with what the scheme requires besides its store.
fn is_usable(scheme: &str) -> bool {
    let has_tls = cfg!(any(feature = "tls-ring", feature = "tls-aws-lc"));
    match scheme {
        // Its client has TLS with no other library.
        "zookeepers" => cfg!(feature = "tls-aws-lc"),
        "rediss" | "rediss-sentinel" | "rediss-cluster" | "valkeys" => has_tls,
        "tls" | "etcds" | "consuls" => has_tls,
        _ => true,
    }
}

fn switched_off(entry: &StoreEntry) -> Error {
    let feature = entry.features.first().map_or(entry.name, |(name, _)| *name);
    invalid(format!("this program was built without {feature}")).advise(format!(
        "enable the feature {feature:?} of the crate shedlock, for example with `cargo add \
         shedlock --features {feature}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the row of this store in the table of [`connect`].
    fn row(entry: &StoreEntry) -> &'static str {
        let rows = include_str!("stores.rs").lines();
        let mut rows = rows.filter(|line| line.starts_with("/// | `"));
        rows.find(|line| line.contains(&format!("| {}", entry.title)))
            .expect("a row of connect's table for each store")
    }

    #[test]
    fn the_table_of_urls_is_that_of_the_registry() {
        for entry in STORES {
            let row = row(entry);
            for scheme in entry.schemes {
                assert!(row.contains(&format!("`{scheme}:")), "{scheme}: {row}");
            }
            for (feature, _) in entry.features {
                assert!(row.contains(&format!("`{feature}`")), "{feature}: {row}");
            }
        }
    }

    #[test]
    fn no_two_stores_share_a_scheme_or_a_name() {
        let words = |of: fn(&StoreEntry) -> Vec<&'static str>| {
            let mut words: Vec<_> = STORES.iter().flat_map(of).collect();
            words.sort_unstable();
            let all = words.len();
            words.dedup();
            assert_eq!(words.len(), all, "{words:?}");
        };
        words(|entry| entry.schemes.to_vec());
        words(|entry| vec![entry.name]);
    }

    #[test]
    fn a_place_of_its_own_keeps_the_options_of_the_server() {
        let of = |name| STORES.iter().find(|entry| entry.name == name).unwrap();
        let url = of("zookeeper").url_of_place("zookeeper://h?a=b", "mine");
        assert_eq!(url, "zookeeper://h?a=b&path=/mine");
        let url = of("redis").url_of_place("redis://h", "mine");
        assert_eq!(url, "redis://h?environment=mine");
    }
}
