//! Owners that do not fit, slots with an unlimited tolerance, tables that change, conflicting rows.

use std::time::Duration;

use shedlock_core::{
    Attempt, ErrorKind, ForceUnlockRequest, ForcedUnlock, LockProvider as _, Slot, admin,
};
use shedlock_sqlx::MySqlProvider;
use sqlx::Executor as _;

use crate::common::within;
use crate::room::{Room, SHEDLOCKS, free, refused, request, skip, take};

/// Without strict mode the server truncates the owner, and each lease would end as lost.
pub(crate) async fn an_owner_that_would_be_cut_is_refused_with_the_remedy(server: &str) {
    let room = Room::empty(server).await;
    room.run(&SHEDLOCKS.replace("VARCHAR(255)", "VARCHAR(8)"))
        .await;
    let error = MySqlProvider::connect(&room.url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    let provider = MySqlProvider::builder(room.pool("+00:00", "SET sql_mode = ''").await)
        .build()
        .unwrap();
    let error = refused(&provider, "job").await;
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("locked_by"), "{error}");
    assert!(error.to_string().contains("VARCHAR(255)"), "{error}");
    assert_eq!(room.rows().await, 0);
    room.run("ALTER TABLE shedlock MODIFY locked_by VARCHAR(255) NOT NULL")
        .await;
    free(&provider, &take(&provider, "job").await).await;
}

pub(crate) async fn a_tolerance_without_an_end_is_a_tolerance(server: &str) {
    let room = Room::migrated(server).await;
    let provider = room.provider().await;
    let far = Slot::from_micros(4_000_000_000_000_000).unwrap();
    for _ in 0..2 {
        let slotted = request("job")
            .with_slot(far)
            .with_slot_tolerance(Duration::MAX);
        let answer = provider.attempt(&slotted).await.unwrap();
        assert!(matches!(answer, Attempt::Acquired(_)), "{answer:?}");
        room.run("DELETE FROM shedlock").await;
    }
}

/// A read that decides looks like a write to proxies. It must still neither wait nor block other statements.
pub(crate) async fn a_read_that_decides_waits_for_no_lock_on_the_row(server: &str) {
    let room = Room::migrated(server).await;
    let provider = room.provider().await;
    let lease = take(&provider, "job").await;
    let held = skip(&provider, "job").await;
    assert_eq!(held.owner.as_deref(), Some(lease.owner().as_str()));
    let mut transaction = room.admin.begin().await.unwrap();
    transaction
        .execute("SELECT * FROM shedlock FOR UPDATE")
        .await
        .unwrap();
    // A forced unlock starts with a read, which here finds another owner.
    let force = ForceUnlockRequest::new(lease.name().clone()).with_expected_owner("other");
    let answer = within(
        Duration::from_secs(4),
        admin::force_unlock(&provider, &force),
    );
    let answer = answer.await.expect("a read waits for no one").unwrap();
    assert!(
        matches!(answer, ForcedUnlock::OwnerDiffers(_)),
        "{answer:?}"
    );
    transaction.rollback().await.unwrap();
    free(&provider, &lease).await;
}

pub(crate) async fn a_complete_table_that_was_altered_is_looked_at_again(server: &str) {
    let room = Room::migrated(server).await;
    let provider = room.provider().await;
    free(&provider, &take(&provider, "first").await).await;
    room.run("DELETE FROM shedlock").await;
    room.run("ALTER TABLE shedlock ADD COLUMN tenant INT NOT NULL")
        .await;
    let error = refused(&provider, "job").await;
    assert!(error.to_string().contains("required column"), "{error}");
    room.run("ALTER TABLE shedlock DROP COLUMN tenant").await;
    free(&provider, &take(&provider, "job").await).await;
}
