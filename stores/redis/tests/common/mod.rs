//! What the tests over real servers share.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
#![allow(
    dead_code,
    unused_imports,
    reason = "each test target uses a part of it"
)]

pub(crate) mod certificates;
pub(crate) mod clustered;
pub(crate) mod own;
pub(crate) mod pair;
pub(crate) mod rights;
pub(crate) mod watched;

use std::time::Duration;

use redis::{Client, cmd};
use shedlock_conformance::BoxError;
pub(crate) use shedlock_conformance::support::{server, server_if_any};

/// Waits for what is true in the end.
pub(crate) async fn until(
    what: &str,
    is_so: impl AsyncFn() -> Result<bool, BoxError>,
) -> Result<(), BoxError> {
    for _ in 0..300 {
        if is_so().await? {
            return Ok(());
        }
        own::wait(Duration::from_millis(50)).await;
    }
    Err(format!("waited in vain: {what}").into())
}

/// What a server tells of this.
pub(crate) async fn info(client: &Client, section: &str) -> Result<String, BoxError> {
    let mut connection = client.get_multiplexed_async_connection().await?;
    Ok(cmd("INFO")
        .arg(section)
        .query_async(&mut connection)
        .await?)
}
