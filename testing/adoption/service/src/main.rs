//! The service. Its locks are in the table that `shedlock migrate` creates.

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use sqlx::PgPool;

type Error = Box<dyn std::error::Error + Send + Sync>;

async fn count(State(pool): State<PgPool>) -> String {
    let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM orders");
    match count.fetch_one(&pool).await {
        Ok(count) => count.to_string(),
        Err(error) => error.to_string(),
    }
}

#[cfg(feature = "shedlock")]
mod jobs {
    use std::sync::Arc;

    use shedlock::scheduler::{Handle, Scheduler};
    use shedlock::{Executor, scheduled, scheduler_lock};
    use shedlock_sqlx::PostgresProvider;
    use sqlx::PgPool;

    use super::Error;

    #[scheduled(cron = "0 3 * * *", zone = "Europe/Berlin")]
    #[scheduler_lock(name = "invoices", lock_at_most_for = "10m")]
    async fn invoices(pool: PgPool) -> Result<(), Error> {
        sqlx::query("UPDATE orders SET invoiced = true").execute(&pool).await?;
        Ok(())
    }

    #[scheduled(every = "5m")]
    #[scheduler_lock(name = "expire", lock_at_most_for = "4m")]
    async fn expire(pool: PgPool) -> Result<(), Error> {
        sqlx::query("DELETE FROM carts WHERE expires < now()").execute(&pool).await?;
        Ok(())
    }

    pub(crate) fn start(pool: &PgPool) -> Result<Handle, shedlock::Error> {
        let provider = PostgresProvider::new(pool.clone());
        let scheduler = Scheduler::new(Executor::new(Arc::new(provider)));
        let scheduler = scheduler.job(invoices::job(pool.clone()));
        scheduler.job(expire::job(pool.clone())).start()
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt::init();
    let pool = PgPool::connect("postgres://localhost/app").await?;
    #[cfg(feature = "shedlock")]
    let jobs = jobs::start(&pool)?;
    let router = Router::new().route("/orders", get(count)).with_state(pool.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    let stop = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    axum::serve(listener, router).with_graceful_shutdown(stop).await?;
    // Running jobs end before the pool that they and their locks use.
    #[cfg(feature = "shedlock")]
    jobs.shutdown(std::time::Duration::from_secs(25)).await?;
    pool.close().await;
    Ok(())
}
