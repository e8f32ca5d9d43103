//! What a server may lose in a crash, and what it must keep.

use std::time::Duration;

use crate::common::with_option;
use crate::room::{name, request, take};
use shedlock_core::{
    Attempt, Clock as _, Completion, ExtendRequest, Extension, Lease, LockProvider, LockRecord,
    Slot, SlotEnd, SystemClock, Unlock, UnlockRequest,
};
use shedlock_rig::OwnServer;
use shedlock_rig::given::needs_store;
use shedlock_sqlx::PostgresProvider;
use sqlx::{PgPool, Row as _};

/// The number of crashes. Default: 12, one for each combination of way and promise.
const ROUNDS: &str = "SHEDLOCK_TEST_CRASHES";

/// The call that is confirmed before the crash.
#[derive(Clone, Copy, Debug)]
enum Promise {
    /// A lock without a record.
    Insert,
    /// A lock with an existing record.
    Acquisition,
    Extension,
    /// The mark of a slot that must not be lost.
    DoneMark,
}

const PROMISES: [Promise; 4] = [
    Promise::Insert,
    Promise::Acquisition,
    Promise::Extension,
    Promise::DoneMark,
];

/// How the server is reached.
#[derive(Clone, Copy, Debug)]
enum Way {
    OwnConnections,
    UsersPool,
    PgBouncer,
}

const WAYS: [Way; 3] = [Way::OwnConnections, Way::UsersPool, Way::PgBouncer];

/// A role, a database or a server may be configured to confirm commits before they are on disk. The
/// WAL writer is slowed down, so that nothing else writes them to disk in time.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_forgets_nothing_that_was_answered_with_synchronous_commit_off() {
    needs_store("postgres");
    let delay = ["-cwal_writer_delay=10s", "-cautovacuum=off"];
    let server = OwnServer::start_with_companions("postgres", &delay).unwrap();
    let pool = PgPool::connect(server.url()).await.unwrap();
    sqlx::raw_sql("ALTER ROLE postgres SET synchronous_commit = off")
        .execute(&pool)
        .await
        .unwrap();
    pool.close().await;
    let direct = PostgresProvider::connect(server.url()).await.unwrap();
    let _ = direct.migrate().await.unwrap();
    drop(direct);
    flush(&server).await;

    let rounds = std::env::var(ROUNDS).map_or(12, |rounds| rounds.parse().unwrap());
    let mut lost = Vec::new();
    for round in 0..rounds {
        let promise = PROMISES[round % PROMISES.len()];
        let way = WAYS[round / PROMISES.len() % WAYS.len()];
        let Some(provider) = reach(&server, way).await else {
            // xtask, which looked for it, has reported this.
            continue;
        };
        let lock = format!("{promise:?}-{round}");
        let expected = promise.make(&*provider, &server, &lock).await;
        server.kill().unwrap();
        server.start_again().unwrap();
        let direct = PostgresProvider::connect(server.url()).await.unwrap();
        let record = direct.inspect(&name(&lock)).await.unwrap();
        if !record.is_some_and(|record| promise.is_kept(&record, &expected)) {
            lost.push((round, way, promise));
        }
    }
    assert!(
        lost.is_empty(),
        "{} of {rounds} were forgotten: {lost:?}",
        lost.len()
    );
}

/// Sessions of the user's own pool show their original setting.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_leaves_the_session_as_it_was() {
    for word in ["off", "local", "remote_write", "on", "remote_apply"] {
        let room = crate::room::Room::migrated().await;
        let pool = room.pool(1, &[("synchronous_commit", word)]).await;
        let provider = PostgresProvider::builder(pool.clone())
            .schema(&room.schema)
            .build()
            .unwrap();
        let lease = take(&provider, "job").await;
        let row = sqlx::raw_sql("SHOW synchronous_commit").fetch_one(&pool);
        assert_eq!(row.await.unwrap().get::<String, _>(0), word);
        crate::room::free(&provider, &lease).await;
        let row = sqlx::raw_sql("SHOW synchronous_commit").fetch_one(&pool);
        assert_eq!(row.await.unwrap().get::<String, _>(0), word);
    }
}

