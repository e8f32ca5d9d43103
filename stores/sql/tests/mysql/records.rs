//! Edge cases of the names and times that columns can store.

use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{
    Attempt, AttemptRequest, ErrorKind, LockName, LockProvider, ManualClock, Owner,
};
use shedlock_sqlx::MySqlProvider;

use crate::room::{Room, SHEDLOCKS, free, refused, request, skip, take};

pub(crate) async fn names_that_the_collation_treats_as_equal_are_distinguished(server: &str) {
    // With the default collation of a table.
    let room = Room::shedlocks(server).await;
    let provider = room.provider().await;
    let mut lease = take(&provider, "job").await;
    for alike in ["Job", "jöb"] {
        let error = refused(&provider, alike).await;
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(error.to_string().contains("\"job\""), "{error}");
        assert!(error.to_string().contains(&format!("{alike:?}")), "{error}");
        assert!(
            provider
                .inspect(&LockName::new(alike).unwrap())
                .await
                .unwrap()
                .is_none()
        );
        // Also if the other lock is free.
        free(&provider, &lease).await;
        let error = refused(&provider, alike).await;
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        lease = take(&provider, "job").await;
    }
    assert_eq!(room.rows().await, 1);
}

pub(crate) async fn trailing_blanks_count(server: &str) {
    let room = Room::migrated(server).await;
    let provider = room.provider().await;
    for name in ["job", "job ", "job  ", "Job", "jöb"] {
        take(&provider, name).await;
        skip(&provider, name).await;
    }
    assert_eq!(room.rows().await, 5);
    // A collation that pads names with spaces has one record for both.
    room.run("DELETE FROM shedlock").await;
    room.run("ALTER TABLE shedlock MODIFY name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL")
        .await;
    let provider = room.provider().await;
    take(&provider, "job").await;
    let error = refused(&provider, "job ").await;
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

pub(crate) async fn names_that_do_not_fit_are_refused_in_every_mode(server: &str) {
    let room = Room::with_charset(server, "latin1").await;
    room.run(SHEDLOCKS).await;
    for setup in ["", "SET sql_mode = ''"] {
        let provider = MySqlProvider::builder(room.pool("+00:00", setup).await)
            .build()
            .unwrap();
        take(&provider, &"x".repeat(64)).await;
        for name in ["x".repeat(65), "名前".to_owned(), "job 👍".to_owned()] {
            let error = refused(&provider, &name).await;
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
        let lease = take(&provider, "naïve").await;
        free(&provider, &lease).await;
        assert_eq!(room.rows().await, 2);
        room.run("DELETE FROM shedlock").await;
    }
}

pub(crate) async fn a_lease_beyond_2038_is_refused(server: &str) {
    let room = Room::migrated(server).await;
    let provider = room.provider().await;
    let century = Duration::from_secs(100 * 365 * 86_400);
    let name = LockName::new("job").unwrap();
    let request = AttemptRequest::new(name, Owner::generate(), century);
    let error = provider.attempt(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(room.rows().await, 0);
    room.run("ALTER TABLE shedlock MODIFY lock_until DATETIME(3) NOT NULL, MODIFY locked_at DATETIME(3) NOT NULL")
        .await;
    let provider = room.provider().await;
    let answer = provider.attempt(&request).await.unwrap();
    assert!(matches!(answer, Attempt::Acquired(_)));
}

/// The client's clock is in 1970, so the client cannot detect this. The server must not store the
/// year 0.
pub(crate) async fn a_client_of_the_past_stores_no_year_0(server: &str) {
    let room = Room::migrated(server).await;
    let pool = room.pool("+00:00", "SET sql_mode = ''").await;
    let clock = ManualClock::new();
    clock.set_system_time(std::time::UNIX_EPOCH);
    let provider = MySqlProvider::builder(pool)
        .clock(Arc::new(clock))
        .build()
        .unwrap();
    let decades = Duration::from_secs(30 * 365 * 86_400);
    let name = LockName::new("job").unwrap();
    let request = AttemptRequest::new(name, Owner::generate(), decades);
    provider.attempt(&request).await.unwrap();
    skip(&provider, "job").await;
}

pub(crate) async fn a_record_without_an_end_is_a_conflict(server: &str) {
    let room = Room::migrated(server).await;
    room.run("ALTER TABLE shedlock MODIFY lock_until TIMESTAMP(3) NULL")
        .await;
    room.run("INSERT INTO shedlock (name, lock_until, locked_by) VALUES ('job', NULL, 'x')")
        .await;
    let provider = room.provider_in_utc().await;
    let error = refused(&provider, "job").await;
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("null"), "{error}");
}

/// Without at-least a lock is free at once, even if columns store whole seconds.
pub(crate) async fn whole_seconds_leave_nothing_behind_an_unlock(server: &str) {
    let room = Room::empty(server).await;
    room.run(
        "CREATE TABLE shedlock (name VARCHAR(64) PRIMARY KEY, lock_until TIMESTAMP NOT NULL \
         DEFAULT CURRENT_TIMESTAMP, locked_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, \
         locked_by VARCHAR(255) NOT NULL)",
    )
    .await;
    let provider = room.provider().await;
    assert_eq!(provider.capabilities().granularity, Duration::from_secs(1));
    for _ in 0..5 {
        let lease = take(&provider, "job").await;
        free(&provider, &lease).await;
    }
    let at_least = Duration::from_millis(300);
    let asked = request("kept").with_lock_at_least_for(at_least);
    let lease = provider.attempt(&asked).await.unwrap().acquired().unwrap();
    free(&provider, &lease).await;
    shedlock_rig::wait::sleep(at_least.saturating_sub(Duration::from_millis(150))).await;
    skip(&provider, "kept").await;
}
