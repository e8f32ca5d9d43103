//! Where a store is: a database of our own on a server that the environment names, or a file.
//!
//! `SHEDLOCK_BENCH_POSTGRES_URL`, `…_MARIADB_URL` and `…_MYSQL_URL` name servers that answer a
//! commit when it is on disk, `SHEDLOCK_BENCH_POSTGRES_NO_FSYNC_URL` and so on those that do not
//! wait. All are throw-away servers and the URLs a super-user's.

use std::env;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use shedlock_core::LockProvider;
use shedlock_sql::{MySqlProvider, PostgresProvider, SqliteProvider};
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, Row as _};
use tempfile::TempDir;
use url::Url;

use crate::bare::Bare;
use crate::store::Store;

/// The database that is made for the run.
const DATABASE: &str = "shedlock_bench";

/// Makes PostgreSQL log every statement of a session.
pub(crate) const LOG_STATEMENTS: (&str, &str) = ("options", "-c log_statement=all");

/// What a commit promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// On disk before it is answered.
    AsShipped,
    /// Answered before it is on disk.
    Off,
}

impl Durability {
    /// For people.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::AsShipped => "fsync on",
            Self::Off => "fsync off",
        }
    }

    /// At the end of what is measured.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::AsShipped => "",
            Self::Off => "_no_fsync",
        }
    }

    fn variable(self, store: Store) -> String {
        let off = match self {
            Self::AsShipped => "",
            Self::Off => "_NO_FSYNC",
        };
        format!("SHEDLOCK_BENCH_{}{off}_URL", store.name().to_uppercase())
    }
}

/// A database with an empty lock table in it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) store: Store,
    pub(crate) durability: Durability,
    url: String,
    version: String,
    _folder: Option<TempDir>,
}

impl Site {
    /// Makes the database and the table; `None` where no server is named.
    pub(crate) async fn find(store: Store, durability: Durability) -> anyhow::Result<Option<Self>> {
        let mut site = Self {
            store,
            durability,
            url: String::new(),
            version: String::new(),
            _folder: None,
        };
        if store == Store::Sqlite {
            let folder = tempfile::tempdir().context("no temporary folder could be made")?;
            let file = folder.path().join("locks.db");
            site.url = format!("sqlite:{}", file.display());
            site._folder = Some(folder);
        } else {
            let variable = durability.variable(store);
            let Ok(server) = env::var(&variable) else {
                eprintln!(
                    "bench: {} with {} is NOT measured: {variable} is not set; run `cargo xtask \
                     bench`",
                    store.name(),
                    durability.words()
                );
                return Ok(None);
            };
            site.url = site.make_database(&server).await?;
        }
        site.version = site.ask_version().await?;
        site.pool_provider(1).await?.migrate().await?;
        Ok(Some(site))
    }

    /// What the server says it is.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// The provider, over connections of its own.
    pub(crate) async fn provider(
        &self,
        connections: usize,
    ) -> anyhow::Result<Arc<dyn LockProvider>> {
        self.provider_with(&[("max_connections", &connections.to_string())])
            .await
    }

    /// The same, with these options in the URL.
    pub(crate) async fn provider_with(
        &self,
        options: &[(&str, &str)],
    ) -> anyhow::Result<Arc<dyn LockProvider>> {
        let url = &self.url_with(options)?;
        Ok(match self.store {
            Store::Postgres => Arc::new(PostgresProvider::connect(url).await?),
            Store::Sqlite => Arc::new(SqliteProvider::connect(url).await?),
            _ => Arc::new(MySqlProvider::connect(url).await?),
        })
    }

    fn url_with(&self, options: &[(&str, &str)]) -> anyhow::Result<String> {
        let mut url = Url::parse(&self.url)?;
        url.query_pairs_mut().extend_pairs(options);
        Ok(url.into())
    }

    /// For providers over PostgreSQL whose statements are counted.
    pub(crate) fn logged_url(&self) -> anyhow::Result<String> {
        self.url_with(&[LOG_STATEMENTS])
    }

