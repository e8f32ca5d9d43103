//! Pools of tokio-postgres, as an application would pass them.

use shedlock_sql::{ClientSource, TokioPostgresProvider};
use tokio_postgres::{Client, NoTls};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A pool of deadpool.
#[derive(Clone, Debug)]
pub(crate) struct Deadpool(pub(crate) deadpool_postgres::Pool);

impl Deadpool {
    pub(crate) fn new(url: &str) -> Result<Self, BoxError> {
        Self::sized(url, 4)
    }

    pub(crate) fn sized(url: &str, size: usize) -> Result<Self, BoxError> {
        let manager = deadpool_postgres::Manager::new(url.parse()?, NoTls);
        let pool = deadpool_postgres::Pool::builder(manager).max_size(size);
        Ok(Self(pool.build()?))
    }
}

impl ClientSource for Deadpool {
    type Lent = deadpool_postgres::Object;

    async fn lend(&self) -> Result<Self::Lent, BoxError> {
        Ok(self.0.get().await?)
    }

    fn client(lent: &Self::Lent) -> &Client {
        lent
    }

    fn discard(lent: Self::Lent) {
        drop(deadpool_postgres::Object::take(lent));
    }
}

/// A provider over a pool of deadpool, from a provider's URL.
#[allow(dead_code, reason = "the kit alone makes a provider so")]
pub(crate) fn over_deadpool(url: &str) -> Result<TokioPostgresProvider, BoxError> {
    let mut url = url::Url::parse(url)?;
    let options: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    url.set_query(None);
    let mut builder = TokioPostgresProvider::builder(Deadpool::new(url.as_str())?);
    for (name, value) in options {
        builder = match &*name {
            "schema" => builder.schema(value),
            "prepared" => builder.prepared(value == "true"),
            _ => return Err(format!("option {name} is not for pools").into()),
        };
    }
    Ok(builder.build()?)
}
