//! Leases that are kept alive although the user's pool has no connection left.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use shedlock::{Clock as _, Executor, LockConfig, LostReason, Outcome, Release, SystemClock};
use shedlock_sql::MySqlProvider;
use sqlx::MySqlPool;
use tokio::sync::Barrier;

use crate::room::Room;

const LEASE: Duration = Duration::from_secs(3);

/// Runs four jobs under locks that are kept alive. Once each has a connection of a pool of four, all keep them for two
/// leases.
async fn four_jobs(pool: MySqlPool) -> Vec<Outcome<()>> {
    let provider = MySqlProvider::builder(pool.clone()).build().unwrap();
    let executor = Executor::new(Arc::new(provider));
    let barrier = Arc::new(Barrier::new(4));
    let jobs = (0..4).map(|job| {
        let (executor, pool, barrier) = (executor.clone(), pool.clone(), barrier.clone());
        tokio::spawn(async move {
            let config = LockConfig::new(format!("job {job}"));
            let config = config.lock_at_most_for(LEASE).keep_alive();
            let task = async {
                barrier.wait().await;
                let connection = pool.acquire().await;
                barrier.wait().await;
                let _kept = connection.unwrap();
                SystemClock.sleep_until(SystemClock.now() + 2 * LEASE).await;
            };
            executor.execute(&config, task).await.unwrap()
        })
    });
    try_join_all(jobs).await.unwrap()
}

pub(crate) async fn jobs_that_hold_all_connections_of_a_pool_keep_their_locks(server: &str) {
    let room = Room::migrated(server).await;
    for outcome in four_jobs(room.pool("+00:00", "").await).await {
        let Outcome::Executed {
            release: Release::Released,
            ..
        } = outcome
        else {
            panic!("{outcome:?}")
        };
    }
}

pub(crate) async fn a_connection_that_sees_another_database_proves_nothing(server: &str) {
    let (other, seen) = (Room::migrated(server).await, Room::migrated(server).await);
    let database = seen.url.rsplit('/').next().unwrap();
    let database = database.split('?').next().unwrap();
    // The pool lives as long as the test program.
    let hidden: &'static str = Box::leak(format!("USE {database}").into_boxed_str());
    let outcomes = four_jobs(other.pool("+00:00", hidden).await).await;
    // Once a job has lost its lock at its deadline, the others may get its connection. None loses it in another way.
    let at_its_deadline = outcomes.iter().filter(|outcome| match outcome {
        Outcome::Executed {
            release: Release::Released,
            ..
        } => false,
        Outcome::Lost {
            reason: LostReason::DeadlinePassed,
            ..
        } => true,
        outcome => panic!("{outcome:?}"),
    });
    assert!(at_its_deadline.count() > 0, "{outcomes:?}");
}
