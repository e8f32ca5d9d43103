//! The provider over MySQL and MariaDB.

use shedlock_store::{Result, StoreProvider};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{ConnectOptions as _, MySql};

use crate::builder::Builder;
use crate::store::SqlStore;
use crate::url::{Address, Remote, refused_by_driver};
use crate::zone;

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
///
/// # The URL
///
/// `connect` keeps connections of its own, which are made when they are needed.
///
/// `mysql://user:password@host:3306/database?table=…` (or `mariadb://`): beside the driver's
/// options (`ssl-mode`, `ssl-ca`, `charset`, `socket`, …) the URL takes `table`, `schema`,
/// `name_column`, `lock_until_column`, `locked_at_column`, `locked_by_column`, `time` (`store`
/// or `client`), `lock_at_most_for`, `lock_at_least_for`, `owner_prefix`, `max_connections`
/// (4), `connect_timeout` (10s), `timeout` (10s), `prepared` (true), `shared_session_zone` and `server_skew` (0s);
/// what they do is said at the methods of [`Builder`].
pub type MySqlProvider = StoreProvider<SqlStore<MySql>>;

impl Remote for MySql {
    fn read(address: &mut Address) -> Result<MySqlConnectOptions> {
        // In a URL a plus sign stands for a blank.
        let zone = address.options.text("shared_session_zone")?;
        let zone = zone.map(|zone| zone::parse(&zone.replace(' ', "+")));
        address.settings.shared_session_zone = zone.transpose()?;
        let url = address.for_driver(DRIVER_OPTIONS)?;
        let connect = MySqlConnectOptions::from_url(&url).map_err(refused_by_driver)?;
        // For servers on which a statement cannot choose its zone.
        let zone = address.settings.zone().to_owned();
        Ok(connect.timezone(Some(zone)).disable_statement_logging())
    }
}

impl Builder<MySql> {
    shedlock_store::setters! { [settings]
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
        shared_session_zone(zone: impl Into<String>) = Some(zone.into());
    }
}

/// What sqlx reads from a URL of MySQL. Not the session's zone: that one is ours to choose.
const DRIVER_OPTIONS: &str = "sslmode ssl-mode sslca ssl-ca sslcert ssl-cert sslkey ssl-key charset collation \
     statement-cache-capacity socket";
