//! The stores that are measured: those of the registry.

use std::sync::LazyLock;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use shedlock::__stores::{STORES, StoreEntry};
use shedlock_conformance::proxy::{Matcher, http2_control};

/// A store, or one of the servers that it can run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Store(&'static str);

static ALL: LazyLock<Vec<Store>> = LazyLock::new(|| {
    let names = STORES.iter().flat_map(|entry| match entry.servers {
        [] => vec![entry.name],
        // The same provider over another server.
        ["redis"] => vec!["redis", "valkey"],
        servers => servers.to_vec(),
    });
    names.map(Store).collect()
});

impl Store {
    pub(crate) const POSTGRES: Self = Self("postgres");
    pub(crate) const MARIADB: Self = Self("mariadb");
    pub(crate) const MYSQL: Self = Self("mysql");
    pub(crate) const REDIS: Self = Self("redis");
    pub(crate) const ETCD: Self = Self("etcd");
    pub(crate) const MONGODB: Self = Self("mongodb");
    pub(crate) const SQLITE: Self = Self("sqlite");
    /// The in-memory provider, for the cost of the runtime itself.
    pub(crate) const MEMORY: Self = Self("memory");

    /// All of them, in the order of the registry.
    pub(crate) fn all() -> &'static [Self] {
        &ALL
    }

    /// The word for it in rows and on the command line.
    pub(crate) fn name(self) -> &'static str {
        self.0
    }

    /// Whether it is a database with a table. Those are measured with and without fsync, over pools, and with their own
    /// counters.
    pub(crate) fn is_sql(self) -> bool {
        matches!(
            self,
            Self::POSTGRES | Self::MARIADB | Self::MYSQL | Self::SQLITE
        )
    }

    /// The URL of a separate place for locks on this server, for stores without a table to create.
    pub(crate) fn url_of_place(self, server: &str) -> String {
        entry(self.0).url_of_place(server, "bench")
    }

    /// Packets on its wire that belong to no call.
    pub(crate) fn chatter(self) -> Option<Matcher> {
        (self == Self::ETCD).then(http2_control)
    }
}

impl ValueEnum for Store {
    fn value_variants<'a>() -> &'a [Self] {
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0))
    }
}

/// Whether an attempt on the store of this name reads before it writes.
pub(crate) fn reads_first(name: &str) -> bool {
    entry(name).reads_first
}

/// The store on the server of this name.
fn entry(name: &str) -> &'static StoreEntry {
    let name = if name == "valkey" { "redis" } else { name };
    let found = STORES
        .iter()
        .find(|entry| entry.name == name || entry.servers.contains(&name));
    found.expect("every name here is made of the registry's")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_that_is_measured_is_in_the_registry() {
        for store in Store::all() {
            assert!(!entry(store.name()).title.is_empty());
        }
        for named in [
            Store("valkey"),
            Store::MONGODB,
            Store::MEMORY,
            Store::SQLITE,
        ] {
            assert!(Store::all().contains(&named), "{named:?}");
        }
    }
}
