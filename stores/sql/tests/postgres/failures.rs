//! Failures, and the errors that report them.

use std::time::Duration;

use crate::common::{self, Warnings, server, unique, with_option};
use crate::room::{Room, SHEDLOCKS, free, hold, migrate, name, refusal, request, take};
use shedlock_core::{
    AttemptRequest, ErrorKind, ExtendRequest, Extension, LockProvider as _, LockState, Owner,
    PruneRequest, Pruned, admin,
};
use shedlock_rig::wait::sleep;
use shedlock_sqlx::PostgresProvider;
use shedlock_tokio_postgres::TokioPostgresProvider;
use sqlx::postgres::PgPoolOptions;

#[tokio::test]
async fn a_missing_table_is_reported_with_the_statement_that_creates_it() {
    let room = Room::empty().await;
    let provider = room.provider().await;
    let error = refusal(&provider, ErrorKind::Configuration).await;
    assert!(error.to_string().contains("`migrate()`"), "{error}");
    assert!(error.to_string().contains("CREATE TABLE"), "{error}");
    migrate(&provider).await;
    hold(&provider, "job").await;
    room.run("DROP TABLE shedlock").await;
    refusal(&provider, ErrorKind::Configuration).await;
    migrate(&provider).await;
    hold(&provider, "job").await;
}

#[tokio::test]
async fn a_constraint_is_named_and_never_taken_for_a_held_lock() {
    let room = Room::with(&format!(
        "{SHEDLOCKS}, CONSTRAINT short CHECK (length(name) < 2)"
    ))
    .await;
    let provider = room.provider().await;
    let error = refusal(&provider, ErrorKind::Configuration).await;
    assert!(error.to_string().contains("\"short\""), "{error}");

    let room = Room::with(&format!("{SHEDLOCKS}, CONSTRAINT one UNIQUE (locked_at)")).await;
    room.run("ALTER TABLE shedlock ALTER locked_at SET DEFAULT '2020-01-01'")
        .await;
    room.run(
        "CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN NEW.locked_at = '2020-01-01'; RETURN NEW; END $$; \
         CREATE TRIGGER same BEFORE INSERT ON shedlock FOR EACH ROW EXECUTE FUNCTION same()",
    )
    .await;
    let provider = room.provider().await;
    hold(&provider, "first").await;
    let error = refusal(&provider, ErrorKind::Configuration).await;
    assert!(error.to_string().contains("\"one\""), "{error}");
}

#[tokio::test]
async fn names_that_a_collation_takes_for_the_same_never_share_a_record() {
    let room = Room::empty().await;
    room.run(
        "CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', \
         deterministic = false)",
    )
    .await;
    let columns = SHEDLOCKS.replace("VARCHAR(64)", "VARCHAR(64) COLLATE anycase");
    room.run(&format!("CREATE TABLE shedlock ({columns})"))
        .await;
    let provider = room.provider().await;
    let lease = take(&provider, "Job").await;
    let error = refusal(&provider, ErrorKind::Conflict).await;
    assert!(error.to_string().contains("\"Job\""), "{error}");
    assert!(provider.inspect(&name("job")).await.unwrap().is_none());
    free(&provider, &lease).await;
    refusal(&provider, ErrorKind::Conflict).await;
    free(&provider, &take(&provider, "Job").await).await;
}

#[tokio::test]
async fn a_missing_privilege_is_reported() {
    let room = Room::migrated().await;
    let role = unique("role");
    room.run(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {} TO {role}; \
         GRANT SELECT ON shedlock TO {role}",
        room.schema
    ))
    .await;
    let mut url = url::Url::parse(&room.url).unwrap();
    url.set_username(&role).unwrap();
    let provider = PostgresProvider::connect(url.as_str()).await.unwrap();
    let error = refusal(&provider, ErrorKind::Configuration).await;
    assert!(error.to_string().contains("privilege"), "{error}");
    room.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await;
}

