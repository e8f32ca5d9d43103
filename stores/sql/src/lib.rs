//! shedlock over PostgreSQL, MySQL, MariaDB and SQLite.
//!
//! Users take the facade crate `shedlock` with one of its features; this crate is for those who
//! want the provider alone. Each of its features (`postgres`, `mysql`, `sqlite`) brings one driver
//! of sqlx and no other; `tokio-postgres` brings that client and no sqlx, with the same statements on the same table
//! (`TokioPostgresProvider`), also over pools of deadpool, bb8 and others (`ClientSource`).
//!
//! ```no_run
//! # #[cfg(feature = "postgres")] {
//! use std::sync::Arc;
//!
//! use shedlock::{Executor, LockConfig, LockProvider as _, PostgresProvider};
//!
//! # async fn example(pool: sqlx::PgPool) -> Result<(), shedlock::Error> {
//! let provider = PostgresProvider::builder(pool).build()?;
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
//! ShedLock's db-time mode. For tables that are shared with Java services in its client-time mode there is
//! [`TimeMode::Client`] (`time=client` in a URL, with `tolerated_skew`): exclusion then holds only as long as all clocks,
//! Java's included, differ by less than that, which is yours to ensure. How late an attempt reaches the database is judged
//! by the database's clock all the same.
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
//! `builder` takes the user's pool and never its transactions. `connect` takes a URL and
//! keeps a few connections of its own, which is faster: a pool of sqlx asks the server after each
//! use whether the connection still lives.
//!
//! Every call returns within a bound, also where a server accepts connections and never answers:
//!
//! - `timeout` (10 s; the URLs and the builders): after this long every method of the provider has
//!   returned, on connections of its own, on your pool and through PgBouncer.
//! - `connect_timeout` (10 s; the URLs): after this long a call gives up on a connection of its own;
//!   never later than three quarters of `timeout`.
//! - [`AttemptRequest::timeout`](shedlock_core::AttemptRequest::timeout) (10 s): an attempt gives up on
//!   a connection after three quarters of it, where that is sooner; your pool's own `acquire_timeout`
//!   (sqlx: 30 s) matters only where it is shorter.
//! - `busy_timeout` (5 s; SQLite's URL): how long a statement waits for another writer; `timeout` is
//!   at least twice as long unless you set it.
//!
//! A call without a connection is `Unavailable` and has written nothing. One that was sent and not
//! answered is `OutcomeUnknown` where it may have written.
//!
//! A connection whose server takes no writes any more, or whose session has lost its prepared
//! statements, is closed; where it was not new, the statement is sent once more on another one. After a
//! failover the address must lead to the new primary.
//!
//! # TLS
//!
//! sqlx's defaults (`sslmode=prefer`, `ssl-mode=PREFERRED`) encrypt if the server offers it, and do not verify
//! it: whoever can intercept a connection can answer in the server's place. Use
//! `sslmode=verify-full` on PostgreSQL and `ssl-mode=VERIFY_IDENTITY` on MySQL and MariaDB, with
//! `sslrootcert` or `ssl-ca` for a certificate authority of your own. A provider warns once where
//! connections leave this machine and do not verify the server. No process-wide crypto provider is
//! installed.
//!
//! # Proxies that split reads from writes
//!
//! MaxScale, ProxySQL, pgpool and others send a `SELECT` to a replica, which may lag. What a provider
//! decides by, it reads with a statement that such proxies send to the primary: on PostgreSQL it begins
//! with `/*NO LOAD BALANCE*/ WITH … (UPDATE … WHERE false)`, on MySQL and MariaDB it ends with
//! `FOR UPDATE`. Neither locks a row or writes. The rules of ProxySQL are yours: keep the usual one that
//! sends `^SELECT.*FOR UPDATE$` to the writers, in `match_digest`, which leaves comments out. `inspect` and `list` may show what a replica has.
//!
//! # What the server's settings mean
//!
//! A lock is as durable as a commit of its server. Each provider looks at the settings together with
//! the table, declares what it finds ([`Capabilities`](shedlock_core::Capabilities)) and warns once.
//! [`check`](shedlock_core::LockProvider::check) looks again.
//!
//! | setting | without care | what the provider does |
//! |---|---|---|
//! | PostgreSQL `synchronous_commit=off` on a role, database or server | a crash forgets the last acquisitions, extensions and marks of slots | nothing is forgotten: the statements that promise something raise `off` to `local` for themselves; unlocks are as before ([`durable_unlock`](Builder::durable_unlock)) |
//! | PostgreSQL `fsync=off`, an unlogged table | a crash of the machine (of the server: an unlogged table) forgets them | warns; `durable` is false |
//! | MySQL, MariaDB `innodb_flush_log_at_trx_commit` 0 or 2; with a binary log, `sync_binlog` other than 1 | a crash of the machine (0: of the server) forgets them | warns; `durable` is false |
//! | SQLite on a pool of yours: `synchronous=OFF`, `NORMAL` in WAL mode, or `journal_mode` `OFF` or `MEMORY` | a crash of the machine forgets them; all but `NORMAL` can damage the file | warns; `durable` is false; [`connect`](SqliteProvider::connect) sets `FULL` |
//! | MySQL, MariaDB `binlog_format=STATEMENT` | a replica that lags drops extensions and marks of slots | warns, and sends statements that come to the same result on replicas; set `ROW` |
//! | Galera, group replication | several servers judge, each by its own clock | warns until `server_skew` is set |
//!
//! # Failover and several writers
//!
//! The server's clock judges leases, so what counts is one server. Another one takes over in a
//! *failover*, and in Galera or group replication with several primaries they judge *side by side*.
//! For both:
//!
//! - **Their clocks differ.** A server that is ahead of the one that granted a lease ends it that much
//!   earlier. Keep all of them on NTP, and set `server_skew` (on the builder and in the URL of
//!   PostgreSQL and of MySQL and MariaDB, zero unless set) to how far apart they may be: the runtime
//!   stops counting on a lease that much before its end. Without it the runtime's margin covers a
//!   hundredth of the lease, at most a second or a thousandth. An at-least may be kept shorter by
//!   the difference. SQLite has one machine's clock.
//! - **The new one may lack the last writes.** With asynchronous replication it has never seen the
//!   last leases, and can grant them again;
//!   [`Capabilities::failover`](shedlock_core::Capabilities::failover) is `Unspecified`, since it is for
//!   the cluster's settings to say. PostgreSQL: `synchronous_standby_names` with `synchronous_commit`
//!   on or `remote_apply`, which no statement here lowers, but for unlocks that may be lost. MySQL:
//!   semi-synchronous replication or group replication. Galera: writes are certified by all nodes; one
//!   that loses against another node is rolled back and tried again.
//!
//! The database user needs `SELECT`, `INSERT` and `UPDATE` on the table; nothing is ever deleted. Row-level
//! security must not hide records from it, and no trigger may undo its changes: such a lock is skipped as
//! contended, with a warning after three attempts in a row. A record that an administrator holds with
//! `lock_until = 'infinity'` on PostgreSQL is held, and reads as held until the year 9999.

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
// What a driver has to do stays inside.
#![expect(private_bounds, reason = "drivers are not for others to implement")]

mod attempt;
mod builder;
mod contended;
mod deadline;
mod dialect;
mod driver;
mod explain;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod identifier;
mod limits;
mod migrate;
mod options;
mod plan;
mod send;
mod shape;
mod statement;
mod store;
mod url;
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

/// The driver, in the version that `builder` takes a client of.
#[cfg(feature = "tokio-postgres")]
pub use ::tokio_postgres;
pub use builder::Builder;
#[cfg(feature = "tokio-postgres")]
pub use driver::tokio_postgres::{ClientSource, Clients, TokioPostgres};
#[cfg(feature = "mysql")]
pub use mysql::MySqlProvider;
#[cfg(feature = "postgres")]
pub use postgres::PostgresProvider;
#[cfg(feature = "tokio-postgres")]
pub use postgres_by_tokio::TokioPostgresProvider;
pub use shedlock_store::TimeMode;
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteProvider, open_sqlite};
/// The driver, in the version that `builder` takes a pool of.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use sqlx;
pub use store::SqlStore;
