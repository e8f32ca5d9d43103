//! Jobs that hold all connections of a pool.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, try_join_all};
use shedlock::{Clock as _, Executor, LockConfig, LostReason, Outcome, Release, SystemClock};
use tokio::sync::Barrier;

pub(crate) async fn sleep(duration: Duration) {
    SystemClock.sleep_until(SystemClock.now() + duration).await;
}

/// Runs this many jobs under locks that are kept alive. Once each has taken a connection, all keep them for two leases.
/// Calls `meanwhile` then.
pub(crate) async fn jobs_that_keep<C: Send + 'static>(
    executor: &Executor,
    jobs: usize,
    lease: Duration,
    connection: impl Fn() -> BoxFuture<'static, sqlx::Result<C>>,
    meanwhile: impl AsyncFnOnce(),
) -> Vec<Outcome<()>> {
    let barrier = Arc::new(Barrier::new(jobs + 1));
    let jobs = (0..jobs).map(|job| {
        let (executor, barrier, connection) = (executor.clone(), barrier.clone(), connection());
        tokio::spawn(async move {
            let config = LockConfig::new(format!("job {job}"));
            let config = config.lock_at_most_for(lease).keep_alive();
            let task = async {
                barrier.wait().await;
                let connection = connection.await;
                barrier.wait().await;
                let _kept = connection.expect("the pool has a connection for each job");
                sleep(2 * lease).await;
            };
            let outcome = executor.execute(&config, task).await;
            outcome.expect("the lock is free and the store replies")
        })
    });
    let mut jobs = try_join_all(jobs);
    tokio::select! {
        ended = &mut jobs => panic!("{ended:?}"),
        () = async {
            barrier.wait().await;
            barrier.wait().await;
        } => {}
    }
    meanwhile().await;
    jobs.await.expect("no job panics")
}

/// Whether a job lost its lock at its deadline. The others may get the connection that it gives back then. None loses it
/// in another way.
pub(crate) fn loses_at_its_deadline(outcomes: &[Outcome<()>]) -> bool {
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
    at_its_deadline.count() > 0
}
