//! shedlock over PostgreSQL, MySQL, MariaDB and SQLite.
//!
//! Users take the facade crate `shedlock` with one of its features; this crate is for those who
//! want the provider alone. Each of its features (`postgres`, `mysql`, `sqlite`) brings one driver
//! of sqlx and no other.
//!
//! ```no_run
//! # #[cfg(feature = "postgres")] {
//! use std::sync::Arc;
//!
//! use shedlock_core::{Executor, LockConfig, LockProvider as _};
//! use shedlock_sql::PostgresProvider;
//!
//! # async fn example(pool: sqlx::PgPool) -> Result<(), shedlock_core::Error> {
//! let provider = PostgresProvider::new(pool);
//! let _ = provider.migrate().await?;
//! let executor = Executor::new(Arc::new(provider));
//! let config = LockConfig::new("payroll").lock_at_most_for("10m");
//! executor.execute(&config, async { /* the task */ }).await?;
//! # Ok(()) }
//! # }
//! ```
//!
//! # The table
//!
//! It is ShedLock's, with the same names and meanings: `name` (primary key), `lock_until`,
//! `locked_at`, `locked_by`. Java services with ShedLock and Rust services share one table in
//! ShedLock's db-time mode; for its client-time mode see [`TimeMode`].
//!
//! Four columns are ours, `shedlock_fencing_token` and three for slots, 64 bits wide and nullable,
//! which ShedLock neither sees nor touches. `migrate` adds them to a table that ShedLock made, or
//! makes the whole table. Without them everything works but fencing tokens and slots; an attempt
//! for a slot is then an error that says so. A provider sees within a minute that somebody else
//! has added them, and at once when a slot is asked for.
//!
//! What the provider knows of a table is its shape: types, digits, key, our own columns. It looks
//! at first contact and again when a statement fails for want of a table or column. Of the
//! records it remembers nothing.
//!
//! # Statements
//!
//! A won attempt on a record that is there, an extension and an unlock are one statement each, and
//! none is inside a transaction. A lost attempt takes a second to learn who holds the lock, a first
//! one a third to make the record. Statements are logged by `tracing` at debug level.
//!
//! # Connections
//!
//! `new` and `builder` take the user's pool and never its transactions. `connect` takes a URL and
//! keeps a few connections of its own, which is faster: a pool of sqlx asks the server after each
//! use whether the connection still lives.
//!
//! The database user needs `SELECT`, `INSERT` and `UPDATE` on the table; nothing is ever deleted.

// What one dialect alone uses is dead without it.
#![cfg_attr(
    not(all(feature = "postgres", feature = "mysql", feature = "sqlite")),
    allow(dead_code)
)]
// Without any dialect there is nobody to drive.
#![cfg_attr(
    not(any(feature = "postgres", feature = "mysql", feature = "sqlite")),
    allow(unused_macros, unused_imports)
)]

mod address;
mod attempt;
mod builder;
mod dialect;
mod driver;
mod explain;
mod flow;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzz;
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
