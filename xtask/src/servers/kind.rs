//! What locks can be kept in, and the servers that tests of it talk to.

use clap::ValueEnum;

/// What locks can be kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mariadb,
    /// MySQL 8 or later.
    Mysql,
    /// Redis and Valkey.
    Redis,
    /// NATS JetStream.
    Nats,
    /// ZooKeeper.
    Zookeeper,
    /// etcd.
    Etcd,
    /// MongoDB, by its double.
    Mongodb,
    /// Consul.
    Consul,
    /// SQLite, which comes with its crate.
    Sqlite,
    /// The in-memory provider.
    Memory,
}

/// A server that tests talk to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// PostgreSQL.
    Postgres,
    /// PgBouncer before that PostgreSQL.
    PgBouncer,
    /// MariaDB.
    Mariadb,
    /// MariaDB whose time zone is not UTC.
    MariadbTz,
    /// MySQL 8 or later.
    Mysql,
    /// Redis.
    Redis,
    /// Valkey, beside it.
    Valkey,
    /// NATS with JetStream.
    Nats,
    /// ZooKeeper.
    ZooKeeper,
    /// etcd.
    Etcd,
    /// A double of MongoDB.
    Mongodb,
    /// Consul.
    Consul,
}

impl Store {
    /// All of them, in the order in which they stand above.
    pub(crate) fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// The word for it on the command line and in `SHEDLOCK_TEST_STORES`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mariadb => "mariadb",
            Self::Mysql => "mysql",
            Self::Redis => "redis",
            Self::Nats => "nats",
            Self::Zookeeper => "zookeeper",
            Self::Etcd => "etcd",
            Self::Mongodb => "mongodb",
            Self::Consul => "consul",
            Self::Sqlite => "sqlite",
            Self::Memory => "memory",
        }
    }

    /// Its server, if it has one.
    pub(crate) fn kind(self) -> Option<Kind> {
        match self {
            Self::Postgres => Some(Kind::Postgres),
            Self::Mariadb => Some(Kind::Mariadb),
            Self::Mysql => Some(Kind::Mysql),
            Self::Redis => Some(Kind::Redis),
            Self::Nats => Some(Kind::Nats),
            Self::Zookeeper => Some(Kind::ZooKeeper),
            Self::Etcd => Some(Kind::Etcd),
            Self::Mongodb => Some(Kind::Mongodb),
            Self::Consul => Some(Kind::Consul),
            Self::Sqlite | Self::Memory => None,
        }
    }

    pub(crate) fn kinds(self, companions: bool) -> Vec<Kind> {
        let companion = match self {
            Self::Postgres if companions => Some(Kind::PgBouncer),
            Self::Mariadb if companions => Some(Kind::MariadbTz),
            Self::Redis if companions => Some(Kind::Valkey),
            _ => None,
        };
        self.kind().into_iter().chain(companion).collect()
    }
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Self; 12] = [
        Self::Postgres,
        Self::PgBouncer,
        Self::Mariadb,
        Self::MariadbTz,
        Self::Mysql,
        Self::Redis,
        Self::Valkey,
        Self::Nats,
        Self::ZooKeeper,
        Self::Etcd,
        Self::Mongodb,
        Self::Consul,
    ];

    /// The word for it in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::PgBouncer => "PgBouncer",
            Self::Mariadb => "MariaDB",
            Self::MariadbTz => "MariaDB at +05:30",
            Self::Mysql => "MySQL",
            Self::Redis => "Redis",
            Self::Valkey => "Valkey",
            Self::Nats => "NATS",
            Self::ZooKeeper => "ZooKeeper",
            Self::Etcd => "etcd",
            Self::Mongodb => "MongoDB",
            Self::Consul => "Consul",
        }
    }

    /// The variable that says `unavailable` where there is none.
    pub(crate) fn variable(self) -> String {
        let name = match self {
            Self::Postgres => "POSTGRES",
            Self::PgBouncer => "PGBOUNCER",
            Self::Mariadb => "MARIADB",
            Self::MariadbTz => "MARIADB_TZ",
            Self::Mysql => "MYSQL",
            Self::Redis => "REDIS",
            Self::Valkey => "VALKEY",
            Self::Nats => "NATS",
            Self::ZooKeeper => "ZOOKEEPER",
            Self::Etcd => "ETCD",
            Self::Mongodb => "MONGODB",
            Self::Consul => "CONSUL",
        };
        format!("SHEDLOCK_TEST_{name}")
    }

    /// The variable that holds its URL.
    pub(crate) fn url_variable(self) -> String {
        format!("{}_URL", self.variable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn companions_come_only_when_asked_for() {
        assert_eq!(Store::Postgres.kinds(false), [Kind::Postgres]);
        assert_eq!(
            Store::Postgres.kinds(true),
            [Kind::Postgres, Kind::PgBouncer]
        );
        assert_eq!(Store::Mariadb.kinds(true), [Kind::Mariadb, Kind::MariadbTz]);
        assert_eq!(Store::Redis.kinds(true), [Kind::Redis, Kind::Valkey]);
        assert!(Store::Sqlite.kinds(true).is_empty());
    }

    #[test]
    fn names_on_the_command_line_are_those_in_the_environment() {
        for store in Store::all() {
            let value = store.to_possible_value().unwrap();
            assert_eq!(value.get_name(), store.name());
        }
    }

    #[test]
    fn variables_are_the_ones_that_tests_read() {
        assert_eq!(
            Kind::MariadbTz.url_variable(),
            "SHEDLOCK_TEST_MARIADB_TZ_URL"
        );
        assert_eq!(Kind::Mysql.variable(), "SHEDLOCK_TEST_MYSQL");
    }
}
