//! The provider over PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{Error, ErrorKind};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, PgPool, Postgres};

use crate::address::{Address, MAX_CONNECTIONS, duration, flag};
use crate::builder::Builder;
use crate::driver::{Backend as _, Connections};
use crate::flow::Flow;

/// Locks in a table of PostgreSQL, shared with ShedLock's JDBC providers.
///
/// Clones share everything. Cheap to make over a pool: nothing is asked of the server before the
/// first use.
///
/// ```no_run
/// # async fn example(pool: sqlx::PgPool) -> Result<(), shedlock_core::Error> {
/// use shedlock_sql::PostgresProvider;
///
/// // The user's own pool, another table:
/// let provider = PostgresProvider::builder(pool).table("jobs.shedlock").build()?;
///
/// // Connections of its own, through PgBouncer in transaction pooling:
/// let url = "postgres://app:secret@pgbouncer:6432/app?prepared=false";
/// let provider = PostgresProvider::connect(url).await?;
/// # Ok(()) }
/// ```
///
/// `timestamp` columns hold UTC wall time, as ShedLock's db-time mode has it, and `timestamptz`
/// columns instants; the session's time zone changes neither. ShedLock itself writes `timestamptz`
/// columns rightly only from sessions in UTC.
///
/// An attempt that meets a record which another transaction keeps locked waits for it, at most as
/// long as `lock_timeout` lets it: connections of its own set that to 5 s unless something else is
/// set; for a pool it is the user's to set.
///
/// An acquisition, an extension and the mark of a slot that must not be lost are answered when they
/// are on the server's disk, also in sessions whose `synchronous_commit` is off: the statement raises
/// it to `local` for its own transaction, and leaves the session as it was. What the session waits for
/// beyond that (standbys) it waits for.
#[derive(Clone, Debug)]
pub struct PostgresProvider {
    flow: Arc<Flow<Postgres>>,
}

impl PostgresProvider {
    /// Over the user's own pool, with all defaults.
    ///
    /// Each operation takes a connection for one statement at a time and never a transaction, so
    /// it neither sees nor joins those of the application. A pool of sqlx asks the server after
    /// each use whether the connection still lives; [`connect`](Self::connect) does without.
    pub fn new(pool: PgPool) -> Self {
        Self::builder(pool)
            .build()
            .expect("the defaults are valid settings")
    }

    /// Over the user's own pool.
    pub fn builder(pool: PgPool) -> Builder<Postgres> {
        Builder::new(pool)
    }

    /// From a URL, with connections of its own that are made when they are needed.
    ///
    /// `postgres://user:password@host:5432/database?table=…`: beside the driver's options
    /// (`sslmode`, `sslrootcert`, `application_name`, …) the URL takes `table`, `schema`,
    /// `name_column`, `lock_until_column`, `locked_at_column`, `locked_by_column`, `time` (`store`
    /// or `client`), `lock_at_most_for`, `lock_at_least_for`, `owner_prefix`, `max_connections`
    /// (4), `acquire_timeout` (10s), `timeout` (10s), `prepared` (true), `durable_unlock` (false) and `server_skew`
    /// (0s); what they do is said at the methods of [`Builder`].
    ///
    /// # Errors
    /// `InvalidInput` for a URL that cannot be read and for unknown options; `Unavailable` and
    /// `Configuration` where the server cannot be reached, or refuses us. The URL and its password
    /// are in no error.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let provider = Self::from_url(url).map_err(|error| error.with_store(Postgres::STORE))?;
        provider.flow.reach().await?;
        Ok(provider)
    }

    /// No I/O.
    pub(crate) fn from_url(url: &str) -> Result<Self, Error> {
        Self::described(url).map_err(|error| error.of_url(url))
    }

    fn described(url: &str) -> Result<Self, Error> {
        let special = &["prepared", "durable_unlock", "server_skew"];
        let address = Address::parse(url, special, DRIVER_OPTIONS)?;
        let mut settings = address.settings;
        for (key, value) in &address.special {
            match key.as_str() {
                "prepared" => settings.prepared = flag(key, value)?,
                "server_skew" => settings.server_skew = duration(key, value)?,
                _ => settings.durable_unlock = flag(key, value)?,
            }
        }
        let mut connect = PgConnectOptions::from_url(&address.url).map_err(|error| {
            Error::new(
                ErrorKind::InvalidInput,
                "the store's URL has an option that the driver cannot use; its reason is the \
                 source",
            )
            .with_source(error)
        })?;
        if !settings.prepared {
            // PgBouncer knows few parameters of a session and turns away those it does not know.
            connect = connect.extra_float_digits(None).statement_cache_capacity(0);
        }
        let options = settings.check::<Postgres>()?;
        let connections = Connections::own(
            connect.disable_statement_logging(),
            address.max_connections.unwrap_or(MAX_CONNECTIONS),
            address.acquire_timeout,
            &options,
        );
        Ok(Self {
            flow: Arc::new(Flow::new(connections, options)),
        })
    }
}

impl Builder<Postgres> {
    /// Whether statements are prepared on the server: true unless set. Without, values are
    /// written into the statements as literals, each statement stays one round trip, and nothing
    /// is left behind in a session: for PgBouncer in transaction or statement pooling.
    pub fn prepared(mut self, prepared: bool) -> Self {
        self.settings.prepared = prepared;
        self
    }

    /// Whether an unlock waits until it is on the server's disk: false unless set. A crash of the
    /// server may then lose the unlocks of its last moments (three times its `wal_writer_delay`, so
    /// 0.6 s as shipped), and their leases run to their ends. Acquisitions, extensions, and unlocks
    /// that end a slot which must not be lost always wait, also in sessions whose
    /// `synchronous_commit` is off.
    pub fn durable_unlock(mut self, durable: bool) -> Self {
        self.settings.durable_unlock = durable;
        self
    }

    /// How far apart the clocks may be of servers that judge leases of this table, one after another:
    /// zero unless set. See the documentation of the crate on
    /// [failover](crate#failover-and-several-writers).
    pub fn server_skew(mut self, skew: Duration) -> Self {
        self.settings.server_skew = skew;
        self
    }

    /// The provider; no I/O.
    ///
    /// # Errors
    /// `InvalidInput` for names that cannot be names, and for defaults that cannot hold.
    pub fn build(self) -> Result<PostgresProvider, Error> {
        Ok(PostgresProvider {
            flow: Arc::new(self.flow()?),
        })
    }
}

/// What sqlx reads from a URL of PostgreSQL.
const DRIVER_OPTIONS: &[&str] = &[
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
    "options[",
];

crate::provider::provider!(PostgresProvider, Postgres);
