//! Other locks in Rust, measured unmodified, and ours over sqlx 0.8. `cargo xtask bench --peers` starts this program with the word for one of
//! them, and the URL of the store in [`URL`].

mod advisory;
mod ours;
mod redis;

use std::env;

use anyhow::{Context as _, bail};
use shedlock_bench_contender::serve;

/// The variable that contains the URL, which is not visible to other users.
const URL: &str = "SHEDLOCK_BENCH_CONTEND_URL";

fn main() -> anyhow::Result<()> {
    let who = env::args().nth(1);
    let who = who.context("the first argument should name the lock to measure")?;
    let url = env::var(URL).with_context(|| format!("{URL} is not set"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match &*who {
            "distributed-lock-postgres" => {
                serve(advisory::Postgres::connect(&url).await?, "0.2.0, sqlx 0.8").await
            }
            "distributed-lock-mysql" => {
                serve(advisory::MySql::connect(&url).await?, "0.2.0, sqlx 0.8").await
            }
            "shedlock-sqlx08-postgres" => serve(ours::postgres(&url).await?, ours::CLIENT).await,
            "shedlock-sqlx08-mysql" => serve(ours::mysql(&url).await?, ours::CLIENT).await,
            "distributed-lock-redis" => {
                serve(redis::Distributed::connect(&url).await?, "0.2.0, fred 9").await
            }
            "dist_lock" => serve(redis::Dist::connect(&url)?, "0.0.1, redis 0.23").await,
            "rslock" => serve(redis::Red::connect(&url), "0.10.0, redis 1").await,
            other => bail!("there is no contender called {other}"),
        }
    })
}
