//! The journal beside a lock table of MySQL or MariaDB.

use shedlock_conformance::journal;
use shedlock_core::LockProvider as _;

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
