//! Applications on sqlx 0.8 and on sea-orm 1 pass what they have, in one line.

#[path = "../../sql/tests/common/mod.rs"]
mod common;

use std::time::Duration;

use sea_orm::Database;
use shedlock_core::{
    Attempt, AttemptRequest, LockName, LockProvider, Owner, Unlock, UnlockRequest,
};
use shedlock_sqlx08::{MySqlProvider, PostgresProvider};
use sqlx::{Executor as _, MySqlPool, PgPool};

/// A lock is taken and given back in the table that the provider creates.
async fn locks(provider: &dyn LockProvider) {
    let _ = provider.migrate().await.expect("the table is created");
    let name = LockName::new("payroll").expect("a name");
    let request = AttemptRequest::new(name, Owner::generate(), Duration::from_secs(60));
    let attempt = provider.attempt(&request).await.expect("an answer");
    let Attempt::Acquired(lease) = attempt else {
        panic!("another holds it: {attempt:?}");
    };
    let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.expect("an answer"), Unlock::Unlocked);
}

/// Runs a test in a database of its own, because no second lock table is created in one.
macro_rules! in_database {
    ($pool:ty, $server:expr, |$url:ident| $test:expr) => {{
        let server = $server;
        let database = common::unique("application");
        let admin = <$pool>::connect(&server).await.expect("a pool");
        let make = format!("CREATE DATABASE {database}");
        admin.execute(&*make).await.expect("a database");
        let $url = common::with_database(&server, &database);
        $test;
        let remove = format!("DROP DATABASE {database}");
        admin.execute(&*remove).await.expect("it is removed");
    }};
}

#[tokio::test]
async fn an_application_on_sqlx_0_8_passes_its_pool_in_one_line() {
    in_database!(PgPool, common::server("postgres"), |url| {
        let pool = PgPool::connect(&url).await.expect("a pool");
        let provider = PostgresProvider::new(pool.clone());
        locks(&provider).await;
        pool.close().await;
    });
}

#[tokio::test]
async fn an_application_on_mysql_does_too() {
    // The run may be about PostgreSQL alone.
    let Some(server) = common::server_if_any("mariadb") else {
        return;
    };
    in_database!(MySqlPool, server, |url| {
        let pool = MySqlPool::connect(&url).await.expect("a pool");
        let provider = MySqlProvider::new(pool.clone());
        locks(&provider).await;
        pool.close().await;
    });
}

#[tokio::test]
async fn an_application_on_sea_orm_1_passes_the_pool_of_its_connection() {
    in_database!(PgPool, common::server("postgres"), |url| {
        let db = Database::connect(url).await.expect("a connection");
        let provider = PostgresProvider::new(db.get_postgres_connection_pool().clone());
        locks(&provider).await;
        db.close().await.expect("it closes");
    });
}
