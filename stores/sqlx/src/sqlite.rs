//! The provider over SQLite.

use std::path::Path;

use shedlock_core::Schema;
use shedlock_provider::{Result, StoreProvider};
use shedlock_sql::SqlStore;
use shedlock_sql::driver::{
    Class, Dialect, Driver, Embedded, File, Open, Reports, open_path, sqlite,
};
use sqlx::ConnectOptions as _;
use sqlx::error::DatabaseError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};

use crate::execution;

/// Stores locks in a table of a SQLite file, for the processes of one machine.
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// # runtime.block_on(async {
/// # let folder = tempfile::tempdir().unwrap();
/// use shedlock::{Attempt, AttemptRequest, LockName, LockProvider as _, Owner};
/// use std::time::Duration;
///
/// let provider = shedlock_sqlx::open_sqlite(folder.path().join("locks.db")).await?;
/// let name = LockName::new("payroll")?;
/// let request = AttemptRequest::new(name, Owner::generate(), Duration::from_secs(600));
/// assert!(matches!(provider.attempt(&request).await?, Attempt::Acquired(_)));
/// # Ok::<(), shedlock::Error>(()) }).unwrap();
/// ```
///
/// Any number of processes may use one file. On a network file system, file locks and the shared memory that SQLite needs
/// are not reliable, so `connect` refuses the network file systems that it recognizes.
///
/// An attempt takes two statements, sent together, instead of the one that servers need. The first only reads, because any
/// write, even one that changes nothing, takes the file's only write lock. So an attempt that finds the lock held writes
/// nothing and blocks no other process.
///
/// A pool that is passed to `builder` must be over a file. One in memory excludes no other process, and ends with its
/// connection, which the provider closes if a reply is lost: the whole database is deleted then.
///
/// # The URL
///
/// `sqlite:locks.db` or `sqlite:///var/lib/app/locks.db?table=…`.
///
/// A missing file is created, with its directory, in WAL mode and readable only by its user. A missing table is created too.
/// An existing file keeps its journal mode, and an existing table keeps its columns
/// ([`migrate`](shedlock_core::LockProvider::migrate) adds missing ones).
///
/// The URL accepts `table`, `schema`, `name_column`, `lock_until_column`, `locked_at_column`, `locked_by_column`, `time`
/// (`store` or `client`), `lock_at_most_for`, `lock_at_least_for`, `owner_prefix`, `max_connections` (1, so that the
/// writers of one process queue instead of polling for the file's lock), `connect_timeout` (10s), `timeout` (how long a
/// call may take: 10s, or twice `busy_timeout` if that is longer), `busy_timeout` (how long a statement waits while
/// another process writes: 5s; at most one day), `create` (true: whether to create a missing file or table) and
/// `allow_network_fs` (false).
pub type SqliteProvider = StoreProvider<SqlStore<Sqlite>>;

/// SQLite over sqlx.
#[derive(Debug)]
pub enum Sqlite {}

impl Open for Sqlite {
    async fn open(url: &str) -> Result<SqliteProvider> {
        let (address, file) = File::described(url)?;
        file.open(address).await
    }

    async fn open_again(url: &str) -> Result<SqliteProvider> {
        let (address, file) = File::described(url)?;
        file.existing().open(address).await
    }

    async fn schema(url: &str) -> Result<Schema> {
        File::schema(url)
    }

    fn address_of(_: &SqlStore<Self>, _: &str) -> Option<String> {
        None
    }

    /// The file is already open.
    async fn reach(_: &SqlStore<Self>) -> Result<()> {
        Ok(())
    }
}

impl Reports for Sqlite {
    fn options(pool: &Self::Pool) -> Self::Options {
        pool.connect_options().as_ref().clone()
    }
}

impl Embedded for Sqlite {
    fn options(file: &File) -> SqliteConnectOptions {
        SqliteConnectOptions::new()
            .filename(file.path())
            .create_if_missing(false)
            .busy_timeout(file.busy_timeout())
            .synchronous(SqliteSynchronous::Full)
            .disable_statement_logging()
    }
}

/// Opens the file at this path, like `SqliteProvider::connect` without options.
///
/// # Errors
/// `Configuration` if the directory or file cannot be created or written, and for a network file system.
pub async fn open_sqlite(path: impl AsRef<Path>) -> Result<SqliteProvider> {
    open_path::<Sqlite>(path.as_ref().to_owned()).await
}

impl Driver for Sqlite {
    const STORE: &'static str = "sqlite";

    const DIALECT: &'static Dialect = &sqlite::SQLITE;

    execution::execution!(sqlx::Sqlite, |_| None);
}

fn classify(error: &dyn DatabaseError) -> Class {
    sqlite::classify(code(error), error.message())
}

fn at_login(error: &dyn DatabaseError) -> Option<Class> {
    sqlite::at_login(code(error))
}

fn code(error: &dyn DatabaseError) -> i32 {
    let code = error.code().and_then(|code| code.parse().ok());
    code.unwrap_or_default()
}
