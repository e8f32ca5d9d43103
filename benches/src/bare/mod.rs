//! The baseline: bare prepared single-row UPDATEs on one connection of the same driver.
//!
//! They write the columns that a lock needs, by primary key, and decide nothing: no condition, no
//! time of the server, nothing comes back. No lock over this driver can be faster.

mod mysql;
mod postgres;
mod sqlite;

use std::sync::Arc;

use sqlx::{MySqlConnection, PgConnection, SqliteConnection};
use tokio::sync::Mutex;

/// A connection and how often it was used. Clones share it, and take turns.
#[derive(Clone)]
pub(crate) struct Bare {
    connection: Arc<Mutex<Connection>>,
    uses: u64,
}

enum Connection {
    Postgres(PgConnection),
    MySql(MySqlConnection),
    Sqlite(SqliteConnection),
}

/// What is written into the row at its nth use.
struct Values<'a> {
    name: &'a str,
    owner: String,
    n: u64,
}

impl Bare {
    pub(crate) fn postgres(connection: PgConnection) -> Self {
        Self::new(Connection::Postgres(connection))
    }

    pub(crate) fn mysql(connection: MySqlConnection) -> Self {
        Self::new(Connection::MySql(connection))
    }

    pub(crate) fn sqlite(connection: SqliteConnection) -> Self {
        Self::new(Connection::Sqlite(connection))
    }

    fn new(connection: Connection) -> Self {
        Self {
            connection: Arc::new(Mutex::new(connection)),
            uses: 0,
        }
    }

    /// Makes the row.
    pub(crate) async fn create(&mut self, name: &str) -> anyhow::Result<()> {
        let values = self.values(name);
        let changed = match &mut *self.connection.lock().await {
            Connection::Postgres(connection) => postgres::create(connection, &values).await?,
            Connection::MySql(connection) => mysql::create(connection, &values).await?,
            Connection::Sqlite(connection) => sqlite::create(connection, &values).await?,
        };
        expect(1, changed, name)
    }

    /// Writes what a taken lock has in its row: four columns.
    pub(crate) async fn take(&mut self, name: &str) -> anyhow::Result<()> {
        let values = self.values(name);
        let changed = match &mut *self.connection.lock().await {
            Connection::Postgres(connection) => postgres::take(connection, &values).await?,
            Connection::MySql(connection) => mysql::take(connection, &values).await?,
            Connection::Sqlite(connection) => sqlite::take(connection, &values).await?,
        };
        expect(1, changed, name)
    }

    /// Writes when the lock is free: one column.
    pub(crate) async fn free(&mut self, name: &str) -> anyhow::Result<()> {
        let values = self.values(name);
        let changed = match &mut *self.connection.lock().await {
            Connection::Postgres(connection) => postgres::free(connection, &values).await?,
            Connection::MySql(connection) => mysql::free(connection, &values).await?,
            Connection::Sqlite(connection) => sqlite::free(connection, &values).await?,
        };
        expect(1, changed, name)
    }

    /// As [`Bare::take`], under a condition that never holds.
    pub(crate) async fn miss(&mut self, name: &str) -> anyhow::Result<()> {
        let values = self.values(name);
        let changed = match &mut *self.connection.lock().await {
            Connection::Postgres(connection) => postgres::miss(connection, &values).await?,
            Connection::MySql(connection) => mysql::miss(connection, &values).await?,
            Connection::Sqlite(connection) => sqlite::miss(connection, &values).await?,
        };
        expect(0, changed, name)
    }

    fn values<'a>(&mut self, name: &'a str) -> Values<'a> {
        self.uses += 1;
        Values {
            name,
            // As long as an owner of ours.
            owner: format!("bench-host/4711/{:016x}", self.uses),
            n: self.uses,
        }
    }
}

fn expect(rows: u64, changed: u64, name: &str) -> anyhow::Result<()> {
    anyhow::ensure!(
        changed == rows,
        "the bare statement on {name} changed {changed} rows instead of {rows}"
    );
    Ok(())
}

impl Values<'_> {
    fn token(&self) -> i64 {
        i64::try_from(self.n).unwrap_or(i64::MAX)
    }

    /// Milliseconds since 1970: 2026, a millisecond later at each use.
    fn millis(&self) -> i64 {
        1_767_225_600_000 + self.token()
    }

    /// The same ten minutes later.
    fn end_millis(&self) -> i64 {
        self.millis() + 600_000
    }
}
