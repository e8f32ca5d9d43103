//! A server, or a PgBouncer, that accepts connections and requests, and never replies.

use shedlock_conformance::proxy::{Fault, Proxy, Strike, contains};
use shedlock_core::{Error, ErrorKind, LockProvider as _};
use shedlock_rig::wait::answered;
use shedlock_sqlx::PostgresProvider;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::common::silence::{TIMEOUT, every_method_returns};
use crate::common::{address, server_if_any, with_option};
use crate::room::{Room, name};

/// A proxy in front of this server, and the URL through it.
async fn through(url: &str) -> (Proxy, String) {
    let proxy = Proxy::start(address(url, 5432).unwrap()).await.unwrap();
    let mut url = url::Url::parse(url).unwrap();
    url.set_ip_host(proxy.addr().ip()).unwrap();
    url.set_port(Some(proxy.addr().port())).unwrap();
    (proxy, url.into())
}

/// A machine can be slower than the timeout in the URL.
async fn connected(url: &str) -> PostgresProvider {
    let connect = async || PostgresProvider::connect(url).await;
    answered("the server replies in time", Error::is_retryable, connect).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_hangs_on_connections_of_its_own() {
    let room = Room::migrated().await;
    let (proxy, url) = through(&room.url).await;
    let url = format!("{url}&timeout={}ms", TIMEOUT.as_millis());
    let provider = connected(&url).await;
    every_method_returns(&provider, &proxy).await;
    proxy.set(Fault::Swallow).await.unwrap();
    let error = PostgresProvider::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_hangs_on_a_pool() {
    let room = Room::migrated().await;
    let server = crate::common::server("postgres");
    let (proxy, url) = through(&server).await;
    let options: PgConnectOptions = url.parse().unwrap();
    let pool = PgPoolOptions::new().max_connections(2);
    let pool = pool.connect_with(options).await.unwrap();
    let provider = PostgresProvider::builder(pool)
        .schema(&room.schema)
        .timeout(TIMEOUT)
        .build()
        .unwrap();
    every_method_returns(&provider, &proxy).await;
}

/// What the pool sends before it lends an idle connection.
const SYNC: &[u8] = b"S\0\0\0\x04";

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_of_a_pool_that_was_cut_silently_does_not_cost_the_call() {
    let room = Room::migrated().await;
    let (proxy, url) = through(&crate::common::server("postgres")).await;
    let pool = PgPoolOptions::new().connect_with(url.parse().unwrap());
    let pool = pool.await.unwrap();
    assert_eq!(pool.num_idle(), 1);
    let provider = PostgresProvider::builder(pool).schema(&room.schema);
    let provider = provider.build().unwrap();
    let cut = proxy.on_request(contains(SYNC), 1, Strike::SwallowRequest);
    assert_eq!(provider.inspect(&name("job")).await.unwrap(), None);
    assert!(cut.has_struck());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_hangs_on_pgbouncer() {
    let Some(bouncer) = server_if_any("pgbouncer") else {
        return;
    };
    let room = Room::migrated().await;
    let (proxy, url) = through(&bouncer).await;
    let url = with_option(&url, "schema", &room.schema);
    let url = format!("{url}&timeout={}ms", TIMEOUT.as_millis());
    let provider = connected(&url).await;
    every_method_returns(&provider, &proxy).await;
}
