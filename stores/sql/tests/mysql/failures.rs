//! Server failures, and unsuitable configurations.

use std::time::Duration;

use shedlock_core::{
    AttemptRequest, Completion, ErrorKind, ExtendRequest, Extension, LockName, LockProvider, Owner,
    Slot,
};
use shedlock_sqlx::MySqlProvider;
use sqlx::Executor as _;

use crate::room::{Room, free, refused, take};

pub(crate) async fn a_missing_table_comes_with_its_definition(server: &str) {
    let room = Room::empty(server).await;
    let provider = room.provider().await;
    let error = refused(&provider, "job").await;
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    let error = error.to_string();
    let (_, ddl) = error.split_once("or run: ").unwrap();
    room.run(ddl).await;
    take(&provider, "job").await;
}

pub(crate) async fn a_table_without_a_key_is_refused(server: &str) {
    for key in [
        "",
        ", KEY (name)",
        ", PRIMARY KEY (name, locked_by)",
        ", UNIQUE (name(10))",
    ] {
        let room = Room::empty(server).await;
        room.run(&format!(
            "CREATE TABLE shedlock (name VARCHAR(64) NOT NULL, lock_until DATETIME(3) NOT NULL, \
             locked_at DATETIME(3) NOT NULL, locked_by VARCHAR(100) NOT NULL{key})"
        ))
        .await;
        let provider = MySqlProvider::builder(room.admin.clone()).build().unwrap();
        let error = refused(&provider, "job").await;
        assert_eq!(error.kind(), ErrorKind::Configuration, "{key}: {error}");
        assert!(error.to_string().contains("unique"), "{key}: {error}");
    }
}

pub(crate) async fn a_session_that_may_not_write_is_unavailable(server: &str) {
    let room = Room::migrated(server).await;
    let pool = room
        .pool("+00:00", "SET SESSION TRANSACTION READ ONLY")
        .await;
    let error = refused(&MySqlProvider::builder(pool).build().unwrap(), "job").await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("read-only"), "{error}");
}

pub(crate) async fn a_missing_privilege_is_configuration(server: &str) {
    let room = Room::migrated(server).await;
    let user = crate::common::unique("u")
        .chars()
        .rev()
        .take(12)
        .collect::<String>();
    room.run(&format!("CREATE USER '{user}'@'%' IDENTIFIED BY 'secret'"))
        .await;
    room.run(&format!(
        "CREATE USER '{user}'@'localhost' IDENTIFIED BY 'secret'"
    ))
    .await;
    let mut url = url::Url::parse(&room.url).unwrap();
    let database = url.path().trim_start_matches('/').to_owned();
    for host in ["%", "localhost"] {
        room.run(&format!(
            "GRANT SELECT ON {database}.* TO '{user}'@'{host}'"
        ))
        .await;
    }
    url.set_username(&user).unwrap();
    url.set_password(Some("secret")).unwrap();
    let provider = MySqlProvider::connect(url.as_str()).await.unwrap();
    let error = refused(&provider, "job").await;
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("privilege"), "{error}");

    url.set_password(Some("wrong")).unwrap();
    let error = MySqlProvider::connect(url.as_str()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(!format!("{error} {error:?}").contains("wrong"), "{error:?}");
    let error = format!("{error:#}");
    let says = "(using password: YES); check the user and the password in the URL";
    assert!(error.ends_with(says), "{error}");
}

pub(crate) async fn a_connection_that_is_rejected_or_refused_says_what_to_check(server: &str) {
    for (url, says) in [
        (
            crate::common::with_database(server, "nodb"),
            "the server rejected the connection: Unknown database 'nodb'; check the database in \
             the URL",
        ),
        (
            "mysql://127.0.0.1:1/app".to_owned(),
            "cannot connect: Connection refused (os error 111); nothing was written; check that \
             the server is up, and that the host and the port in the URL are right, then retry",
        ),
    ] {
        let error = MySqlProvider::connect(&url).await.unwrap_err();
        let error = format!("{error:#}");
        assert!(error.ends_with(says), "{error}");
    }
    // All crates of these tests together contain two libraries.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = crate::common::with_option(server, "ssl-mode", "VERIFY_CA");
    let error = MySqlProvider::connect(&url).await.unwrap_err();
    let error = format!("{error:#}");
    // MySQL creates a certificate authority of its own.
    let says = if error.contains("certificate") {
        "the TLS connection failed: the server's certificate was issued by an authority that is not \
         trusted; set ssl-ca in the URL to the file of the authority that issued the server's \
         certificate"
    } else {
        "the server rejected the connection: server does not support TLS; check the TLS options of \
         the URL"
    };
    assert!(error.ends_with(says), "{error}");
}

