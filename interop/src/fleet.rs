//! Stores that both sides share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use shedlock::{
    Attempt, AttemptRequest, ErrorKind, ExtendRequest, Extension, Lease, LockName, LockProvider,
    LockRecord, Owner, Unlock, UnlockRequest,
};
use sqlx::{AnyConnection, AssertSqlSafe, Connection as _, Executor as _};
use url::Url;

use crate::Java;

/// How a store is shared: which one, and what each side is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fleets {
    /// PostgreSQL, ShedLock's `usingDbTime`, in JVMs far from UTC.
    PostgresDbTime,
    /// PostgreSQL, the clients' clocks, ShedLock told to write UTC.
    PostgresClientTime,
    /// PostgreSQL, the clients' clocks, ShedLock left to write the time of the JVM's zone.
    PostgresZone,
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
}

/// A store with ShedLock's own table, a process of ShedLock's, and a provider of ours.
pub struct Fleet {
    /// How it is shared.
    pub how: Fleets,
    /// Theirs.
    pub java: Java,
    /// Ours.
    pub rust: Arc<dyn LockProvider>,
    /// What opens it for another process of ours.
    pub url: String,
    arguments: Vec<String>,
    saw_the_early_lock: bool,
}

/// A lock that was taken by ShedLock before ours had added its columns.
const EARLY: &str = "before-migrate";

