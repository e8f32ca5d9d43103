//! diesel-async over its own pools, as an application passes them.

use std::time::Duration;

use shedlock_conformance::proxy::Proxy;
use shedlock_conformance::support::assert_value_outlives_client;
use shedlock_core::{Attempt, ErrorKind, LockProvider};
use shedlock_diesel_async::diesel_async::pooled_connection::{
    AsyncDieselConnectionManager, bb8, deadpool, mobc,
};
use shedlock_diesel_async::diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use shedlock_diesel_async::{ConnectionSource, PostgresProvider};
use sqlx::AssertSqlSafe;

use crate::common::silence::{TIMEOUT, every_method_returns};
use crate::common::{address, server};
use crate::room::{Room, SHEDLOCKS, free, name, request, take};

type Connection = AsyncPgConnection;

fn manager(url: &str) -> AsyncDieselConnectionManager<Connection> {
    AsyncDieselConnectionManager::new(url)
}

fn bb8(url: &str) -> bb8::Pool<Connection> {
    bb8::Pool::builder()
        .max_size(2)
        .build_unchecked(manager(url))
}

fn deadpool(url: &str) -> deadpool::Pool<Connection> {
    let pool = deadpool::Pool::builder(manager(url)).max_size(2);
    pool.build().unwrap()
}

fn mobc(url: &str) -> mobc::Pool<Connection> {
    mobc::Pool::builder().max_open(2).build(manager(url))
}

fn over(source: impl ConnectionSource<Connection = Connection>, room: &Room) -> PostgresProvider {
    let provider = PostgresProvider::builder(source).schema(&room.schema);
    provider.build().unwrap()
}

/// A provider over sqlx sees the same lock.
async fn locks_are_shared(provider: PostgresProvider, room: &Room) {
    let lease = take(&provider, "job").await;
    assert!(lease.fencing_token().is_some());
    let seen = room.provider().await.inspect(&name("job")).await.unwrap();
    assert_eq!(seen.unwrap().owner.as_deref(), Some(lease.owner().as_str()));
    free(&provider, &lease).await;
}

#[tokio::test]
async fn a_pool_of_bb8_is_passed_as_it_is() {
    let pool = bb8(&server("postgres"));
    PostgresProvider::builder(pool).build().unwrap();
    let room = Room::migrated().await;
    locks_are_shared(over(bb8(&server("postgres")), &room), &room).await;
}

#[tokio::test]
async fn a_pool_of_deadpool_is_passed_as_it_is() {
    let room = Room::migrated().await;
    locks_are_shared(over(deadpool(&server("postgres")), &room), &room).await;
}

#[tokio::test]
async fn a_pool_of_mobc_is_passed_as_it_is() {
    let room = Room::migrated().await;
    locks_are_shared(over(mobc(&server("postgres")), &room), &room).await;
}

