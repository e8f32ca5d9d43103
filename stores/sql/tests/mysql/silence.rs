//! Servers that never reply, and sessions that are no longer usable.

use shedlock_conformance::proxy::Proxy;
use shedlock_core::Error;
use shedlock_rig::wait::answered;
use shedlock_sqlx::MySqlProvider;

use crate::common::silence::{TIMEOUT, every_method_returns};
use crate::common::{address, with_option};
use crate::room::{Room, free, take};

pub(crate) async fn no_call_hangs(server: &str) {
    let room = Room::migrated(server).await;
    let proxy = Proxy::start(address(&room.url, 3306).unwrap())
        .await
        .unwrap();
    let mut url = url::Url::parse(&room.url).unwrap();
    url.set_host(Some(&proxy.addr().ip().to_string())).unwrap();
    url.set_port(Some(proxy.addr().port())).unwrap();
    let url = with_option(url.as_str(), "ssl-mode", "disabled");
    let own = with_option(&url, "timeout", &format!("{}ms", TIMEOUT.as_millis()));
    // A machine can be slower than this timeout.
    let connect = async || MySqlProvider::connect(&own).await;
    let provider = answered("the server replies in time", Error::is_retryable, connect).await;
    every_method_returns(&provider, &proxy).await;
    let pool = sqlx::MySqlPool::connect(&url).await.unwrap();
    let provider = MySqlProvider::builder(pool)
        .timeout(TIMEOUT)
        .build()
        .unwrap();
    every_method_returns(&provider, &proxy).await;
}

/// A demoted primary keeps its sessions, and the address leads to the new one.
pub(crate) async fn a_session_that_takes_no_writes_is_left_as_soon_as_it_says_so(server: &str) {
    let room = Room::migrated(server).await;
    let pool = sqlx::mysql::MySqlPoolOptions::new().max_connections(1);
    let pool = pool.connect(&room.url).await.unwrap();
    let provider = MySqlProvider::builder(pool.clone()).build().unwrap();
    free(&provider, &take(&provider, "job").await).await;
    // The only session.
    sqlx::raw_sql("SET SESSION TRANSACTION READ ONLY")
        .execute(&pool)
        .await
        .unwrap();
    let lease = take(&provider, "job").await;
    free(&provider, &lease).await;
}