#[tokio::test]
async fn a_removal_without_the_privilege_to_delete_is_reported() {
    let room = Room::migrated().await;
    let role = unique("role");
    room.run(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {} TO {role}; \
         GRANT SELECT, INSERT, UPDATE ON shedlock TO {role}; \
         INSERT INTO shedlock (name, lock_until, locked_at, locked_by) \
         VALUES ('old', '2020-01-01', '2020-01-01', 'web-3')",
        room.schema
    ))
    .await;
    let mut url = url::Url::parse(&room.url).unwrap();
    url.set_username(&role).unwrap();
    let provider = PostgresProvider::connect(url.as_str()).await.unwrap();
    let day = Duration::from_secs(86_400);
    let prune = PruneRequest::new(name("old"), day).without_shedlock();
    let error = admin::prune(&provider, &prune).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("DELETE"), "{error}");
    assert!(provider.inspect(&name("old")).await.unwrap().is_some());
    room.run(&format!("GRANT DELETE ON shedlock TO {role}"))
        .await;
    let pruned = admin::prune(&provider, &prune).await.unwrap();
    assert!(matches!(pruned, Pruned::Removed(_)), "{pruned:?}");
    room.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await;
}

#[tokio::test]
async fn a_server_that_rejects_writes_is_reported() {
    let room = Room::migrated().await;
    let provider = room
        .provider_over(&[("default_transaction_read_only", "on")])
        .await;
    let error = refusal(&provider, ErrorKind::Unavailable).await;
    assert!(error.to_string().contains("standby"), "{error}");
    assert!(provider.inspect(&name("job")).await.unwrap().is_none());
}

#[tokio::test]
async fn an_unreachable_server_is_reported_without_secrets() {
    let kind = |url: &'static str| async move {
        let error = PostgresProvider::connect(url).await.unwrap_err();
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        error.kind()
    };
    let closed = "postgres://me:secret@127.0.0.1:1/db";
    assert_eq!(kind(closed).await, ErrorKind::Unavailable);
    let unknown = "postgres://me:secret@127.0.0.1:1/db?tabel=x";
    assert_eq!(kind(unknown).await, ErrorKind::InvalidInput);
    let option = "postgres://me:secret@127.0.0.1:1/db?sslmode=perhaps";
    assert_eq!(kind(option).await, ErrorKind::InvalidInput);
    let other = common::with_database(&server("postgres"), "no_such_db");
    let error = PostgresProvider::connect(&other).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    let provider = room_with_secret().await;
    assert!(!format!("{provider:?}").contains("hunter2"), "{provider:?}");
}

#[tokio::test]
async fn a_connection_that_is_rejected_or_refused_says_what_to_check() {
    let server = server("postgres");
    let mut stranger = url::Url::parse(&server).unwrap();
    stranger.set_username("stranger").unwrap();
    for (url, says) in [
        (
            common::with_database(&server, "nodb"),
            "the server rejected the connection: database \"nodb\" does not exist; check the \
             database in the URL",
        ),
        (
            stranger.into(),
            "the server rejected the connection: role \"stranger\" does not exist; check the user \
             and the password in the URL",
        ),
        (
            with_option(&server, "sslmode", "require"),
            "the server rejected the connection: server does not support TLS; check the TLS \
             options of the URL",
        ),
        (
            "postgres://127.0.0.1:1/app".to_owned(),
            "cannot connect: Connection refused (os error 111); nothing was written; check that \
             the server is up, and that the host and the port in the URL are right, then retry",
        ),
    ] {
        let by_sqlx = PostgresProvider::connect(&url).await.unwrap_err();
        let by_tokio = TokioPostgresProvider::connect(&url).await.unwrap_err();
        for error in [by_sqlx, by_tokio] {
            let error = format!("{error:#}");
            assert!(error.ends_with(says), "{error}");
        }
    }
}

async fn room_with_secret() -> PostgresProvider {
    // The server trusts all clients on loopback. The password is there to check that we hide it.
    let mut url = url::Url::parse(&server("postgres")).unwrap();
    url.set_password(Some("hunter2")).unwrap();
    PostgresProvider::connect(url.as_str()).await.unwrap()
}

