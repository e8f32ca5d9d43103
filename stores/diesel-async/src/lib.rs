#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(any(feature = "mysql", feature = "postgres")),
    allow(dead_code, reason = "there is no database")
)]

mod driver;
mod failure;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(any(feature = "bb8", feature = "deadpool", feature = "mobc"))]
mod pools;
#[cfg(feature = "postgres")]
mod postgres;
mod query;
mod source;

/// The client, in the version whose pools `builder` accepts.
pub use diesel_async;
pub use driver::DieselAsync;
#[cfg(feature = "mysql")]
pub use mysql::MySqlProvider;
#[cfg(feature = "postgres")]
pub use postgres::PostgresProvider;
pub use shedlock_sql::driver::Fill;
pub use shedlock_sql::{Builder, Duties, SqlStore, TimeMode};
pub use source::{ConnectionSource, Connections};
