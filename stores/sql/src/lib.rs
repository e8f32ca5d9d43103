#![doc = include_str!("../README.md")]
// Code that only one dialect uses is dead without that dialect.
#![cfg_attr(
    not(all(feature = "postgres", feature = "mysql", feature = "sqlite")),
    allow(dead_code)
)]
// Without any dialect there is no driver.
#![cfg_attr(
    not(any(feature = "postgres", feature = "mysql", feature = "sqlite")),
    allow(unused_macros, unused_imports)
)]
// The driver trait is private.
#![expect(private_bounds, reason = "drivers are not for others to implement")]

mod attempt;
mod builder;
mod call;
mod diagnose;
mod dialect;
mod driver;
mod failure;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod identifier;
mod journal;
mod libpq;
mod misread;
mod options;
mod others;
mod plan;
mod schema;
mod send;
mod shape;
mod statement;
mod store;
#[cfg(all(test, feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod tests;
mod url;
mod values;
mod verdict;
mod zone;

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "tokio-postgres")]
mod postgres_by_tokio;
#[cfg(feature = "sqlite")]
mod sqlite;

/// The driver, in the version whose clients `builder` accepts.
#[cfg(feature = "tokio-postgres")]
pub use ::tokio_postgres;
pub use builder::Builder;
pub use call::SqlStore;
#[cfg(feature = "tokio-postgres")]
pub use driver::tokio_postgres::{ClientSource, Clients, TokioPostgres};
#[cfg(feature = "mysql")]
pub use mysql::MySqlProvider;
#[cfg(feature = "postgres")]
pub use postgres::PostgresProvider;
#[cfg(feature = "tokio-postgres")]
pub use postgres_by_tokio::TokioPostgresProvider;
pub use shedlock_provider::TimeMode;
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteProvider, open_sqlite};
/// The driver, in the version whose pools `builder` accepts.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use sqlx;
