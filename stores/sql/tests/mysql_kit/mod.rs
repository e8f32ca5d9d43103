//! The laws' harness over MySQL and MariaDB: kinds of tables, kinds of sessions.

mod race;
mod torture;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock_conformance::{
    BoxError, Harness, JavaRecord, LeftOpen, Namespace, OptionalAction, Provider, RoundTrips,
    Scope, StoreProfile, Tag, Work, action,
};
use shedlock_core::{BoxFuture, Clock, LockName};
use shedlock_rig::OwnServer;
use shedlock_sqlx::{Builder, MySqlProvider, TimeMode};
use shedlock_torture::TortureNamespace;
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::{MySql as Server, MySqlPool, Row as _, Transaction};
use tokio::sync::Mutex;

use crate::{client, common, diesel};
pub(crate) use race::race;

/// The table from ShedLock's documentation.
pub(crate) const SHEDLOCKS: &str = "CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, \
    lock_until TIMESTAMP(3) NOT NULL, \
    locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), \
    locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))";
/// Whole seconds, and the implicit update of `lock_until` that old servers add.
pub(crate) const WHOLE_SECONDS: &str = "CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, \
    lock_until TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, \
    locked_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, \
    locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name), \
    shedlock_fencing_token BIGINT NULL, shedlock_slot BIGINT NULL,\
    shedlock_slot_done BIGINT NULL, shedlock_slot_attempts BIGINT NULL, \
    shedlock_skip_from BIGINT NULL, shedlock_skip_until BIGINT NULL)";
/// Without a zone, with microseconds.
pub(crate) const DATETIMES: &str = "CREATE TABLE shedlock(name VARCHAR(100) NOT NULL, \
    lock_until DATETIME(6) NOT NULL, locked_at DATETIME(6) NOT NULL, \
    locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name), \
    shedlock_fencing_token BIGINT NULL, shedlock_slot BIGINT NULL,\
    shedlock_slot_done BIGINT NULL, shedlock_slot_attempts BIGINT NULL, \
    shedlock_skip_from BIGINT NULL, shedlock_skip_until BIGINT NULL)";

/// The user of the workers on a separate server.
const USER: &str = "worker";

/// One kind of table, reached in one way.
pub(crate) struct MySql {
    name: &'static str,
    server: String,
    ddl: Option<&'static str>,
    /// Options added to the provider's URL.
    options: &'static str,
    /// The zone of Java's sessions.
    java_zone: &'static str,
    /// The zone of the sessions of a user's pool.
    pool_zone: &'static str,
    /// Providers are created over such a pool, not from a URL.
    pooled: bool,
    scope: Scope,
}

/// Instants are written in another type or zone, or by another clock.
pub(crate) const INSTANTS: &[Tag] = &[Tag::Time];
/// Names and owners are literals in the statement.
const TEXTS: &[Tag] = &[Tag::Names, Tag::Operators, Tag::Connection];
/// The same statements on other connections.
const CONNECTION: &[Tag] = &[Tag::Connection, Tag::Cost];
/// No columns for tokens and slots.
const BARE: &[Tag] = &[Tag::Declared, Tag::Record];

impl MySql {
    /// Over the table that `migrate` creates, from a URL, with all sessions in UTC.
    pub(crate) fn new(name: &'static str, server: &str) -> Self {
        Self {
            name,
            server: server.to_owned(),
            ddl: None,
            options: "",
            java_zone: "+00:00",
            pool_zone: "+00:00",
            pooled: false,
            scope: Scope::Whole,
        }
    }

    /// Marks this as a variant that changes only the behavior with these tags.
    pub(crate) fn about(mut self, tags: &'static [Tag]) -> Self {
        self.scope = Scope::About(tags);
        self
    }

    pub(crate) fn table(mut self, ddl: &'static str) -> Self {
        self.ddl = Some(ddl);
        self
    }

    pub(crate) fn options(mut self, options: &'static str) -> Self {
        self.options = options;
        self
    }

    /// Java's sessions are in this zone, and the provider is configured for it.
    pub(crate) fn shared_with(mut self, zone: &'static str) -> Self {
        self.java_zone = zone;
        self
    }

    /// Over a user's pool with sessions in this zone.
    pub(crate) fn pool_in(mut self, zone: &'static str) -> Self {
        self.pool_zone = zone;
        self.pooled = true;
        self
    }

