//! diesel-async over its own pools, as an application passes them.

use shedlock_conformance::proxy::Proxy;
use shedlock_core::{Attempt, ExtendRequest, Extension, LockProvider};
use shedlock_diesel_async::diesel_async::pooled_connection::{
    AsyncDieselConnectionManager, ManagerConfig, bb8,
};
use shedlock_diesel_async::diesel_async::{
    AsyncConnection as _, AsyncMysqlConnection, SimpleAsyncConnection as _,
};
use shedlock_diesel_async::{Connections, MySqlProvider};

use crate::common::address;
use crate::common::silence::{TIMEOUT, every_method_returns};
use crate::diesel_pools::mysql::{bb8, deadpool, mobc};
use crate::room::{HOUR, Room, SHEDLOCKS, free, request, take};

fn over(source: impl Into<Connections<AsyncMysqlConnection>>) -> MySqlProvider {
    let provider = MySqlProvider::builder(source);
    provider.shared_session_zone("+00:00").build().unwrap()
}

pub(crate) async fn pools_are_passed_as_they_are(server: &str) {
    let room = Room::migrated(server).await;
    for provider in [
        over(bb8(&room.url, 2)),
        over(deadpool(&room.url).unwrap()),
        over(mobc(&room.url)),
    ] {
        let lease = take(&provider, "job").await;
        assert!(lease.fencing_token().is_some());
        // A provider over sqlx sees the same lock.
        let sqlx = room.provider_in_utc().await;
        let seen = sqlx.inspect(lease.name()).await.unwrap();
        assert_eq!(seen.unwrap().owner.as_deref(), Some(lease.owner().as_str()));
        free(&provider, &lease).await;
    }
}

pub(crate) async fn no_call_hangs_on_a_pool_of_diesel(server: &str) {
    let room = Room::migrated(server).await;
    let proxy = Proxy::start(address(&room.url, 3306).unwrap());
    let proxy = proxy.await.unwrap();
    let mut url = url::Url::parse(&room.url).unwrap();
    url.set_host(Some(&proxy.addr().ip().to_string())).unwrap();
    url.set_port(Some(proxy.addr().port())).unwrap();
    // Otherwise it leaves the proxy for the server's socket.
    url.set_query(Some("prefer_socket=false"));
    let provider = MySqlProvider::builder(bb8(url.as_str(), 2))
        .shared_session_zone("+00:00")
        .timeout(TIMEOUT)
        .build()
        .unwrap();
    every_method_returns(&provider, &proxy).await;
}

/// A demoted primary keeps its sessions, and the address leads to the new one.
pub(crate) async fn a_session_of_diesel_that_takes_no_writes_is_left(server: &str) {
    let room = Room::migrated(server).await;
    let pool = bb8(&room.url, 1);
    let provider = over(pool.clone());
    free(&provider, &take(&provider, "job").await).await;
    let set = "SET SESSION TRANSACTION READ ONLY";
    let mut connection = pool.get().await.unwrap();
    connection.batch_execute(set).await.unwrap();
    drop(connection);
    let lease = take(&provider, "job").await;
    free(&provider, &lease).await;
}

/// MariaDB 10.11 was seen to crash when a prepared statement over its information_schema ran a second time.
pub(crate) async fn a_connection_of_diesel_keeps_no_statement_over_the_catalogue(server: &str) {
    let room = Room::migrated(server).await;
    let provider = over(bb8(&room.url, 1));
    for _ in 0..5 {
        provider.check().await.unwrap();
        let lease = take(&provider, "job").await;
        free(&provider, &lease).await;
    }
    let mine = "SELECT COUNT(*) FROM performance_schema.prepared_statements_instances \
                WHERE SQL_TEXT LIKE '%information_schema.COLUMNS%' AND OWNER_THREAD_ID IN (SELECT THREAD_ID \
                FROM performance_schema.threads WHERE PROCESSLIST_DB = DATABASE())";
    // One that is not kept is closed when the next one is prepared. MariaDB lists none.
    assert_eq!(room.number(mine).await, 0);
}

