//! The parts that only databases with a table have: their own connection options, pools, tables of any size.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use shedlock_core::LockProvider;
use shedlock_diesel_async::diesel_async::pooled_connection::{AsyncDieselConnectionManager, bb8};
use shedlock_diesel_async::diesel_async::{AsyncMysqlConnection, AsyncPgConnection};
use shedlock_sqlx::{MySqlProvider, PostgresProvider, SqliteProvider};
use shedlock_tokio_postgres::TokioPostgresProvider;
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, Row as _};
use tokio_postgres::NoTls;
use url::Url;

use super::{Durability, Site};
use crate::bare::Bare;
use crate::store::Store;

/// The database that is created for the run.
const DATABASE: &str = "shedlock_bench";

/// Makes PostgreSQL log every statement of a session.
pub(crate) const LOG_STATEMENTS: (&str, &str) = ("options", "-c log_statement=all");

impl Site {
    /// The provider with these options in its URL.
    pub(crate) async fn provider_with(
        &self,
        options: &[(&str, &str)],
    ) -> anyhow::Result<Arc<dyn LockProvider>> {
        Ok(shedlock::connect(&self.url_with(options)?).await?)
    }

    pub(super) fn url_with(&self, options: &[(&str, &str)]) -> anyhow::Result<String> {
        let mut url = Url::parse(&self.url)?;
        url.query_pairs_mut().extend_pairs(options);
        Ok(url.into())
    }

    /// For providers over PostgreSQL whose statements are counted.
    pub(crate) fn logged_url(&self) -> anyhow::Result<String> {
        self.url_with(&[LOG_STATEMENTS])
    }

    /// The provider on one connection, over a separate table.
    pub(crate) async fn table_provider(
        &self,
        table: &str,
    ) -> anyhow::Result<Arc<dyn LockProvider>> {
        let provider: Arc<dyn LockProvider> = if self.store == Store::SQLITE {
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

    /// Copies the row of lock `0` until the table has this many rows. Returns the number of rows.
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
            Store::POSTGRES => format!("VACUUM (ANALYZE) {table}"),
            Store::SQLITE => format!("ANALYZE {table}"),
            _ => format!("ANALYZE TABLE {table}"),
        };
        // Each driver has its own types, but the statements are the same.
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
            Store::POSTGRES => run!(self.postgres()?.connect().await?),
            Store::SQLITE => run!(self.sqlite().connect().await?),
            _ => run!(self.mysql()?.connect().await?),
        })
    }

    /// The provider over a user's pool, which does not test before each use whether a connection is alive.
    pub(crate) async fn pool_provider(
        &self,
        connections: u32,
    ) -> anyhow::Result<Arc<dyn LockProvider>> {
        Ok(match self.store {
            Store::POSTGRES => {
                let pool = PgPoolOptions::new().max_connections(connections);
                let pool = pool.test_before_acquire(false);
                let pool = pool.connect_with(self.postgres()?).await?;
                Arc::new(PostgresProvider::builder(pool).build()?)
            }
            Store::SQLITE => {
                let pool = SqlitePoolOptions::new().max_connections(connections);
                let pool = pool.test_before_acquire(false);
                let pool = pool.connect_with(self.sqlite()).await?;
                Arc::new(SqliteProvider::builder(pool).build()?)
            }
            _ => {
                let pool = MySqlPoolOptions::new().max_connections(connections);
                let pool = pool.test_before_acquire(false);
                let pool = pool.connect_with(self.mysql()?).await?;
                Arc::new(MySqlProvider::builder(pool).build()?)
            }
        })
    }

    /// The provider over a pool of deadpool, which does not test before each use whether a client is alive.
    pub(crate) fn deadpool_provider(
        &self,
        connections: usize,
    ) -> anyhow::Result<Arc<dyn LockProvider>> {
        let manager = deadpool_postgres::Manager::new(self.url.parse()?, NoTls);
        let pool = deadpool_postgres::Pool::builder(manager).max_size(connections);
        Ok(Arc::new(TokioPostgresProvider::new(pool.build()?)))
    }

    /// The provider over a pool of diesel-async in bb8, which does not test either.
    pub(crate) fn diesel_provider(
        &self,
        connections: usize,
    ) -> anyhow::Result<Arc<dyn LockProvider>> {
        let connections = u32::try_from(connections)?;
        let url = self.url_for_others()?;
        // Each backend of diesel has its own types, but the pools are the same.
        macro_rules! pool {
            ($url:expr, $connection:ty) => {
                bb8::Pool::builder()
                    .max_size(connections)
                    .test_on_check_out(false)
                    .build_unchecked(AsyncDieselConnectionManager::<$connection>::new($url))
            };
        }
        Ok(match self.store {
            Store::POSTGRES => {
                let pool = pool!(url, AsyncPgConnection);
                Arc::new(shedlock_diesel_async::PostgresProvider::new(pool))
            }
            _ => {
                // Through the proxy that counts, as everyone else.
                let url = format!("{url}?prefer_socket=false");
                let pool = pool!(url, AsyncMysqlConnection);
                Arc::new(shedlock_diesel_async::MySqlProvider::new(pool))
            }
        })
    }

    /// The bare statements, counted.
    pub(crate) async fn counted_bare(&self) -> anyhow::Result<Bare> {
        Ok(match self.store {
            Store::POSTGRES => Bare::new(self.logged_postgres()?.connect().await?),
            Store::SQLITE => Bare::new(self.logged_sqlite().connect().await?),
            _ => self.bare().await?,
        })
    }

    /// Options for connecting to PostgreSQL with every statement in the server's log.
    pub(crate) fn logged_postgres(&self) -> anyhow::Result<PgConnectOptions> {
        Ok(self.postgres()?.options([("log_statement", "all")]))
    }

    /// Options for connecting to PostgreSQL.
    pub(crate) fn postgres(&self) -> anyhow::Result<PgConnectOptions> {
        Ok(self
            .url
            .parse::<PgConnectOptions>()?
            .disable_statement_logging())
    }

    /// Options for connecting to MySQL and MariaDB.
    pub(crate) fn mysql(&self) -> anyhow::Result<MySqlConnectOptions> {
        Ok(self
            .url
            .parse::<MySqlConnectOptions>()?
            .disable_statement_logging())
    }

    /// Options for opening the SQLite file.
    pub(crate) fn sqlite(&self) -> SqliteConnectOptions {
        self.logged_sqlite().disable_statement_logging()
    }

    /// The same, with a log event for each statement: opened as our provider opens it, or without waiting for the disk.
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

    /// Creates our database on the server, and returns its URL.
    pub(super) async fn make_database(&self, server: &str) -> anyhow::Result<String> {
        const CREATE: &str = "CREATE DATABASE shedlock_bench";
        let made = if self.store == Store::POSTGRES {
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
        made.with_context(|| format!("database {DATABASE} could not be created"))?;
        let mut url = Url::parse(server)?;
        url.set_path(DATABASE);
        Ok(url.into())
    }

    pub(super) async fn ask_version(&self) -> anyhow::Result<String> {
        let version: String = match self.store {
            Store::POSTGRES => {
                let mut connection = self.postgres()?.connect().await?;
                let asked = sqlx::query("SHOW server_version");
                asked.fetch_one(&mut connection).await?.try_get(0)?
            }
            Store::SQLITE => {
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
            is_mariadb == (self.store == Store::MARIADB) || self.store == Store::SQLITE,
            "the URL for {} leads to version {version}",
            self.store.name()
        );
        Ok(format!("{} {version}", self.store.name()))
    }
}
