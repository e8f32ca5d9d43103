//! An application on sea-orm 2 passes the pool of its connection, in one line.

use std::time::Duration;

use sea_orm::{ConnectionTrait as _, Database};
use shedlock_core::{
    Attempt, AttemptRequest, LockName, LockProvider as _, Owner, Unlock, UnlockRequest,
};
use shedlock_sqlx::PostgresProvider;

#[tokio::test]
async fn an_application_on_sea_orm_2_passes_the_pool_of_its_connection() {
    // In a database of its own, because no second lock table is created in one.
    let server = shedlock_rig::given::server("postgres");
    let admin = Database::connect(&server).await.expect("a connection");
    let database = format!("sea_orm_2_{}", std::process::id());
    let make = format!("CREATE DATABASE {database}");
    let _ = admin.execute_unprepared(&make).await.expect("a database");
    let (server_only, _) = server.rsplit_once('/').expect("a database in the URL");
    let url = format!("{server_only}/{database}");
    let db = Database::connect(url).await.expect("a connection");

    let provider = PostgresProvider::new(db.get_postgres_connection_pool().clone());

    let _ = provider.migrate().await.expect("the table is created");
    let name = LockName::new("payroll").expect("a name");
    let request = AttemptRequest::new(name, Owner::generate(), Duration::from_secs(60));
    let attempt = provider.attempt(&request).await.expect("an answer");
    let Attempt::Acquired(lease) = attempt else {
        panic!("another holds it: {attempt:?}");
    };
    let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(unlocked.expect("an answer"), Unlock::Unlocked);
    db.close().await.expect("it closes");
    let remove = format!("DROP DATABASE {database}");
    let _ = admin.execute_unprepared(&remove).await.expect("it is gone");
}
