//! The stores that are measured.

use clap::ValueEnum;
use shedlock_conformance::proxy::{Matcher, http2_control};

/// A store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mariadb,
    /// MySQL.
    Mysql,
    /// Redis.
    Redis,
    /// Valkey.
    Valkey,
    /// NATS JetStream.
    Nats,
    /// Apache ZooKeeper.
    Zookeeper,
    /// Consul.
    Consul,
    /// etcd.
    Etcd,
    /// MongoDB, or its double.
    Mongodb,
    /// A SQLite file.
    Sqlite,
    /// The in-memory provider, for what the runtime itself costs.
    Memory,
}

impl Store {
    /// All of them, in the order in which they stand above.
    pub(crate) fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// The word for it in rows and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mariadb => "mariadb",
            Self::Mysql => "mysql",
            Self::Redis => "redis",
            Self::Valkey => "valkey",
            Self::Nats => "nats",
            Self::Zookeeper => "zookeeper",
            Self::Consul => "consul",
            Self::Etcd => "etcd",
            Self::Mongodb => "mongodb",
            Self::Sqlite => "sqlite",
            Self::Memory => "memory",
        }
    }

    /// Whether it is a database with a table: those are measured with and without fsync, over pools,
    /// and by their own counters.
    pub(crate) fn is_sql(self) -> bool {
        matches!(
            self,
            Self::Postgres | Self::Mariadb | Self::Mysql | Self::Sqlite
        )
    }

    /// The end of the URL that gives us locks of our own, where there is no table to make.
    pub(crate) fn room(self) -> &'static str {
        match self {
            Self::Nats => "?bucket=bench",
            Self::Zookeeper => "?path=/bench",
            Self::Consul => "/bench",
            Self::Mongodb => "?collection=bench",
            _ => "?environment=bench",
        }
    }

    /// Packets on its wire that belong to no call.
    pub(crate) fn chatter(self) -> Option<Matcher> {
        (self == Self::Etcd).then(http2_control)
    }
}
