//! How stores are shared.

use url::Url;

/// How a store is shared: which one, and what each side is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fleets {
    /// PostgreSQL, ShedLock's `usingDbTime`, in JVMs far from UTC.
    PostgresDbTime,
    /// PostgreSQL, the clients' clocks, ShedLock told to write UTC.
    PostgresClientTime,
    /// PostgreSQL, the clients' clocks, ShedLock left to write the time of the JVM's zone.
    PostgresZone,
    /// PostgreSQL, ShedLock's provider for plain JDBC, which knew the clients' clocks alone.
    PostgresPlain,
    /// MariaDB in UTC, `usingDbTime`.
    MariadbDbTime,
    /// MariaDB at +05:30, `usingDbTime`; ours told of the zone.
    MariadbZone,
    /// MariaDB, the clients' clocks, ShedLock told to write UTC.
    MariadbClientTime,
    /// MySQL, `usingDbTime`.
    MysqlDbTime,
    /// MongoDB's double, the clients' clocks: ShedLock's provider knows no others.
    Mongodb,
    /// Redis, ShedLock's provider as it comes.
    Redis,
    /// Redis, ShedLock's provider told to look at the owner.
    RedisSafe,
    /// Valkey, an older provider of ShedLock's.
    ValkeyJedis,
    /// ZooKeeper, an older provider of ShedLock's.
    Zookeeper,
}

/// What makes one of them.
struct Settings {
    name: &'static str,
    store: &'static str,
    /// The environment's name for its server.
    server: &'static str,
    /// For the document.
    told: [&'static str; 3],
    jvm_zone: &'static str,
    /// ShedLock's provider, as `testing/interop/java` calls it, and for `jdbc-template` its time mode.
    theirs: &'static [&'static str],
    /// Options of our URL.
    ours: &'static [(&'static str, &'static str)],
}

/// Far from UTC, and not by whole hours.
const KOLKATA: &str = "Asia/Kolkata";