    async fn room(
        &self,
        server: &str,
        own: Option<OwnServer>,
    ) -> Result<Arc<dyn Namespace>, BoxError> {
        let database = common::unique("space");
        let admin = MySqlPoolOptions::new()
            .max_connections(1)
            .connect(server)
            .await?;
        // If ShedLock's definition names no collation, names have the database's. The kit needs one
        // that distinguishes all of its names.
        let exact = "/*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */";
        let create = format!("CREATE DATABASE {database} CHARACTER SET utf8mb4 {exact}");
        run(&admin, &create).await?;
        admin.close().await;
        let base = common::with_database(server, &database);
        let java: MySqlConnectOptions = base.parse()?;
        let mut url = common::with_option(&base, "ssl-mode", "disabled");
        if !self.options.is_empty() {
            url = format!("{url}&{}", self.options);
        }
        // On a server in another zone, an attempt beside Java needs to know the zone of Java's sessions.
        if self.java_zone != "+00:00" || self.pooled {
            url = common::with_option(&url, "shared_session_zone", self.java_zone);
        }
        if own.is_some() {
            // Limits do not apply to superusers.
            let make = format!("CREATE USER {USER}; GRANT ALL ON {database}.* TO {USER}");
            let admin = MySqlPool::connect(server).await?;
            run(&admin, &make).await?;
            admin.close().await;
            let mut as_user = url::Url::parse(&url)?;
            as_user
                .set_username(USER)
                .map_err(|()| "no user in the URL")?;
            url = as_user.into();
        }
        let space = Base {
            java: MySqlPoolOptions::new()
                .max_connections(1)
                .connect_with(java.timezone(Some(self.java_zone.to_owned())))
                .await?,
            base,
            url,
            database,
            ddl: self.ddl,
            client_time: self.client_time(),
            java_zone: self.java_zone,
            pool_zone: self.pool_zone,
            pooled: self.pooled,
            by_diesel: self.options.contains("by=diesel"),
            jdbc: if self.name.starts_with("mariadb") {
                ("mariadb", "")
            } else {
                ("mysql", "&sslMode=DISABLED&allowPublicKeyRetrieval=true")
            },
            own,
            keeper: Mutex::new(None),
        };
        space.create().await?;
        Ok(Arc::new(space) as Arc<dyn Namespace>)
    }

    fn client_time(&self) -> bool {
        self.options.contains("time=client")
    }
}

/// All variants that are tested on both servers.
pub(crate) fn variants(names: &[&'static str; 13], server: &str) -> Vec<MySql> {
    vec![
        MySql::new(names[0], server),
        MySql::new(names[1], server).table(SHEDLOCKS).about(BARE),
        MySql::new(names[2], server)
            .table(WHOLE_SECONDS)
            .about(INSTANTS),
        MySql::new(names[3], server)
            .table(DATETIMES)
            .about(INSTANTS),
        MySql::new(names[4], server)
            .options("time=client")
            .about(INSTANTS),
        MySql::new(names[5], server)
            .options("prepared=false")
            .about(TEXTS),
        MySql::new(names[6], server)
            .pool_in("-03:00")
            .about(INSTANTS),
        MySql::new(names[7], server)
            .table(SHEDLOCKS)
            .shared_with("+05:30")
            .about(INSTANTS),
        MySql::new(names[8], server).options("by=pool").about(&[]),
        MySql::new(names[9], server).options("by=diesel-bb8"),
        MySql::new(names[10], server)
            .options("by=diesel-deadpool")
            .about(CONNECTION),
        MySql::new(names[11], server)
            .options("by=diesel-mobc")
            .about(&[]),
        MySql::new(names[12], server)
            .options("by=diesel-careless")
            .about(&[]),
    ]
}

impl Harness for MySql {
    fn name(&self) -> &str {
        self.name
    }

    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
        Box::pin(self.room(&self.server, None))
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    /// One variant stands for all: the effect of a crash depends only on the server.
    fn namespace_on_own_store(&self) -> OptionalAction<'_, Arc<dyn Namespace>> {
        if self.name != "mariadb" {
            return None;
        }
        action(async {
            // Commits can wait for a replica only where there is a binary log. Without a sync of it, a crash loses locks.
            let own = OwnServer::start("mariadb", &["--log-bin", "--sync-binlog=1"])?;
            let url = own.url().to_owned();
            self.room(&url, Some(own)).await
        })
    }

    fn open_child<'a>(&'a self, spec: &'a str) -> OptionalAction<'a, Provider> {
        action(connect(spec.to_owned()))
    }

    /// One profile for both.
    fn profile(&self) -> OptionalAction<'_, StoreProfile> {
        if self.name != "mariadb" && self.name != "mysql" {
            return None;
        }
        let sheet = StoreProfile::new("MySQL, MariaDB", "tests/profiles/mysql.json")
            .shares_records()
            .note(
                "durable",
                "with `innodb_flush_log_at_trx_commit=1` and `sync_binlog=1`",
            )
            .note("law08", "after `migrate`")
            .note("law09", "after `migrate`")
            .note("law09_open", "after `migrate`")
            .says("longest", "until 2038")
            .says("tested_on", "MariaDB 10.11, MySQL 9");
        action(async { Ok(sheet) })
    }

    fn round_trips(&self) -> Option<RoundTrips> {
        // Without prepared statements each statement is prepared before it runs.
        let is_prepared = !self.options.contains("prepared=false");
        // diesel-async needs more than one request for the proof, the statement and its token.
        let is_one_request = is_prepared && !self.options.contains("by=diesel");
        is_one_request.then_some(RoundTrips::CONDITIONAL)
    }
}

