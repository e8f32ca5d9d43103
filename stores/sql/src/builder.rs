//! Settings of a provider over the user's own pool.

use std::fmt;
use std::time::Duration;

use shedlock_store::{FromClient, Result, StoreProvider, TimeMode};

use crate::call::SqlStore;
use crate::driver::{Connections, Driver};
use crate::options::Settings;
use crate::url::{Postgres, Remote};

/// Sets how a provider finds and uses its table; made by `builder` of a provider.
///
/// # Names of tables and columns
///
/// ShedLock puts no quotes around its names, so the database folds them: on PostgreSQL the table
/// name `shedLock` is the table `shedlock`. The same names mean the same table here. A name in
/// double quotes (`"\"ShedLock\""`) is taken as it is, for a table that was made with quotes.
/// Names hold ASCII letters, digits, `_`, `$` and `-`; what they hold is never spliced raw into a
/// statement.
#[must_use = "a builder does nothing before `build`"]
pub struct Builder<D: Driver> {
    pub(crate) pool: D::Pool,
    pub(crate) settings: Settings,
}

impl<D: Driver> FromClient for SqlStore<D> {
    type Client = D::Pool;
    type Builder = Builder<D>;

    fn builder(pool: D::Pool) -> Builder<D> {
        let settings = Settings::default();
        Builder { pool, settings }
    }
}

impl<D: Driver> Builder<D> {
    shedlock_store::setters! { [settings]
        /// The table: `shedlock` unless set. May name its schema: `jobs.shedlock`.
        table(table: impl Into<String>) = table.into();

        /// The table's schema (MySQL and MariaDB: its database); the connection's own unless set.
        schema(schema: impl Into<String>) = Some(schema.into());

        /// The column of the lock's name: `name` unless set.
        name_column(column: impl Into<String>) = column.into();

        /// The column of the instant at which the lock is free: `lock_until` unless set.
        lock_until_column(column: impl Into<String>) = column.into();

        /// The column of the instant of acquisition: `locked_at` unless set.
        locked_at_column(column: impl Into<String>) = column.into();

        /// The column of the owner: `locked_by` unless set.
        locked_by_column(column: impl Into<String>) = column.into();

        /// Whose clock rules: the database's unless set.
        time(time: TimeMode) = time;

        /// After this long every call has returned, whatever the server does: 10 s unless set.
        ///
        /// A call that gets no connection within three quarters of it (an attempt: of its own
        /// [timeout](shedlock_core::AttemptRequest::timeout), where that is shorter) is `Unavailable` and
        /// has written nothing, however long the pool itself would wait.
        timeout(timeout: Duration) = Some(timeout);
    }

    shedlock_store::common_setters!(settings);

    /// The provider; no I/O.
    ///
    /// # Errors
    /// `InvalidInput` for names that cannot be names, for what cannot be a time zone, and for defaults that cannot
    /// hold.
    pub fn build(self) -> Result<StoreProvider<SqlStore<D>>> {
        let options = D::DIALECT.options(self.settings);
        let options = options.map_err(|error| error.with_store(D::STORE))?;
        Ok(SqlStore::new(Connections::Pool(self.pool), options).provider())
    }
}

/// Of databases behind a server.
impl<D: Remote> Builder<D> {
    shedlock_store::setters! { [settings]
        /// Whether statements are prepared on the server: true unless set. Without, values are
        /// written into the statements as literals, each statement stays one round trip, and nothing
        /// is left behind in a session: for proxies that cannot keep prepared statements, such as PgBouncer in
        /// transaction or statement pooling.
        prepared(prepared: bool) = prepared;

        /// How far apart the clocks may be of servers that judge leases of this table, one after another
        /// or, in a cluster with several writers, side by side: zero unless set. See the documentation of
        /// the crate on [failover](crate#failover-and-several-writers).
        server_skew(skew: Duration) = skew;
    }
}

/// Of PostgreSQL.
impl<D: Postgres> Builder<D> {
    shedlock_store::setters! { [settings]
        /// Whether an unlock waits until it is on the server's disk: false unless set. A crash of the
        /// server may then lose the unlocks of its last moments (three times its `wal_writer_delay`, so
        /// 0.6 s as shipped), and their leases run to their ends. Acquisitions, extensions, and unlocks
        /// that end a slot which must not be lost always wait, also in sessions whose
        /// `synchronous_commit` is off.
        durable_unlock(durable: bool) = durable;
    }
}

impl<D: Driver> fmt::Debug for Builder<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