#[tokio::test]
async fn a_name_that_does_not_fit_is_refused_before_anything_is_written() {
    let room = Room::migrated().await;
    let provider = room.provider().await;
    let fits = "é".repeat(64);
    free(&provider, &take(&provider, &fits).await).await;
    let error = provider
        .attempt(&request(&"n".repeat(65)))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("65"), "{error}");
    let forever = AttemptRequest::new(name("job"), Owner::generate(), Duration::MAX);
    let error = provider.attempt(&forever).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

/// Only an attempt is not sent again: what its first copy takes must be withdrawn.
#[tokio::test]
async fn connections_that_break_between_calls_cost_an_attempt_its_reply_and_nothing_else() {
    let room = Room::migrated().await;
    let provider = room.provider().await;
    let kill = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
         WHERE pid <> pg_backend_pid() AND query LIKE '%{}%'",
        room.schema
    );
    let lease = take(&provider, "job").await;
    assert!(room.number(&kill).await > 0);
    let extend = ExtendRequest::new(Duration::from_secs(60));
    let Extension::Extended(lease) = provider.extend(&lease, &extend).await.unwrap() else {
        panic!("the lease is ours still");
    };
    assert!(room.number(&kill).await > 0);
    free(&provider, &lease).await;
    assert!(room.number(&kill).await > 0);
    let attempt = AttemptRequest::new(name("job"), Owner::generate(), Duration::from_secs(60));
    let error = provider.attempt(&attempt).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    let lease = take(&provider, "job").await;
    assert!(room.number(&kill).await > 0);
    let record = provider.inspect(&name("job")).await.unwrap().unwrap();
    assert_eq!(record.state, LockState::Held);
    assert_eq!(record.owner.as_deref(), Some(lease.owner().as_str()));
}

#[tokio::test]
async fn a_record_that_a_transaction_keeps_locked_delays_no_one_for_long() {
    let room = Room::migrated().await;
    let url = with_option(&room.url, "options", "-c lock_timeout=300ms");
    let provider = PostgresProvider::connect(&url).await.unwrap();
    free(&provider, &take(&provider, "job").await).await;
    let mut transaction = room.admin.begin().await.unwrap();
    sqlx::raw_sql("SELECT * FROM shedlock FOR UPDATE")
        .execute(&mut *transaction)
        .await
        .unwrap();
    let error = refusal(&provider, ErrorKind::Unavailable).await;
    assert!(error.to_string().contains("long transactions"), "{error}");
    transaction.rollback().await.unwrap();
    free(&provider, &take(&provider, "job").await).await;
}

#[tokio::test]
async fn an_abandoned_attempt_blocks_no_one() {
    let room = Room::migrated().await;
    let url = with_option(&room.url, "max_connections", "1");
    let provider = PostgresProvider::connect(&url).await.unwrap();
    free(&provider, &take(&provider, "job").await).await;
    let mut transaction = room.admin.begin().await.unwrap();
    sqlx::raw_sql("SELECT * FROM shedlock FOR UPDATE")
        .execute(&mut *transaction)
        .await
        .unwrap();
    let abandoned = request("job");
    tokio::select! {
        answer = provider.attempt(&abandoned) => panic!("the record is locked: {answer:?}"),
        () = sleep(Duration::from_millis(200)) => {}
    }
    // The only connection is free again, although its statement still waits on the server.
    free(&provider, &take(&provider, "other").await).await;
    transaction.rollback().await.unwrap();
}

#[tokio::test]
async fn a_remote_server_that_is_not_verified_is_warned_of_once() {
    let warnings = Warnings::collect();
    let pool = PgPoolOptions::new();
    let remote = pool.connect_lazy("postgres://db.example.com/app").unwrap();
    let provider = PostgresProvider::builder(remote)
        .timeout(Duration::from_millis(20))
        .build()
        .unwrap();
    for _ in 0..2 {
        refusal(&provider, ErrorKind::Unavailable).await;
    }
    let said = warnings.with("sslmode=verify-full");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("db.example.com"), "{said:?}");
    let room = Room::migrated().await;
    hold(&room.provider().await, "job").await;
    assert_eq!(warnings.with("sslmode").len(), 1);
}
