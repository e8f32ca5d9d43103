//! Helpers for tests over real servers.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
#![allow(
    dead_code,
    unused_imports,
    reason = "each test target uses a part of it"
)]

pub(crate) mod clustered;
pub(crate) mod own;
pub(crate) mod pair;
pub(crate) mod rights;
pub(crate) mod watched;

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult, cmd};
use shedlock_conformance::BoxError;
pub(crate) use shedlock_rig::given::{server, server_if_any};
use shedlock_rig::wait::eventually_async;

/// Waits until a condition becomes true.
pub(crate) async fn until(
    what: &str,
    is_so: impl AsyncFnMut() -> Result<bool, BoxError>,
) -> Result<(), BoxError> {
    eventually_async(what, is_so).await
}

/// A connection with a longer timeout than the client's default of half a second.
pub(crate) async fn connection(client: &Client) -> RedisResult<MultiplexedConnection> {
    let patience = Some(Duration::from_secs(10));
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(patience)
        .set_response_timeout(patience);
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

/// Waits until the replica has received all writes of the primary, in a cluster if they have the same slot as `mark`.
pub(crate) async fn has_caught_up(primary: &Client, mark: &str) -> Result<(), BoxError> {
    let mut primary = connection(primary).await?;
    until("the replica has caught up", async || {
        let () = cmd("SET")
            .arg(mark)
            .arg(1)
            .query_async(&mut primary)
            .await?;
        let mut wait = cmd("WAIT");
        let known: u64 = wait.arg(1).arg(300).query_async(&mut primary).await?;
        Ok(known == 1)
    })
    .await
}

/// A section of the server's `INFO`.
pub(crate) async fn info(client: &Client, section: &str) -> Result<String, BoxError> {
    let mut connection = connection(client).await?;
    Ok(cmd("INFO")
        .arg(section)
        .query_async(&mut connection)
        .await?)
}
