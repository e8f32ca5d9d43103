//! Sessions that are no longer usable, and what replaces them.

use std::time::Duration;

use crate::common::{server, unique, with_option, within};
use crate::room::{Room, free, hold, request, skip, take};
use crate::sources::deadpool_of;
use futures_util::future::join_all;
use shedlock_core::{AttemptRequest, ErrorKind, LockProvider};
use shedlock_diesel_async::diesel_async::SimpleAsyncConnection as _;
use shedlock_sqlx::PostgresProvider;
use shedlock_tokio_postgres::TokioPostgresProvider;
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, PgPool, Postgres};

/// A demoted primary keeps its sessions, and the address leads to the new one.
#[tokio::test]
async fn a_session_that_takes_no_writes_is_left_as_soon_as_it_says_so() {
    let room = Room::migrated().await;
    let role = unique("role");
    room.run(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {0} TO {role}; \
         GRANT SELECT, INSERT, UPDATE ON shedlock TO {role}; \
         ALTER ROLE {role} SET default_transaction_read_only = on",
        room.schema
    ))
    .await;
    let mut url = url::Url::parse(&room.url).unwrap();
    url.set_username(&role).unwrap();
    let provider = PostgresProvider::connect(url.as_str()).await.unwrap();
    let refused = provider.attempt(&crate::room::request("job")).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
    // A session reads this setting when it starts, and keeps it.
    room.run(&format!(
        "ALTER ROLE {role} RESET default_transaction_read_only"
    ))
    .await;
    free(&provider, &take(&provider, "job").await).await;
    room.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await;
}

/// Several connections, all to a server that was demoted while they were idle.
#[tokio::test]
async fn a_failover_between_two_calls_fails_none_of_them() {
    let room = Room::migrated().await;
    let role = unique("role");
    let grant = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {0} TO {role}; \
         GRANT SELECT, INSERT, UPDATE ON shedlock TO {role}; \
         ALTER ROLE {role} SET default_transaction_read_only = on",
        room.schema
    );
    room.run(&grant).await;
    let mut url = url::Url::parse(&room.url).unwrap();
    url.set_username(&role).unwrap();
    let provider = PostgresProvider::connect(url.as_str()).await.unwrap();
    let name = crate::room::name("job");
    // The demoted server serves reads, on four connections at once.
    let reads = futures_util::future::join_all((0..4).map(|_| provider.inspect(&name)));
    for read in reads.await {
        assert!(read.unwrap().is_none());
    }
    room.run(&format!(
        "ALTER ROLE {role} RESET default_transaction_read_only"
    ))
    .await;
    for _ in 0..4 {
        let lease = take(&provider, "job").await;
        free(&provider, &lease).await;
    }
    room.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await;
}

/// What an application does to its pool's sessions, or a proxy to ours.
#[tokio::test]
async fn a_session_that_has_lost_its_prepared_statements_fails_no_call() {
    let room = Room::migrated().await;
    let pool = room.pool(1, &[]).await;
    let provider = PostgresProvider::builder(pool.clone())
        .schema(&room.schema)
        .build()
        .unwrap();
    let lease = take(&provider, "job").await;
    free(&provider, &lease).await;
    sqlx::raw_sql("DEALLOCATE ALL")
        .execute(&pool)
        .await
        .unwrap();
    let lease = take(&provider, "job").await;
    free(&provider, &lease).await;
}

/// `acquire` of a sqlx pool waits for 30 s, longer than any caller waits here.
#[tokio::test]
async fn a_pool_without_a_connection_to_spare_is_not_an_unknown_outcome() {
    let room = Room::migrated().await;
    let pool = room.pool(1, &[]).await;
    let provider = PostgresProvider::builder(pool.clone())
        .schema(&room.schema)
        .build()
        .unwrap();
    let taken = pool.acquire().await.unwrap();
    let attempt: AttemptRequest = crate::room::request("job");
    let attempt = attempt.with_timeout(Duration::from_millis(400));
    let answer = within(Duration::from_secs(20), provider.attempt(&attempt));
    let error = answer.await.expect("it is bounded").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("nothing was written"), "{error}");
    drop(taken);
    assert_eq!(room.number("SELECT count(*) FROM shedlock").await, 0);
    let url = with_option(&room.url, "max_connections", "1");
    let provider = PostgresProvider::connect(&url).await.unwrap();
    free(&provider, &take(&provider, "job").await).await;
}

/// The text that makes a session find the table of this room.
fn entering(room: &Room) -> String {
    format!("SET search_path = {}", room.schema)
}

/// A pool whose two connections find different tables.
async fn pool_of_two_rooms() -> (PgPool, [PoolConnection<Postgres>; 2]) {
    let rooms = [Room::migrated().await, Room::migrated().await];
    let pool = rooms[0].pool(2, &[]).await;
    let mut both = [pool.acquire().await.unwrap(), pool.acquire().await.unwrap()];
    for (room, connection) in rooms.iter().zip(&mut both) {
        let set = AssertSqlSafe(entering(room));
        sqlx::raw_sql(set).execute(&mut **connection).await.unwrap();
    }
    (pool, both)
}

