//! PgBouncer in transaction pooling.

use crate::common::{server_if_any, with_option};
use crate::room::{Room, free, request, skip, take};
use shedlock_core::SkipReason;
use shedlock_sql::PostgresProvider;

/// Each session of the pool gets a different server connection, and none keeps a statement.
#[tokio::test(flavor = "multi_thread")]
async fn pgbouncer_in_transaction_pooling_serves() {
    let Some(bouncer) = server_if_any("SHEDLOCK_TEST_PGBOUNCER") else {
        // xtask, which looked for it, has reported this.
        return;
    };
    let room = Room::migrated().await;
    let url = format!(
        "{}&prepared=false",
        with_option(&bouncer, "schema", &room.schema)
    );
    let mut tasks = Vec::new();
    for worker in 0..8 {
        let provider = PostgresProvider::connect(&url).await.unwrap();
        tasks.push(tokio::spawn(async move {
            for turn in 0..20 {
                let lock = format!("it's \\ {worker} :name $1 ?");
                let lease = take(&provider, &lock).await;
                assert_eq!(lease.name().as_str(), lock);
                assert!(lease.fencing_token().is_some(), "turn {turn}");
                assert_eq!(
                    skip(&provider, &request(&lock)).await.reason,
                    SkipReason::Held
                );
                free(&provider, &lease).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(room.number("SELECT count(*) FROM shedlock").await, 8);
}