impl Fleets {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::PostgresDbTime,
        Self::PostgresClientTime,
        Self::PostgresZone,
        Self::MariadbDbTime,
        Self::MariadbZone,
        Self::MariadbClientTime,
        Self::MysqlDbTime,
        Self::Mongodb,
    ];

    /// The word for it in the names of tests.
    pub fn name(self) -> &'static str {
        match self {
            Self::PostgresDbTime => "postgres_db_time",
            Self::PostgresClientTime => "postgres_client_time",
            Self::PostgresZone => "postgres_jvm_zone",
            Self::MariadbDbTime => "mariadb_db_time",
            Self::MariadbZone => "mariadb_session_zone",
            Self::MariadbClientTime => "mariadb_client_time",
            Self::MysqlDbTime => "mysql_db_time",
            Self::Mongodb => "mongodb",
        }
    }

    /// The store, as `cargo xtask test --store` calls it.
    pub fn store(self) -> &'static str {
        match self {
            Self::PostgresDbTime | Self::PostgresClientTime | Self::PostgresZone => "postgres",
            Self::MariadbDbTime | Self::MariadbZone | Self::MariadbClientTime => "mariadb",
            Self::MysqlDbTime => "mysql",
            Self::Mongodb => "mongodb",
        }
    }

    /// What each side was told, for the table: the store, ShedLock's provider and its zone, ours.
    pub fn told(self) -> [&'static str; 3] {
        match self {
            Self::PostgresDbTime => [
                "PostgreSQL",
                "`JdbcTemplate`, `usingDbTime()`, JVM in `Asia/Kolkata`",
                "as it comes",
            ],
            Self::PostgresClientTime => [
                "PostgreSQL",
                "`JdbcTemplate`, `withTimeZone(UTC)`, JVM in `Asia/Kolkata`",
                "`?time=client`",
            ],
            Self::PostgresZone => [
                "PostgreSQL",
                "`JdbcTemplate` as it comes, JVM in `Asia/Kolkata`",
                "`?time=client`",
            ],
            Self::MariadbDbTime => [
                "MariaDB in UTC",
                "`JdbcTemplate`, `usingDbTime()`, JVM in `Asia/Kolkata`",
                "as it comes",
            ],
            Self::MariadbZone => [
                "MariaDB at `+05:30`",
                "`JdbcTemplate`, `usingDbTime()`, JVM in `UTC`",
                "`?shared_session_zone=%2B05:30`",
            ],
            Self::MariadbClientTime => [
                "MariaDB in UTC",
                "`JdbcTemplate`, `withTimeZone(UTC)`, JVM in `UTC`",
                "`?time=client`",
            ],
            Self::MysqlDbTime => [
                "MySQL",
                "`JdbcTemplate`, `usingDbTime()`, JVM in `Asia/Kolkata`",
                "as it comes",
            ],
            Self::Mongodb => [
                "a double of MongoDB",
                "`MongoLockProvider`, JVM in `Asia/Kolkata`",
                "`?time=client`",
            ],
        }
    }

    /// Where the server is; `None` where this run is not about it or it cannot be had here, which
    /// `cargo xtask test` says itself.
    ///
    /// # Panics
    /// Where nobody says so: a test that needs a server does not pass without.
    pub fn server(self) -> Option<Url> {
        let variable = match self {
            Self::PostgresDbTime | Self::PostgresClientTime | Self::PostgresZone => {
                "SHEDLOCK_TEST_POSTGRES"
            }
            Self::MariadbDbTime | Self::MariadbClientTime => "SHEDLOCK_TEST_MARIADB",
            Self::MariadbZone => "SHEDLOCK_TEST_MARIADB_TZ",
            Self::MysqlDbTime => "SHEDLOCK_TEST_MYSQL",
            Self::Mongodb => "SHEDLOCK_TEST_MONGODB",
        };
        match std::env::var(format!("{variable}_URL")) {
            Ok(url) => Some(url.parse().expect("the server's URL can be read")),
            Err(_) if std::env::var(variable).is_ok_and(|word| word == "unavailable") => None,
            Err(_) => panic!("{variable}_URL is not set: run `cargo xtask test`"),
        }
    }

    fn zone(self) -> &'static str {
        match self {
            Self::MariadbZone | Self::MariadbClientTime => "UTC",
            _ => "Asia/Kolkata",
        }
    }

    fn time(self) -> &'static str {
        match self {
            Self::PostgresClientTime | Self::MariadbClientTime => "client-utc",
            Self::PostgresZone => "client",
            _ => "db",
        }
    }

    fn our_option(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::PostgresClientTime
            | Self::PostgresZone
            | Self::MariadbClientTime
            | Self::Mongodb => Some(("time", "client")),
            Self::MariadbZone => Some(("shared_session_zone", "+05:30")),
            _ => None,
        }
    }

    /// ShedLock's table as its manual makes it.
    fn table(self) -> &'static str {
        match self.store() {
            "postgres" => {
                "CREATE TABLE shedlock (name VARCHAR(64) NOT NULL, lock_until TIMESTAMP NOT NULL, \
                 locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))"
            }
            _ => {
                "CREATE TABLE shedlock (name VARCHAR(64) NOT NULL, lock_until TIMESTAMP(3) NOT NULL, \
                 locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), \
                 locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))"
            }
        }
    }

    fn jdbc(self, server: &Url) -> anyhow::Result<String> {
        let host = server.host_str().context("the server's URL has no host")?;
        let port = server.port().context("the server's URL has no port")?;
        let (database, user) = (server.path(), server.username());
        let password = server.password().unwrap_or_default();
        let (scheme, more) = match self.store() {
            "postgres" => ("postgresql", ""),
            "mariadb" => ("mariadb", ""),
            _ => ("mysql", "&sslMode=DISABLED&allowPublicKeyRetrieval=true"),
        };
        Ok(format!(
            "jdbc:{scheme}://{host}:{port}{database}?user={user}&password={password}{more}"
        ))
    }

    async fn make_table(self, server: &Url, url: &Url, name: &str) -> anyhow::Result<()> {
        sqlx::any::install_default_drivers();
        let mut connection = AnyConnection::connect(server.as_str()).await?;
        let create = format!("CREATE DATABASE {name}");
        connection.execute(AssertSqlSafe(create)).await?;
        let mut connection = AnyConnection::connect(url.as_str()).await?;
        connection.execute(self.table()).await?;
        Ok(())
    }

    /// Sets it up: ShedLock comes first and holds a lock when ours adds its columns.
    ///
    /// # Errors
    /// Where it cannot be.
    pub async fn open(self, server: &Url) -> anyhow::Result<Fleet> {
        let owner = Owner::generate();
        let random = owner.as_str().rsplit('/').next().unwrap_or_default();
        let name = format!("interop_{}_{random}", self.name());
        let mut url = server.clone();
        url.set_path(&name);
        let arguments = if self == Self::Mongodb {
            vec!["mongo".to_owned(), server.to_string(), name]
        } else {
            self.make_table(server, &url, &name).await?;
            vec!["jdbc".to_owned(), self.jdbc(&url)?, self.time().to_owned()]
        };
        let java = start(self, &arguments).await?;
        let minute = Duration::from_secs(60);
        java.lock(EARLY, minute, Duration::ZERO)
            .await?
            .context("nobody can hold a lock of a new table")?;

        if let Some((key, value)) = self.our_option() {
            url.query_pairs_mut().append_pair(key, value);
        }
        let rust = shedlock::connect(url.as_str()).await?;
        match rust.migrate().await {
            Err(error) if error.kind() != ErrorKind::Unsupported => return Err(error.into()),
            // Some stores have nothing to migrate.
            _ => {}
        }
        let early = rust.inspect(&LockName::new(EARLY)?).await?;
        Ok(Fleet {
            how: self,
            java,
            rust,
            url: url.into(),
            arguments,
            saw_the_early_lock: early
                .is_some_and(|record| record.state == shedlock::LockState::Held),
        })
    }
}

