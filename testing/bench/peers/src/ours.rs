//! Our providers over pools of sqlx 0.8, which do not test before each use whether a connection is alive.

use std::sync::Arc;

use shedlock_bench_contender::Ours;
use shedlock_sqlx08::{MySqlProvider, PostgresProvider};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;

use crate::advisory::CONNECTIONS;

pub(crate) const CLIENT: &str = "sqlx 0.8";

pub(crate) async fn postgres(url: &str) -> anyhow::Result<Ours> {
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS);
    let pool = pool.test_before_acquire(false).connect(url).await?;
    Ok(Ours(Arc::new(PostgresProvider::new(pool))))
}

pub(crate) async fn mysql(url: &str) -> anyhow::Result<Ours> {
    let pool = MySqlPoolOptions::new().max_connections(CONNECTIONS);
    let pool = pool.test_before_acquire(false).connect(url).await?;
    Ok(Ours(Arc::new(MySqlProvider::new(pool))))
}