impl Fleets {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::PostgresDbTime,
        Self::PostgresClientTime,
        Self::PostgresZone,
        Self::PostgresPlain,
        Self::MariadbDbTime,
        Self::MariadbZone,
        Self::MariadbClientTime,
        Self::MysqlDbTime,
        Self::Mongodb,
        Self::Redis,
        Self::RedisSafe,
        Self::ValkeyJedis,
        Self::Zookeeper,
    ];

    fn settings(self) -> Settings {
        match self {
            Self::PostgresDbTime => Settings {
                name: "postgres_db_time",
                store: "postgres",
                server: "POSTGRES",
                told: [
                    "PostgreSQL",
                    "`JdbcTemplate` 7.9.0, `usingDbTime()`, JVM in `Asia/Kolkata`",
                    "as it comes",
                ],
                jvm_zone: KOLKATA,
                theirs: &["jdbc-template", "db"],
                ours: &[],
            },
            Self::PostgresClientTime => Settings {
                name: "postgres_client_time",
                store: "postgres",
                server: "POSTGRES",
                told: [
                    "PostgreSQL",
                    "`JdbcTemplate` 7.9.0, `withTimeZone(UTC)`, JVM in `Asia/Kolkata`",
                    "`?time=client`",
                ],
                jvm_zone: KOLKATA,
                theirs: &["jdbc-template", "client-utc"],
                ours: &[("time", "client")],
            },
            Self::PostgresZone => Settings {
                name: "postgres_jvm_zone",
                store: "postgres",
                server: "POSTGRES",
                told: [
                    "PostgreSQL",
                    "`JdbcTemplate` 7.9.0 as it comes, JVM in `Asia/Kolkata`",
                    "`?time=client`",
                ],
                jvm_zone: KOLKATA,
                theirs: &["jdbc-template", "client"],
                ours: &[("time", "client")],
            },
            Self::PostgresPlain => Settings {
                name: "postgres_plain_jdbc",
                store: "postgres",
                server: "POSTGRES",
                told: [
                    "PostgreSQL",
                    "plain JDBC **6.9.2**, JVM in `UTC`",
                    "`?time=client`",
                ],
                jvm_zone: "UTC",
                theirs: &["jdbc"],
                ours: &[("time", "client")],
            },
            Self::MariadbDbTime => Settings {
                name: "mariadb_db_time",
                store: "mariadb",
                server: "MARIADB",
                told: [
                    "MariaDB in UTC",
                    "`JdbcTemplate` 7.9.0, `usingDbTime()`, JVM in `Asia/Kolkata`",
                    "as it comes",
                ],
                jvm_zone: KOLKATA,
                theirs: &["jdbc-template", "db"],
                ours: &[],
            },
            Self::MariadbZone => Settings {
                name: "mariadb_session_zone",
                store: "mariadb",
                server: "MARIADB_TZ",
                told: [
                    "MariaDB at `+05:30`",
                    "`JdbcTemplate` 7.9.0, `usingDbTime()`, JVM in `UTC`",
                    "`?shared_session_zone=%2B05:30`",
                ],
                jvm_zone: "UTC",
                theirs: &["jdbc-template", "db"],
                ours: &[("shared_session_zone", "+05:30")],
            },
            Self::MariadbClientTime => Settings {
                name: "mariadb_client_time",
                store: "mariadb",
                server: "MARIADB",
                told: [
                    "MariaDB in UTC",
                    "`JdbcTemplate` 7.9.0, `withTimeZone(UTC)`, JVM in `UTC`",
                    "`?time=client`",
                ],
                jvm_zone: "UTC",
                theirs: &["jdbc-template", "client-utc"],
                ours: &[("time", "client")],
            },
            Self::MysqlDbTime => Settings {
                name: "mysql_db_time",
                store: "mysql",
                server: "MYSQL",
                told: [
                    "MySQL",
                    "`JdbcTemplate` 7.9.0, `usingDbTime()`, JVM in `Asia/Kolkata`",
                    "as it comes",
                ],
                jvm_zone: KOLKATA,
                theirs: &["jdbc-template", "db"],
                ours: &[],
            },
            Self::Mongodb => Settings {
                name: "mongodb",
                store: "mongodb",
                server: "MONGODB",
                told: [
                    "a double of MongoDB",
                    "`MongoLockProvider` 7.9.0, JVM in `Asia/Kolkata`",
                    "`?time=client`",
                ],
                jvm_zone: KOLKATA,
                theirs: &["mongo"],
                // The double is slow where it has to share a processor.
                ours: &[
                    ("time", "client"),
                    ("response_timeout", "60s"),
                    ("connect_timeout", "60s"),
                ],
            },
            Self::Redis => Settings {
                name: "redis",
                store: "redis",
                server: "REDIS",
                told: [
                    "Redis",
                    "Spring's `RedisLockProvider` **7.7.0** over Lettuce, as it comes",
                    "as it comes",
                ],
                jvm_zone: KOLKATA,
                theirs: &["redis-spring"],
                ours: &[],
            },
            Self::RedisSafe => Settings {
                name: "redis_safe",
                store: "redis",
                server: "REDIS",
                told: [
                    "Redis",
                    "Spring's `RedisLockProvider` **7.7.0** over Lettuce, `safeUpdate(true)`",
                    "as it comes",
                ],
                jvm_zone: KOLKATA,
                theirs: &["redis-spring-safe"],
                ours: &[],
            },
            Self::ValkeyJedis => Settings {
                name: "valkey_jedis",
                store: "redis",
                server: "VALKEY",
                told: ["Valkey", "`JedisLockProvider` **5.12.0**", "as it comes"],
                jvm_zone: "UTC",
                theirs: &["redis-jedis"],
                ours: &[],
            },
            Self::Zookeeper => Settings {
                name: "zookeeper",
                store: "zookeeper",
                server: "ZOOKEEPER",
                told: [
                    "ZooKeeper",
                    "`ZookeeperCuratorLockProvider` **4.42.0**, JVM in `Asia/Kolkata`",
                    "as it comes",
                ],
                jvm_zone: KOLKATA,
                theirs: &["zookeeper"],
                ours: &[],
            },
        }
    }

    /// The word for it in the names of tests.
    pub fn name(self) -> &'static str {
        self.settings().name
    }

    /// The store, as `cargo xtask test --store` calls it.
    pub fn store(self) -> &'static str {
        self.settings().store
    }

    /// What each side was told, for the table: the store, ShedLock's provider and its zone, ours.
    pub fn told(self) -> [&'static str; 3] {
        self.settings().told
    }

    /// Where the server is; `None` where this run is not about it or it cannot be had here, which
    /// `cargo xtask test` says itself.
    ///
    /// # Panics
    /// Where nobody says so: a test that needs a server does not pass without.
    pub fn server(self) -> Option<Url> {
        let variable = format!("SHEDLOCK_TEST_{}", self.settings().server);
        match std::env::var(format!("{variable}_URL")) {
            Ok(url) => Some(url.parse().expect("the server's URL can be read")),
            Err(_) if std::env::var(&variable).is_ok_and(|word| word == "unavailable") => None,
            Err(_) => panic!("{variable}_URL is not set: run `cargo xtask test`"),
        }
    }

    pub(crate) fn jvm_zone(self) -> &'static str {
        self.settings().jvm_zone
    }

    pub(crate) fn theirs(self) -> &'static [&'static str] {
        self.settings().theirs
    }

    pub(crate) fn ours(self) -> &'static [(&'static str, &'static str)] {
        self.settings().ours
    }
}
