//! ShedLock's own tables and statements.

use std::time::{Duration, SystemTime};

use crate::room::{Room, SHEDLOCKS, free, hold, name, request, skip, take};
use shedlock_core::{
    ErrorKind, ForceUnlockRequest, ForcedUnlock, LockProvider as _, SkipReason, Slot, Unlock,
    UnlockRequest, admin,
};

/// Statements with the effect of those that ShedLock 7.9.0 sends in db-time mode (wire format 3.5).
struct Java<'a> {
    room: &'a Room,
    host: &'static str,
}

impl Java<'_> {
    const NOW: &'static str = "timezone('utc', CURRENT_TIMESTAMP)";

    async fn insert(&self, lock: &str, seconds: f64) -> bool {
        let (now, host) = (Self::NOW, self.host);
        self.room
            .run(&format!(
                "INSERT INTO shedlock(name, lock_until, locked_at, locked_by) \
                 VALUES('{lock}', {now} + make_interval(secs => {seconds}), {now}, '{host}') \
                 ON CONFLICT (name) DO UPDATE SET lock_until = {now} + \
                 make_interval(secs => {seconds}), locked_at = {now}, locked_by = '{host}' \
                 WHERE shedlock.lock_until <= {now}"
            ))
            .await
            > 0
    }

    async fn update(&self, lock: &str, seconds: f64) -> bool {
        let (now, host) = (Self::NOW, self.host);
        self.room
            .run(&format!(
                "UPDATE shedlock SET lock_until = {now} + make_interval(secs => {seconds}), \
                 locked_at = {now}, locked_by = '{host}' \
                 WHERE name = '{lock}' AND lock_until <= {now}"
            ))
            .await
            > 0
    }

    async fn extend(&self, lock: &str, seconds: f64) -> bool {
        let (now, host) = (Self::NOW, self.host);
        self.room
            .run(&format!(
                "UPDATE shedlock SET lock_until = {now} + make_interval(secs => {seconds}) \
                 WHERE name = '{lock}' AND locked_by = '{host}' AND lock_until > {now}"
            ))
            .await
            > 0
    }

    async fn unlock(&self, lock: &str) {
        let (now, host) = (Self::NOW, self.host);
        self.room
            .run(&format!(
                "UPDATE shedlock SET lock_until = CASE WHEN {now} < locked_at + \
                 make_interval(secs => 0) THEN locked_at ELSE {now} END \
                 WHERE name = '{lock}' AND locked_by = '{host}'"
            ))
            .await;
    }
}

/// Both directions, on this room's table.
async fn share_with_java(room: &Room) {
    let provider = room.provider().await;
    let java = Java {
        room,
        host: "web-3",
    };
    assert!(java.insert("job", 60.0).await, "Java inserts");
    let answer = skip(&provider, &request("job")).await;
    assert_eq!(answer.reason, SkipReason::Held);
    assert_eq!(answer.owner.as_deref(), Some("web-3"));
    assert!(java.extend("job", 120.0).await);
    java.unlock("job").await;

    let lease = take(&provider, "job").await;
    assert!(!java.insert("job", 60.0).await, "held by us: no insert");
    assert!(!java.update("job", 60.0).await, "held by us: no update");
    assert!(!java.extend("job", 60.0).await, "not Java's");
    java.unlock("job").await;
    assert!(
        !java.update("job", 60.0).await,
        "Java's unlock frees ours not"
    );
    free(&provider, &lease).await;

    assert!(java.update("job", 60.0).await, "free again");
    let stale = provider.unlock(&lease, &UnlockRequest::new()).await;
    assert_eq!(stale.unwrap(), Unlock::Lost);
    assert!(
        !java.update("job", 60.0).await,
        "a stale unlock frees not Java's"
    );
}

#[tokio::test]
async fn a_table_that_shedlock_made_works_unaltered() {
    let room = Room::with(SHEDLOCKS).await;
    share_with_java(&room).await;
    let provider = room.provider().await;
    let lease = take(&provider, "other").await;
    assert_eq!(lease.fencing_token(), None);
    let slot = Slot::at(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    let error = provider
        .attempt(&request("slotted").with_slot(slot))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("`migrate()`"), "{error}");
    assert!(!provider.capabilities().slots);
    assert!(!provider.capabilities().fencing);
}

#[tokio::test]
async fn a_table_that_was_migrated_still_takes_shedlocks_statements() {
    let room = Room::with(SHEDLOCKS).await;
    let before = room.provider().await;
    hold(&before, "old").await;
    let migration = room.provider().await.migrate().await.unwrap();
    // The columns, and an index for lists.
    assert_eq!(migration.changes.len(), 2, "{migration:?}");
    let again = room.provider().await.migrate().await.unwrap();
    assert!(again.changes.is_empty(), "{again:?}");
    share_with_java(&room).await;

    // A provider that has read the table's old shape finds the columns when it needs them.
    let slot = Slot::at(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    let attempt = before.attempt(&request("slotted").with_slot(slot)).await;
    let lease = attempt.unwrap().acquired().unwrap();
    assert!(lease.fencing_token().is_some());
}

#[tokio::test]
async fn shedlocks_lock_can_be_freed_by_force() {
    let room = Room::migrated().await;
    let provider = room.provider().await;
    let java = Java {
        room: &room,
        host: "web-3",
    };
    assert!(java.insert("job", 60.0).await);
    let other = ForceUnlockRequest::new(name("job")).with_expected_owner("web-4");
    let answer = admin::force_unlock(&provider, &other).await.unwrap();
    assert!(
        matches!(answer, ForcedUnlock::OwnerDiffers(_)),
        "{answer:?}"
    );
    let right = ForceUnlockRequest::new(name("job")).with_expected_owner("web-3");
    let ForcedUnlock::Freed(before) = admin::force_unlock(&provider, &right).await.unwrap() else {
        panic!("Java's lock is freed");
    };
    assert_eq!(before.owner.as_deref(), Some("web-3"));
    assert!(!java.extend("job", 60.0).await, "no longer Java's");
    hold(&provider, "job").await;
}
