//! Passes its pool to the driver, and runs the library's job under its lock.

use std::sync::Arc;

use shedlock::LockProvider as _;
use shedlock_sqlx::SqliteProvider;
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("no file")?;
    let file = SqliteConnectOptions::new().filename(file);
    let pool = SqlitePool::connect_with(file.create_if_missing(true)).await?;
    let provider = Arc::new(SqliteProvider::new(pool));
    provider.migrate().await?;
    shedlock::set_global_provider(provider)?;
    println!("invoices: {:?}", company_jobs::invoices().await?.value());
    Ok(())
}
