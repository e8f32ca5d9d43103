//! diesel-async over its own pools, as an application passes them.

use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, bb8};
use shedlock_core::LockProvider as _;
use shedlock_diesel_async::{PostgresProvider, diesel_async};

use crate::common::server;
use crate::room::{Room, free, name, take};

fn manager(url: &str) -> AsyncDieselConnectionManager<AsyncPgConnection> {
    AsyncDieselConnectionManager::new(url)
}

#[tokio::test]
async fn a_pool_of_bb8_is_passed_as_it_is() {
    let room = Room::migrated().await;
    let pool = bb8::Pool::builder().max_size(2);
    let pool = pool.build(manager(&server("postgres"))).await.unwrap();
    let provider = PostgresProvider::builder(pool).schema(&room.schema);
    let provider = provider.build().unwrap();
    let lease = take(&provider, "job").await;
    assert!(lease.fencing_token().is_some());
    // A provider over sqlx sees the same lock.
    let seen = room.provider().await.inspect(&name("job")).await.unwrap();
    assert_eq!(seen.unwrap().owner.as_deref(), Some(lease.owner().as_str()));
    free(&provider, &lease).await;
}
