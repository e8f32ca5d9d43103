//! The location of a store: a database or namespace of our own on a server that the environment names, or a file.
//!
//! `SHEDLOCK_BENCH_POSTGRES_URL`, `…_MARIADB_URL`, `…_REDIS_URL` and so on name servers with default settings:
//! databases answer a commit when it is on disk. `SHEDLOCK_BENCH_POSTGRES_NO_FSYNC_URL` and so on name databases that
//! do not wait. All are throw-away servers, and the URLs are those of a superuser.

mod sql;

use std::env;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use shedlock_conformance::support::address;
use shedlock_core::LockProvider;
use sqlx::ConnectOptions as _;
use tempfile::TempDir;
use url::Url;

use crate::bare::{self, Bare};
use crate::store::Store;

pub(crate) use sql::LOG_STATEMENTS;

/// What a commit guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// On disk before it is answered.
    AsShipped,
    /// Answered before it is on disk.
    Off,
}

impl Durability {
    /// For people.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::AsShipped => "fsync on",
            Self::Off => "fsync off",
        }
    }

    /// The suffix of the measurement's name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::AsShipped => "",
            Self::Off => "_no_fsync",
        }
    }

    fn variable(self, store: Store) -> String {
        let off = match self {
            Self::AsShipped => "",
            Self::Off => "_NO_FSYNC",
        };
        format!("SHEDLOCK_BENCH_{}{off}_URL", store.name().to_uppercase())
    }
}

/// A store without any locks.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) store: Store,
    pub(crate) durability: Durability,
    url: String,
    version: String,
    _folder: Option<TempDir>,
}

impl Site {
    /// Creates the database and the table. `None` if no server is named.
    pub(crate) async fn find(store: Store, durability: Durability) -> anyhow::Result<Option<Self>> {
        let mut site = Self {
            store,
            durability,
            url: String::new(),
            version: String::new(),
            _folder: None,
        };
        if store == Store::SQLITE {
            let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
            let file = folder.path().join("locks.db");
            site.url = format!("sqlite:{}", file.display());
            site._folder = Some(folder);
        } else {
            let variable = durability.variable(store);
            let Ok(server) = env::var(&variable) else {
                eprintln!(
                    "bench: {} with {} is NOT measured: {variable} is not set; run `cargo xtask \
                     bench`",
                    store.name(),
                    durability.words()
                );
                return Ok(None);
            };
            site.url = if store.is_sql() {
                site.make_database(&server).await?
            } else {
                store.url_of_place(&server)
            };
        }
        site.version = if store.is_sql() {
            site.ask_version().await?
        } else {
            store.name().to_owned()
        };
        // `migrate` below creates the bucket or the table. SQL uses a pool for it, because a provider that opens a
        // SQLite file itself would apply its own settings.
        let provider = if store.is_sql() {
            site.pool_provider(1).await?
        } else {
            shedlock::connect(&site.url).await?
        };
        provider.migrate().await?;
        Ok(Some(site))
    }

    /// An existing site, in another process of the same run.
    pub(crate) fn at(store: Store, url: String) -> Self {
        Self {
            store,
            durability: Durability::AsShipped,
            url,
            version: String::new(),
            _folder: None,
        }
    }

    /// Its URL, including the database that contains its table.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The version that the server reports.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// What a commit guarantees, for people.
    pub(crate) fn durability_words(&self) -> &'static str {
        if self.store.is_sql() {
            self.durability.words()
        } else {
            "default settings"
        }
    }

    /// The provider, over its own connections: this many if each call needs one, otherwise one.
    pub(crate) async fn provider(
        &self,
        connections: usize,
    ) -> anyhow::Result<Arc<dyn LockProvider>> {
        if self.store.is_sql() {
            let connections = connections.to_string();
            return self
                .provider_with(&[("max_connections", &connections)])
                .await;
        }
        Ok(shedlock::connect(&self.url).await?)
    }

    /// A connection for the minimum that a lock needs.
    pub(crate) async fn bare(&self) -> anyhow::Result<Bare> {
        let server = &self.server()?;
        Ok(match self.store {
            Store::POSTGRES => Bare::new(self.postgres()?.connect().await?),
            Store::MARIADB | Store::MYSQL => Bare::new(self.mysql()?.connect().await?),
            Store::SQLITE | Store::MEMORY => Bare::new(self.sqlite().connect().await?),
            other => bare::connect(other.name(), server).await?,
        })
    }

    /// The same for other programs, which may not accept our own options.
    pub(crate) fn url_for_others(&self) -> anyhow::Result<String> {
        let mut url = Url::parse(&self.url)?;
        url.set_query(None);
        Ok(url.into())
    }

    /// The URL of the server alone.
    fn server(&self) -> anyhow::Result<String> {
        let mut url = Url::parse(&self.url)?;
        url.set_query(None);
        url.set_path("");
        Ok(url.to_string())
    }

    /// The address of its server. A file has none.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        // URLs of throw-away servers include their port.
        address(&self.url, 0)
    }

    /// The same store, reached through this address, without encryption.
    pub(crate) fn through(&self, proxy: SocketAddr) -> anyhow::Result<Self> {
        let mut url = Url::parse(&self.url)?;
        url.set_host(Some(&proxy.ip().to_string()))?;
        url.set_port(Some(proxy.port()))
            .map_err(|()| anyhow::anyhow!("the URL of {} takes no port", self.store.name()))?;
        if matches!(self.store, Store::MARIADB | Store::MYSQL) {
            url.query_pairs_mut().append_pair("ssl-mode", "disabled");
        }
        if self.store == Store::MONGODB {
            // Otherwise the client requests the members of the set from the server, and connects to them directly.
            url.query_pairs_mut()
                .append_pair("directConnection", "true");
        }
        Ok(Self {
            store: self.store,
            durability: self.durability,
            url: url.into(),
            version: self.version.clone(),
            _folder: None,
        })
    }
}
