//! The server's counters: statements, and bytes of its write-ahead log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use shedlock_core::LockProvider;
use shedlock_sqlx::SqliteProvider;
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{ConnectOptions as _, MySqlConnection, PgConnection, Row as _};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use crate::site::{LOG_STATEMENTS, Site};
use crate::store::Store;

/// Counters of one store.
pub(crate) enum Meter {
    Postgres(PostgresMeter),
    MySql(MySqlMeter),
    Sqlite(SqliteMeter),
}

/// The values of the counters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) statements: u64,
    /// `None` if there is no such counter.
    pub(crate) log_bytes: Option<u64>,
}

impl Meter {
    /// Counters, and a provider on one connection whose statements they count.
    pub(crate) async fn new(site: &Site) -> anyhow::Result<(Self, Arc<dyn LockProvider>)> {
        match site.store {
            Store::POSTGRES => {
                let meter = PostgresMeter::new(site).await?;
                let options = [("max_connections", "1"), LOG_STATEMENTS];
                Ok((Self::Postgres(meter), site.provider_with(&options).await?))
            }
            Store::SQLITE => {
                let meter = SqliteMeter::install()?;
                Ok((Self::Sqlite(meter), SqliteMeter::provider(site).await?))
            }
            _ => {
                let meter = MySqlMeter::new(site).await?;
                Ok((Self::MySql(meter), site.provider(1).await?))
            }
        }
    }

    pub(crate) async fn read(&mut self) -> anyhow::Result<Reading> {
        match self {
            Self::Postgres(meter) => meter.read().await,
            Self::MySql(meter) => meter.read().await,
            Self::Sqlite(meter) => Ok(meter.read()),
        }
    }
}

/// Reads the server's log, to which sessions with `log_statement = all` write a line per statement,
/// and the end of its write-ahead log.
pub(crate) struct PostgresMeter {
    reader: PgConnection,
    /// Logs its statements. Its last statement marks the end of what was logged before.
    marker: PgConnection,
    marks: u64,
    file: String,
    offset: i64,
    statements: u64,
}

impl PostgresMeter {
    async fn new(site: &Site) -> anyhow::Result<Self> {
        let mut reader = site.postgres()?.connect().await?;
        let marker = site.logged_postgres()?.connect().await?;
        sqlx::raw_sql("CHECKPOINT").execute(&mut reader).await?;
        let file: Option<String> = sqlx::query("SELECT pg_current_logfile()")
            .fetch_one(&mut reader)
            .await?
            .try_get(0)?;
        let file =
            file.context("the server keeps no log file: start it with logging_collector=on")?;
        Ok(Self {
            reader,
            marker,
            marks: 0,
            file,
            offset: 0,
            statements: 0,
        })
    }

    async fn read(&mut self) -> anyhow::Result<Reading> {
        let log_bytes: i64 = sqlx::query("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
            .fetch_one(&mut self.reader)
            .await?
            .try_get(0)?;
        self.marks += 1;
        let mark = format!("SELECT 'mark {}'", self.marks);
        sqlx::raw_sql(sqlx::AssertSqlSafe(mark.clone()))
            .execute(&mut self.marker)
            .await?;
        // A separate process writes the log.
        for _ in 0..500 {
            let bytes: Vec<u8> = sqlx::query("SELECT pg_read_binary_file($1, $2, 100000000)")
                .bind(&self.file)
                .bind(self.offset)
                .fetch_one(&mut self.reader)
                .await?
                .try_get(0)?;
            let text = String::from_utf8_lossy(&bytes);
            if text.lines().any(|line| line.ends_with(&mark)) {
                self.offset += i64::try_from(bytes.len())?;
                self.statements += count(&text) - 1;
                return Ok(Reading {
                    statements: self.statements,
                    log_bytes: Some(u64::try_from(log_bytes)?),
                });
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!("the server did not log {mark}")
    }
}

/// Counts the lines that contain a statement, either as one text or prepared.
fn count(log: &str) -> u64 {
    let is_statement =
        |line: &&str| line.contains("LOG:  statement: ") || line.contains("LOG:  execute ");
    u64::try_from(log.lines().filter(is_statement).count()).unwrap_or(u64::MAX)
}

/// Reads `Questions`, the statements that clients sent, and the end of the redo log.
pub(crate) struct MySqlMeter {
    reader: MySqlConnection,
    /// Each reading is a statement too, and is counted before it is answered.
    readings: u64,
}

impl MySqlMeter {
    async fn new(site: &Site) -> anyhow::Result<Self> {
        let reader = site.mysql()?.connect().await?;
        Ok(Self {
            reader,
            readings: 0,
        })
    }

    async fn read(&mut self) -> anyhow::Result<Reading> {
        self.readings += 1;
        let status = sqlx::raw_sql(
            "SHOW GLOBAL STATUS WHERE Variable_name IN \
             ('Questions', 'Innodb_lsn_current', 'Innodb_redo_log_current_lsn')",
        )
        .fetch_all(&mut self.reader)
        .await?;
        let mut reading = Reading {
            statements: 0,
            log_bytes: None,
        };
        for row in status {
            let (name, value): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            let value = value.parse()?;
            if name == "Questions" {
                reading.statements = value;
            } else {
                reading.log_bytes = Some(value);
            }
        }
        ensure!(
            reading.statements > self.readings,
            "the server has no counter Questions"
        );
        reading.statements -= self.readings;
        Ok(reading)
    }
}

/// Counts the driver's log events for statements. For SQLite, the driver runs the statements
/// itself.
pub(crate) struct SqliteMeter {
    statements: Arc<AtomicU64>,
}

impl SqliteMeter {
    fn install() -> anyhow::Result<Self> {
        let statements = Arc::new(AtomicU64::new(0));
        let counter = Counter(Arc::clone(&statements));
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(counter))?;
        Ok(Self { statements })
    }

    /// Over a pool that logs its statements.
    async fn provider(site: &Site) -> anyhow::Result<Arc<dyn LockProvider>> {
        let pool = SqlitePoolOptions::new().max_connections(1);
        let pool = pool
            .test_before_acquire(false)
            .connect_with(site.logged_sqlite())
            .await?;
        Ok(Arc::new(SqliteProvider::builder(pool).build()?))
    }

    fn read(&self) -> Reading {
        Reading {
            statements: self.statements.load(Ordering::SeqCst),
            log_bytes: None,
        }
    }
}

/// Counts the driver's events for statements.
struct Counter(Arc<AtomicU64>);

impl<S: tracing::Subscriber> Layer<S> for Counter {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "sqlx::query" {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_counted_and_their_details_are_not() {
        let log = "2026-01-01 00:00:00 UTC [7] LOG:  execute sqlx_s_1: UPDATE t SET a = $1\n\
                   2026-01-01 00:00:00 UTC [7] DETAIL:  parameters: $1 = '1'\n\
                   2026-01-01 00:00:00 UTC [8] LOG:  statement: SELECT 'mark 1'\n\
                   2026-01-01 00:00:00 UTC [9] LOG:  checkpoint complete\n";
        assert_eq!(count(log), 2);
    }
}
