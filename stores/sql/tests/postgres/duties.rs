//! Leases that are kept alive although the user's pool, or the user's runtime, has nothing left for them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use shedlock::{Clock as _, Executor, LockConfig, LostReason, Outcome, Release, SystemClock};
use shedlock_core::{ErrorKind, LockProvider};
use shedlock_sql::PostgresProvider;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Executor as _, PgPool};
use tokio::sync::Barrier;

use crate::bouncer::{self, Bouncer};
use crate::common::{server, unique, with_option};
use crate::room::{Room, refusal};

const LEASE: Duration = Duration::from_secs(2);

async fn sleep(duration: Duration) {
    SystemClock.sleep_until(SystemClock.now() + duration).await;
}

impl Room {
    /// How many sessions have this name.
    async fn sessions(&self, name: &str) -> i64 {
        let of = format!("FROM pg_stat_activity WHERE application_name = '{name}'");
        self.number(&format!("SELECT count(*) {of}")).await
    }
}

fn options(name: &str) -> PgConnectOptions {
    let options: PgConnectOptions = server("postgres").parse().unwrap();
    options.application_name(name)
}

async fn pool(size: u32, options: PgConnectOptions) -> PgPool {
    let pool = PgPoolOptions::new().max_connections(size);
    pool.connect_with(options).await.unwrap()
}

/// Runs three jobs under locks that are kept alive. Each has a transaction open for two leases, and so keeps a connection
/// of the pool, also behind PgBouncer. Calls `meanwhile` then.
async fn three_jobs(
    executor: &Executor,
    pool: &PgPool,
    meanwhile: impl AsyncFnOnce(),
) -> Vec<Outcome<()>> {
    let barrier = Arc::new(Barrier::new(4));
    let jobs = (0..3).map(|job| {
        let (executor, pool, barrier) = (executor.clone(), pool.clone(), barrier.clone());
        tokio::spawn(async move {
            let config = LockConfig::new(format!("job {job}"));
            let config = config.lock_at_most_for(LEASE).keep_alive();
            let task = async {
                barrier.wait().await;
                let transaction = pool.begin().await;
                barrier.wait().await;
                let _open = transaction.unwrap();
                sleep(2 * LEASE).await;
            };
            executor.execute(&config, task).await.unwrap()
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
    jobs.await.unwrap()
}

#[tokio::test]
async fn jobs_that_hold_all_connections_of_a_pool_keep_their_locks() {
    let room = Room::migrated().await;
    let (first, rotated) = (unique("first"), unique("rotated"));
    let pool = pool(3, options(&first)).await;
    let provider = PostgresProvider::builder(pool.clone()).schema(&room.schema);
    let executor = Executor::new(Arc::new(provider.build().unwrap()));
    // As for passwords that are valid for minutes: the connection gets the options of the moment.
    pool.set_connect_options(options(&rotated));
    let outcomes = three_jobs(&executor, &pool, async || {
        sleep(LEASE * 3 / 2).await;
        assert_eq!(
            room.sessions(&rotated).await + room.sessions(&first).await,
            4
        );
        assert!(room.sessions(&rotated).await >= 1);
    });
    for outcome in outcomes.await {
        let Outcome::Executed {
            release: Release::Released,
            ..
        } = outcome
        else {
            panic!("{outcome:?}")
        };
    }
}

/// Whether a job lost its lock at its deadline. The others may get the connection that it gives back then. None loses it
/// in another way.
fn loses_at_its_deadline(outcomes: &[Outcome<()>]) -> bool {
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

/// With one session more than the jobs use, and at its limits of sessions and of clients.
#[tokio::test]
async fn behind_pgbouncer_jobs_keep_their_locks_if_it_has_one_session_more() {
    for (sessions, clients, keeps) in [(4, 100, true), (3, 100, false), (4, 3, false)] {
        let Some(bouncer) = Bouncer::with(&[]).await else {
            return;
        };
        let url = bouncer.database().await;
        bouncer
            .set("default_pool_size", &sessions.to_string())
            .await;
        let pool = pool(3, bouncer::options(&url)).await;
        let provider = PostgresProvider::builder(pool.clone()).prepared(false);
        let executor = Executor::new(Arc::new(provider.build().unwrap()));
        // Those of the pool are there when the limit is set.
        let all = tokio::join!(pool.acquire(), pool.acquire(), pool.acquire());
        drop((all.0.unwrap(), all.1.unwrap(), all.2.unwrap()));
        bouncer.set("max_client_conn", &clients.to_string()).await;
        let outcomes = three_jobs(&executor, &pool, async || {}).await;
        assert_eq!(
            !loses_at_its_deadline(&outcomes),
            keeps,
            "{sessions} sessions, {clients} clients: {outcomes:?}"
        );
    }
}

#[tokio::test]
async fn a_connection_that_sees_another_table_proves_nothing() {
    let (seen, other) = (Room::migrated().await, Room::migrated().await);
    let hidden = format!("SET search_path = {}", seen.schema);
    let pool = PgPoolOptions::new()
        .max_connections(3)
        .after_connect(move |connection, _| {
            let hidden = hidden.clone();
            Box::pin(async move {
                connection.execute(sqlx::AssertSqlSafe(hidden)).await?;
                Ok(())
            })
        });
    let options = options("other").options([("search_path", &other.schema)]);
    let pool = pool.connect_with(options).await.unwrap();
    let provider = PostgresProvider::builder(pool.clone()).build().unwrap();
    let executor = Executor::new(Arc::new(provider));
    // The pool was exhausted until the deadline, and the other table has no such lease.
    let outcomes = three_jobs(&executor, &pool, async || {}).await;
    assert!(loses_at_its_deadline(&outcomes), "{outcomes:?}");
}

#[tokio::test]
async fn a_healthy_service_opens_no_connection_for_duties() {
    let room = Room::migrated().await;
    let (ours, theirs) = (unique("ours"), unique("theirs"));
    let own = with_option(&room.url, "application_name", &ours);
    let pool = pool(1, options(&theirs)).await;
    let over_pool = PostgresProvider::builder(pool.clone()).schema(&room.schema);
    let providers: [(Arc<dyn LockProvider>, _); 2] = [
        (
            Arc::new(PostgresProvider::connect(&own).await.unwrap()),
            ours,
        ),
        (Arc::new(over_pool.build().unwrap()), theirs),
    ];
    for (provider, name) in providers {
        assert!(provider.capabilities().duties);
        let executor = Executor::new(provider);
        let config = LockConfig::new(&name).lock_at_most_for(LEASE).keep_alive();
        let run = executor.execute(&config, async {
            sleep(3 * LEASE).await;
            room.sessions(&name).await
        });
        assert_eq!(run.await.unwrap().value(), Some(1));
    }
}

#[tokio::test]
async fn an_exhausted_pool_is_named_as_such() {
    let room = Room::migrated().await;
    let pool = pool(2, options("exhausted")).await;
    let provider = PostgresProvider::builder(pool.clone()).schema(&room.schema);
    let provider = provider.timeout(Duration::from_secs(1)).build().unwrap();
    let _taken = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    let error = refusal(&provider, ErrorKind::Unavailable).await;
    let error = format!("{error:#}");
    assert!(
        error.contains("the pool's connections are all taken"),
        "{error}"
    );
    assert!(
        error.contains("none of the pool's 2 connections"),
        "{error}"
    );
}
