//! Helpers shared by the tests over real servers.

#![allow(dead_code, reason = "each test target uses a part of it")]

pub(crate) mod own;

use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error};

/// The options with which ShedLock creates nodes.
pub(crate) const OPEN: CreateOptions<'static> =
    CreateMode::Persistent.with_acls(Acls::anyone_all());

/// The host and port of a URL without options.
pub(crate) fn host(url: &str) -> &str {
    url.strip_prefix("zookeeper://").unwrap_or(url)
}

/// A raw client.
pub(crate) async fn client(url: &str) -> Result<Client, Error> {
    let connector = Client::connector().with_session_timeout(Duration::from_secs(40));
    connector.connect(host(url)).await
}

/// Deletes a node and everything below it, as `deleteall` does.
pub(crate) async fn delete_all(client: &Client, path: &str) -> Result<(), Error> {
    let below = match client.list_children(path).await {
        Ok(below) => below,
        Err(Error::NoNode) => return Ok(()),
        Err(error) => return Err(error),
    };
    for child in below {
        Box::pin(delete_all(client, &format!("{path}/{child}"))).await?;
    }
    match client.delete(path, None).await {
        Err(Error::NoNode) => Ok(()),
        // Another client has created a node below it in the meantime.
        Err(Error::NotEmpty) => Box::pin(delete_all(client, path)).await,
        answer => answer,
    }
}
