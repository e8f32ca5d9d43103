#![doc = include_str!("../README.md")]

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod client;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod execution;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "mysql")]
pub use mysql::{MySql, MySqlProvider};
#[cfg(feature = "postgres")]
pub use postgres::{Postgres, PostgresProvider};
pub use shedlock_sql::{Builder, Duties, SqlStore, TimeMode};
#[cfg(feature = "sqlite")]
pub use sqlite::{Sqlite, SqliteProvider, open_sqlite};
/// The client, in the version whose pools `builder` accepts.
pub use sqlx;
