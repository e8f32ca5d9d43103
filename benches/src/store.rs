//! The stores that are measured.

use clap::ValueEnum;

/// A store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mariadb,
    /// MySQL.
    Mysql,
    /// A SQLite file.
    Sqlite,
    /// The in-memory provider, for what the runtime itself costs.
    Memory,
}

impl Store {
    /// All of them.
    pub(crate) const ALL: [Self; 5] = [
        Self::Postgres,
        Self::Mariadb,
        Self::Mysql,
        Self::Sqlite,
        Self::Memory,
    ];

    /// The word for it in rows and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mariadb => "mariadb",
            Self::Mysql => "mysql",
            Self::Sqlite => "sqlite",
            Self::Memory => "memory",
        }
    }
}
