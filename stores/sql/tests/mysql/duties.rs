//! Leases that are kept alive although the user's pool has no connection left.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use shedlock::{Executor, Outcome};
use shedlock_sqlx::MySqlProvider;
use sqlx::MySqlPool;

use crate::common::exhausted::{jobs_that_keep, loses_at_its_deadline};
use crate::room::Room;

const LEASE: Duration = Duration::from_secs(6);

/// Runs four jobs that keep the connections of a pool of four.
async fn four_jobs(pool: MySqlPool) -> Vec<Outcome<()>> {
    let provider = MySqlProvider::builder(pool.clone()).build().unwrap();
    let executor = Executor::new(Arc::new(provider));
    let connection = || pool.acquire().boxed();
    jobs_that_keep(&executor, 4, LEASE, connection, async || {}).await
}

pub(crate) async fn jobs_that_hold_all_connections_of_a_pool_keep_their_locks(server: &str) {
    let room = Room::migrated(server).await;
    let outcomes = four_jobs(room.pool("+00:00", "").await).await;
    assert!(!loses_at_its_deadline(&outcomes), "{outcomes:?}");
}

pub(crate) async fn a_connection_that_sees_another_database_proves_nothing(server: &str) {
    let (other, seen) = (Room::migrated(server).await, Room::migrated(server).await);
    let database = seen.url.rsplit('/').next().unwrap();
    let database = database.split('?').next().unwrap();
    // The pool lives as long as the test program.
    let hidden: &'static str = Box::leak(format!("USE {database}").into_boxed_str());
    let outcomes = four_jobs(other.pool("+00:00", hidden).await).await;
    assert!(loses_at_its_deadline(&outcomes), "{outcomes:?}");
}
