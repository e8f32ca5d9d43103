//! The journal beside a lock table of PostgreSQL.

use std::sync::Arc;

use crate::common::{server, server_if_any, unique, with_option};
use crate::room::Room;
use crate::sources::over_deadpool;
use shedlock_conformance::journal;
use shedlock_core::{ErrorKind, JobsRequest, LockProvider};
use shedlock_sql::{PostgresProvider, TokioPostgresProvider};

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
    assert!(
        error.to_string().contains("grant it SELECT, INSERT"),
        "{error}"
    );
    for table in ["journal", "job", "run", "audit"] {
        let rights = "SELECT, INSERT, UPDATE, DELETE";
        let text = format!("GRANT {rights} ON {schema}.shedlock_{table} TO {role}");
        room.run(&text).await;
    }
    assert_eq!(journal.jobs(&JobsRequest::new()).await.unwrap(), []);
}
