//! The journal beside a lock table of MySQL or MariaDB.

use shedlock_conformance::journal;
use shedlock_core::{ErrorKind, JobChange, JournalEntry, LockProvider as _, Retention};
use shedlock_sqlx::MySqlProvider;

use crate::common::with_option;
use crate::room::Room;

pub(crate) async fn the_journal(server: &str) {
    let room = Room::migrated(server).await;
    journal::check(room.provider().await.journal().unwrap()).await;
    let room = Room::migrated(server).await;
    journal::retained(room.provider().await.journal().unwrap(), 100_000).await;
    let room = Room::migrated(server).await;
    let url = with_option(&room.url, "prepared", "false");
    let provider = shedlock_sqlx::MySqlProvider::connect(&url).await.unwrap();
    journal::check(provider.journal().unwrap()).await;
}

pub(crate) async fn replicas_share_a_journal(server: &str) {
    let room = Room::migrated(server).await;
    let mut journals = Vec::new();
    for _ in 0..4 {
        journals.push(room.provider().await.journal().unwrap());
    }
    journal::contended(&journals).await;
}

/// What it removes there would come back, and its rows would stay locked until then.
pub(crate) async fn a_session_without_autocommit_removes_nothing(server: &str) {
    let room = Room::migrated(server).await;
    let journal = room.provider().await.journal().unwrap();
    let _ = journal.migrate().await.unwrap();
    let job = JournalEntry::Job(JobChange::new("job"));
    journal.record(&[job]).await.unwrap();
    let pool = room.pool("+00:00", "SET autocommit = 0").await;
    let provider = MySqlProvider::new(pool);
    let lent = provider.journal().unwrap();
    let error = lent.forget("job").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("autocommit"), "{error}");
    let error = lent.prune("job", &Retention::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(journal.forget("job").await.unwrap());
}
