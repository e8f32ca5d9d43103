//! Logins that the server refuses.

use std::sync::Arc;

use shedlock_core::{Executor, LockConfig, LockProvider};
use shedlock_sqlx::MySqlProvider;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, MySqlPool};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::common::unique;
use crate::room::Room;

/// As many as a service has with a job for each of its customers.
const LEASES: usize = 40;

/// How many wrong passwords in a row lock the account. A connection may be refused on each of the two ways to the server.
const ATTEMPTS: u32 = 5;

/// The server counts wrong passwords, and locks the account for everyone who uses it.
pub(crate) async fn a_rotated_password_does_not_lock_the_account(server: &str) {
    let room = Room::migrated(server).await;
    if room.number("SELECT VERSION() LIKE '%MariaDB%'").await == 1 {
        // It has one limit, for all accounts of the server.
        return;
    }
    for is_pool in [false, true] {
        let random = unique("u");
        let user = format!("u{}", &random[random.len() - 16..]);
        room.run(&format!(
            "CREATE USER {user} IDENTIFIED BY 'old' FAILED_LOGIN_ATTEMPTS {ATTEMPTS} PASSWORD_LOCK_TIME UNBOUNDED"
        ))
        .await;
        room.run(&format!("GRANT ALL ON *.* TO {user}")).await;
        let url_with = |password: &str| {
            let mut url = url::Url::parse(&room.url).unwrap();
            url.set_username(&user).unwrap();
            url.set_password(Some(password)).unwrap();
            url.to_string()
        };
        let provider: Arc<dyn LockProvider> = if is_pool {
            let pool: MySqlPool = MySqlPoolOptions::new()
                .max_connections(10)
                .connect(&url_with("old"))
                .await
                .unwrap();
            Arc::new(MySqlProvider::builder(pool).build().unwrap())
        } else {
            Arc::new(MySqlProvider::connect(&url_with("old")).await.unwrap())
        };
        let executor = Executor::new(provider);
        let (mut jobs, all_run) = (JoinSet::new(), Arc::new(Barrier::new(LEASES + 1)));
        for job in 0..LEASES {
            let (executor, all_run) = (executor.clone(), all_run.clone());
            jobs.spawn(async move {
                let config = LockConfig::new(format!("{is_pool}-{job}"));
                let config = config.lock_at_most_for("6s").keep_alive();
                let task = async {
                    all_run.wait().await;
                    std::future::pending::<()>().await;
                };
                executor.execute(&config, task).await
            });
        }
        tokio::select! {
            _ = all_run.wait() => {}
            ended = jobs.join_next() => panic!("a job ended before all run: {ended:?}"),
        }
        room.run(&format!("ALTER USER {user} IDENTIFIED BY 'new'"))
            .await;
        let sessions: Vec<(u64,)> =
            sqlx::query_as("SELECT id FROM information_schema.PROCESSLIST WHERE user = ?")
                .bind(&user)
                .fetch_all(&room.admin)
                .await
                .unwrap();
        assert!(!sessions.is_empty());
        for (session,) in sessions {
            // It may have ended by itself.
            let kill = AssertSqlSafe(format!("KILL {session}"));
            let _ = sqlx::raw_sql(kill).execute(&room.admin).await;
        }
        while let Some(ended) = jobs.join_next().await {
            assert!(ended.unwrap().unwrap().is_lost());
        }
        let connected = MySqlConnection::connect(&url_with("new")).await;
        connected.unwrap().close().await.unwrap();
    }
}
