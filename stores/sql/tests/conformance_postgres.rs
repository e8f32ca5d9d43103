//! The laws over PostgreSQL: tables as ShedLock creates them and as we do, both clocks, both
//! timestamp types, directly and through PgBouncer.

#[path = "common/client.rs"]
mod client;
mod common;
#[path = "common/diesel.rs"]
mod diesel;
#[path = "common/left_open.rs"]
mod left_open;
#[path = "common/sources.rs"]
mod sources;
#[path = "postgres_kit/torture.rs"]
mod torture;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock_conformance::contention::{self, CLIENTS, ROUNDS};
use shedlock_conformance::{
    BoxError, Harness, JavaRecord, LeftOpen, Namespace, OptionalAction, Provider, RoundTrips,
    Scope, StoreProfile, Tag, Verdict, Work, action,
};
use shedlock_core::{BoxFuture, Clock, LockName};
use shedlock_diesel_async::PostgresProvider as DieselProvider;
use shedlock_diesel_async::diesel_async::SimpleAsyncConnection as _;
use shedlock_rig::OwnServer;
use shedlock_sqlx::{PostgresProvider, TimeMode};
use shedlock_tokio_postgres::TokioPostgresProvider;
use shedlock_torture::TortureNamespace;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool, Postgres as Server, Row as _, Transaction};
use tokio::sync::Mutex;

fn main() -> ExitCode {
    let server = common::server("postgres");
    let variant = |name, ddl, options, scope| Postgres {
        name,
        server: server.clone(),
        ddl,
        options,
        bouncer: None,
        scope,
    };
    let mut variants = vec![
        // Each client library with the table that we create.
        variant("postgres", FULL, "", Scope::Whole),
        variant("tokio-postgres-deadpool", FULL, "by=deadpool", Scope::Whole),
        variant("diesel-bb8", FULL, "by=diesel-bb8", Scope::Whole),
        // No columns for tokens and slots.
        variant(
            "postgres-as-shedlock-made-it",
            SHEDLOCKS,
            "",
            Scope::About(&[Tag::Declared, Tag::Record]),
        ),
        variant("postgres-client-time", FULL, "time=client", INSTANTS),
        variant("postgres-timestamptz", WITH_ZONE, "", INSTANTS),
        variant("postgres-milliseconds", MILLISECONDS, "", INSTANTS),
        // Names and owners are literals in the statement, and an unlock waits for the disk.
        variant(
            "postgres-unprepared",
            FULL,
            "prepared=false&durable_unlock=true",
            Scope::About(&[Tag::Names, Tag::Operators, Tag::Connection]),
        ),
        variant("tokio-postgres", FULL, "by=tokio", CONNECTION),
        variant("postgres-pool", FULL, "by=pool", PROCESSES),
        variant(
            "tokio-postgres-pool",
            FULL,
            "by=careless",
            Scope::About(&[]),
        ),
        variant("diesel-deadpool", FULL, "by=diesel-deadpool", CONNECTION),
        variant("diesel-mobc", FULL, "by=diesel-mobc", Scope::About(&[])),
        variant("diesel-pool", FULL, "by=diesel-careless", Scope::About(&[])),
    ];
    if let Some(bouncer) = common::server_if_any("pgbouncer") {
        variants.push(Postgres {
            bouncer: Some(bouncer.clone()),
            ..variant("postgres-pgbouncer", FULL, "", CONNECTION)
        });
        variants.push(Postgres {
            bouncer: Some(bouncer.clone()),
            ..variant("tokio-postgres-pgbouncer", FULL, "by=tokio", CONNECTION)
        });
        variants.push(Postgres {
            bouncer: Some(bouncer),
            ..variant(
                "tokio-postgres-deadpool-pgbouncer",
                FULL,
                "by=deadpool",
                CONNECTION,
            )
        });
    }
    shedlock_torture::main_after::<Schema>(race(&server), common::harnesses(variants))
}

/// What the application has left in a connection.
const IN_TRANSACTION: [&str; 2] = [
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    "SELECT 1 FROM pg_class LIMIT 1",
];

/// Instants are written in another type, or by another clock.
const INSTANTS: Scope = Scope::About(&[Tag::Time]);
/// Connections that come back inside transactions.
const PROCESSES: Scope = Scope::About(&[Tag::Processes]);
/// The same statements on other connections.
const CONNECTION: Scope = Scope::About(&[Tag::Connection, Tag::Cost]);