    /// The provider on one connection, over a table of its own.
    pub(crate) async fn table_provider(
        &self,
        table: &str,
    ) -> anyhow::Result<Arc<dyn LockProvider>> {
        let provider: Arc<dyn LockProvider> = if self.store == Store::Sqlite {
            let pool = SqlitePoolOptions::new().max_connections(1);
            let pool = pool.test_before_acquire(false);
            let pool = pool.connect_with(self.sqlite()).await?;
            Arc::new(SqliteProvider::builder(pool).table(table).build()?)
        } else {
            self.provider_with(&[("max_connections", "1"), ("table", table)])
                .await?
        };
        provider.migrate().await?;
        Ok(provider)
    }

    /// Copies the row of lock `0` until the table has this many; says how many it has then.
    pub(crate) async fn fill(&self, table: &str, names: u32) -> anyhow::Result<u64> {
        let columns = "lock_until, locked_at, locked_by, shedlock_fencing_token";
        let fill = format!(
            "INSERT INTO {table} (name, {columns}) \
             WITH d AS (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 \
             UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 \
             UNION ALL SELECT 8 UNION ALL SELECT 9), \
             numbers AS (SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n \
             + 100000 * f.n AS number \
             FROM d AS a, d AS b, d AS c, d AS d, d AS e, d AS f) \
             SELECT CONCAT('', number), {columns} FROM numbers, {table} \
             WHERE name = '0' AND number BETWEEN 1 AND {}",
            names - 1
        );
        let count = format!("SELECT COUNT(*) FROM {table}");
        let statistics = match self.store {
            Store::Postgres => format!("VACUUM (ANALYZE) {table}"),
            Store::Sqlite => format!("ANALYZE {table}"),
            _ => format!("ANALYZE TABLE {table}"),
        };
        // Each driver has types of its own, and the statements are the same.
        macro_rules! run {
            ($connection:expr) => {{
                let mut connection = $connection;
                for statement in [&fill, &statistics] {
                    let statement = sqlx::AssertSqlSafe(statement.clone());
                    sqlx::raw_sql(statement).execute(&mut connection).await?;
                }
                let count = sqlx::query(sqlx::AssertSqlSafe(count));
                let rows: i64 = count.fetch_one(&mut connection).await?.try_get(0)?;
                connection.close().await?;
                u64::try_from(rows)?
            }};
        }
        Ok(match self.store {
            Store::Postgres => run!(self.postgres()?.connect().await?),
            Store::Sqlite => run!(self.sqlite().connect().await?),
            _ => run!(self.mysql()?.connect().await?),
        })
    }

    /// The provider over a pool of the user's, which does not ask before each use whether a
    /// connection still lives.
    pub(crate) async fn pool_provider(
        &self,
        connections: u32,
    ) -> anyhow::Result<Arc<dyn LockProvider>> {
        Ok(match self.store {
            Store::Postgres => {
                let pool = PgPoolOptions::new().max_connections(connections);
                let pool = pool.test_before_acquire(false);
                let pool = pool.connect_with(self.postgres()?).await?;
                Arc::new(PostgresProvider::new(pool))
            }
            Store::Sqlite => {
                let pool = SqlitePoolOptions::new().max_connections(connections);
                let pool = pool.test_before_acquire(false);
                let pool = pool.connect_with(self.sqlite()).await?;
                Arc::new(SqliteProvider::new(pool))
            }
            _ => {
                let pool = MySqlPoolOptions::new().max_connections(connections);
                let pool = pool.test_before_acquire(false);
                let pool = pool.connect_with(self.mysql()?).await?;
                Arc::new(MySqlProvider::new(pool))
            }
        })
    }

    /// A connection for bare statements.
    pub(crate) async fn bare(&self) -> anyhow::Result<Bare> {
        Ok(match self.store {
            Store::Postgres => Bare::postgres(self.postgres()?.connect().await?),
            Store::Sqlite => Bare::sqlite(self.sqlite().connect().await?),
            _ => Bare::mysql(self.mysql()?.connect().await?),
        })
    }

