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
    /// NATS JetStream: each version that is tested.
    Nats,
    /// NATS 2.10 alone.
    Nats210,
    /// NATS 2.12 alone.
    Nats212,
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
    /// NATS with JetStream, as Debian has it.
    Nats,
    /// NATS 2.10 beside it, which begins buckets with a sequence of choice.
    Nats210,
    /// NATS 2.12 beside it, which writes several messages or none.
    Nats212,
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
    /// All of them, in the order in which they stand above; not those that are one version of another.
    pub(crate) fn all() -> &'static [Self] {
        &[
            Self::Postgres,
            Self::Mariadb,
            Self::Mysql,
            Self::Redis,
            Self::Nats,
            Self::Zookeeper,
            Self::Etcd,
            Self::Mongodb,
            Self::Consul,
            Self::Sqlite,
            Self::Memory,
        ]
    }

    /// The word for it on the command line and in `SHEDLOCK_TEST_STORES`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mariadb => "mariadb",
            Self::Mysql => "mysql",
            Self::Redis => "redis",
            Self::Nats => "nats",
            Self::Nats210 => "nats210",
            Self::Nats212 => "nats212",
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
            Self::Nats210 => Some(Kind::Nats210),
            Self::Nats212 => Some(Kind::Nats212),
            Self::Zookeeper => Some(Kind::ZooKeeper),
            Self::Etcd => Some(Kind::Etcd),
            Self::Mongodb => Some(Kind::Mongodb),
            Self::Consul => Some(Kind::Consul),
            Self::Sqlite | Self::Memory => None,
        }
    }

    pub(crate) fn kinds(self, companions: bool) -> Vec<Kind> {
        let beside: &[Kind] = match self {
            Self::Postgres if companions => &[Kind::PgBouncer],
            Self::Mariadb if companions => &[Kind::MariadbTz],
            Self::Redis if companions => &[Kind::Valkey],
            Self::Nats if companions => &[Kind::Nats210, Kind::Nats212],
            _ => &[],
        };
        self.kind()
            .into_iter()
            .chain(beside.iter().copied())
            .collect()
    }
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Self; 14] = [
        Self::Postgres,
        Self::PgBouncer,
        Self::Mariadb,
        Self::MariadbTz,
        Self::Mysql,
        Self::Redis,
        Self::Valkey,
        Self::Nats,
        Self::Nats210,
        Self::Nats212,
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
            Self::Nats210 => "NATS 2.10",
            Self::Nats212 => "NATS 2.12",
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
            Self::Nats210 => "NATS210",
            Self::Nats212 => "NATS212",
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
        assert_eq!(Store::Nats.kinds(false), [Kind::Nats]);
        assert_eq!(
            Store::Nats.kinds(true),
            [Kind::Nats, Kind::Nats210, Kind::Nats212]
        );
        assert!(Store::Sqlite.kinds(true).is_empty());
    }

    #[test]
    fn names_on_the_command_line_are_those_in_the_environment() {
        for store in Store::value_variants() {
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
