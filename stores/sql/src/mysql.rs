//! The provider over MySQL and MariaDB.

use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{Error, ErrorKind};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{ConnectOptions as _, MySql, MySqlPool};

use crate::address::{Address, MAX_CONNECTIONS, duration, flag};
use crate::builder::Builder;
use crate::driver::{Backend as _, Connections};
use crate::flow::Flow;

/// Locks in a table of MySQL (5.7 or later) or MariaDB (10.2 or later), shared with ShedLock's
/// JDBC providers.
///
/// Clones share everything. Cheap to make: nothing is asked of the server before the first use.
///
/// # Time zones
///
/// ShedLock's `TIMESTAMP` columns are written and read through the time zone of a session. Here
/// every statement runs in a zone of its own, UTC, whatever the session's is, so that Rust services
/// need not agree on anything. Where Java's sessions run in another zone, that is named with
/// [`shared_session_zone`](Builder::shared_session_zone); until it is, a table on a server that
/// starts its sessions in another zone than UTC brings a warning.
///
/// MySQL before 8.0.17 cannot run one statement in another zone: there a session in the wrong zone
/// is refused with a `Configuration` error. sqlx's own sessions are in UTC unless told otherwise.
#[derive(Clone, Debug)]
pub struct MySqlProvider {
    flow: Arc<Flow<MySql>>,
}

impl MySqlProvider {
    /// Over the user's own pool, with all defaults.
    ///
    /// Each operation takes a connection for one statement at a time and never a transaction, so
    /// it neither sees nor joins those of the application. A pool of sqlx asks the server after
    /// each use whether the connection still lives; [`connect`](Self::connect) does without.
    ///
    /// The sessions of the pool must have autocommit on, as sqlx's have.
    pub fn new(pool: MySqlPool) -> Self {
        Self::builder(pool)
            .build()
            .expect("the defaults are valid settings")
    }

    /// Over the user's own pool.
    pub fn builder(pool: MySqlPool) -> Builder<MySql> {
        Builder::new(pool)
    }

    /// From a URL, with connections of its own that are made when they are needed.
    ///
    /// `mysql://user:password@host:3306/database?table=…` (or `mariadb://`): beside the driver's
    /// options (`ssl-mode`, `ssl-ca`, `charset`, `socket`, …) the URL takes `table`, `schema`,
    /// `name_column`, `lock_until_column`, `locked_at_column`, `locked_by_column`, `time` (`store`
    /// or `client`), `lock_at_most_for`, `lock_at_least_for`, `owner_prefix`, `max_connections`
    /// (4), `acquire_timeout` (10s), `timeout` (10s), `prepared` (true), `shared_session_zone` and `server_skew` (0s);
    /// what they do is said at the methods of [`Builder`].
    ///
    /// # Errors
    /// `InvalidInput` for a URL that cannot be read and for unknown options; `Unavailable` and
    /// `Configuration` where the server cannot be reached, or refuses us. The URL and its password
    /// are in no error.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let provider = Self::from_url(url).map_err(|error| error.with_store(MySql::STORE))?;
        provider.flow.reach().await?;
        Ok(provider)
    }

    /// No I/O.
    pub(crate) fn from_url(url: &str) -> Result<Self, Error> {
        Self::described(url).map_err(|error| error.of_url(url))
    }

    fn described(url: &str) -> Result<Self, Error> {
        let special = &["prepared", "shared_session_zone", "server_skew"];
        let address = Address::parse(url, special, DRIVER_OPTIONS)?;
        let mut settings = address.settings;
        for (key, value) in &address.special {
            match key.as_str() {
                "prepared" => settings.prepared = flag(key, value)?,
                "server_skew" => settings.server_skew = duration(key, value)?,
                // In a URL a plus sign stands for a blank.
                _ => settings.session_zone = Some(value.replace(' ', "+")),
            }
        }
        let connect = MySqlConnectOptions::from_url(&address.url).map_err(|error| {
            Error::new(
                ErrorKind::InvalidInput,
                "the store's URL has an option that the driver cannot use; its reason is the \
                 source",
            )
            .with_source(error)
        })?;
        let options = settings.check::<MySql>()?;
        // For servers on which a statement cannot choose its zone.
        let zone = options.session_zone.as_deref().unwrap_or("+00:00");
        let connect = connect.timezone(Some(zone.to_owned()));
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

impl Builder<MySql> {
    /// The time zone of the sessions in which Java's ShedLock uses the same table: `+05:30`,
    /// `SYSTEM` (the server's own), or a name that the server knows (`Asia/Kolkata`).
    ///
    /// ShedLock's db-time writes the wall clock of UTC into `TIMESTAMP` columns, and the server
    /// takes it for the wall clock of Java's session. Unless that session is in UTC, the instants
    /// in the table are off by its offset; with the zone named here, they are written and read in
    /// the same way, and [`inspect`](shedlock_core::LockProvider::inspect) still shows the right
    /// ones. All Rust services on the table must name the same zone. `DATETIME` columns need none
    /// of this. (Java's client-time in the zone of its JVM, on sessions of that same zone, writes
    /// right instants: then the zone to name is `+00:00`.)
    ///
    /// A zone with summer time has a price, as it has for Java: in the hour that is skipped in
    /// spring the server refuses to take a lock, with an `InvalidInput` error of a time out of
    /// range. Use a fixed offset for such sessions where you can.
    ///
    /// Unless set, UTC is used, and a warning is logged where the server starts its sessions in
    /// another zone. Naming `+00:00` here says that this is right.
    pub fn shared_session_zone(mut self, zone: impl Into<String>) -> Self {
        self.settings.session_zone = Some(zone.into());
        self
    }

    /// Whether statements are prepared on the server: true unless set. Without, values are
    /// written into the statements as literals: for proxies that cannot keep prepared statements.
    pub fn prepared(mut self, prepared: bool) -> Self {
        self.settings.prepared = prepared;
        self
    }

    /// How far apart the clocks may be of servers that judge leases of this table, one after another
    /// or, in a cluster with several writers, side by side: zero unless set. See the documentation of
    /// the crate on [failover](crate#failover-and-several-writers).
    pub fn server_skew(mut self, skew: Duration) -> Self {
        self.settings.server_skew = skew;
        self
    }

    /// The provider; no I/O.
    ///
    /// # Errors
    /// `InvalidInput` for names that cannot be names, for what cannot be a time zone, and for
    /// defaults that cannot hold.
    pub fn build(self) -> Result<MySqlProvider, Error> {
        Ok(MySqlProvider {
            flow: Arc::new(self.flow()?),
        })
    }
}

/// What sqlx reads from a URL of MySQL. Not the session's zone: that one is ours to choose.
const DRIVER_OPTIONS: &[&str] = &[
    "sslmode",
    "ssl-mode",
    "sslca",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "charset",
    "collation",
    "statement-cache-capacity",
    "socket",
];

crate::provider::provider!(MySqlProvider, MySql);