/// Both connections of a pool are idle one after the other, while the other one is in use.
async fn both_use_one_table<C>(
    provider: &dyn LockProvider,
    [first, second]: [C; 2],
    lend: impl AsyncFn() -> C,
) {
    drop(first);
    hold(provider, "job").await;
    let _first = lend().await;
    drop(second);
    let _ = skip(provider, &request("job")).await;
}

/// As where an application sets it for each of its tenants and does not reset it.
#[tokio::test]
async fn connections_with_different_search_paths_use_one_table() {
    let (pool, both) = pool_of_two_rooms().await;
    let provider = PostgresProvider::new(pool.clone());
    both_use_one_table(&provider, both, async || pool.acquire().await.unwrap()).await;

    let rooms = [Room::migrated().await, Room::migrated().await];
    let pool = deadpool_of(&server("postgres"), 2).unwrap();
    let both = [pool.get().await.unwrap(), pool.get().await.unwrap()];
    for (room, client) in rooms.iter().zip(&both) {
        client.batch_execute(&entering(room)).await.unwrap();
    }
    let provider = TokioPostgresProvider::new(pool.clone());
    both_use_one_table(&provider, both, async || pool.get().await.unwrap()).await;

    let rooms = [Room::migrated().await, Room::migrated().await];
    let pool = crate::diesel_pools::postgres::deadpool(&server("postgres")).unwrap();
    let mut both = [pool.get().await.unwrap(), pool.get().await.unwrap()];
    for (room, connection) in rooms.iter().zip(&mut both) {
        connection.batch_execute(&entering(room)).await.unwrap();
    }
    let provider = shedlock_diesel_async::PostgresProvider::new(pool.clone());
    both_use_one_table(&provider, both, async || pool.get().await.unwrap()).await;
}

#[tokio::test]
async fn the_first_calls_of_a_provider_use_one_table_too() {
    let (pool, both) = pool_of_two_rooms().await;
    drop(both);
    for round in 0..10 {
        let (provider, lock) = (PostgresProvider::new(pool.clone()), format!("job-{round}"));
        let requests: Vec<_> = (0..8).map(|_| request(&lock)).collect();
        let answers = join_all(requests.iter().map(|it| provider.attempt(it))).await;
        let won = answers.into_iter().filter_map(|it| it.unwrap().acquired());
        assert_eq!(won.count(), 1, "{round}");
    }
}

/// As in a migration that renames schemas.
#[tokio::test]
async fn a_table_that_is_moved_or_made_again_is_found_again() {
    let (from, to) = (Room::migrated().await, Room::empty().await);
    let path = format!("{},{}", to.schema, from.schema);
    let pool = from.pool(2, &[("search_path", &path)]).await;
    let provider = PostgresProvider::new(pool);
    hold(&provider, "job").await;
    from.run(&format!("ALTER TABLE shedlock SET SCHEMA {}", to.schema))
        .await;
    let _ = skip(&provider, &request("job")).await;
    to.run("DROP TABLE shedlock").await;
    let missing = provider.attempt(&request("job")).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Configuration);
    for room in [to, from] {
        let _ = room.provider().await.migrate().await.unwrap();
        hold(&provider, "job").await;
        room.run("DROP TABLE shedlock").await;
    }
}

/// A room, a role that will be refused, and its URL.
async fn room_of_a_role() -> (Room, String, String) {
    let room = Room::migrated().await;
    let role = unique("role");
    room.run(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {0} TO {role}; \
         GRANT SELECT, INSERT, UPDATE ON shedlock TO {role}",
        room.schema
    ))
    .await;
    let mut url = url::Url::parse(&server("postgres")).unwrap();
    url.set_username(&role).unwrap();
    (room, role, url.into())
}

/// One connection of the pool is open, and a login was refused while it was in use.
async fn idle_connections_are_used<C>(
    room: &Room,
    role: &str,
    provider: &dyn LockProvider,
    lend: impl AsyncFn() -> C,
) {
    hold(provider, "before").await;
    room.run(&format!("ALTER ROLE {role} NOLOGIN")).await;
    let lent = lend().await;
    let error = provider.attempt(&request("refused")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    drop(lent);
    for lock in ["one", "two"] {
        hold(provider, lock).await;
    }
    let _lent = lend().await;
    provider.attempt(&request("refused")).await.unwrap_err();
}

#[tokio::test]
async fn a_refused_login_keeps_no_lock_from_the_idle_connections_of_a_pool() {
    let (room, role, url) = room_of_a_role().await;
    let pool = deadpool_of(&url, 2).unwrap();
    let provider = TokioPostgresProvider::builder(pool.clone()).schema(&room.schema);
    let provider = provider.build().unwrap();
    idle_connections_are_used(&room, &role, &provider, async || pool.get().await.unwrap()).await;

    let (room, role, url) = room_of_a_role().await;
    let pool = crate::diesel_pools::postgres::deadpool(&url).unwrap();
    let provider = shedlock_diesel_async::PostgresProvider::builder(pool.clone());
    let provider = provider.schema(&room.schema).build().unwrap();
    idle_connections_are_used(&room, &role, &provider, async || pool.get().await.unwrap()).await;
}