/// An open slot's lease is read after it was claimed. If that read fails, the lock is taken nevertheless, and the
/// caller must get an error that reports this.
pub(crate) async fn a_claim_that_cannot_be_read_is_unknown(server: &str) {
    let room = Room::migrated(server).await;
    let provider = room.provider_in_utc().await;
    free(&provider, &take(&provider, "job").await).await;
    // The attempt compares it as a number. The read expects an integer.
    room.run("ALTER TABLE shedlock MODIFY shedlock_slot_done VARCHAR(9) NULL")
        .await;
    room.run("UPDATE shedlock SET shedlock_slot_done = '5'")
        .await;
    let request = AttemptRequest::new(
        LockName::new("job").unwrap(),
        Owner::generate(),
        Duration::from_secs(60),
    )
    .with_slot(Slot::from_micros(1_700_000_000_000_000).unwrap())
    .with_completion(Completion::on_success());
    let error = provider.attempt(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    // So it is withdrawn, and neither the lock nor the attempt is lost.
    room.run("ALTER TABLE shedlock MODIFY shedlock_slot_done BIGINT NULL")
        .await;
    assert!(provider.withdraw(&request).await.unwrap());
    let room = room.provider().await;
    let next = AttemptRequest::new(
        request.name.clone(),
        Owner::generate(),
        Duration::from_secs(60),
    )
    .with_slot(request.slot.unwrap())
    .with_completion(Completion::on_success());
    let lease = room.attempt(&next).await.unwrap().acquired().unwrap();
    assert_eq!(lease.slot_attempt(), Some(1));
}

pub(crate) async fn a_transaction_in_the_way_is_waited_for_a_little(server: &str) {
    let room = Room::migrated(server).await;
    let provider = MySqlProvider::builder(
        room.pool("+00:00", "SET SESSION innodb_lock_wait_timeout = 1")
            .await,
    )
    .build()
    .unwrap();
    let lease = take(&provider, "job").await;
    let mut transaction = room.admin.begin().await.unwrap();
    transaction
        .execute("SELECT * FROM shedlock FOR UPDATE")
        .await
        .unwrap();
    let error = refused(&provider, "job").await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    transaction.rollback().await.unwrap();
    free(&provider, &lease).await;
}

/// The lease expired while the extension waited.
pub(crate) async fn an_extension_that_had_to_wait_revives_nothing(server: &str) {
    let room = Room::migrated(server).await;
    let provider = room.provider().await;
    let second = Duration::from_secs(1);
    let name = LockName::new("job").unwrap();
    let asked = AttemptRequest::new(name, Owner::generate(), second);
    let lease = provider.attempt(&asked).await.unwrap().acquired().unwrap();
    let mut transaction = room.admin.begin().await.unwrap();
    transaction
        .execute("SELECT * FROM shedlock FOR UPDATE")
        .await
        .unwrap();
    let longer = ExtendRequest::new(second);
    let (answer, ()) = futures_util::join!(provider.extend(&lease, &longer), async {
        shedlock_rig::wait::sleep(second + second / 2).await;
        transaction.rollback().await.unwrap();
    });
    assert!(matches!(answer.unwrap(), Extension::Lost));
}

pub(crate) async fn a_dropped_column_is_noticed(server: &str) {
    let room = Room::migrated(server).await;
    let provider = room.provider().await;
    let lease = take(&provider, "job").await;
    room.run(
        "ALTER TABLE shedlock DROP COLUMN shedlock_fencing_token, DROP COLUMN shedlock_slot, \
         DROP COLUMN shedlock_slot_done, DROP COLUMN shedlock_slot_attempts, \
         DROP COLUMN shedlock_skip_from, DROP COLUMN shedlock_skip_until",
    )
    .await;
    free(&provider, &lease).await;
    let lease = take(&provider, "job").await;
    assert_eq!(lease.fencing_token(), None);
    free(&provider, &lease).await;
    let _ = provider.migrate().await.unwrap();
    assert!(take(&provider, "job").await.fencing_token().is_some());
}

pub(crate) async fn a_server_that_is_not_there_is_unavailable(server: &str) {
    let mut url = url::Url::parse(server).unwrap();
    // No server listens on this reserved port.
    url.set_port(Some(1)).unwrap();
    url.query_pairs_mut().append_pair("connect_timeout", "2s");
    let error = MySqlProvider::connect(url.as_str()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let lazily = sqlx::mysql::MySqlPoolOptions::new()
        .acquire_timeout(Duration::from_secs(1))
        .connect_lazy(&url.as_str().replace("&connect_timeout=2s", ""))
        .unwrap();
    let error = refused(&MySqlProvider::builder(lazily).build().unwrap(), "job").await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

pub(crate) async fn urls_of_both_schemes_are_read(server: &str) {
    let room = Room::migrated(server).await;
    for scheme in ["mysql", "mariadb"] {
        let (_, rest) = room.url.split_once("://").unwrap();
        let url = format!("{scheme}://{rest}?lock_at_most_for=5m&max_connections=2&prepared=false");
        let provider = MySqlProvider::connect(&url).await.unwrap();
        let lease = take(&provider, scheme).await;
        free(&provider, &lease).await;
    }
    let url = format!("{}?time-zone=%2B01:00", room.url);
    let error = MySqlProvider::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let named = format!("{}?table=other.locks", room.url);
    let error = refused(&MySqlProvider::connect(&named).await.unwrap(), "job").await;
    let said = "schema \"other\" does not exist";
    assert!(error.to_string().contains(said), "{error}");
}
