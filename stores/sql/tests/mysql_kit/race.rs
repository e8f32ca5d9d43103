//! Checks whether the server lets exactly one of several writers win.

use shedlock_conformance::Verdict;
use shedlock_conformance::contention::{self, CLIENTS, ROUNDS};
use sqlx::MySqlPool;
use sqlx::mysql::MySqlPoolOptions;

use crate::{client, common};

/// Raw clients race for one row, as attempts do.
pub(crate) async fn race(server: &str) -> Verdict {
    let database = common::unique("race");
    let admin = MySqlPool::connect(server).await?;
    let make = format!(
        "CREATE DATABASE {database}; \
         CREATE TABLE {database}.race (id INT PRIMARY KEY, round INT NOT NULL); \
         INSERT INTO {database}.race VALUES (1, 0)"
    );
    sqlx::raw_sql(client::text(make)).execute(&admin).await?;
    let pool = MySqlPoolOptions::new().max_connections(8);
    let pool = pool
        .connect(&common::with_database(server, &database))
        .await?;
    let clients = vec![pool.clone(); CLIENTS];
    let verdict = contention::judge(ROUNDS, &clients, |pool, round| {
        let update = sqlx::query("UPDATE race SET round = ? WHERE id = 1 AND round = ?");
        let update = update.bind(round).bind(round - 1);
        async move { Ok(update.execute(&pool).await?.rows_affected() == 1) }
    });
    let verdict = verdict.await;
    let remove = format!("DROP DATABASE {database}");
    sqlx::raw_sql(client::text(remove)).execute(&admin).await?;
    verdict
}
