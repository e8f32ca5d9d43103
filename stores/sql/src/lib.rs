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

#[cfg(feature = "postgres")]
mod postgres;

pub use builder::Builder;
pub use options::TimeMode;
#[cfg(feature = "postgres")]
pub use postgres::PostgresProvider;