    /// The same, such that its statements are counted.
    pub(crate) async fn counted_bare(&self) -> anyhow::Result<Bare> {
        Ok(match self.store {
            Store::Postgres => Bare::postgres(self.logged_postgres()?.connect().await?),
            Store::Sqlite => Bare::sqlite(self.logged_sqlite().connect().await?),
            _ => self.bare().await?,
        })
    }

    /// How to connect to PostgreSQL with every statement in the server's log.
    pub(crate) fn logged_postgres(&self) -> anyhow::Result<PgConnectOptions> {
        Ok(self.postgres()?.options([("log_statement", "all")]))
    }

    /// How to connect to PostgreSQL.
    pub(crate) fn postgres(&self) -> anyhow::Result<PgConnectOptions> {
        Ok(self
            .url
            .parse::<PgConnectOptions>()?
            .disable_statement_logging())
    }

    /// How to connect to MySQL and MariaDB.
    pub(crate) fn mysql(&self) -> anyhow::Result<MySqlConnectOptions> {
        Ok(self
            .url
            .parse::<MySqlConnectOptions>()?
            .disable_statement_logging())
    }

    /// How to open the SQLite file.
    pub(crate) fn sqlite(&self) -> SqliteConnectOptions {
        self.logged_sqlite().disable_statement_logging()
    }

    /// The same, with a log event for each statement: as our provider opens it, or without waiting
    /// for the disk.
    pub(crate) fn logged_sqlite(&self) -> SqliteConnectOptions {
        let synchronous = match self.durability {
            Durability::AsShipped => SqliteSynchronous::Full,
            Durability::Off => SqliteSynchronous::Off,
        };
        SqliteConnectOptions::new()
            .filename(self.url.trim_start_matches("sqlite:"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(synchronous)
    }

    /// Makes our database on the server; gives its URL.
    async fn make_database(&self, server: &str) -> anyhow::Result<String> {
        const CREATE: &str = "CREATE DATABASE shedlock_bench";
        let made = if self.store == Store::Postgres {
            let options: PgConnectOptions = server.parse()?;
            let mut connection = options.connect().await?;
            let made = sqlx::raw_sql(CREATE)
                .execute(&mut connection)
                .await
                .map(drop);
            connection.close().await?;
            made
        } else {
            let options: MySqlConnectOptions = server.parse()?;
            let mut connection = options.connect().await?;
            let made = sqlx::raw_sql(CREATE)
                .execute(&mut connection)
                .await
                .map(drop);
            connection.close().await?;
            made
        };
        made.with_context(|| format!("database {DATABASE} could not be made"))?;
        let mut url = Url::parse(server)?;
        url.set_path(DATABASE);
        Ok(url.into())
    }

    async fn ask_version(&self) -> anyhow::Result<String> {
        let version: String = match self.store {
            Store::Postgres => {
                let mut connection = self.postgres()?.connect().await?;
                let asked = sqlx::query("SHOW server_version");
                asked.fetch_one(&mut connection).await?.try_get(0)?
            }
            Store::Sqlite => {
                let mut connection = self.sqlite().connect().await?;
                let asked = sqlx::query("SELECT sqlite_version()");
                asked.fetch_one(&mut connection).await?.try_get(0)?
            }
            _ => {
                let mut connection = self.mysql()?.connect().await?;
                let asked = sqlx::query("SELECT CAST(VERSION() AS CHAR)");
                asked.fetch_one(&mut connection).await?.try_get(0)?
            }
        };
        let is_mariadb = version.contains("MariaDB");
        ensure!(
            is_mariadb == (self.store == Store::Mariadb) || self.store == Store::Sqlite,
            "the URL for {} leads to version {version}",
            self.store.name()
        );
        Ok(format!("{} {version}", self.store.name()))
    }
}
