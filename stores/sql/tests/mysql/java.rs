//! ShedLock's tables and statements, in sessions like Java's.

use std::time::Duration;

use shedlock_core::{Clock as _, ErrorKind, LockProvider, LockState, Slot, SystemClock};
use shedlock_sqlx::MySqlProvider;
use sqlx::{AssertSqlSafe, MySqlPool};

use crate::room::{Room, close, free, record, refused, request, skip, take};

/// ShedLock's statements with server time, rewritten here.
struct Java(MySqlPool);

impl Java {
    async fn new(room: &Room) -> Self {
        // Its driver leaves the session in the server's zone.
        Self(
            room.pool("SYSTEM", "SET time_zone = @@global.time_zone")
                .await,
        )
    }

    async fn run(&self, text: &str, binds: &[&str]) -> u64 {
        let mut query = sqlx::query(AssertSqlSafe(text.to_owned()));
        for bind in binds {
            query = query.bind(*bind);
        }
        query.execute(&self.0).await.unwrap().rows_affected()
    }

    async fn inserts(&self, name: &str) -> bool {
        let text = "INSERT IGNORE INTO shedlock (name, lock_until, locked_at, locked_by) VALUES \
                    (?, TIMESTAMPADD(MICROSECOND, 3600000000, UTC_TIMESTAMP(3)), \
                    UTC_TIMESTAMP(3), 'java')";
        self.run(text, &[name]).await > 0
    }

    async fn updates(&self, name: &str) -> bool {
        let text = "UPDATE shedlock SET \
                    lock_until = TIMESTAMPADD(MICROSECOND, 3600000000, UTC_TIMESTAMP(3)), \
                    locked_at = UTC_TIMESTAMP(3), locked_by = 'java' \
                    WHERE name = ? AND lock_until <= UTC_TIMESTAMP(3)";
        self.run(text, &[name]).await > 0
    }

    async fn extends(&self, name: &str) -> bool {
        let text = "UPDATE shedlock SET \
                    lock_until = TIMESTAMPADD(MICROSECOND, 7200000000, UTC_TIMESTAMP(3)) \
                    WHERE name = ? AND locked_by = 'java' AND lock_until > UTC_TIMESTAMP(3)";
        self.run(text, &[name]).await > 0
    }

    async fn unlocks(&self, name: &str) {
        let text = "UPDATE shedlock SET lock_until = \
                    GREATEST(TIMESTAMPADD(MICROSECOND, 0, locked_at), UTC_TIMESTAMP(3)) \
                    WHERE name = ? AND locked_by = 'java'";
        self.run(text, &[name]).await;
    }
}

/// A provider that shares the table with it.
async fn sharing(room: &Room) -> MySqlProvider {
    let zone = if room.number(AHEAD).await == 1 {
        "+05:30"
    } else {
        "+00:00"
    };
    let url = crate::common::with_option(&room.url, "shared_session_zone", zone);
    MySqlProvider::connect(&url).await.unwrap()
}

const AHEAD: &str = "SELECT CAST(@@global.time_zone = '+05:30' AS SIGNED)";

