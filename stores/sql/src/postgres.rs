//! The provider over PostgreSQL.

use shedlock_store::{Result, StoreProvider};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Postgres};

use crate::store::SqlStore;
use crate::url::{Address, Remote, refused_by_driver};

/// Locks in a table of PostgreSQL, shared with ShedLock's JDBC providers.
///
/// Clones share everything. Cheap to make over a pool: nothing is asked of the server before the
/// first use.
///
/// ```no_run
/// # async fn example(pool: sqlx::PgPool) -> Result<(), shedlock::Error> {
/// use shedlock::PostgresProvider;
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
///
/// # The URL
///
/// `connect` keeps connections of its own, which are made when they are needed.
///
/// `postgres://user:password@host:5432/database?table=…`: beside the driver's options
/// (`sslmode`, `sslrootcert`, `application_name`, …) the URL takes `table`, `schema`,
/// `name_column`, `lock_until_column`, `locked_at_column`, `locked_by_column`, `time` (`store`
/// or `client`), `lock_at_most_for`, `lock_at_least_for`, `owner_prefix`, `max_connections`
/// (4), `connect_timeout` (10s), `timeout` (10s), `prepared` (true), `durable_unlock` (false) and `server_skew`
/// (0s); what they do is said at the methods of [`Builder`](crate::Builder).
pub type PostgresProvider = StoreProvider<SqlStore<Postgres>>;

impl Remote for Postgres {
    fn read(address: &mut Address) -> Result<PgConnectOptions> {
        address.take_postgres()?;
        let url = address.for_driver(DRIVER_OPTIONS)?;
        let connect = PgConnectOptions::from_url(&url).map_err(refused_by_driver)?;
        let connect = connect.disable_statement_logging();
        if address.settings.prepared {
            return Ok(connect);
        }
        // PgBouncer knows few parameters of a session and turns away those it does not know.
        Ok(connect.extra_float_digits(None).statement_cache_capacity(0))
    }
}

impl crate::url::Postgres for Postgres {}

/// What sqlx reads from a URL of PostgreSQL.
const DRIVER_OPTIONS: &str = "sslmode ssl-mode sslrootcert ssl-root-cert ssl-ca sslcert ssl-cert sslkey ssl-key \
     statement-cache-capacity host hostaddr port dbname user password application_name \
     options options[";
