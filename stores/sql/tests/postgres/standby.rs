//! A server whose commits wait for a standby that is away.

use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{
    Clock as _, Executor, LockConfig, LockProvider as _, LockState, Outcome, Slot, SystemClock,
};
use shedlock_rig::OwnServer;
use shedlock_sqlx::PostgresProvider;
use sqlx::PgPool;

use crate::common::exhausted::sleep;
use crate::room::name;

/// A server of its own, since the setting is one of the server.
struct Primary {
    _server: OwnServer,
    admin: PgPool,
    provider: PostgresProvider,
}

impl Primary {
    async fn start() -> Self {
        let server = OwnServer::start("postgres", &[]).unwrap();
        let admin = PgPool::connect(server.url()).await.unwrap();
        let provider = PostgresProvider::connect(server.url()).await.unwrap();
        provider.migrate().await.unwrap();
        Self {
            _server: server,
            admin,
            provider,
        }
    }

    /// Makes each commit wait for this standby.
    async fn waits_for(&self, standbys: &str) {
        for text in [
            format!("ALTER SYSTEM SET synchronous_standby_names = '{standbys}'"),
            "SELECT pg_reload_conf()".to_owned(),
        ] {
            let text = sqlx::AssertSqlSafe(text);
            sqlx::raw_sql(text).execute(&self.admin).await.unwrap();
        }
        // The server reads it a moment later.
        sleep(Duration::from_millis(500)).await;
    }

    fn executor(&self) -> Executor {
        Executor::new(Arc::new(self.provider.clone())).store_timeout(Duration::from_secs(1))
    }
}

fn slot() -> Slot {
    Slot::at(SystemClock.system_time() - Duration::from_secs(1)).unwrap()
}

/// The claim has taken effect, and waits with the record locked. What withdraws it must neither wait for the record nor
/// for the standby, and gives the slot back.
#[tokio::test]
async fn a_claim_that_waits_for_a_standby_is_withdrawn_with_its_slot() {
    let primary = Primary::start().await;
    let executor = primary.executor();
    // The first record of a lock is inserted, later ones are updates. A lease may end before its withdrawal.
    for (job, at_most) in [("new", "10m"), ("known", "10m"), ("short", "2s")] {
        let config = LockConfig::new(job).lock_at_most_for(at_most);
        if job != "new" {
            let outcome = executor.execute(&config, async {}).await.unwrap();
            assert!(outcome.is_executed(), "{outcome:?}");
        }
        primary.waits_for("absent").await;
        let slotted = config.clone().slot(slot());
        let failed = executor.execute(&slotted, async {}).await;
        assert!(failed.is_err(), "{job}: {failed:?}");
        let began = SystemClock.now();
        executor.settled().await;
        let took = SystemClock.now().saturating_since(began);
        assert!(took < Duration::from_secs(20), "{job}: {took:?}");
        let record = primary.provider.inspect(&name(job)).await.unwrap();
        let record = record.expect("the claim took effect");
        assert_eq!(record.state, LockState::Free, "{record:?}");
        assert_ne!(record.last_slot, slotted.get_slot(), "{record:?}");
        let findings = primary.provider.diagnose().await.unwrap();
        let commits = findings.iter().find(|it| it.check == "commits").unwrap();
        assert!(
            commits.message.contains("wait for a standby"),
            "{commits:?}"
        );

        primary.waits_for("").await;
        let outcome = executor.execute(&slotted, async {}).await.unwrap();
        assert!(outcome.is_executed(), "{job}: {outcome:?}");
    }
}

/// The wait is the caller's, not that of the lease which the first claim may have taken.
#[tokio::test]
async fn a_wait_outlasts_the_lease_of_a_claim_that_hangs() {
    let primary = Arc::new(Primary::start().await);
    let executor = primary.executor();
    primary.waits_for("absent").await;
    let config = LockConfig::new("job").lock_at_most_for("2s").slot(slot());
    let returns = {
        let primary = primary.clone();
        tokio::spawn(async move {
            sleep(Duration::from_secs(10)).await;
            primary.waits_for("").await;
        })
    };
    let outcome = executor
        .execute(&config.lock_wait("60s"), async { 7 })
        .await;
    assert!(
        matches!(outcome, Ok(Outcome::Executed { value: 7, .. })),
        "{outcome:?}"
    );
    returns.await.unwrap();
}
