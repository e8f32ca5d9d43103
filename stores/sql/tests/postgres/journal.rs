//! The journal beside a lock table of PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use sqlx::Executor as _;

use crate::common::exhausted::sleep;
use crate::common::{server, server_if_any, unique, with_option};
use crate::room::Room;
use crate::sources::{deadpool_of, over_deadpool};
use shedlock::{Executor, JournalWriter, LockConfig, Outcome};
use shedlock_conformance::journal;
use shedlock_core::{ErrorKind, JobsRequest, LockProvider};
use shedlock_sqlx::PostgresProvider;
use shedlock_tokio_postgres::TokioPostgresProvider;

#[tokio::test]
async fn the_journal_over_each_driver_and_pool() {
    let own = |room: &Room| room.url.clone();
    let room = Room::migrated().await;
    let provider = PostgresProvider::connect(&own(&room)).await.unwrap();
    journal::check(provider.journal().unwrap()).await;
    let room = Room::migrated().await;
    let provider = PostgresProvider::connect(&format!("{}&prepared=false", own(&room))).await;
    journal::check(provider.unwrap().journal().unwrap()).await;
    let room = Room::migrated().await;
    journal::check(room.provider_over(&[]).await.journal().unwrap()).await;
    let room = Room::migrated().await;
    let provider = TokioPostgresProvider::connect(&own(&room)).await.unwrap();
    journal::check(provider.journal().unwrap()).await;
    let room = Room::migrated().await;
    let url = with_option(&server("postgres"), "schema", &room.schema);
    let provider = over_deadpool(&url).unwrap();
    journal::check(provider.journal().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_behind_pgbouncer() {
    let Some(bouncer) = server_if_any("pgbouncer") else {
        // xtask, which looked for it, has reported this.
        return;
    };
    let room = Room::migrated().await;
    let url = with_option(&bouncer, "schema", &room.schema);
    let provider = PostgresProvider::connect(&url).await.unwrap();
    journal::check(provider.journal().unwrap()).await;
    journal::contended(&[provider.journal().unwrap()]).await;
}

#[tokio::test]
async fn a_journal_keeps_as_many_runs_as_it_should() {
    let room = Room::migrated().await;
    journal::retained(room.provider().await.journal().unwrap(), 100_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_share_a_journal() {
    let room = Room::migrated().await;
    let mut journals = Vec::new();
    for _ in 0..4 {
        journals.push(room.provider().await.journal().unwrap());
    }
    journal::contended(&journals).await;
}

/// Upgrading needs no new rights: locks work without the journal, and its errors say what to grant.
#[tokio::test]
async fn a_role_without_rights_keeps_its_locks_and_learns_what_to_grant() {
    let room = Room::migrated().await;
    let role = unique("clerk");
    let schema = &room.schema;
    for text in [
        format!("CREATE ROLE {role} LOGIN PASSWORD 'clerk'"),
        format!("GRANT USAGE ON SCHEMA {schema} TO {role}"),
        format!("GRANT SELECT, INSERT, UPDATE ON {schema}.shedlock TO {role}"),
    ] {
        room.run(&text).await;
    }
    let mut url = url::Url::parse(&room.url).unwrap();
    url.set_username(&role).unwrap();
    url.set_password(Some("clerk")).unwrap();
    let clerk = PostgresProvider::connect(url.as_str()).await.unwrap();
    clerk.check().await.unwrap();
    let journal: Arc<_> = clerk.journal().unwrap();
    assert_eq!(journal.version().await.unwrap(), None);
    let error = journal.migrate().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("CREATE TABLE"), "{error}");

    let _ = room
        .provider()
        .await
        .journal()
        .unwrap()
        .migrate()
        .await
        .unwrap();
    let error = journal.jobs(&JobsRequest::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("grant it SELECT on "), "{error}");
    for table in ["journal", "job", "run", "audit"] {
        let rights = "SELECT, INSERT, UPDATE, DELETE";
        let text = format!("GRANT {rights} ON {schema}.shedlock_{table} TO {role}");
        room.run(&text).await;
    }
    assert_eq!(journal.jobs(&JobsRequest::new()).await.unwrap(), []);
}

/// Runs twenty jobs with a journal that another transaction has locked, each attempt with a second to get its connection,
/// then frees the journal. Returns how many runs it did not record within 20 s.
async fn with_a_locked_journal(
    room: &Room,
    provider: Arc<dyn LockProvider>,
    application: &str,
) -> usize {
    let writer = JournalWriter::new(provider.journal().unwrap());
    let executor = Executor::new(provider).journal(&writer);
    let config = LockConfig::new("job").lock_at_most_for("10s");
    let run = || executor.execute(&config, async {});
    // So that the writer knows its journal before it is locked.
    assert!(run().await.unwrap().is_executed());
    let pool = room.pool(1, &[]).await;
    let mut busy = pool.begin().await.unwrap();
    let lock = format!("LOCK TABLE {}.shedlock_run", room.schema);
    busy.execute(sqlx::AssertSqlSafe(lock)).await.unwrap();
    for _ in 0..20 {
        let outcome = run().await;
        assert!(
            outcome.as_ref().is_ok_and(Outcome::is_executed),
            "{outcome:?}"
        );
        sleep(Duration::from_millis(100)).await;
    }
    let waiting = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND \
         application_name = '{application}'"
    );
    // None is left behind: what gives up ends on the server too.
    while room.number(&waiting).await > 1 {
        sleep(Duration::from_millis(100)).await;
    }
    busy.rollback().await.unwrap();
    writer.flush(Duration::from_secs(20)).await
}

#[tokio::test]
async fn a_locked_journal_over_a_pool_leaves_the_locks_their_connections() {
    let over = async |size: u32| {
        let (room, name) = (Room::migrated().await, unique("journal"));
        let migrated = room.provider().await.journal().unwrap().migrate().await;
        assert!(!migrated.unwrap().changes.is_empty());
        let settings = [("application_name", &*name)];
        let pool = room.pool(size, &settings).await;
        let provider = PostgresProvider::builder(pool).schema(&room.schema);
        let provider = provider.timeout(Duration::from_secs(4));
        let left = with_a_locked_journal(&room, Arc::new(provider.build().unwrap()), &name).await;
        (left, room)
    };
    assert_eq!(over(2).await.0, 0);
    // It never gets the only connection, and says so.
    let (left, room) = over(1).await;
    assert_ne!(left, 0);
    let pool = room.pool(1, &[]).await;
    let provider = PostgresProvider::builder(pool).schema(&room.schema);
    let provider = provider.timeout(Duration::from_secs(4)).build().unwrap();
    let error = provider.journal().unwrap().version().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let said = format!("{error:#}");
    assert!(said.contains("its last one is left for locks"), "{said}");
}

/// Whether a pool of these clients has another connection is not visible: the journal gives its own back when a lock waits.
#[tokio::test]
async fn a_locked_journal_over_a_pool_of_one_client_gives_it_back() {
    let (room, name) = (Room::migrated().await, unique("journal"));
    let migrated = room.provider().await.journal().unwrap().migrate().await;
    assert!(!migrated.unwrap().changes.is_empty());
    let url = with_option(&server("postgres"), "application_name", &name);
    let pool = deadpool_of(&url, 1).unwrap();
    let provider = TokioPostgresProvider::builder(pool).schema(&room.schema);
    let provider = provider.timeout(Duration::from_secs(4)).build().unwrap();
    assert_eq!(
        with_a_locked_journal(&room, Arc::new(provider), &name).await,
        0
    );
}
