//! tokio-postgres over pools of an application, and its own failures.

use std::sync::Arc;
use std::time::Duration;

use bb8_postgres::{PostgresConnectionManager, bb8};
use shedlock_conformance::proxy::Proxy;
use shedlock_conformance::support::assert_value_outlives_client;
use shedlock_core::{ErrorKind, LockProvider};
use shedlock_sqlx::PostgresProvider;
use shedlock_tokio_postgres::{ClientSource, TokioPostgresProvider};
use sqlx::PgPool;
use tokio_postgres::NoTls;

use crate::common::silence::{TIMEOUT, every_method_returns};
use crate::common::{address, server};
use crate::room::{Room, free, name, request, take};
use crate::sources::deadpool;

type Bb8 = bb8::Pool<PostgresConnectionManager<NoTls>>;

async fn bb8(url: &str) -> Bb8 {
    let manager = PostgresConnectionManager::new_from_stringlike(url, NoTls).unwrap();
    bb8::Pool::builder()
        .max_size(2)
        .build(manager)
        .await
        .unwrap()
}

fn postgres() -> String {
    server("postgres")
}

#[tokio::test]
async fn locks_are_kept_over_a_pool_of_bb8() {
    let room = Room::migrated().await;
    let pool = bb8(&postgres()).await;
    let provider = TokioPostgresProvider::builder(pool).schema(&room.schema);
    let provider = provider.build().unwrap();
    let lease = take(&provider, "job").await;
    assert!(lease.fencing_token().is_some());
    // A provider over sqlx sees the same lock.
    let seen = room.provider().await.inspect(&name("job")).await.unwrap();
    assert_eq!(seen.unwrap().owner.as_deref(), Some(lease.owner().as_str()));
    free(&provider, &lease).await;
}

/// As when a shutdown closes the pool first and then waits for the tasks.
#[tokio::test]
async fn a_closed_pool_holds_no_value_up() {
    let room = Room::migrated().await;
    let pool = PgPool::connect(&postgres()).await.unwrap();
    let provider = PostgresProvider::builder(pool.clone()).schema(&room.schema);
    let provider = Arc::new(provider.build().unwrap());
    assert_value_outlives_client(provider, async { pool.close().await }).await;

    let pool = deadpool(&postgres()).unwrap();
    let all = pool.clone();
    let provider = TokioPostgresProvider::builder(pool).schema(&room.schema);
    let provider = Arc::new(provider.build().unwrap());
    assert_value_outlives_client(provider, async { all.close() }).await;
}

/// An abandoned call leaves a statement that the server is still executing.
async fn session_is_not_lent_again(source: impl ClientSource, left: impl Fn() -> usize) {
    let room = Room::migrated().await;
    let limit = Duration::from_secs(4);
    let provider = TokioPostgresProvider::builder(source)
        .schema(&room.schema)
        .timeout(limit)
        .build()
        .unwrap();
    let lease = take(&provider, "job").await;
    free(&provider, &lease).await;
    assert_eq!(left(), 1);
    let mut keeper = room.admin.begin().await.unwrap();
    let lock = sqlx::AssertSqlSafe(format!("LOCK TABLE {}.shedlock", room.schema));
    sqlx::raw_sql(lock).execute(&mut *keeper).await.unwrap();
    let error = provider.attempt(&request("job")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert_eq!(left(), 0, "the session waits for the table");
    keeper.rollback().await.unwrap();
    let lease = take(&provider, "other").await;
    free(&provider, &lease).await;
}

#[tokio::test]
async fn a_session_of_deadpool_whose_answer_did_not_come_is_not_lent_again() {
    let pool = deadpool(&postgres()).unwrap();
    let status = pool.clone();
    session_is_not_lent_again(pool, || status.status().size).await;
}

#[tokio::test]
async fn a_session_of_bb8_whose_answer_did_not_come_is_not_lent_again() {
    let pool = bb8(&postgres()).await;
    let state = pool.clone();
    let left = || usize::try_from(state.state().connections).unwrap();
    session_is_not_lent_again(pool, left).await;
}

/// Each connection has a task, which would wait for a reply that is no longer needed.
#[tokio::test]
async fn a_statement_that_is_given_up_leaves_no_connection_behind() {
    let room = Room::migrated().await;
    let url = format!("{}&timeout=4s", room.url);
    let provider = TokioPostgresProvider::connect(&url).await.unwrap();
    let lease = take(&provider, "job").await;
    free(&provider, &lease).await;
    let mut keeper = room.admin.begin().await.unwrap();
    let lock = sqlx::AssertSqlSafe(format!("LOCK TABLE {}.shedlock", room.schema));
    sqlx::raw_sql(lock).execute(&mut *keeper).await.unwrap();
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    for _ in 0..3 {
        provider.attempt(&request("job")).await.unwrap_err();
    }
    tokio::task::yield_now().await;
    assert!(tasks() < before, "{} tasks, and {before} before", tasks());
    keeper.rollback().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_hangs_on_a_pool_of_tokio_postgres() {
    let room = Room::migrated().await;
    let server = postgres();
    let proxy = Proxy::start(address(&server, 5432).unwrap()).await.unwrap();
    let mut url = url::Url::parse(&server).unwrap();
    url.set_ip_host(proxy.addr().ip()).unwrap();
    url.set_port(Some(proxy.addr().port())).unwrap();
    let provider = TokioPostgresProvider::builder(deadpool(url.as_str()).unwrap())
        .schema(&room.schema)
        .timeout(TIMEOUT)
        .build()
        .unwrap();
    every_method_returns(&provider, &proxy).await;
}

#[tokio::test]
async fn errors_of_tokio_postgres_say_what_to_do() {
    let at = |change: &dyn Fn(&mut url::Url)| {
        let mut url = url::Url::parse(&postgres()).unwrap();
        change(&mut url);
        url.to_string()
    };
    let nowhere = at(&|url| url.set_port(Some(1)).unwrap());
    let nowhere = TokioPostgresProvider::connect(&nowhere).await.unwrap_err();
    assert_eq!(nowhere.kind(), ErrorKind::Unavailable, "{nowhere}");
    let no_database = at(&|url| url.set_path("no_such_database"));
    let error = TokioPostgresProvider::connect(&no_database)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    // The test server has no TLS.
    let verified = at(&|url| url.set_query(Some("sslmode=verify-full")));
    let error = TokioPostgresProvider::connect(&verified).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    let unknown = at(&|url| url.set_query(Some("tabel=x")));
    let error = TokioPostgresProvider::connect(&unknown).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(
        error.to_string().contains("target_session_attrs"),
        "{error}"
    );
    // A pool returns its own error, which contains the server's.
    let pool = deadpool(&no_database).unwrap();
    let provider = TokioPostgresProvider::builder(pool).build().unwrap();
    let error = provider.attempt(&request("job")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
}
