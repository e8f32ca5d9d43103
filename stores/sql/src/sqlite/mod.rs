//! The provider over SQLite.

mod file;
mod filesystem;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use shedlock_core::{Error, ErrorKind, parse_duration};
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Sqlite, SqlitePool};

use crate::address::{Address, flag};
use crate::builder::Builder;
use crate::driver::{Backend as _, Connections};
use crate::flow::Flow;
use crate::options::TIMEOUT;

/// Locks in a table of a SQLite file: for the processes of one machine.
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// # runtime.block_on(async {
/// # let folder = tempfile::tempdir().unwrap();
/// use shedlock_core::{Attempt, AttemptRequest, LockName, LockProvider as _, Owner};
/// use shedlock_sql::SqliteProvider;
/// use std::time::Duration;
///
/// let provider = SqliteProvider::open(folder.path().join("locks.db")).await?;
/// let name = LockName::new("payroll")?;
/// let request = AttemptRequest::new(name, Owner::generate(), Duration::from_secs(600));
/// assert!(matches!(provider.attempt(&request).await?, Attempt::Acquired(_)));
/// # Ok::<(), shedlock_core::Error>(()) }).unwrap();
/// ```
///
/// Any number of processes may use one file. On a network file system the locks of files, or the
/// shared memory that SQLite needs, cannot be relied on, so [`connect`](Self::connect) refuses
/// those it recognizes.
///
/// An attempt takes two statements, sent together, instead of the one that servers need: it looks
/// first, since any write takes the one write lock of the file, also a write that changes nothing.
/// Who finds the lock held has written nothing and stood in nobody's way.
#[derive(Clone, Debug)]
pub struct SqliteProvider {
    flow: Arc<Flow<Sqlite>>,
}

/// How long a statement waits for the file's write lock, unless set.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The driver panics for what does not fit 32 bits of milliseconds.
const LONGEST_BUSY_TIMEOUT: Duration = Duration::from_secs(86_400);

/// What is ours alone in a URL of SQLite.
const SPECIAL: &[&str] = &["busy_timeout", "create", "allow_network_fs"];

/// What is set for a file.
struct Place {
    path: PathBuf,
    create: bool,
    allow_network_fs: bool,
    busy_timeout: Duration,
}

impl SqliteProvider {
    /// Over the user's own pool, with all defaults. The file, its journal mode and its table are
    /// the user's to make; see [`migrate`](shedlock_core::LockProvider::migrate).
    pub fn new(pool: SqlitePool) -> Self {
        Self::builder(pool)
            .build()
            .expect("the defaults are valid settings")
    }

    /// Over the user's own pool.
    pub fn builder(pool: SqlitePool) -> Builder<Sqlite> {
        Builder::new(pool)
    }

