//! The provider over SQLite.

mod file;
mod filesystem;

use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use shedlock_core::Schema;
use shedlock_provider::{FromUrl, Result, StoreProvider, UrlOptions, invalid};
use sqlx::error::DatabaseError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Sqlite};

use crate::call::SqlStore;
use crate::dialect::Dialect;
use crate::dialect::sqlite::SQLITE;
use crate::driver::{Driver, sqlx as by_sqlx};
use crate::failure::Class;
use crate::options::TIMEOUT;
use crate::url::Address;

/// Stores locks in a table of a SQLite file, for the processes of one machine.
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// # runtime.block_on(async {
/// # let folder = tempfile::tempdir().unwrap();
/// use shedlock::{Attempt, AttemptRequest, LockName, LockProvider as _, Owner};
/// use std::time::Duration;
///
/// let provider = shedlock::open_sqlite(folder.path().join("locks.db")).await?;
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

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The driver panics for values that exceed 32 bits of milliseconds.
const LONGEST_BUSY_TIMEOUT: Duration = Duration::from_secs(86_400);

pub(crate) struct Place {
    path: PathBuf,
    create: bool,
    allow_network_fs: bool,
    busy_timeout: Duration,
}

impl FromUrl for SqlStore<Sqlite> {
    const NAME: &'static str = Sqlite::STORE;

    type Store = Self;

    async fn from_url(url: &str) -> Result<SqliteProvider> {
        let (address, place) = described(url)?;
        Self::at(address, place).await
    }

    async fn again_from_url(url: &str) -> Result<SqliteProvider> {
        let (address, place) = described(url)?;
        Self::at(address, place.existing()).await
    }

    async fn schema(url: &str) -> Result<Schema> {
        let (address, _) = described(url)?;
        Ok(SQLITE.schema(&SQLITE.options(address.settings)?))
    }

    /// The file is already open.
    async fn reach(_: &Self) -> Result<()> {
        Ok(())
    }
}

/// Opens the file at this path, like `SqliteProvider::connect` without options.
///
/// # Errors
/// `Configuration` if the directory or file cannot be created or written, and for a network file system.
pub async fn open_sqlite(path: impl AsRef<Path>) -> Result<SqliteProvider> {
    let path = path.as_ref().to_owned();
    let opened = open(Place::of(path.clone())).await?;
    Ok(opened.reopened_by(move || open(Place::of(path.clone()).existing())))
}

async fn open(place: Place) -> Result<SqliteProvider> {
    let opened = SqlStore::at(Address::parse("sqlite:")?, place).await;
    opened.map_err(|error| error.with_store(Sqlite::STORE))
}

/// Parses a URL. Nothing is opened.
pub(crate) fn described(url: &str) -> Result<(Address, Place)> {
    let mut address = Address::parse(url)?;
    let place = Place::read(url, &mut address.options)?;
    address.for_driver("")?;
    Ok((address, place))
}

impl SqlStore<Sqlite> {
    async fn at(mut address: Address, place: Place) -> Result<SqliteProvider> {
        // If a statement may wait longer for other writers, a call may take longer.
        let timeout = TIMEOUT.max(place.busy_timeout * 2);
        address.settings.timeout.get_or_insert(timeout);
        let connect = SqliteConnectOptions::new()
            .filename(&place.path)
            .create_if_missing(false)
            .busy_timeout(place.busy_timeout)
            .synchronous(SqliteSynchronous::Full)
            .disable_statement_logging();
        let store = address.store(connect.clone(), 1)?;
        let (path, create) = (place.path.clone(), place.create);
        let is_created = file::prepare(place, &connect, &store.options.clock).await?;
        let call = store.call();
        let explained = |error| file::explained(error, &path);
        if create && call.create_if_missing().await.map_err(explained)? {
            let new = if is_created { "the new file " } else { "" };
            let change = format!("created table {} in {new}{path:?}", store.options.table);
            let created = store.created.lock();
            created.unwrap_or_else(PoisonError::into_inner).push(change);
            // From now on the file has the pages, and not only its log.
            call.make_space().await;
        }
        // As on a server: the first call about a lock reports that the table is missing.
        call.check_unless_to_migrate().await.map_err(explained)?;
        Ok(store.provider())
    }
}

