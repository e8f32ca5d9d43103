//! Settings of a provider over the user's own pool.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use shedlock_provider::{
    BesideClient, FromClient, NeedsNoSettings, Result, StoreProvider, TimeMode, VALID, internal,
};

use crate::call::SqlStore;
use crate::driver::{Connections, Driver, Logins};
use crate::options::{Options, Settings};

/// Configures how a provider finds and uses its table. Created by `builder` of a provider.
///
/// # Names of tables and columns
///
/// ShedLock does not quote its names, so the database may fold their case: on PostgreSQL the table name `shedLock` means
/// the table `shedlock`. The same names mean the same table here. A name in double quotes (`"\"ShedLock\""`) is used
/// exactly as written, for a table that was created with quotes. Names may contain ASCII letters, digits, `_`, `$` and
/// `-`. They are never spliced into a statement unquoted.
#[must_use = "a builder does nothing before `build`"]
pub struct Builder<D: Driver> {
    pub(crate) pool: D::Pool,
    pub(crate) settings: Settings,
    duties: Duties,
    /// The options for connections of its own, if all are to be so.
    beside: Option<D::Options>,
}

/// Where extensions and the ends of leases go when the user's pool gives no connection in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duties {
    /// Over one connection more, which is opened when it is first needed, with the options that the pool has then. A job
    /// keeps its lease although the application has taken all connections of the pool.
    #[default]
    Own,
    /// Over the pool only, for a database that gives each client a fixed number of connections. The price: while the
    /// application holds all of them, no lease is extended, and tasks are stopped when theirs ends.
    Pool,
}

/// A driver whose pools report how they connect.
pub trait Reports: Driver {
    /// The options with which the pool would open a session now.
    fn options(pool: &Self::Pool) -> Self::Options;
}

/// How many connections a provider beside a pool opens for locks, at most.
const BESIDE: usize = 2;

/// A database that runs as a server.
pub trait Server: Driver {}

/// PostgreSQL, by one of its drivers.
pub trait Postgres: Server {}

/// MySQL and MariaDB, by one of their drivers.
pub trait MySql: Server {}

impl<D: Driver> FromClient for SqlStore<D> {
    type Client = D::Pool;
    type Builder = Builder<D>;

    fn builder(pool: D::Pool) -> Builder<D> {
        Builder {
            pool,
            settings: Settings::default(),
            duties: Duties::default(),
            beside: None,
        }
    }
}

impl<D: Driver> NeedsNoSettings for SqlStore<D> {
    type Store = Self;

    fn with_defaults(pool: D::Pool) -> StoreProvider<Self> {
        Self::builder(pool).build().expect(VALID)
    }
}

impl<D: Reports> BesideClient for SqlStore<D> {
    fn beside(pool: &D::Pool) -> StoreProvider<Self> {
        let builder = Self::builder(pool.clone()).beside();
        builder.build().expect(VALID)
    }
}

impl<D: Reports> Builder<D> {
    /// Opens connections of its own, with the options that the pool has now, and leaves those of the pool to your program:
    /// at most four, each when it is first needed. Two are for locks, one is for the journal and one for the duties of
    /// running tasks ([`Duties::Own`]).
    pub fn beside(mut self) -> Self {
        self.beside = Some(D::options(&self.pool));
        self
    }
}

impl<D: Driver> Builder<D> {
    shedlock_provider::setters! { [settings]
        /// Sets the table. Default: `shedlock`. The name may include its schema: `jobs.shedlock`.
        ///
        /// If neither this nor the schema is set and the table is missing, but the database has other lock tables, then
        /// every call fails with `Configuration` and names them, and `migrate` creates nothing: otherwise a service that
        /// should share one of them would get a table of its own, and would exclude no one. To create a table beside
        /// them, set its name.
        table(table: impl Into<String>) = Some(table.into());

        /// Sets the table's schema (on MySQL and MariaDB: its database). Default: the connection's own.
        schema(schema: impl Into<String>) = Some(schema.into());

        /// Sets the column of the lock's name. Default: `name`.
        name_column(column: impl Into<String>) = column.into();

        /// Sets the column of the instant at which the lock becomes free. Default: `lock_until`.
        lock_until_column(column: impl Into<String>) = column.into();

        /// Sets the column of the instant of acquisition. Default: `locked_at`.
        locked_at_column(column: impl Into<String>) = column.into();

        /// Sets the column of the owner. Default: `locked_by`.
        locked_by_column(column: impl Into<String>) = column.into();

        /// Sets whose clock judges leases. Default: the database's.
        time(time: TimeMode) = time;

        /// Sets the time within which every call returns, whatever the server does. Default: 10 s.
        ///
        /// A call that gets no connection within three quarters of this time fails with `Unavailable` and has written
        /// nothing, however long the pool itself would wait. For an attempt, its own
        /// [timeout](shedlock_core::AttemptRequest::timeout) applies instead if it is shorter.
        timeout(timeout: Duration) = Some(timeout);
    }

