//! Leases that are kept alive although the user's pool, or the user's runtime, has nothing left for them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use shedlock::{Executor, JobsRequest, LockConfig, Outcome};
use shedlock_core::{ErrorKind, ExtendRequest, LockProvider, UnlockRequest};
use shedlock_sqlx::{Duties, PostgresProvider};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Executor as _, PgPool};

use crate::bouncer::{self, Bouncer};
use crate::common::exhausted::{jobs_that_keep, loses_at_its_deadline, sleep};
use crate::common::{server, unique, with_option};
use crate::room::{Room, refusal, request, take};

const LEASE: Duration = Duration::from_secs(6);

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

/// Runs three jobs, each with an open transaction, which keeps a connection of the pool also behind PgBouncer.
async fn three_jobs(
    executor: &Executor,
    pool: &PgPool,
    meanwhile: impl AsyncFnOnce(),
) -> Vec<Outcome<()>> {
    let transaction = || {
        let pool = pool.clone();
        async move { pool.begin().await }.boxed()
    };
    jobs_that_keep(executor, 3, LEASE, transaction, meanwhile).await
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
    let outcomes = outcomes.await;
    assert!(!loses_at_its_deadline(&outcomes), "{outcomes:?}");
}

#[tokio::test]
async fn without_connections_of_its_own_a_provider_loses_the_leases_of_a_pool_that_is_taken() {
    let room = Room::migrated().await;
    let name = unique("pool-only");
    let pool = pool(3, options(&name)).await;
    let provider = PostgresProvider::builder(pool.clone()).schema(&room.schema);
    let provider = provider.duties(Duties::Pool).build().unwrap();
    let executor = Executor::new(Arc::new(provider));
    let outcomes = three_jobs(&executor, &pool, async || {
        sleep(LEASE / 2).await;
        assert_eq!(room.sessions(&name).await, 3);
    });
    assert!(loses_at_its_deadline(&outcomes.await));
}

/// Its locks, its journal and the duties of its tasks: no more than four connections, and none of the pool.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_beside_a_pool_opens_four_connections_at_most() {
    let room = Room::migrated().await;
    let name = unique("beside");
    let pool = pool(1, options(&name)).await;
    let mut taken = pool.acquire().await.unwrap();
    let builder = PostgresProvider::builder(pool.clone()).beside();
    let provider = Arc::new(builder.schema(&room.schema).build().unwrap());
    let journal = provider.journal().expect("SQL has a journal");
    journal.migrate().await.unwrap();
    let duties = provider.for_duties().expect("it opens another connection");
    let duties = duties.await.unwrap();
    let names: Vec<_> = (0..40)
        .map(|at| crate::room::name(&format!("job-{at}")))
        .collect();
    let all = JobsRequest::default();
    let looks = names.iter().map(|name| provider.inspect(name));
    let second_looks = names.iter().map(|name| duties.inspect(name));
    let jobs = (0..10).map(|_| journal.jobs(&all));
    let (looks, second_looks, jobs) =
        futures_util::join!(join_all(looks), join_all(second_looks), join_all(jobs));
    assert!(looks.iter().chain(&second_looks).all(Result::is_ok) && jobs.iter().all(Result::is_ok));
    assert_eq!(
        room.sessions(&name).await,
        4 + 1,
        "four, and that of the pool"
    );
    sqlx::query("SELECT 1").execute(&mut *taken).await.unwrap();
}

/// With one session more than the jobs use, and at its limits of sessions and of clients.
#[tokio::test]
async fn behind_pgbouncer_jobs_keep_their_locks_if_it_has_one_session_more() {
    let mut cases = Vec::new();
    for case in [(4, 100, true), (3, 100, false), (4, 3, false)] {
        let Some(bouncer) = Bouncer::with(&[]).await else {
            return;
        };
        cases.push((bouncer, case));
    }
    let runs = cases.iter().map(async |(bouncer, case)| {
        let (sessions, clients, keeps) = case;
        let url = bouncer.database().await;
        bouncer
            .set("default_pool_size", &sessions.to_string())
            .await;
        let pool = pool(3, bouncer::options(&url)).await;
        let provider = PostgresProvider::builder(pool.clone());
        let executor = Executor::new(Arc::new(provider.build().unwrap()));
        // Those of the pool are there when the limit is set.
        let all = tokio::join!(pool.acquire(), pool.acquire(), pool.acquire());
        drop((all.0.unwrap(), all.1.unwrap(), all.2.unwrap()));
        bouncer.set("max_client_conn", &clients.to_string()).await;
        let outcomes = three_jobs(&executor, &pool, async || {}).await;
        assert_eq!(
            !loses_at_its_deadline(&outcomes),
            *keeps,
            "{sessions} sessions, {clients} clients: {outcomes:?}"
        );
    });
    join_all(runs).await;
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
    let provider = Arc::new(provider);
    // It changes nothing in the other table, and what it does not find there is no reply.
    let lease = take(&*provider, "taken").await;
    let second = provider.for_duties().unwrap().await.unwrap();
    let withdrawn = request("withdrawn");
    let errors = [
        second
            .extend(&lease, &ExtendRequest::new(LEASE))
            .await
            .err(),
        second.unlock(&lease, &UnlockRequest::new()).await.err(),
        second.withdraw(&withdrawn).await.err(),
    ];
    for error in errors {
        assert_eq!(
            error.map(|error| error.kind()),
            Some(ErrorKind::Configuration)
        );
    }
    let records = format!("SELECT count(*) FROM {}.shedlock", other.schema);
    assert_eq!(other.number(&records).await, 0);
    let executor = Executor::new(provider);
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
    let runs = providers.map(async |(provider, name)| {
        assert!(provider.capabilities().duties);
        let executor = Executor::new(provider);
        // Extended once meanwhile, after a third, and by the duties after a half.
        let config = LockConfig::new(&name)
            .lock_at_most_for(4 * LEASE)
            .keep_alive();
        let run = executor.execute(&config, async {
            sleep(LEASE + LEASE / 2 + LEASE / 3).await;
            room.sessions(&name).await
        });
        assert_eq!(run.await.unwrap().value(), Some(1));
    });
    join_all(runs).await;
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