#[tokio::test]
async fn an_unlogged_table_is_not_called_durable() {
    let room = crate::room::Room::migrated().await;
    assert!(room.provider().await.capabilities().durable);
    room.run("ALTER TABLE shedlock SET UNLOGGED").await;
    assert!(!room.provider().await.capabilities().durable);
    room.run("ALTER TABLE shedlock SET LOGGED").await;
    assert!(room.provider().await.capabilities().durable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_waits_for_its_disk_is_not_called_durable() {
    needs_store("postgres");
    let server = OwnServer::start("postgres", &["-cfsync=off"]).unwrap();
    let provider = PostgresProvider::connect(server.url()).await.unwrap();
    let _ = provider.migrate().await.unwrap();
    provider.check().await.unwrap();
    assert!(!provider.capabilities().durable);
    let _ = take(&provider, "job").await;
}

#[tokio::test]
async fn a_url_sets_how_far_apart_the_clocks_of_servers_may_be() {
    let room = crate::room::Room::migrated().await;
    let skew = |provider: PostgresProvider| provider.capabilities().server_skew;
    assert_eq!(skew(room.provider().await), Duration::ZERO);
    let url = with_option(&room.url, "server_skew", "2s");
    let provider = PostgresProvider::connect(&url).await.unwrap();
    assert_eq!(skew(provider), Duration::from_secs(2));
    let url = with_option(&room.url, "server_skew", "2");
    let error = PostgresProvider::connect(&url).await.unwrap_err();
    assert!(error.to_string().contains("server_skew"), "{error}");
}

async fn reach(server: &OwnServer, way: Way) -> Option<Box<dyn LockProvider>> {
    Some(Box::new(match way {
        Way::OwnConnections => PostgresProvider::connect(server.url()).await.unwrap(),
        Way::UsersPool => PostgresProvider::builder(PgPool::connect(server.url()).await.unwrap())
            .build()
            .unwrap(),
        Way::PgBouncer => {
            let url = server.companion("pgbouncer")?;
            PostgresProvider::connect(url).await.unwrap()
        }
    }))
}

impl Promise {
    /// Makes the calls, and returns the lease after the last reply.
    async fn make(self, provider: &dyn LockProvider, server: &OwnServer, lock: &str) -> Lease {
        match self {
            Self::Insert => take(provider, lock).await,
            Self::Acquisition => {
                let lease = take(provider, lock).await;
                let unlocked = provider.unlock(&lease, &UnlockRequest::new()).await;
                assert_eq!(unlocked.unwrap(), Unlock::Unlocked);
                flush(server).await;
                take(provider, lock).await
            }
            Self::Extension => {
                let lease = take(provider, lock).await;
                flush(server).await;
                let longer = ExtendRequest::new(Duration::from_secs(3_600));
                match provider.extend(&lease, &longer).await.unwrap() {
                    Extension::Extended(lease) => lease,
                    other => panic!("the lease is ours: {other:?}"),
                }
            }
            Self::DoneMark => {
                let request = request(lock)
                    .with_slot(Slot::at(SystemClock.system_time()).unwrap())
                    .with_completion(Completion::on_success());
                let Attempt::Acquired(lease) = provider.attempt(&request).await.unwrap() else {
                    panic!("{lock} should be free");
                };
                flush(server).await;
                let done = UnlockRequest::new().with_slot_end(SlotEnd::done(true));
                let unlocked = provider.unlock(&lease, &done).await.unwrap();
                assert_eq!(unlocked, Unlock::Unlocked);
                lease
            }
        }
    }

    fn is_kept(self, record: &LockRecord, lease: &Lease) -> bool {
        match self {
            Self::Insert | Self::Acquisition => {
                record.owner.as_deref() == Some(lease.owner().as_str())
                    && record.fencing_token == lease.fencing_token()
            }
            Self::Extension => record.locked_until == lease.locked_until(),
            Self::DoneMark => record.last_slot_done == lease.slot(),
        }
    }
}

/// Flushes all earlier writes to disk, so that the calls that follow are not flushed with them.
async fn flush(server: &OwnServer) {
    let pool = PgPool::connect(server.url()).await.unwrap();
    sqlx::raw_sql("CHECKPOINT").execute(&pool).await.unwrap();
    pool.close().await;
}