pub(crate) async fn shedlocks_table_serves_as_it_is(server: &str) {
    let room = Room::shedlocks(server).await;
    let provider = room.provider().await;
    let lease = take(&provider, "job").await;
    assert_eq!(lease.fencing_token(), None);
    assert!(!provider.capabilities().fencing && !provider.capabilities().slots);
    skip(&provider, "job").await;
    free(&provider, &lease).await;
    let slot = Slot::at(SystemClock.system_time()).unwrap();
    let asked = request("job").with_slot(slot);
    let error = provider.attempt(&asked).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

pub(crate) async fn migrating_shedlocks_table_adds_our_columns_once(server: &str) {
    let room = Room::shedlocks(server).await;
    let (one, two) = (room.provider().await, room.provider().await);
    let (first, second) = futures_util::join!(one.migrate(), two.migrate());
    let changes = first.unwrap().changes.len() + second.unwrap().changes.len();
    assert_eq!(changes, 1);
    assert!(one.migrate().await.unwrap().changes.is_empty());
    assert!(take(&one, "job").await.fencing_token().is_some());
}

pub(crate) async fn the_two_exclude_each_other_before_and_after_migration(server: &str) {
    let room = Room::shedlocks(server).await;
    let java = Java::new(&room).await;
    let provider = sharing(&room).await;
    for round in 0..2 {
        let name = format!("job {round}");
        assert!(java.inserts(&name).await);
        assert!(!java.inserts(&name).await);
        assert_eq!(skip(&provider, &name).await.owner.as_deref(), Some("java"));
        assert!(java.extends(&name).await);
        let held = record(&provider, &name).await;
        let now = SystemClock.system_time();
        close(held.locked_at, now, Duration::from_secs(60));
        close(
            held.locked_until,
            now + Duration::from_secs(7_200),
            Duration::from_secs(60),
        );
        java.unlocks(&name).await;

        let lease = take(&provider, &name).await;
        assert!(!java.updates(&name).await && !java.extends(&name).await);
        java.unlocks(&name).await;
        assert_eq!(record(&provider, &name).await.state, LockState::Held);
        free(&provider, &lease).await;
        assert!(java.updates(&name).await);
        assert_eq!(skip(&provider, &name).await.owner.as_deref(), Some("java"));
        let _ = provider.migrate().await.unwrap();
    }
}

/// The column that old servers, or old tables, update implicitly.
pub(crate) async fn columns_that_update_themselves_are_kept_still(server: &str) {
    let room = Room::empty(server).await;
    room.run(
        "CREATE TABLE shedlock (locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) \
         ON UPDATE CURRENT_TIMESTAMP(3), lock_until TIMESTAMP(3) NOT NULL DEFAULT \
         CURRENT_TIMESTAMP(3), name VARCHAR(64) PRIMARY KEY, locked_by VARCHAR(255) NOT NULL)",
    )
    .await;
    let provider = room.provider().await;
    let lease = take(&provider, "job").await;
    let taken = record(&provider, "job").await.locked_at;
    shedlock_rig::wait::sleep(Duration::from_millis(20)).await;
    let longer = shedlock_core::ExtendRequest::new(crate::room::HOUR);
    provider.extend(&lease, &longer).await.unwrap();
    assert_eq!(record(&provider, "job").await.locked_at, taken);
    free(&provider, &lease).await;
    assert_eq!(record(&provider, "job").await.locked_at, taken);
}

/// A number of another column must not be treated as the token.
pub(crate) async fn a_counted_table_still_returns_its_tokens(server: &str) {
    let room = Room::migrated(server).await;
    room.run("ALTER TABLE shedlock ADD COLUMN id BIGINT NOT NULL AUTO_INCREMENT UNIQUE")
        .await;
    let provider = room.provider().await;
    let lease = take(&provider, "job").await;
    let stored = room
        .number("SELECT shedlock_fencing_token FROM shedlock")
        .await;
    assert_eq!(lease.fencing_token(), u64::try_from(stored).ok());
}

pub(crate) async fn another_unique_key_is_an_error_not_a_skip(server: &str) {
    let room = Room::migrated(server).await;
    room.run("ALTER TABLE shedlock ADD COLUMN tenant INT NOT NULL DEFAULT 1 UNIQUE")
        .await;
    let provider = room.provider().await;
    take(&provider, "one").await;
    let error = refused(&provider, "two").await;
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert_eq!(room.rows().await, 1);
}

/// Beside Java on a server in another zone, an attempt without `shared_session_zone` would see no lock of Java's.
pub(crate) async fn java_in_an_unknown_zone_is_refused(server: &str) {
    let room = Room::shedlocks(server).await;
    let is_refused = room.number(AHEAD).await == 1;
    let java = Java::new(&room).await;
    let alone = room.provider().await;
    let lease = take(&alone, "ours").await;
    free(&alone, &lease).await;
    // A service that ended long ago stops no other job, but its own lock is as unclear as ever.
    let old = "INSERT INTO shedlock VALUES ('old', '2019-01-01', '2019-01-01', 'java')";
    java.run(old, &[]).await;
    let url = room.url.clone();
    let provider = async || MySqlProvider::connect(&url).await.unwrap();
    let fresh = provider().await;
    let lease = take(&fresh, "ours").await;
    free(&fresh, &lease).await;
    let refuses = async |provider: &MySqlProvider, lock: &str, name: &str| {
        let error = refused(provider, lock).await;
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        let text = error.to_string();
        for part in [
            "shared_session_zone",
            "+00:00",
            "\"java\"",
            &format!("{name:?}"),
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    };
    if is_refused {
        refuses(&fresh, "old", "old").await;
    } else {
        take(&fresh, "old").await;
    }
    assert!(java.inserts("job").await);
    let beside = provider().await;
    let zone = |findings: Vec<shedlock_core::Finding>| {
        let level = findings.into_iter().find(|it| it.check == "zone");
        level.map(|it| it.level)
    };
    let found = zone(beside.diagnose().await.unwrap());
    if is_refused {
        refuses(&beside, "ours", "job").await;
        assert_eq!(found, Some(shedlock_core::Level::Error));
    } else {
        let lease = take(&beside, "ours").await;
        free(&beside, &lease).await;
        assert_eq!(found, None);
    }
    // Both answers work.
    for zone in ["+00:00", "+05:30"] {
        let url = crate::common::with_option(&url, "shared_session_zone", zone);
        let told = MySqlProvider::connect(&url).await.unwrap();
        let lease = take(&told, zone).await;
        free(&told, &lease).await;
    }
}
