//! Pools of tokio-postgres, as an application would pass them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use deadpool_postgres::{Object, Pool};
use shedlock_conformance::LeftOpen;
use shedlock_tokio_postgres::{ClientSource, TokioPostgresProvider};
use tokio_postgres::{Client, NoTls};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A pool of deadpool.
pub(crate) fn deadpool(url: &str) -> Result<Pool, BoxError> {
    deadpool_of(url, 4)
}

/// The same with so many clients at most.
pub(crate) fn deadpool_of(url: &str, size: usize) -> Result<Pool, BoxError> {
    let manager = deadpool_postgres::Manager::new(url.parse()?, NoTls);
    Ok(Pool::builder(manager).max_size(size).build()?)
}

/// A provider over a pool of deadpool, from a provider's URL.
#[allow(dead_code, reason = "the kit alone makes a provider so")]
pub(crate) fn over_deadpool(url: &str) -> Result<TokioPostgresProvider, BoxError> {
    let (server, schema) = server_and_schema(url)?;
    let builder = TokioPostgresProvider::builder(deadpool(&server)?);
    Ok(builder.schema(schema).build()?)
}

/// The parts of a provider's URL whose only option is the schema.
pub(crate) fn server_and_schema(url: &str) -> Result<(String, String), BoxError> {
    let mut url = url::Url::parse(url)?;
    let options: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    url.set_query(None);
    match &options[..] {
        [(name, schema)] if name == "schema" => Ok((url.into(), schema.clone())),
        _ => Err(format!("only the schema is an option for pools: {options:?}").into()),
    }
}

/// A pool of deadpool that lends clients inside transactions.
#[derive(Clone, Debug)]
struct LeftOpenClients {
    pool: Pool,
    /// Every client.
    is_always: Arc<AtomicBool>,
    /// Every 40th one.
    uses: Option<Arc<AtomicU32>>,
}

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class LIMIT 1";

impl LeftOpenClients {
    fn new(url: &str) -> Result<Self, BoxError> {
        Ok(Self {
            pool: deadpool_of(url, 2)?,
            is_always: Arc::default(),
            uses: None,
        })
    }

    fn begins(&self) -> bool {
        let is_one_of_many = |uses: &Arc<AtomicU32>| uses.fetch_add(1, Ordering::Relaxed) % 40 == 0;
        self.is_always.load(Ordering::SeqCst) || self.uses.as_ref().is_some_and(is_one_of_many)
    }
}

impl ClientSource for LeftOpenClients {
    type Lent = Object;

    async fn lend(&self) -> Result<Self::Lent, BoxError> {
        let lent = self.pool.get().await?;
        if self.begins() {
            lent.batch_execute(BEGIN).await?;
        }
        Ok(lent)
    }

    fn client(lent: &Self::Lent) -> &Client {
        lent
    }

    fn discard(lent: Self::Lent) {
        Pool::discard(lent);
    }
}

/// A provider over a pool, every 40th client of which is inside a transaction.
#[allow(dead_code, reason = "the kit alone makes a provider so")]
pub(crate) fn careless(url: &str) -> Result<TokioPostgresProvider, BoxError> {
    let (server, schema) = server_and_schema(url)?;
    let mut clients = LeftOpenClients::new(&server)?;
    clients.uses = Some(Arc::default());
    let builder = TokioPostgresProvider::builder(clients);
    Ok(builder.schema(schema).build()?)
}

#[allow(dead_code, reason = "the kit alone makes a provider so")]
pub(crate) fn left_open(url: &str, schema: &str) -> Result<LeftOpen, BoxError> {
    let clients = LeftOpenClients::new(url)?;
    let is_always = Arc::clone(&clients.is_always);
    let pool = clients.pool.clone();
    let provider = TokioPostgresProvider::builder(clients).schema(schema);
    Ok(LeftOpen::new(
        Arc::new(provider.build()?),
        move || {
            let pool = pool.clone();
            Box::pin(async move {
                let (one, other) = (pool.get().await?, pool.get().await?);
                one.batch_execute(BEGIN).await?;
                other.batch_execute(BEGIN).await?;
                Ok(())
            })
        },
        move || is_always.store(true, Ordering::SeqCst),
    ))
}
