//! Applications on sqlx 0.8 and on sea-orm 1 pass what they have, in one line.

#[path = "../../sql/tests/common/mod.rs"]
mod common;

use std::time::Duration;

use sea_orm::{ConnectOptions, Database};
use shedlock_core::{
    Attempt, AttemptRequest, LockName, LockProvider, Owner, Unlock, UnlockRequest,
};
use shedlock_sqlx08::{MySqlProvider, PostgresProvider};

/// Creates the table, if it is missing, and takes and gives back a lock of its own.
async fn locks(provider: &dyn LockProvider) {
    let _ = provider.migrate().await.expect("the table is created");
    let name = LockName::new(common::unique("application")).expect("a name");
    let request = AttemptRequest::new(name, Owner::generate(), Duration::from_secs(60));
    let attempt = provider.attempt(&request).await.expect("an answer");
    let Attempt::Acquired(lease) = attempt else {
        panic!("another holds {attempt:?}");
    };
    let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.expect("an answer"), Unlock::Unlocked);
}

#[tokio::test]
async fn an_application_on_sqlx_0_8_passes_its_pool_in_one_line() {
    let server = common::server("postgres");
    let pool = sqlx::PgPool::connect(&server).await.expect("a pool");
    let provider = PostgresProvider::new(pool);
    locks(&provider).await;
}

#[tokio::test]
async fn an_application_on_mysql_does_too() {
    let server = common::server("mariadb");
    let pool = sqlx::MySqlPool::connect(&server).await.expect("a pool");
    let provider = MySqlProvider::new(pool);
    locks(&provider).await;
}

#[tokio::test]
async fn an_application_on_sea_orm_1_passes_the_pool_of_its_connection() {
    let mut server = ConnectOptions::new(common::server("postgres"));
    server.sqlx_logging(false);
    let db = Database::connect(server).await.expect("a connection");
    let provider = PostgresProvider::new(db.get_postgres_connection_pool().clone());
    locks(&provider).await;
}
