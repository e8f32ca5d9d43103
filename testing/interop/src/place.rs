//! Separate places for tests in throw-away servers, and the settings with which each side uses
//! them.

use anyhow::Context as _;
use shedlock::Owner;
use sqlx::{AnyConnection, AssertSqlSafe, Connection as _, Executor as _};
use url::Url;

use crate::Fleets;

/// A place that no other test uses.
#[derive(Debug)]
pub struct Place {
    how: Fleets,
    /// The arguments for `testing/interop/java`.
    pub(crate) arguments: Vec<String>,
    /// The URL for our provider.
    pub url: Url,
    /// The same URL for any other client.
    bare: Url,
}

impl Place {
    /// Creates a place without a table.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn make(how: Fleets, server: &Url) -> anyhow::Result<Self> {
        let owner = Owner::generate();
        let random = owner.as_str().rsplit('/').next().unwrap_or_default();
        let name = format!("interop_{}_{random}", how.name());
        let mut url = server.clone();
        let place = match how.store() {
            "mongodb" => {
                url.set_path(&name);
                vec![server.to_string(), name]
            }
            "redis" => {
                url.query_pairs_mut().append_pair("environment", &name);
                vec![server.to_string(), name]
            }
            "zookeeper" => {
                let path = format!("/{name}");
                url.query_pairs_mut().append_pair("path", &path);
                vec![authority(server)?, path]
            }
            store => {
                url.set_path(&name);
                make_database(store, server, &name).await?;
                vec![jdbc(store, &url)?]
            }
        };
        let bare = url.clone();
        for (key, value) in how.ours() {
            url.query_pairs_mut().append_pair(key, value);
        }
        let mut arguments: Vec<String> = how.theirs().iter().map(ToString::to_string).collect();
        arguments.splice(1..1, place);
        Ok(Self {
            how,
            arguments,
            url,
            bare,
        })
    }

    /// Creates ShedLock's table as ShedLock's manual does, if the store has tables.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn make_table(&self) -> anyhow::Result<()> {
        let Some(table) = table(self.how.store()) else {
            return Ok(());
        };
        let mut connection = AnyConnection::connect(self.bare.as_str()).await?;
        connection.execute(table).await?;
        Ok(())
    }
}

fn authority(server: &Url) -> anyhow::Result<String> {
    let host = server.host_str().context("the server's URL has no host")?;
    let port = server.port().context("the server's URL has no port")?;
    Ok(format!("{host}:{port}"))
}

fn jdbc(store: &str, url: &Url) -> anyhow::Result<String> {
    let server = authority(url)?;
    let (database, user) = (url.path(), url.username());
    let password = url.password().unwrap_or_default();
    let (scheme, more) = match store {
        "postgres" => ("postgresql", ""),
        "mariadb" => ("mariadb", ""),
        _ => ("mysql", "&sslMode=DISABLED&allowPublicKeyRetrieval=true"),
    };
    Ok(format!(
        "jdbc:{scheme}://{server}{database}?user={user}&password={password}{more}"
    ))
}

async fn make_database(store: &str, server: &Url, name: &str) -> anyhow::Result<()> {
    sqlx::any::install_default_drivers();
    let mut connection = AnyConnection::connect(server.as_str()).await?;
    let create = match store {
        // Older servers would use Latin 1.
        "mariadb" => format!("CREATE DATABASE {name} CHARACTER SET utf8mb4"),
        _ => format!("CREATE DATABASE {name}"),
    };
    connection.execute(AssertSqlSafe(create)).await?;
    Ok(())
}

fn table(store: &str) -> Option<&'static str> {
    match store {
        "postgres" => Some(
            "CREATE TABLE shedlock (name VARCHAR(64) NOT NULL, lock_until TIMESTAMP NOT NULL, \
             locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))",
        ),
        "mariadb" | "mysql" => Some(
            "CREATE TABLE shedlock (name VARCHAR(64) NOT NULL, lock_until TIMESTAMP(3) NOT NULL, \
             locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), \
             locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))",
        ),
        _ => None,
    }
}
