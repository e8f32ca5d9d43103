//! The ways in which stores are shared.

use shedlock_rig::given::server_if_any;
use url::Url;

/// How a store is shared: the store, and the settings of each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fleets {
    /// PostgreSQL, ShedLock's `usingDbTime`, in JVMs far from UTC.
    PostgresDbTime,
    /// PostgreSQL, the clients' clocks, ShedLock configured to write UTC.
    PostgresClientTime,
    /// PostgreSQL, the clients' clocks, ShedLock writing the JVM's local time.
    PostgresZone,
    /// PostgreSQL, ShedLock's provider for plain JDBC, which supported only the clients' clocks.
    PostgresPlain,
    /// MariaDB in UTC, `usingDbTime`.
    MariadbDbTime,
    /// MariaDB at +05:30, `usingDbTime`; our URL names the zone.
    MariadbZone,
    /// MariaDB, the clients' clocks, ShedLock configured to write UTC.
    MariadbClientTime,
    /// MySQL, `usingDbTime`.
    MysqlDbTime,
    /// An emulator of MongoDB, the clients' clocks: ShedLock's provider supports no others.
    Mongodb,
    /// Redis, ShedLock's provider with default settings.
    Redis,
    /// Redis, ShedLock's provider configured to compare the owner.
    RedisSafe,
    /// Valkey, an older provider of ShedLock.
    ValkeyJedis,
    /// ZooKeeper, an older provider of ShedLock.
    Zookeeper,
}

/// The settings of one of them.
struct Settings {
    name: &'static str,
    store: &'static str,
    /// The name of its server in the environment variables.
    server: &'static str,
    /// The settings of each side, for the document.
    told: [&'static str; 3],
    jvm_zone: &'static str,
    /// ShedLock's provider, as `testing/interop/java` names it, and for `jdbc-template` its time
    /// mode.
    theirs: &'static [&'static str],
    /// The options of our URL.
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
                server: "postgres",
                told: [
                    "PostgreSQL",
                    "`JdbcTemplate` 7.9.0, `usingDbTime()`, JVM in `Asia/Kolkata`",
                    "default settings",
                ],
                jvm_zone: KOLKATA,
                theirs: &["jdbc-template", "db"],
                ours: &[],
            },
            Self::PostgresClientTime => Settings {
                name: "postgres_client_time",
                store: "postgres",
                server: "postgres",
                told: [
                    "PostgreSQL",
                    "`JdbcTemplate` 7.9.0, `withTimeZone(TimeZone.getTimeZone(\"UTC\"))`, JVM in `Asia/Kolkata`",
                    "`?time=client`",
                ],
                jvm_zone: KOLKATA,
                theirs: &["jdbc-template", "client-utc"],
                ours: &[("time", "client")],
            },
            Self::PostgresZone => Settings {
                name: "postgres_jvm_zone",
                store: "postgres",
                server: "postgres",
                told: [
                    "PostgreSQL",
                    "`JdbcTemplate` 7.9.0, default settings, JVM in `Asia/Kolkata`",
                    "`?time=client`",
                ],
                jvm_zone: KOLKATA,
                theirs: &["jdbc-template", "client"],
                ours: &[("time", "client")],
            },
            Self::PostgresPlain => Settings {
                name: "postgres_plain_jdbc",
                store: "postgres",
                server: "postgres",
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
                server: "mariadb",
                told: [
                    "MariaDB in UTC",
                    "`JdbcTemplate` 7.9.0, `usingDbTime()`, JVM in `Asia/Kolkata`",
                    "default settings",
                ],
                jvm_zone: KOLKATA,
                theirs: &["jdbc-template", "db"],
                ours: &[],
            },
            Self::MariadbZone => Settings {
                name: "mariadb_session_zone",
                store: "mariadb",
                server: "mariadb-tz",
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
                server: "mariadb",
                told: [
                    "MariaDB in UTC",
                    "`JdbcTemplate` 7.9.0, `withTimeZone(TimeZone.getTimeZone(\"UTC\"))`, JVM in `UTC`",
                    "`?time=client`",
                ],
                jvm_zone: "UTC",
                theirs: &["jdbc-template", "client-utc"],
                ours: &[("time", "client")],
            },
            Self::MysqlDbTime => Settings {
                name: "mysql_db_time",
                store: "mysql",
                server: "mysql",
                told: [
                    "MySQL",
                    "`JdbcTemplate` 7.9.0, `usingDbTime()`, JVM in `Asia/Kolkata`",
                    "default settings",
                ],
                jvm_zone: KOLKATA,
                theirs: &["jdbc-template", "db"],
                ours: &[],
            },
            Self::Mongodb => Settings {
                name: "mongodb",
                store: "mongodb",
                server: "mongodb",
                told: [
                    "an emulator of MongoDB",
                    "`MongoLockProvider` 7.9.0, JVM in `Asia/Kolkata`",
                    "`?time=client`",
                ],
                jvm_zone: KOLKATA,
                theirs: &["mongo"],
                // The emulator is slow if it has to share a processor.
                ours: &[
                    ("time", "client"),
                    ("response_timeout", "60s"),
                    ("connect_timeout", "60s"),
                ],
            },
            Self::Redis => Settings {
                name: "redis",
                store: "redis",
                server: "redis",
                told: [
                    "Redis",
                    "Spring's `RedisLockProvider` **7.7.0** over Lettuce, default settings",
                    "default settings",
                ],
                jvm_zone: KOLKATA,
                theirs: &["redis-spring"],
                ours: &[],
            },
            Self::RedisSafe => Settings {
                name: "redis_safe",
                store: "redis",
                server: "redis",
                told: [
                    "Redis",
                    "Spring's `RedisLockProvider` **7.7.0** over Lettuce, `safeUpdate(true)`",
                    "default settings",
                ],
                jvm_zone: KOLKATA,
                theirs: &["redis-spring-safe"],
                ours: &[],
            },
            Self::ValkeyJedis => Settings {
                name: "valkey_jedis",
                store: "redis",
                server: "valkey",
                told: [
                    "Valkey",
                    "`JedisLockProvider` **5.12.0**",
                    "default settings",
                ],
                jvm_zone: "UTC",
                theirs: &["redis-jedis"],
                ours: &[],
            },
            Self::Zookeeper => Settings {
                name: "zookeeper",
                store: "zookeeper",
                server: "zookeeper",
                told: [
                    "ZooKeeper",
                    "`ZookeeperCuratorLockProvider` **4.42.0**, JVM in `Asia/Kolkata`",
                    "default settings",
                ],
                jvm_zone: KOLKATA,
                theirs: &["zookeeper"],
                ours: &[],
            },
        }
    }

    /// Returns its name in the names of tests.
    pub fn name(self) -> &'static str {
        self.settings().name
    }

    /// Returns the store's name for `cargo xtask test --store`.
    pub fn store(self) -> &'static str {
        self.settings().store
    }

    /// Returns the settings of each side for the table: the store, ShedLock's provider and its
    /// zone, and ours.
    pub fn told(self) -> [&'static str; 3] {
        self.settings().told
    }

    /// Returns the server's URL. Returns `None` if this run does not test the server or the server
    /// is not available, both of which `cargo xtask test` declares.
    ///
    /// # Panics
    /// If the variable is not set: a test that needs a server must not pass without one.
    pub fn server(self) -> Option<Url> {
        let url = server_if_any(self.settings().server)?;
        Some(url.parse().expect("the server's URL can be read"))
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