impl Place {
    /// With default settings.
    fn of(path: PathBuf) -> Self {
        Self {
            path,
            create: true,
            allow_network_fs: false,
            busy_timeout: BUSY_TIMEOUT,
        }
    }

    /// Nothing is created.
    fn existing(self) -> Self {
        Self {
            create: false,
            ..self
        }
    }

    fn read(url: &str, options: &mut UrlOptions) -> Result<Self> {
        // A path must not be split into a URL's host and path: `sqlite://locks.db` is a file here.
        let path = url.split(['?', '#']).next().unwrap_or_default();
        let path = path.split_once(':').map_or(path, |(_, rest)| rest);
        let path = path.strip_prefix("//").unwrap_or(path);
        let path = percent_decode_str(path).decode_utf8().map_err(|error| {
            invalid("the path in the store's URL is not UTF-8")
                .advise("use another path")
                .with_source(error)
        })?;
        if path.is_empty() {
            return Err(invalid("the store's URL has no file")
                .advise("write sqlite:FILE, like sqlite:/var/lib/app/locks.db"));
        }
        if path.contains(":memory:") {
            return Err(invalid(
                "an in-memory database cannot hold locks: it is visible to one connection only",
            )
            .advise(
                "write sqlite:FILE, like sqlite:/var/lib/app/locks.db (tests written in Rust can \
                 use `MemoryProvider`)",
            ));
        }
        let busy_timeout = options.duration("busy_timeout")?.unwrap_or(BUSY_TIMEOUT);
        if busy_timeout > LONGEST_BUSY_TIMEOUT {
            return Err(invalid(
                "option \"busy_timeout\" in the URL must be at most a day",
            ));
        }
        Ok(Self {
            path: PathBuf::from(&*path),
            create: options.flag("create")?.unwrap_or(true),
            allow_network_fs: options.flag("allow_network_fs")?.unwrap_or(false),
            busy_timeout,
        })
    }
}

impl Driver for Sqlite {
    const STORE: &'static str = "sqlite";

    const DIALECT: &'static Dialect = &SQLITE;

    by_sqlx::execution!(Sqlite, |_| None);
}

fn classify(error: &dyn DatabaseError) -> Class {
    // SQLite has one code for everything that is wrong with a statement. Its texts have not changed in twenty years.
    let message = error.message();
    let is_about_shape = message.starts_with("no such table")
        || message.contains("no such column")
        || message.starts_with("table ") && message.contains(" has no column named ");
    let is_about_existing =
        message.contains(" already exists") || message.starts_with("duplicate column name");
    match primary_code(error) {
        // Anything that is wrong with a statement.
        1 if message == HELD => Class::Held,
        1 if message == INSIDE => Class::Inside,
        1 if is_about_shape => Class::Shape,
        1 if is_about_existing => Class::Exists,
        // Busy, locked, out of memory.
        5..=7 => Class::Busy,
        FULL => Class::Full,
        8 => Class::ReadOnly,
        // No permission, cannot be opened, not authorized.
        3 | 14 | 23 => Class::Privilege,
        // How much of a write was done when the disk failed is unknown.
        10 => Class::ReplyLost,
        17 => Class::Shape,
        18 => Class::TooLong,
        19 => Class::Constraint(None),
        _ => Class::Other,
    }
}

fn at_login(_: &dyn DatabaseError) -> Option<Class> {
    None
}

/// The primary code of a disk without space.
const FULL: i32 = 13;

/// The low byte of a code; the other bytes add details.
fn primary_code(error: &dyn DatabaseError) -> i32 {
    let code = error.code().unwrap_or_default();
    code.parse::<i32>().unwrap_or_default() & 0xff
}

/// The error of a `BEGIN` in a transaction.
const INSIDE: &str = "cannot start a transaction within a transaction";

/// The error with which an attempt stops between its two statements.
const HELD: &str = "integer overflow";