    shedlock_provider::common_setters!(settings);

    /// Sets where extensions and the ends of leases go when the pool gives no connection in time. Default:
    /// [`Duties::Own`]. A driver whose pools do not report how they connect has only the pool.
    pub fn duties(mut self, duties: Duties) -> Self {
        self.duties = duties;
        self
    }

    /// Builds the provider. No I/O.
    ///
    /// # Errors
    /// `InvalidInput` for invalid names, an invalid time zone or invalid defaults.
    pub fn build(self) -> Result<StoreProvider<SqlStore<D>>> {
        let options = D::DIALECT.options(self.settings);
        let options = options.map_err(|error| error.with_store(D::STORE))?;
        let connections = match self.beside {
            Some(connect) => Connections::own(connect, BESIDE, options.timeout(), &options),
            None => Connections::pool(self.pool.clone(), &options),
        };
        let address = connections.address();
        let provider = SqlStore::new(connections, options.clone()).provider();
        let provider = provider.at(address);
        if self.duties == Duties::Pool || D::options_of(&self.pool).is_none() {
            return Ok(provider);
        }
        let (pool, plan) = (self.pool, provider.backend().plans.follow());
        let logins = provider.backend().connections.logins();
        Ok(provider.reopened_by(move || {
            let place = plan.borrow().as_ref().map(|plan| plan.place.clone());
            let logins = Arc::clone(&logins);
            let opened = beside(&pool, &options, place.unwrap_or_default(), logins);
            async move { opened }
        }))
    }
}

/// A provider over a connection of its own, with the options that the pool has now. It must prove that it sees the table
/// at this place.
fn beside<D: Driver>(
    pool: &D::Pool,
    options: &Options,
    place: String,
    logins: Arc<Logins>,
) -> Result<StoreProvider<SqlStore<D>>> {
    let connect = D::options_of(pool);
    let connect = connect.ok_or_else(|| internal("the pool has no options"))?;
    let connections = Connections::beside(connect, 1, options.timeout(), options, logins);
    let store = SqlStore::new(connections, options.clone());
    Ok(store.at_place(place).provider())
}

/// Settings for databases that run as a server.
impl<D: Server> Builder<D> {
    shedlock_provider::setters! { [settings]
        /// Sets the maximum clock skew between the servers that judge leases of this table, whether one after another
        /// (failover) or at the same time (a cluster with several writers). Default: zero. See
        /// [failover](crate#failover-and-several-writers) in the crate's documentation.
        server_skew(skew: Duration) = skew;
    }
}

/// Settings for PostgreSQL.
impl<D: Postgres> Builder<D> {
    shedlock_provider::setters! { [settings]
        /// Sets whether an unlock waits until it is on the server's disk. Default: false.
        ///
        /// If false, a crash of the server may lose the unlocks of the last moments (three times `wal_writer_delay`:
        /// 0.6 s with PostgreSQL's default settings). Their leases then run to their ends. Acquisitions, extensions,
        /// and unlocks that end a slot which must not be lost always wait, even in sessions whose `synchronous_commit`
        /// is off.
        durable_unlock(durable: bool) = durable;
    }
}

/// Settings for MySQL and MariaDB.
impl<D: MySql> Builder<D> {
    shedlock_provider::setters! { [settings]
        /// Sets the time zone of the sessions in which Java's ShedLock uses the same table: `+05:30`, `SYSTEM` (the
        /// server's own), or a name defined on the server (`Asia/Kolkata`).
        ///
        /// ShedLock's db-time writes UTC wall-clock time into `TIMESTAMP` columns, and the server interprets it as
        /// wall-clock time of Java's session. Unless that session is in UTC, the instants in the table are off by its
        /// offset. If you name the zone here, they are written and read in the same way, and
        /// [`inspect`](shedlock_core::LockProvider::inspect) still returns the right instants. All Rust services on the
        /// table must name the same zone. `DATETIME` columns do not need this setting. (Java's client-time in the zone
        /// of its JVM, on sessions of that same zone, writes correct instants: in that case, name `+00:00`.)
        ///
        /// A zone with daylight saving time has a cost, for Java too: in the hour that is skipped in spring,
        /// acquisitions fail with an `InvalidInput` error about a time out of range. Use a fixed offset for such
        /// sessions if you can.
        ///
        /// Unless this is set, UTC is used, and a warning is logged if the server starts its sessions in another zone.
        /// Setting `+00:00` confirms UTC and disables the warning.
        shared_session_zone(zone: impl Into<String>) = Some(zone.into());
    }
}

impl<D: Driver> fmt::Debug for Builder<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
