//! The laws over PostgreSQL: from a URL, and over the application's pool. Kinds of tables and times are the statements',
//! which `shedlock-sql` tests over sqlx 0.9.

#[path = "common/client.rs"]
mod client;
#[path = "../../sql/tests/common/mod.rs"]
mod common;
#[path = "../../sql/tests/common/left_open.rs"]
mod left_open;
#[path = "../../sql/tests/postgres_kit/torture.rs"]
mod torture;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use shedlock_conformance::contention::{self, CLIENTS, ROUNDS};
use shedlock_conformance::{
    BoxError, Harness, LeftOpen, Namespace, OptionalAction, Provider, RoundTrips, Scope, Verdict,
    Work, action,
};
use shedlock_core::{BoxFuture, Clock, LockName};
use shedlock_rig::OwnServer;
use shedlock_sqlx08::PostgresProvider;
use shedlock_torture::TortureNamespace as _;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgPool, Postgres as Server, Transaction};
use tokio::sync::Mutex;

fn main() -> ExitCode {
    let server = common::server("postgres");
    let variant = |name, options, scope| Postgres {
        name,
        server: server.clone(),
        options,
        scope,
    };
    let variants = [
        variant("postgres-sqlx08", "", Scope::Whole),
        variant(
            "postgres-sqlx08-unprepared",
            "prepared=false",
            Scope::About(&[]),
        ),
        variant("postgres-sqlx08-pool", POOL, Scope::About(&[])),
    ];
    shedlock_torture::main_after::<Schema>(race(&server), common::harnesses(variants))
}

/// Over the application's pool, whose connections come back inside transactions. The option belongs to the harness.
const POOL: &str = "by=pool";

/// What the application has left in a connection.
const IN_TRANSACTION: [&str; 2] = [
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    "SELECT 1 FROM pg_class LIMIT 1",
];

/// Raw clients race for one row, as attempts do.
async fn race(server: &str) -> Verdict {
    let pool = PgPoolOptions::new().max_connections(8);
    let pool = pool.connect(server).await?;
    let table = common::unique("race");
    let make = format!("CREATE TABLE {table} AS SELECT 0 AS round");
    sqlx::raw_sql(&make).execute(&pool).await?;
    let update = client::text(format!(
        "UPDATE {table} SET round = $1 + 1 WHERE round = $1"
    ));
    let clients = vec![pool.clone(); CLIENTS];
    let verdict = contention::judge(ROUNDS, &clients, |pool, round| {
        let update = sqlx::query(update).bind(i64::from(round) - 1);
        async move { Ok(update.execute(&pool).await?.rows_affected() == 1) }
    });
    let verdict = verdict.await;
    let remove = format!("DROP TABLE {table}");
    sqlx::raw_sql(&remove).execute(&pool).await?;
    verdict
}

/// A server, reached in one way.
struct Postgres {
    name: &'static str,
    server: String,
    /// Options added to the provider's URL.
    options: &'static str,
    scope: Scope,
}

impl Harness for Postgres {
    fn name(&self) -> &str {
        self.name
    }

    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
        Box::pin(async {
            let schema = common::unique("space");
            let admin = PgPoolOptions::new().max_connections(1);
            let admin = admin.connect(&self.server).await?;
            run(&admin, format!("CREATE SCHEMA {schema}")).await?;
            let mut url = common::with_option(&self.server, "schema", &schema);
            if !self.options.is_empty() {
                url = format!("{url}&{}", self.options);
            }
            let space = Schema {
                admin,
                server: self.server.clone(),
                url,
                schema,
                has_zone: false,
                client_time: false,
                own: None,
                keeper: Mutex::new(None),
            };
            let _ = space.over_pool(1, None).await?.1.migrate().await?;
            Ok(Arc::new(space) as Arc<dyn Namespace>)
        })
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    fn open_child<'a>(&'a self, spec: &'a str) -> OptionalAction<'a, Provider> {
        action(connect(spec.to_owned()))
    }

