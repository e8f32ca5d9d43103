//! `distributed-lock` over databases: locks that last as long as the session that took them, and that leave no record.

use anyhow::Context as _;
use distributed_lock_core::traits::{DistributedLock, LockHandle as _, LockProvider as _};
use distributed_lock_mysql::MySqlLockProvider;
use distributed_lock_postgres::PostgresLockProvider;
use shedlock_bench_contender::{BoxFuture, Contestant, Worker};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;

/// As many as every contender has.
pub(crate) const CONNECTIONS: u32 = 64;

/// `pg_try_advisory_lock`.
pub(crate) struct Postgres(PostgresLockProvider);

/// `GET_LOCK`.
pub(crate) struct MySql(MySqlLockProvider);

impl Postgres {
    pub(crate) async fn connect(url: &str) -> anyhow::Result<Self> {
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS);
        let pool = pool.connect(url).await?;
        Ok(Self(
            PostgresLockProvider::builder().pool(pool).build().await?,
        ))
    }
}

impl MySql {
    pub(crate) async fn connect(url: &str) -> anyhow::Result<Self> {
        let pool = MySqlPoolOptions::new().max_connections(CONNECTIONS);
        let pool = pool.connect(url).await?;
        Ok(Self(MySqlLockProvider::builder().pool(pool).build().await?))
    }
}

/// A lock, and its handle while it is held.
pub(crate) struct Handled<L: DistributedLock> {
    lock: L,
    held: Option<L::Handle>,
}

impl<L: DistributedLock> Handled<L> {
    pub(crate) fn new(lock: L) -> Self {
        Self { lock, held: None }
    }
}

impl<L: DistributedLock> Worker for Handled<L> {
    fn take(&mut self) -> BoxFuture<'_, anyhow::Result<bool>> {
        Box::pin(async {
            self.held = self.lock.try_acquire().await?;
            Ok(self.held.is_some())
        })
    }

    fn free(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async {
            let held = self.held.take().context("nothing is held")?;
            Ok(held.release().await?)
        })
    }
}

impl Contestant for Postgres {
    fn worker<'a>(&'a mut self, name: &'a str) -> BoxFuture<'a, anyhow::Result<Box<dyn Worker>>> {
        let worker = Handled::new(self.0.create_lock(name));
        Box::pin(async { Ok(Box::new(worker) as Box<dyn Worker>) })
    }
}

impl Contestant for MySql {
    fn worker<'a>(&'a mut self, name: &'a str) -> BoxFuture<'a, anyhow::Result<Box<dyn Worker>>> {
        let worker = Handled::new(self.0.create_lock(name));
        Box::pin(async { Ok(Box::new(worker) as Box<dyn Worker>) })
    }
}
