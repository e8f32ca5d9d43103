//! An application on sea-orm 2 passes the pool of its connection, in one line.

use std::time::Duration;

use sea_orm::{ConnectOptions, Database};
use shedlock_core::{
    Attempt, AttemptRequest, LockName, LockProvider as _, Owner, Unlock, UnlockRequest,
};
use shedlock_sqlx::PostgresProvider;

#[tokio::test]
async fn an_application_on_sea_orm_2_passes_the_pool_of_its_connection() {
    let server = shedlock_rig::given::server("postgres");
    let db = Database::connect(ConnectOptions::new(server)).await;
    let db = db.expect("a connection");
    let provider = PostgresProvider::new(db.get_postgres_connection_pool().clone());

    let _ = provider.migrate().await.expect("the table is created");
    let owner = Owner::generate();
    let name = LockName::new(format!("sea-orm-2 {owner}")).expect("a name");
    let request = AttemptRequest::new(name, owner, Duration::from_secs(60));
    let attempt = provider.attempt(&request).await.expect("an answer");
    let Attempt::Acquired(lease) = attempt else {
        panic!("another holds it: {attempt:?}");
    };
    let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.expect("an answer"), Unlock::Unlocked);
}
