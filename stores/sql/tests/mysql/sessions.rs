//! Sessions of all kinds: zones, character sets, modes.

use std::time::Duration;

use shedlock_core::{Clock as _, ErrorKind, LockProvider, SystemClock};
use shedlock_sqlx::MySqlProvider;
use sqlx::mysql::MySqlConnectOptions;

use crate::room::{HOUR, Room, close, free, record, refused, skip, take};

pub(crate) async fn sessions_in_different_zones_agree(server: &str) {
    let room = Room::migrated(server).await;
    let mut providers = vec![room.provider().await];
    for zone in ["+05:30", "-08:00", "+13:00", "SYSTEM"] {
        providers.push(
            MySqlProvider::builder(room.pool(zone, "").await)
                .build()
                .unwrap(),
        );
    }
    for (i, holder) in providers.iter().enumerate() {
        let name = format!("job {i}");
        // Covers both the insert and the update of a record.
        for _ in 0..2 {
            let lease = take(holder, &name).await;
            let now = SystemClock.system_time();
            for other in &providers {
                skip(other, &name).await;
                let seen = record(other, &name).await;
                close(seen.locked_at, now, Duration::from_secs(60));
                close(seen.locked_until, now + HOUR, Duration::from_secs(60));
                close(seen.read_at, now, Duration::from_secs(60));
            }
            free(holder, &lease).await;
        }
    }
}

pub(crate) async fn the_zone_of_the_session_stays_as_it_was(server: &str) {
    let room = Room::migrated(server).await;
    let pool = room.pool("+05:30", "").await;
    take(
        &MySqlProvider::builder(pool.clone()).build().unwrap(),
        "job",
    )
    .await;
    let zone: String = sqlx::query_scalar("SELECT @@time_zone")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(zone, "+05:30");
}

pub(crate) async fn a_zone_that_the_server_does_not_know_is_refused(server: &str) {
    let room = Room::migrated(server).await;
    let pool = room.pool("+00:00", "").await;
    let provider = MySqlProvider::builder(pool)
        .shared_session_zone("Atlantis/Poseidonis")
        .build()
        .unwrap();
    let error = refused(&provider, "job").await;
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("shared_session_zone"), "{error}");
    assert_eq!(room.rows().await, 0);
    let provider = MySqlProvider::builder(room.admin.clone()).shared_session_zone("half past");
    assert_eq!(
        provider.build().unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

pub(crate) async fn sessions_without_autocommit_are_refused(server: &str) {
    let room = Room::migrated(server).await;
    let provider = MySqlProvider::builder(room.pool("+00:00", "SET autocommit = 0").await)
        .build()
        .unwrap();
    let error = refused(&provider, "job").await;
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("autocommit"), "{error}");
    let whole = format!("{error:#}");
    assert!(whole.ends_with(&error.to_string()), "{whole}");
    assert_eq!(room.rows().await, 0);
}

/// The provider's own sessions do not depend on the server's setting.
pub(crate) async fn own_sessions_switch_autocommit_on(server: &str) {
    let room = Room::migrated(server).await;
    let plain = crate::common::with_option(&room.url, "prepared", "false");
    let plain = MySqlProvider::connect(&plain).await.unwrap();
    for provider in [room.provider().await, plain] {
        let lease = take(&provider, "job").await;
        assert_eq!(room.rows().await, 1);
        free(&provider, &lease).await;
    }
}

/// Over a pool, texts are literals that name their character set.
pub(crate) async fn a_session_of_another_charset_stores_the_same_name(server: &str) {
    let room = Room::migrated(server).await;
    let options: MySqlConnectOptions = room.url.parse().unwrap();
    let pool = room.pool_with(options.charset("latin1"), "").await;
    let provider = MySqlProvider::builder(pool).build().unwrap();
    let lease = take(&provider, "plain").await;
    free(&provider, &lease).await;
    take(&provider, "naïve").await;
    skip(&room.provider().await, "naïve").await;
    assert_eq!(room.rows().await, 2);
}

pub(crate) async fn every_sql_mode_will_do(server: &str) {
    let room = Room::migrated(server).await;
    for setup in [
        "SET sql_mode = ''",
        "SET sql_mode = 'ANSI,TRADITIONAL'",
        "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE'",
        "SET sql_safe_updates = 1",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    ] {
        let provider = MySqlProvider::builder(room.pool("+02:00", setup).await)
            .build()
            .unwrap();
        for _ in 0..2 {
            let lease = take(&provider, "job").await;
            skip(&provider, "job").await;
            free(&provider, &lease).await;
        }
        let listed = provider.list(&shedlock_core::ListRequest::new()).await;
        assert!(!listed.unwrap().is_empty(), "{setup}");
    }
}

pub(crate) async fn serializable_sessions_contend_without_errors(server: &str) {
    let room = Room::migrated(server).await;
    let setup = "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE";
    let provider = MySqlProvider::builder(room.pool("+00:00", setup).await)
        .build()
        .unwrap();
    for round in 0..10 {
        let name = format!("job {round}");
        let attempts = (0..16).map(|_| {
            let provider = provider.clone();
            let request = crate::room::request(&name);
            async move { provider.attempt(&request).await.unwrap().acquired() }
        });
        let winners = futures_util::future::join_all(attempts).await;
        assert_eq!(winners.iter().flatten().count(), 1, "{round}");
    }
}
