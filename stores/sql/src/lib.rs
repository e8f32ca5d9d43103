//! shedlock over PostgreSQL, MySQL, MariaDB and SQLite.

// What one dialect alone uses is dead without it.
#![cfg_attr(
    not(all(feature = "postgres", feature = "mysql", feature = "sqlite")),
    allow(dead_code)
)]

mod address;
mod builder;
mod dialect;
mod driver;
mod explain;
mod flow;
mod identifier;
mod limits;
mod migrate;
mod options;
mod plan;
mod provider;
mod send;
mod shape;
mod statement;
mod verdict;
#[cfg(feature = "mysql")]
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
