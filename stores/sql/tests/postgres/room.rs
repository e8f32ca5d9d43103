//! A schema with a lock table, and the steps of a test in it.

use std::time::Duration;

use crate::common::{server, unique, with_option};
use shedlock_core::{
    Attempt, AttemptRequest, Error, ErrorKind, Lease, LockName, LockProvider, Owner, Skip, Unlock,
    UnlockRequest,
};
use shedlock_sqlx::PostgresProvider;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool, Row as _};

/// The table from ShedLock's documentation.
pub(crate) const SHEDLOCKS: &str = "name VARCHAR(64) NOT NULL, lock_until TIMESTAMP NOT NULL, \
    locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name)";

/// A separate schema, and a URL that reaches it as its owner.
pub(crate) struct Room {
    pub(crate) schema: String,
    pub(crate) url: String,
    pub(crate) admin: PgPool,
}

impl Room {
    pub(crate) async fn empty() -> Self {
        let server = server("postgres");
        let schema = unique("room");
        let options: PgConnectOptions = server.parse().unwrap();
        let admin = PgPoolOptions::new()
            .max_connections(2)
            .connect_with(options.options([("search_path", &schema)]))
            .await
            .unwrap();
        let room = Self {
            url: with_option(&server, "schema", &schema),
            schema,
            admin,
        };
        room.run(&format!("CREATE SCHEMA {}", room.schema)).await;
        room
    }

    pub(crate) async fn with(columns: &str) -> Self {
        let room = Self::empty().await;
        room.run(&format!("CREATE TABLE shedlock ({columns})"))
            .await;
        room
    }

    pub(crate) async fn migrated() -> Self {
        let room = Self::empty().await;
        let changes = room.provider().await.migrate().await.unwrap().changes;
        assert_eq!(changes.len(), 1, "{changes:?}");
        room
    }

    pub(crate) async fn provider(&self) -> PostgresProvider {
        PostgresProvider::connect(&self.url).await.unwrap()
    }

    pub(crate) async fn run(&self, text: &str) -> u64 {
        sqlx::raw_sql(AssertSqlSafe(text))
            .execute(&self.admin)
            .await
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .rows_affected()
    }

    pub(crate) async fn number(&self, text: &str) -> i64 {
        sqlx::raw_sql(AssertSqlSafe(text))
            .fetch_one(&self.admin)
            .await
            .unwrap()
            .get(0)
    }

    /// The user's own pool with these settings for each session.
    pub(crate) async fn pool(&self, size: u32, settings: &[(&str, &str)]) -> PgPool {
        let options: PgConnectOptions = server("postgres").parse().unwrap();
        PgPoolOptions::new()
            .max_connections(size)
            .connect_with(options.options(settings.iter().copied()))
            .await
            .unwrap()
    }

    pub(crate) async fn provider_over(&self, settings: &[(&str, &str)]) -> PostgresProvider {
        PostgresProvider::builder(self.pool(4, settings).await)
            .schema(&self.schema)
            .build()
            .unwrap()
    }
}

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

pub(crate) fn request(lock: &str) -> AttemptRequest {
    AttemptRequest::new(name(lock), Owner::generate(), Duration::from_secs(60))
}

pub(crate) async fn take(provider: &dyn LockProvider, lock: &str) -> Lease {
    match provider.attempt(&request(lock)).await.unwrap() {
        Attempt::Acquired(lease) => lease,
        other => panic!("{lock} should be free: {other:?}"),
    }
}

/// Takes the lock and leaves it held.
pub(crate) async fn hold(provider: &dyn LockProvider, lock: &str) {
    let _ = take(provider, lock).await;
}

/// Creates the table.
pub(crate) async fn migrate(provider: &dyn LockProvider) {
    let _ = provider.migrate().await.unwrap();
}

pub(crate) async fn skip(provider: &dyn LockProvider, request: &AttemptRequest) -> Skip {
    match provider.attempt(request).await.unwrap() {
        Attempt::Skipped(skip) => skip,
        other => panic!("should be skipped: {other:?}"),
    }
}

pub(crate) async fn free(provider: &dyn LockProvider, lease: &Lease) {
    let answer = provider.unlock(lease, &UnlockRequest::new()).await.unwrap();
    assert_eq!(answer, Unlock::Unlocked);
}

pub(crate) async fn refusal(provider: &dyn LockProvider, kind: ErrorKind) -> Error {
    let error = provider.attempt(&request("job")).await.unwrap_err();
    assert_eq!(error.kind(), kind, "{error:?}");
    error
}