    /// From the path of a file, as [`connect`](Self::connect) with no options.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let address = Address::parse("sqlite:", SPECIAL, &[])?;
        let place = Place {
            path: path.as_ref().to_owned(),
            create: true,
            allow_network_fs: false,
            busy_timeout: BUSY_TIMEOUT,
        };
        Self::at(address, place).await
    }

    /// From a URL: `sqlite:locks.db` or `sqlite:///var/lib/app/locks.db?table=…`.
    ///
    /// A file that is missing is made, in WAL mode and readable by its user alone, with the folder
    /// it lies in; a table that is missing is made too. A file that is there keeps its journal
    /// mode, a table that is there its columns
    /// ([`migrate`](shedlock_core::LockProvider::migrate) adds what it may lack).
    ///
    /// The URL takes `table`, `schema`, `name_column`, `lock_until_column`, `locked_at_column`,
    /// `locked_by_column`, `time` (`store` or `client`), `lock_at_most_for`, `lock_at_least_for`,
    /// `owner_prefix`, `max_connections` (1: writers of one process then take turns instead of
    /// polling for the file's lock), `acquire_timeout` (10s), `timeout` (10s, or
    /// twice `busy_timeout` where that is longer: how long a call may take), `busy_timeout` (5s: how long a
    /// statement waits while another process writes; a day at the most), `create` (true) and `allow_network_fs`
    /// (false).
    ///
    /// # Errors
    /// `InvalidInput` for a URL that cannot be read, unknown options and a database in memory;
    /// `Configuration` where the folder or file cannot be made or written, and for a network file
    /// system.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let named = |error: Error| error.with_store(Sqlite::STORE);
        let address = Address::parse(url, SPECIAL, &[]).map_err(named)?;
        let place = Place::read(url, &address).map_err(named)?;
        Self::at(address, place).await
    }

    /// As far as [`connect`](Self::connect) goes without a file.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn check_url(url: &str) -> Result<(), Error> {
        let address = Address::parse(url, SPECIAL, &[])?;
        Place::read(url, &address)?;
        address.settings.check::<Sqlite>().map(drop)
    }

    async fn at(mut address: Address, place: Place) -> Result<Self, Error> {
        // Whoever waits longer for other writers waits longer for an answer.
        let timeout = TIMEOUT.max(place.busy_timeout * 2);
        address.settings.timeout.get_or_insert(timeout);
        let named = |error: Error| error.with_store(Sqlite::STORE);
        let options = address.settings.check::<Sqlite>().map_err(named)?;
        let connect = SqliteConnectOptions::new()
            .filename(&place.path)
            .create_if_missing(false)
            .busy_timeout(place.busy_timeout)
            .synchronous(SqliteSynchronous::Full)
            .disable_statement_logging();
        file::prepare(place, &connect, &options.clock)
            .await
            .map_err(named)?;
        let connections = Connections::own(
            connect,
            address.max_connections.unwrap_or(1),
            address.acquire_timeout,
            &options,
        );
        let flow = Flow::new(connections, options);
        flow.create_if_missing().await?;
        Ok(Self {
            flow: Arc::new(flow),
        })
    }
}

impl Place {
    fn read(url: &str, address: &Address) -> Result<Self, Error> {
        // A path is not what a URL's host and path make of it: `sqlite://locks.db` is a file here.
        let path = url
            .split_once(':')
            .map_or(url, |(_, rest)| rest)
            .split(['?', '#'])
            .next()
            .unwrap_or_default();
        let path = path.strip_prefix("//").unwrap_or(path);
        let path = percent_decode_str(path).decode_utf8().map_err(|error| {
            invalid("the path in the store's URL is not UTF-8".to_owned()).with_source(error)
        })?;
        if path.is_empty() || path.contains(":memory:") {
            return Err(invalid(
                "a database in memory is seen by one connection alone, which is no lock: give the \
                 path of a file, or use the in-memory provider in tests"
                    .to_owned(),
            ));
        }
        let mut place = Self {
            path: PathBuf::from(&*path),
            create: true,
            allow_network_fs: false,
            busy_timeout: BUSY_TIMEOUT,
        };
        for (key, value) in &address.special {
            match key.as_str() {
                "create" => place.create = flag(key, value)?,
                "allow_network_fs" => place.allow_network_fs = flag(key, value)?,
                _ => {
                    place.busy_timeout = parse_duration(value).map_err(|error| {
                        invalid(format!("option {key:?} in the URL: {}", error.message()))
                    })?;
                    if place.busy_timeout > LONGEST_BUSY_TIMEOUT {
                        return Err(invalid(format!(
                            "option {key:?} in the URL is {value:?}: a day is the longest"
                        )));
                    }
                }
            }
        }
        Ok(place)
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

impl Builder<Sqlite> {
    /// The provider; no I/O.
    ///
    /// # Errors
    /// `InvalidInput` for names that cannot be names, and for defaults that cannot hold.
    pub fn build(self) -> Result<SqliteProvider, Error> {
        Ok(SqliteProvider {
            flow: Arc::new(self.flow()?),
        })
    }
}

crate::provider::provider!(SqliteProvider, Sqlite);