/// Raw clients race for one row, as attempts do.
async fn race(server: &str) -> Verdict {
    let pool = PgPoolOptions::new().max_connections(8);
    let pool = pool.connect(server).await?;
    let table = common::unique("race");
    let make = format!("CREATE TABLE {table} AS SELECT 0 AS round");
    sqlx::raw_sql(AssertSqlSafe(make)).execute(&pool).await?;
    let update = format!("UPDATE {table} SET round = $1 + 1 WHERE round = $1");
    let clients = vec![pool.clone(); CLIENTS];
    let verdict = contention::judge(ROUNDS, &clients, |pool, round| {
        let update = sqlx::query(AssertSqlSafe(update.clone())).bind(i64::from(round) - 1);
        async move { Ok(update.execute(&pool).await?.rows_affected() == 1) }
    });
    let verdict = verdict.await;
    let remove = format!("DROP TABLE {table}");
    sqlx::raw_sql(AssertSqlSafe(remove)).execute(&pool).await?;
    verdict
}

/// The table from ShedLock's documentation.
const SHEDLOCKS: &str = "name VARCHAR(64) NOT NULL, lock_until TIMESTAMP NOT NULL, \
    locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name)";
const FULL: &str = "name VARCHAR(64) NOT NULL, lock_until TIMESTAMP NOT NULL, \
    locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name), \
    shedlock_fencing_token BIGINT NULL, shedlock_slot BIGINT NULL,\
    shedlock_slot_done BIGINT NULL, shedlock_slot_attempts BIGINT NULL, \
    shedlock_skip_from BIGINT NULL, shedlock_skip_until BIGINT NULL";
const WITH_ZONE: &str = "name TEXT PRIMARY KEY, lock_until TIMESTAMPTZ NOT NULL, \
    locked_at TIMESTAMPTZ NOT NULL, locked_by TEXT NOT NULL, \
    shedlock_fencing_token BIGINT NULL, shedlock_slot BIGINT NULL,\
    shedlock_slot_done BIGINT NULL, shedlock_slot_attempts BIGINT NULL, \
    shedlock_skip_from BIGINT NULL, shedlock_skip_until BIGINT NULL";
const MILLISECONDS: &str = "name VARCHAR(64) PRIMARY KEY, lock_until TIMESTAMP(3) NOT NULL, \
    locked_at TIMESTAMP(3) NOT NULL, locked_by VARCHAR(255) NOT NULL, \
    shedlock_fencing_token BIGINT NULL, shedlock_slot BIGINT NULL,\
    shedlock_slot_done BIGINT NULL, shedlock_slot_attempts BIGINT NULL, \
    shedlock_skip_from BIGINT NULL, shedlock_skip_until BIGINT NULL";

/// One kind of table, reached in one way.
struct Postgres {
    name: &'static str,
    server: String,
    ddl: &'static str,
    /// Options added to the provider's URL.
    options: &'static str,
    bouncer: Option<String>,
    scope: Scope,
}

impl Harness for Postgres {
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
        if self.name != "postgres" {
            return None;
        }
        action(async {
            let own = OwnServer::start("postgres", &[])?;
            let url = own.url().to_owned();
            self.room(&url, Some(own)).await
        })
    }

    fn open_child<'a>(&'a self, spec: &'a str) -> OptionalAction<'a, Provider> {
        action(connect(spec.to_owned()))
    }

    fn profile(&self) -> OptionalAction<'_, StoreProfile> {
        if self.name != "postgres" {
            return None;
        }
        let sheet = StoreProfile::new("PostgreSQL", "tests/profiles/postgres.json")
            .shares_records()
            .note("durable", "with `fsync` on")
            .note("law08", "after `migrate`")
            .note("law09", "after `migrate`")
            .note("law09_open", "after `migrate`")
            .says("tested_on", "15");
        action(async { Ok(sheet) })
    }

    fn round_trips(&self) -> Option<RoundTrips> {
        // diesel-async has mobc close each connection that comes back, so that each statement opens one.
        let keeps_connections = self.options != "by=diesel-mobc";
        keeps_connections.then_some(RoundTrips::CONDITIONAL)
    }
}