    fn round_trips(&self) -> Option<RoundTrips> {
        // Without prepared statements each statement is prepared before it runs.
        let is_prepared = !self.options.contains("prepared=false");
        is_prepared.then_some(RoundTrips::CONDITIONAL)
    }
}

/// A schema with a table. The torture reads its fields.
struct Schema {
    admin: PgPool,
    server: String,
    url: String,
    schema: String,
    has_zone: bool,
    client_time: bool,
    own: Option<OwnServer>,
    keeper: Mutex<Option<Transaction<'static, Server>>>,
}

impl Schema {
    /// A provider over a pool of the application.
    async fn over_pool(
        &self,
        connections: u32,
        clock: Option<Arc<dyn Clock>>,
    ) -> Result<(PgPool, Provider), BoxError> {
        let pool = PgPoolOptions::new().max_connections(connections);
        let pool = pool.connect(&self.server).await?;
        let mut builder = PostgresProvider::builder(pool.clone()).schema(&self.schema);
        if let Some(clock) = clock {
            builder = builder.clock(clock);
        }
        Ok((pool, Arc::new(builder.build()?)))
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
            let delete = sqlx::query(&text).bind(name.as_str());
            delete.execute(&self.admin).await?;
            Ok(())
        })
    }

    fn drop_container(&self) -> OptionalAction<'_, ()> {
        let drop = format!("DROP TABLE IF EXISTS {}.shedlock", self.schema);
        action(run(&self.admin, drop))
    }

    fn restore_container(&self) -> OptionalAction<'_, ()> {
        action(async {
            let _ = self.over_pool(1, None).await?.1.migrate().await?;
            Ok(())
        })
    }

    fn provider_with_clock(&self, clock: Arc<dyn Clock>) -> OptionalAction<'_, Provider> {
        action(async { Ok(self.over_pool(2, Some(clock)).await?.1) })
    }

    fn store_addr(&self) -> Option<SocketAddr> {
        common::address(&self.url, 5432)
    }

    fn provider_via(&self, addr: SocketAddr) -> OptionalAction<'_, Provider> {
        let url = self.child_spec_via(addr)?;
        action(connect(url))
    }

    fn child_spec(&self) -> Option<String> {
        Some(self.url.clone())
    }

    fn inside_rolled_back_transaction(&self, work: Work) -> OptionalAction<'_, ()> {
        action(async {
            let (pool, provider) = self.over_pool(2, None).await?;
            let transaction = pool.begin().await?;
            work(provider).await;
            transaction.rollback().await?;
            Ok(())
        })
    }

    fn left_open(&self) -> OptionalAction<'_, LeftOpen> {
        action(async {
            let builder = |pool| {
                let builder = PostgresProvider::builder(pool);
                builder.schema(&self.schema).build()
            };
            let connect: PgConnectOptions = self.server.parse()?;
            left_open::left_open!(PgPoolOptions, connect, IN_TRANSACTION, builder)
        })
    }
}

async fn connect(url: String) -> Result<Provider, BoxError> {
    let Some(url) = url.strip_suffix(&format!("&{POOL}")) else {
        return Ok(Arc::new(PostgresProvider::connect(&url).await?));
    };
    let mut server = url::Url::parse(url)?;
    let schema = server.query_pairs().find(|(name, _)| name == "schema");
    let schema = schema.ok_or("no schema in the URL")?.1.into_owned();
    server.set_query(None);
    let connect: PgConnectOptions = server.as_str().parse()?;
    let pool = left_open::careless!(PgPoolOptions, IN_TRANSACTION).connect_lazy_with(connect);
    let provider = PostgresProvider::builder(pool).schema(schema).build()?;
    Ok(Arc::new(provider))
}

async fn run(pool: &PgPool, text: String) -> Result<(), BoxError> {
    sqlx::raw_sql(&text).execute(pool).await?;
    Ok(())
}
