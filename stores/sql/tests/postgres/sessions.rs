//! Sessions that are no longer usable, and what replaces them.

use std::time::Duration;

use crate::common::{unique, with_option, within};
use crate::room::{Room, free, take};
use shedlock_core::{AttemptRequest, ErrorKind, LockProvider as _};
use shedlock_sqlx::PostgresProvider;

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