impl Postgres {
    async fn room(
        &self,
        server: &str,
        own: Option<OwnServer>,
    ) -> Result<Arc<dyn Namespace>, BoxError> {
        let schema = common::unique("space");
        let admin = PgPoolOptions::new().max_connections(1);
        let mut options: PgConnectOptions = server.parse()?;
        if own.is_some() {
            // These sessions can write even if a fault has not ended for every session yet.
            options = options.options([("default_transaction_read_only", "off")]);
        }
        let admin = admin.connect_with(options).await?;
        run(&admin, format!("CREATE SCHEMA {schema}")).await?;
        let reached = self.bouncer.as_deref().unwrap_or(server);
        let mut url = common::with_option(reached, "schema", &schema);
        if !self.options.is_empty() {
            url = format!("{url}&{}", self.options);
        }
        if own.is_some() {
            // Limits do not apply to superusers.
            run(&admin, format!("CREATE ROLE {schema} LOGIN")).await?;
            let mut as_user = url::Url::parse(&url)?;
            as_user
                .set_username(&schema)
                .map_err(|()| "no user in the URL")?;
            url = as_user.into();
        }
        let space = Schema {
            admin,
            server: server.to_owned(),
            url,
            schema,
            ddl: self.ddl,
            has_zone: self.ddl.contains("TIMESTAMPTZ"),
            client_time: self.options.contains("time=client"),
            client: match self.options {
                options if options.contains("by=diesel") => Client::Diesel,
                options if options.contains("by=") && options != "by=pool" => Client::Tokio,
                _ => Client::Sqlx,
            },
            own,
            keeper: Mutex::new(None),
        };
        run(&space.admin, space.create()).await?;
        if space.own.is_some() {
            let grant = format!(
                "GRANT USAGE ON SCHEMA {0} TO {0}; \
                 GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {0} TO {0}",
                space.schema
            );
            run(&space.admin, grant).await?;
        }
        Ok(Arc::new(space) as Arc<dyn Namespace>)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Client {
    Sqlx,
    Tokio,
    Diesel,
}

/// A schema with a table.
struct Schema {
    admin: PgPool,
    server: String,
    url: String,
    schema: String,
    ddl: &'static str,
    has_zone: bool,
    client_time: bool,
    client: Client,
    own: Option<OwnServer>,
    /// The transaction that locks the table.
    keeper: Mutex<Option<Transaction<'static, Server>>>,
}

impl Schema {
    fn create(&self) -> String {
        format!("CREATE TABLE {}.shedlock ({})", self.schema, self.ddl)
    }

    /// The Unix epoch in the column's type, from which instants are counted when they are written and read.
    fn epoch(&self) -> &'static str {
        if self.has_zone {
            "timestamptz '1970-01-01 00:00:00+00'"
        } else {
            "timestamp '1970-01-01 00:00:00'"
        }
    }
}

impl Namespace for Schema {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        Box::pin(connect(self.url.clone()))
    }