/// A database with a table.
pub(crate) struct Base {
    /// A session like Java's.
    java: MySqlPool,
    base: String,
    url: String,
    database: String,
    ddl: Option<&'static str>,
    client_time: bool,
    java_zone: &'static str,
    pool_zone: &'static str,
    pooled: bool,
    /// Uses diesel-async.
    by_diesel: bool,
    /// The scheme of JDBC's URLs, and their suffix.
    jdbc: (&'static str, &'static str),
    own: Option<OwnServer>,
    /// The transaction that locks the table.
    keeper: Mutex<Option<Transaction<'static, Server>>>,
}

impl Base {
    async fn create(&self) -> Result<(), BoxError> {
        if let Some(ddl) = self.ddl {
            return run(&self.java, ddl).await;
        }
        // Not in a transaction that was left open.
        let url = self.url.trim_end_matches("&by=pool");
        let url = url.trim_end_matches("&by=diesel-careless");
        let _ = connect(url.to_owned()).await?.migrate().await?;
        Ok(())
    }

    /// A provider over a user's pool.
    async fn over_pool(
        &self,
        connections: u32,
        clock: Option<Arc<dyn Clock>>,
    ) -> Result<(MySqlPool, Provider), BoxError> {
        let connect: MySqlConnectOptions = self.base.parse()?;
        let pool = MySqlPoolOptions::new()
            .max_connections(connections)
            .connect_with(connect.timezone(Some(self.pool_zone.to_owned())))
            .await?;
        let provider = self.builder(pool.clone(), clock).build()?;
        Ok((pool, Arc::new(provider) as Provider))
    }

    fn builder(
        &self,
        pool: MySqlPool,
        clock: Option<Arc<dyn Clock>>,
    ) -> Builder<shedlock_sqlx::MySql> {
        let mut builder = MySqlProvider::builder(pool).shared_session_zone(self.java_zone);
        if self.client_time {
            builder = builder.time(TimeMode::client());
        }
        match clock {
            Some(clock) => builder.clock(clock),
            None => builder,
        }
    }
}

