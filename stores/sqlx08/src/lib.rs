#![doc = include_str!("../README.md")]

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod client;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod execution;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;

#[cfg(feature = "mysql")]
pub use mysql::{MySql, MySqlProvider};
#[cfg(feature = "postgres")]
pub use postgres::{Postgres, PostgresProvider};
pub use shedlock_sql::{Builder, Duties, SqlStore, TimeMode};
/// The client, in the version whose pools `builder` accepts.
pub use sqlx;