async fn start(how: Fleets, arguments: &[String]) -> anyhow::Result<Java> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Java::start(how.zone(), &arguments).await
}

impl Fleet {
    /// One more process of ShedLock's.
    ///
    /// # Errors
    /// Where it does not start.
    pub async fn another_java(&self) -> anyhow::Result<Java> {
        start(self.how, &self.arguments).await
    }

    /// Whether ours saw ShedLock's lock when it had added its columns to the table.
    pub fn saw_the_early_lock(&self) -> bool {
        self.saw_the_early_lock
    }

    /// Ours asks for the lock.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn attempt(
        &self,
        name: &str,
        at_most: Duration,
        at_least: Duration,
    ) -> anyhow::Result<Attempt> {
        let request = AttemptRequest::new(LockName::new(name)?, Owner::generate(), at_most)
            .with_lock_at_least_for(at_least);
        Ok(self.rust.attempt(&request).await?)
    }

    /// Ours takes the lock; `None` where it is somebody else's.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn lock(&self, name: &str, at_most: Duration) -> anyhow::Result<Option<Lease>> {
        Ok(self
            .attempt(name, at_most, Duration::ZERO)
            .await?
            .acquired())
    }

    /// Ours gives it back; whether it was still ours.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn unlock(&self, lease: &Lease) -> anyhow::Result<bool> {
        let unlocked = self.rust.unlock(lease, &UnlockRequest::new()).await?;
        Ok(unlocked == Unlock::Unlocked)
    }

    /// Ours extends it; `None` where it is lost.
    ///
    /// # Errors
    /// Where the store fails.
    pub async fn extend(&self, lease: &Lease, at_most: Duration) -> anyhow::Result<Option<Lease>> {
        Ok(
            match self
                .rust
                .extend(lease, &ExtendRequest::new(at_most))
                .await?
            {
                Extension::Extended(lease) => Some(lease),
                _ => None,
            },
        )
    }

    /// What the store says of it.
    ///
    /// # Errors
    /// Where the store fails, or has no record.
    pub async fn record(&self, name: &str) -> anyhow::Result<LockRecord> {
        let record = self.rust.inspect(&LockName::new(name)?).await?;
        record.with_context(|| format!("there is no record of {name}"))
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet")
            .field("how", &self.how)
            .finish_non_exhaustive()
    }
}