/// An abandoned call leaves a statement that the server is still executing.
async fn session_is_not_lent_again(
    source: impl ConnectionSource<Connection = Connection>,
    left: impl AsyncFn() -> u64,
) {
    let room = Room::migrated().await;
    let limit = Duration::from_secs(4);
    let provider = PostgresProvider::builder(source)
        .schema(&room.schema)
        .timeout(limit)
        .build()
        .unwrap();
    let lease = take(&provider, "job").await;
    free(&provider, &lease).await;
    let mut keeper = room.admin.begin().await.unwrap();
    let lock = AssertSqlSafe(format!("LOCK TABLE {}.shedlock", room.schema));
    sqlx::raw_sql(lock).execute(&mut *keeper).await.unwrap();
    let error = provider.attempt(&request("job")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert_eq!(left().await, 0, "the session waits for the table");
    keeper.rollback().await.unwrap();
    let lease = take(&provider, "other").await;
    free(&provider, &lease).await;
}

#[tokio::test]
async fn a_session_whose_answer_did_not_come_is_not_lent_again() {
    let url = server("postgres");
    let pool = bb8(&url);
    let state = pool.clone();
    session_is_not_lent_again(pool, async || state.state().connections.into()).await;
    let pool = deadpool(&url);
    let state = pool.clone();
    session_is_not_lent_again(pool, async || u64::try_from(state.status().size).unwrap()).await;
    let pool = mobc(&url);
    let state = pool.clone();
    session_is_not_lent_again(pool, async || state.state().await.connections).await;
}

/// As when a shutdown closes the pool first and then waits for the tasks.
#[tokio::test]
async fn a_closed_pool_of_diesel_holds_no_value_up() {
    let room = Room::migrated().await;
    let pool = deadpool(&server("postgres"));
    let provider = std::sync::Arc::new(over(pool.clone(), &room));
    assert_value_outlives_client(provider, async { pool.close() }).await;
}

/// A pool of one connection, whose session these texts have left in some state.
async fn left(texts: &str) -> bb8::Pool<Connection> {
    let pool = bb8::Pool::builder().max_size(1).test_on_check_out(false);
    let pool = pool.build_unchecked(manager(&server("postgres")));
    pool.get()
        .await
        .unwrap()
        .batch_execute(texts)
        .await
        .unwrap();
    pool
}

#[tokio::test]
async fn a_lock_is_not_written_into_what_a_session_was_left_in() {
    for texts in [
        "BEGIN",
        "BEGIN; SAVEPOINT one",
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class LIMIT 1",
        "BEGIN READ ONLY",
        "BEGIN; CREATE TABLE left_open (LIKE {schema}.shedlock)",
        "CREATE TEMPORARY TABLE shedlock (LIKE {schema}.shedlock INCLUDING ALL)",
    ] {
        let room = Room::migrated().await;
        let pool = left(&texts.replace("{schema}", &room.schema)).await;
        // Without a schema, so that the session's table comes first.
        let path = format!("SET search_path = {}", room.schema);
        let is_plain = !texts.contains("TEMPORARY");
        let provider = match is_plain {
            true => over(pool, &room),
            false => {
                pool.get()
                    .await
                    .unwrap()
                    .batch_execute(&path)
                    .await
                    .unwrap();
                PostgresProvider::builder(pool).build().unwrap()
            }
        };
        match provider.attempt(&request("job")).await {
            Ok(Attempt::Acquired(lease)) => {
                let seen = room.provider().await.inspect(&name("job")).await.unwrap();
                let owner = seen.and_then(|seen| seen.owner);
                assert_eq!(owner.as_deref(), Some(lease.owner().as_str()), "{texts}");
            }
            // The next session has another search path.
            Err(error) if !is_plain => {
                assert_eq!(error.kind(), ErrorKind::Configuration, "{texts}: {error}");
            }
            other => panic!("{texts}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_hangs_on_a_pool_of_diesel() {
    let room = Room::migrated().await;
    let server = server("postgres");
    let proxy = Proxy::start(address(&server, 5432).unwrap()).await.unwrap();
    let mut url = url::Url::parse(&server).unwrap();
    url.set_ip_host(proxy.addr().ip()).unwrap();
    url.set_port(Some(proxy.addr().port())).unwrap();
    let provider = PostgresProvider::builder(crate::diesel_pools::postgres::bb8(url.as_str(), 2))
        .schema(&room.schema)
        .timeout(TIMEOUT)
        .build()
        .unwrap();
    every_method_returns(&provider, &proxy).await;
}

/// diesel drops the server's codes, but the errors are those of another client.
#[tokio::test]
async fn errors_are_those_of_another_client() {
    for (state, settings) in [
        ("DROP TABLE shedlock", ""),
        ("ALTER TABLE shedlock DROP COLUMN locked_by", ""),
        ("ALTER TABLE shedlock ADD CHECK (name <> 'job')", ""),
        (
            "CREATE UNIQUE INDEX ON shedlock ((true)); INSERT INTO shedlock \
          VALUES ('x', now(), now(), 'y')",
            "",
        ),
        (
            "ALTER TABLE shedlock ENABLE ROW LEVEL SECURITY",
            "SET ROLE {role}",
        ),
        ("REVOKE ALL ON shedlock FROM {role}", "SET ROLE {role}"),
        (
            "REVOKE USAGE ON SCHEMA {role} FROM {role}",
            "SET ROLE {role}",
        ),
        ("SELECT 1", "SET default_transaction_read_only = on"),
        ("BEGIN; LOCK TABLE shedlock", "SET lock_timeout = '50ms'"),
        (
            "BEGIN; LOCK TABLE shedlock",
            "SET statement_timeout = '50ms'",
        ),
    ] {
        let room = Room::with(SHEDLOCKS).await;
        let named = |text: &str| text.replace("{role}", &room.schema);
        room.run(&named(
            "CREATE ROLE {role}; GRANT ALL ON SCHEMA {role} TO {role}",
        ))
        .await;
        room.run(&named("GRANT ALL ON shedlock TO {role}")).await;
        let mut keeper = room.admin.acquire().await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(named(state)))
            .execute(&mut *keeper)
            .await
            .unwrap();
        let error = async |provider: &dyn LockProvider| {
            let error = provider.attempt(&request("job")).await.unwrap_err();
            (error.kind(), error.to_string())
        };
        let texts = named(settings);
        let ours = over(setting(&texts), &room);
        let other = sqlx::postgres::PgPoolOptions::new().after_connect(move |connection, _| {
            let texts = texts.clone();
            Box::pin(async move {
                sqlx::Executor::execute(connection, sqlx::raw_sql(AssertSqlSafe(texts))).await?;
                Ok(())
            })
        });
        let other = other.connect(&server("postgres")).await.unwrap();
        let other = shedlock_sqlx::PostgresProvider::builder(other).schema(&room.schema);
        let expected = error(&other.build().unwrap()).await;
        assert_eq!(error(&ours).await, expected, "{state}");
    }
}

/// A pool of sessions that begin with these texts.
fn setting(texts: &str) -> bb8::Pool<Connection> {
    use shedlock_diesel_async::diesel_async::AsyncConnection as _;
    use shedlock_diesel_async::diesel_async::pooled_connection::ManagerConfig;
    let texts = texts.to_owned();
    let mut config = ManagerConfig::default();
    config.custom_setup = Box::new(move |url| {
        let (url, texts) = (url.to_owned(), texts.clone());
        Box::pin(async move {
            let mut connection = Connection::establish(&url).await?;
            let set = connection.batch_execute(&texts).await;
            set.map_err(::diesel::ConnectionError::CouldntSetupConfiguration)?;
            Ok(connection)
        })
    });
    let url = server("postgres");
    let manager = AsyncDieselConnectionManager::new_with_config(url, config);
    bb8::Pool::builder().build_unchecked(manager)
}

#[tokio::test]
async fn a_server_that_refuses_a_connection_says_what_to_do() {
    let at = |change: &dyn Fn(&mut url::Url)| {
        let mut url = url::Url::parse(&server("postgres")).unwrap();
        change(&mut url);
        url.to_string()
    };
    let room = Room::empty().await;
    for (url, kind) in [
        (
            at(&|url| url.set_port(Some(1)).unwrap()),
            ErrorKind::Unavailable,
        ),
        (
            at(&|url| url.set_path("no_such_database")),
            ErrorKind::Configuration,
        ),
        (
            at(&|url| url.set_username("no_such_user").unwrap()),
            ErrorKind::Configuration,
        ),
    ] {
        let error = over(deadpool(&url), &room)
            .attempt(&request("job"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{url}: {error}");
        let error = over(mobc(&url), &room)
            .attempt(&request("job"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{url}: {error}");
        // bb8 keeps the reason for its `error_sink`.
        let pool = bb8::Pool::builder().connection_timeout(Duration::from_millis(200));
        let error = over(pool.build_unchecked(manager(&url)), &room);
        let error = error.attempt(&request("job")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{url}: {error}");
    }
}
