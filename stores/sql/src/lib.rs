//! shedlock over PostgreSQL, MySQL, MariaDB and SQLite.

mod address;
mod builder;
mod dialect;
mod driver;
mod explain;
mod flow;
mod identifier;
mod migrate;
mod options;
mod plan;
mod provider;
mod shape;
mod statement;
mod verdict;
mod zone;

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use builder::Builder;
#[cfg(feature = "mysql")]
pub use mysql::MySqlProvider;
pub use options::TimeMode;
#[cfg(feature = "postgres")]
pub use postgres::PostgresProvider;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteProvider;
