//! A database for one test, and helpers for its steps.

use std::time::{Duration, SystemTime};

use shedlock_core::{
    Attempt, AttemptRequest, Error, Lease, LockName, LockProvider, LockRecord, Owner, Skip, Unlock,
    UnlockRequest,
};
use shedlock_sqlx::MySqlProvider;
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, Executor as _, MySqlPool, Row as _};

use crate::common;

/// The table from ShedLock's documentation.
pub(crate) const SHEDLOCKS: &str = "CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, \
    lock_until TIMESTAMP(3) NOT NULL, \
    locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), \
    locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))";

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

/// A separate database. It remains on the throwaway server.
pub(crate) struct Room {
    pub(crate) url: String,
    /// Two sqlx connections, in UTC.
    pub(crate) admin: MySqlPool,
}

impl Room {
    pub(crate) async fn empty(server: &str) -> Self {
        Self::with_charset(server, "utf8mb4").await
    }

    pub(crate) async fn with_charset(server: &str, charset: &str) -> Self {
        let database = common::unique("room");
        let first = MySqlPool::connect(server).await.unwrap();
        let text = format!("CREATE DATABASE {database} CHARACTER SET {charset}");
        first.execute(AssertSqlSafe(text)).await.unwrap();
        first.close().await;
        let url = common::with_database(server, &database);
        let admin = MySqlPoolOptions::new()
            .max_connections(2)
            .connect(&url)
            .await
            .unwrap();
        Self { url, admin }
    }

    /// With ShedLock's table.
    pub(crate) async fn shedlocks(server: &str) -> Self {
        let room = Self::empty(server).await;
        room.run(SHEDLOCKS).await;
        room
    }

    /// With our table.
    pub(crate) async fn migrated(server: &str) -> Self {
        let room = Self::empty(server).await;
        let changes = room.provider().await.migrate().await.unwrap().changes;
        assert_eq!(changes.len(), 1, "{changes:?}");
        room
    }

    pub(crate) async fn provider(&self) -> MySqlProvider {
        MySqlProvider::connect(&self.url).await.unwrap()
    }

    /// One that need not ask whether Java uses the table, in which zone.
    pub(crate) async fn provider_in_utc(&self) -> MySqlProvider {
        let url = crate::common::with_option(&self.url, "shared_session_zone", "+00:00");
        MySqlProvider::connect(&url).await.unwrap()
    }

    /// A user's pool whose sessions are initialized by this statement.
    pub(crate) async fn pool(&self, zone: &str, setup: &'static str) -> MySqlPool {
        let options: MySqlConnectOptions = self.url.parse().unwrap();
        self.pool_with(options.timezone(Some(zone.to_owned())), setup)
            .await
    }

    pub(crate) async fn pool_with(
        &self,
        options: MySqlConnectOptions,
        setup: &'static str,
    ) -> MySqlPool {
        MySqlPoolOptions::new()
            .max_connections(4)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    if !setup.is_empty() {
                        connection.execute(setup).await?;
                    }
                    Ok(())
                })
            })
            .connect_with(options)
            .await
            .unwrap()
    }

    pub(crate) async fn run(&self, text: &str) -> u64 {
        run(&self.admin, text).await
    }

    pub(crate) async fn number(&self, text: &str) -> i64 {
        self.admin
            .fetch_one(AssertSqlSafe(text.to_owned()))
            .await
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .get(0)
    }

    pub(crate) async fn rows(&self) -> i64 {
        self.number("SELECT COUNT(*) FROM shedlock").await
    }
}

pub(crate) async fn run(pool: &MySqlPool, text: &str) -> u64 {
    sqlx::raw_sql(AssertSqlSafe(text.to_owned()))
        .execute(pool)
        .await
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .rows_affected()
}

pub(crate) fn request(name: &str) -> AttemptRequest {
    let name = LockName::new(name).unwrap();
    AttemptRequest::new(name, Owner::generate(), HOUR)
}

pub(crate) async fn take(provider: &dyn LockProvider, name: &str) -> Lease {
    match provider.attempt(&request(name)).await.unwrap() {
        Attempt::Acquired(lease) => lease,
        answer => panic!("{name} was not taken: {answer:?}"),
    }
}

pub(crate) async fn skip(provider: &MySqlProvider, name: &str) -> Skip {
    match provider.attempt(&request(name)).await.unwrap() {
        Attempt::Skipped(skip) => skip,
        answer => panic!("{name} was not skipped: {answer:?}"),
    }
}

pub(crate) async fn refused(provider: &MySqlProvider, name: &str) -> Error {
    provider.attempt(&request(name)).await.unwrap_err()
}

pub(crate) async fn free(provider: &dyn LockProvider, lease: &Lease) {
    let answer = provider.unlock(lease, &UnlockRequest::new()).await.unwrap();
    assert_eq!(answer, Unlock::Unlocked);
}

pub(crate) async fn record(provider: &MySqlProvider, name: &str) -> LockRecord {
    let name = LockName::new(name).unwrap();
    provider.inspect(&name).await.unwrap().unwrap()
}

/// Asserts that the two differ by at most `within`.
pub(crate) fn close(one: Option<SystemTime>, other: SystemTime, within: Duration) {
    let one = one.unwrap();
    let apart = one
        .duration_since(other)
        .unwrap_or_else(|error| error.duration());
    assert!(apart <= within, "{one:?} and {other:?} are {apart:?} apart");
}