/// diesel drops the numbers of errors, but the errors are those of another client.
pub(crate) async fn errors_are_those_of_another_client(server: &str) {
    for (state, settings) in [
        ("DROP TABLE shedlock", "SELECT 1"),
        ("ALTER TABLE shedlock DROP COLUMN locked_by", "SELECT 1"),
        ("ALTER TABLE shedlock ADD CHECK (name <> 'job')", "SELECT 1"),
        (
            "ALTER TABLE shedlock ADD other INT UNIQUE DEFAULT 1; \
             INSERT INTO shedlock (name, lock_until, locked_by) VALUES ('x', NOW(), 'y')",
            "SELECT 1",
        ),
        ("SELECT 1", "SET SESSION TRANSACTION READ ONLY"),
        ("SELECT 1", "SET SESSION autocommit = 0"),
        (
            "SET SESSION autocommit = 0; LOCK TABLES shedlock WRITE",
            "SET SESSION innodb_lock_wait_timeout = 1, SESSION lock_wait_timeout = 1",
        ),
    ] {
        let room = Room::empty(server).await;
        room.run(SHEDLOCKS).await;
        let mut keeper = room.admin.acquire().await.unwrap();
        let states = sqlx::AssertSqlSafe(state.to_owned());
        sqlx::raw_sql(states).execute(&mut *keeper).await.unwrap();
        let error = async |provider: &dyn LockProvider| {
            let error = provider.attempt(&request("job")).await.unwrap_err();
            (error.kind(), error.to_string())
        };
        let other = room.pool("+00:00", settings).await;
        let other = shedlock_sqlx::MySqlProvider::builder(other).shared_session_zone("+00:00");
        let expected = error(&other.build().unwrap()).await;
        let found = error(&over(setting(&room.url, settings))).await;
        assert_eq!(found, expected, "{state}, {settings}");
    }
}

/// A pool of sessions that begin with this text.
fn setting(url: &str, text: &'static str) -> bb8::Pool<AsyncMysqlConnection> {
    let mut config = ManagerConfig::default();
    config.custom_setup = Box::new(move |url| {
        let url = url.to_owned();
        Box::pin(async move {
            let mut connection = AsyncMysqlConnection::establish(&url).await?;
            let set = connection.batch_execute(text).await;
            set.map_err(::diesel::ConnectionError::CouldntSetupConfiguration)?;
            Ok(connection)
        })
    });
    let manager = AsyncDieselConnectionManager::new_with_config(url, config);
    bb8::Pool::builder().build_unchecked(manager)
}

/// An application that opens its connections itself can leave `client_found_rows` out. Only an extension that changes
/// nothing looks lost then.
pub(crate) async fn connections_that_count_changed_rows_are_no_danger(server: &str) {
    let room = Room::migrated(server).await;
    let mut config = ManagerConfig::default();
    config.custom_setup = Box::new(|url| {
        let url = url.to_owned();
        Box::pin(async move {
            let connection = mysql_async::Conn::from_url(&url).await.unwrap();
            AsyncMysqlConnection::try_from(connection).await
        })
    });
    let manager = AsyncDieselConnectionManager::new_with_config(&*room.url, config);
    let provider = over(bb8::Pool::builder().build_unchecked(manager));
    let request = request("job");
    let Attempt::Acquired(lease) = provider.attempt(&request).await.unwrap() else {
        panic!("the lock is free");
    };
    // The same attempt is the same lease, however often it is made.
    for _ in 0..2 {
        let answer = provider.attempt(&request).await.unwrap();
        assert!(matches!(answer, Attempt::Acquired(_)), "{answer:?}");
    }
    for hours in 2..4 {
        let extend = ExtendRequest::new(HOUR * hours);
        let answer = provider.extend(&lease, &extend).await.unwrap();
        assert!(matches!(answer, Extension::Extended(_)), "{answer:?}");
    }
    free(&provider, &lease).await;
    free(&provider, &take(&provider, "job").await).await;
}