impl Namespace for Base {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        Box::pin(async {
            if self.pooled {
                return Ok(self.over_pool(4, None).await?.1);
            }
            connect(self.url.clone()).await
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async {
            run(&self.java, &format!("DROP DATABASE {}", self.database)).await?;
            self.java.close().await;
            Ok(())
        })
    }

    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        action(async {
            sqlx::query("DELETE FROM shedlock WHERE name = ?")
                .bind(name.as_str())
                .execute(&self.java)
                .await?;
            Ok(())
        })
    }

    fn drop_container(&self) -> OptionalAction<'_, ()> {
        action(run(&self.java, "DROP TABLE IF EXISTS shedlock"))
    }

    fn restore_container(&self) -> OptionalAction<'_, ()> {
        action(self.create())
    }

    /// UTC wall-clock time, which Java's session interprets as its own.
    fn write_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
        record: &'a JavaRecord,
    ) -> OptionalAction<'a, ()> {
        action(async {
            let wall = "TIMESTAMP'1970-01-01 00:00:00' + INTERVAL ? MICROSECOND";
            let text = format!(
                "INSERT INTO shedlock (name, lock_until, locked_at, locked_by) \
                 VALUES (?, {wall}, {wall}, ?) ON DUPLICATE KEY UPDATE \
                 lock_until = VALUES(lock_until), locked_at = VALUES(locked_at), \
                 locked_by = VALUES(locked_by)"
            );
            sqlx::query(client::text(text))
                .bind(name.as_str())
                .bind(micros(record.lock_until)?)
                .bind(micros(record.locked_at)?)
                .bind(&record.locked_by)
                .execute(&self.java)
                .await?;
            Ok(())
        })
    }

    fn read_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
    ) -> OptionalAction<'a, Option<JavaRecord>> {
        action(async {
            let row = sqlx::query(
                "SELECT locked_by, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', locked_at), \
                 TIMESTAMPDIFF(MICROSECOND, '1970-01-01', lock_until) \
                 FROM shedlock WHERE name = ?",
            )
            .bind(name.as_str())
            .fetch_optional(&self.java)
            .await?;
            row.map(|row| {
                Ok(JavaRecord {
                    locked_by: row.try_get(0)?,
                    locked_at: instant(row.try_get(1)?),
                    lock_until: instant(row.try_get(2)?),
                })
            })
            .transpose()
        })
    }

    fn provider_with_clock(&self, clock: Arc<dyn Clock>) -> OptionalAction<'_, Provider> {
        action(async {
            if self.by_diesel {
                return diesel::over_mysql::with_clock(&self.base, clock);
            }
            Ok(self.over_pool(2, Some(clock)).await?.1)
        })
    }

    fn store_addr(&self) -> Option<SocketAddr> {
        common::address(&self.url, 3306)
    }

    fn provider_via(&self, addr: SocketAddr) -> OptionalAction<'_, Provider> {
        let url = self.child_spec_via(addr)?;
        action(connect(url))
    }

    fn stop_store(&self) -> OptionalAction<'_, ()> {
        let own = self.own.as_ref()?;
        action(async { own.kill() })
    }

    fn start_store(&self) -> OptionalAction<'_, ()> {
        let own = self.own.as_ref()?;
        action(async { own.start_again() })
    }

    fn child_spec(&self) -> Option<String> {
        Some(self.url.clone())
    }

    fn inside_rolled_back_transaction(&self, work: Work) -> OptionalAction<'_, ()> {
        action(async {
            if self.by_diesel {
                return diesel::over_mysql::inside_rolled_back(&self.base, work).await;
            }
            let (pool, provider) = self.over_pool(2, None).await?;
            let transaction = pool.begin().await?;
            work(provider).await;
            transaction.rollback().await?;
            Ok(())
        })
    }

    fn left_open(&self) -> OptionalAction<'_, LeftOpen> {
        action(async {
            if self.by_diesel {
                return diesel::over_mysql::left_open(&self.base, IN_TRANSACTION);
            }
            let connect: MySqlConnectOptions = self.base.parse()?;
            let connect = connect.timezone(Some(self.pool_zone.to_owned()));
            crate::left_open::left_open!(MySqlPoolOptions, connect, IN_TRANSACTION, |pool| self
                .builder(pool, None)
                .build())
        })
    }
}

/// What the application has left in a connection.
const IN_TRANSACTION: [&str; 2] = ["BEGIN", "SELECT name FROM shedlock LIMIT 1"];

/// The option `by` belongs to the harness: over a pool whose connections come back inside transactions.
async fn connect(url: String) -> Result<Provider, BoxError> {
    if let Some((url, way)) = diesel::way(&url) {
        let mut url = url::Url::parse(&url)?;
        // Otherwise it leaves the proxy for the server's socket.
        url.set_query(Some("prefer_socket=false"));
        return diesel::over_mysql::by(way, url.as_str(), IN_TRANSACTION);
    }
    if let Some(url) = url.strip_suffix("&by=pool") {
        let connect: MySqlConnectOptions = url.parse()?;
        let pool = crate::left_open::careless!(MySqlPoolOptions, IN_TRANSACTION)
            .connect_lazy_with(connect);
        return Ok(Arc::new(MySqlProvider::builder(pool).build()?));
    }
    Ok(Arc::new(MySqlProvider::connect(&url).await?))
}

async fn run(pool: &MySqlPool, text: &str) -> Result<(), BoxError> {
    sqlx::raw_sql(client::text(text.to_owned()))
        .execute(pool)
        .await?;
    Ok(())
}

fn micros(instant: SystemTime) -> Result<i64, BoxError> {
    Ok(i64::try_from(
        instant.duration_since(UNIX_EPOCH)?.as_micros(),
    )?)
}

fn instant(micros: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(micros.unsigned_abs())
}