    fn close(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async {
            run(&self.admin, format!("DROP SCHEMA {} CASCADE", self.schema)).await?;
            self.admin.close().await;
            Ok(())
        })
    }

    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        action(async {
            let text = format!("DELETE FROM {}.shedlock WHERE name = $1", self.schema);
            sqlx::query(AssertSqlSafe(text))
                .bind(name.as_str())
                .execute(&self.admin)
                .await?;
            Ok(())
        })
    }

    fn drop_container(&self) -> OptionalAction<'_, ()> {
        action(run(
            &self.admin,
            format!("DROP TABLE IF EXISTS {}.shedlock", self.schema),
        ))
    }

    fn restore_container(&self) -> OptionalAction<'_, ()> {
        action(run(&self.admin, self.create()))
    }

    fn write_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
        record: &'a JavaRecord,
    ) -> OptionalAction<'a, ()> {
        action(async {
            let epoch = self.epoch();
            let micro = "interval '1 microsecond'";
            let text = format!(
                "INSERT INTO {}.shedlock (name, lock_until, locked_at, locked_by) \
                 VALUES ($1, {epoch} + $2 * {micro}, {epoch} + $3 * {micro}, $4) \
                 ON CONFLICT (name) DO UPDATE SET lock_until = EXCLUDED.lock_until, \
                 locked_at = EXCLUDED.locked_at, locked_by = EXCLUDED.locked_by",
                self.schema
            );
            sqlx::query(AssertSqlSafe(text))
                .bind(name.as_str())
                .bind(micros(record.lock_until)?)
                .bind(micros(record.locked_at)?)
                .bind(&record.locked_by)
                .execute(&self.admin)
                .await?;
            Ok(())
        })
    }

    fn read_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
    ) -> OptionalAction<'a, Option<JavaRecord>> {
        action(async {
            let text = format!(
                "SELECT locked_by, (extract(epoch FROM locked_at) * 1000000)::bigint, \
                 (extract(epoch FROM lock_until) * 1000000)::bigint \
                 FROM {}.shedlock WHERE name = $1",
                self.schema
            );
            let row = sqlx::query(AssertSqlSafe(text))
                .bind(name.as_str())
                .fetch_optional(&self.admin)
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
            if self.client == Client::Tokio {
                let pool = sources::deadpool(&self.server)?;
                let builder = TokioPostgresProvider::builder(pool).schema(&self.schema);
                return Ok(Arc::new(builder.clock(clock).build()?) as Provider);
            }
            if self.client == Client::Diesel {
                let pool = diesel::postgres::bb8(&self.server, 4);
                let builder = DieselProvider::builder(pool).schema(&self.schema);
                return Ok(Arc::new(builder.clock(clock).build()?) as Provider);
            }
            let pool = PgPool::connect(&self.server).await?;
            let time = if self.client_time {
                TimeMode::client()
            } else {
                TimeMode::Store
            };
            let provider = PostgresProvider::builder(pool)
                .schema(&self.schema)
                .time(time)
                .clock(clock)
                .build()?;
            Ok(Arc::new(provider) as Provider)
        })
    }

    fn store_addr(&self) -> Option<SocketAddr> {
        common::address(&self.url, 5432)
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
            if self.client == Client::Diesel {
                let pool = diesel::postgres::bb8(&self.server, 2);
                let builder = DieselProvider::builder(pool.clone());
                let provider = builder.schema(&self.schema).build()?;
                let mut connection = pool.get().await?;
                connection.batch_execute("BEGIN").await?;
                work(Arc::new(provider)).await;
                connection.batch_execute("ROLLBACK").await?;
                return Ok(());
            }
            if self.client == Client::Tokio {
                let pool = sources::deadpool(&self.server)?;
                let builder = TokioPostgresProvider::builder(pool.clone());
                let provider = builder.schema(&self.schema).build()?;
                let mut client = pool.get().await?;
                let transaction = client.transaction().await?;
                work(Arc::new(provider)).await;
                transaction.rollback().await?;
                return Ok(());
            }
            let pool = PgPoolOptions::new()
                .max_connections(2)
                .connect(&self.server)
                .await?;
            let provider = PostgresProvider::builder(pool.clone())
                .schema(&self.schema)
                .time(if self.client_time {
                    TimeMode::client()
                } else {
                    TimeMode::Store
                })
                .build()?;
            let transaction = pool.begin().await?;
            work(Arc::new(provider)).await;
            transaction.rollback().await?;
            Ok(())
        })
    }

    fn left_open(&self) -> OptionalAction<'_, LeftOpen> {
        action(async {
            if self.client == Client::Tokio {
                return sources::left_open(&self.server, &self.schema);
            }
            if self.client == Client::Diesel {
                return diesel::postgres::left_open(&self.server, IN_TRANSACTION, |pool| {
                    let builder = DieselProvider::builder(pool).schema(&self.schema);
                    Ok(Arc::new(builder.build()?))
                });
            }
            let builder = |pool| {
                PostgresProvider::builder(pool)
                    .schema(&self.schema)
                    .time(if self.client_time {
                        TimeMode::client()
                    } else {
                        TimeMode::Store
                    })
                    .build()
            };
            let connect: PgConnectOptions = self.server.parse()?;
            left_open::left_open!(PgPoolOptions, connect, IN_TRANSACTION, builder)
        })
    }
}

/// The option `by` belongs to the harness: which client library, and whose connections.
async fn connect(url: String) -> Result<Provider, BoxError> {
    let by = |way: &str| {
        let plain = url.replacen(&format!("&by={way}"), "", 1);
        (plain != url).then_some(plain)
    };
    Ok(if let Some((url, way)) = diesel::way(&url) {
        let (server, schema) = sources::server_and_schema(&url)?;
        let connections = diesel::postgres::by(way, &server, IN_TRANSACTION)?;
        Arc::new(
            DieselProvider::builder(connections)
                .schema(schema)
                .build()?,
        )
    } else if let Some(url) = by("tokio") {
        Arc::new(TokioPostgresProvider::connect(&url).await?)
    } else if let Some(url) = by("deadpool") {
        Arc::new(sources::over_deadpool(&url)?)
    } else if let Some(url) = by("careless") {
        Arc::new(sources::careless(&url)?)
    } else if let Some(url) = by("pool") {
        let (server, schema) = sources::server_and_schema(&url)?;
        let connect: PgConnectOptions = server.parse()?;
        let pool = left_open::careless!(PgPoolOptions, IN_TRANSACTION).connect_lazy_with(connect);
        Arc::new(PostgresProvider::builder(pool).schema(schema).build()?)
    } else {
        Arc::new(PostgresProvider::connect(&url).await?)
    })
}

async fn run(pool: &PgPool, text: String) -> Result<(), BoxError> {
    sqlx::raw_sql(AssertSqlSafe(text)).execute(pool).await?;
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
