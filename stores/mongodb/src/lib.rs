//! shedlock over MongoDB.
//!
//! Users take the facade crate `shedlock` with its feature `mongodb`; this crate is for those who
//! want the provider alone.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use shedlock::{Executor, LockConfig, MongoProvider};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = MongoProvider::connect("mongodb://127.0.0.1:27017/ops").await?;
//! // Or over a database, or a collection, of your own client:
//! let client = mongodb::Client::with_uri_str("mongodb://127.0.0.1:27017").await?;
//! let provider = MongoProvider::builder(client.database("ops")).build()?;
//! let executor = Executor::new(Arc::new(provider));
//! let config = LockConfig::new("payroll").lock_at_most_for("10m");
//! executor.execute(&config, async { /* the task */ }).await?;
//! # Ok(()) }
//! ```
//!
//! The server's clock judges leases unless set otherwise, in whole milliseconds; names may have 16 KiB. You need MongoDB
//! 4.4 or later, and the role `readWrite` or the actions `find`, `insert` and `update` on the collection.
//!
//! # The URL
//!
//! `mongodb://user:password@host,host/database`, or `mongodb+srv://…`, with these options:
//!
//! | option | what |
//! |---|---|
//! | `collection` | where the locks are: `shedLock` unless given |
//! | `time` | whose clock judges: `store` (unless given) or `client`; see [`TimeMode`] |
//! | `tolerated_skew` | with `time=client`, how much the clients' clocks may differ; `1s` unless given |
//! | `server_skew` | see [`Builder::server_skew`]; zero unless given |
//! | `connect_timeout`, `response_timeout` | how long a connection and the choice of a primary may take, and an answer; `5s` each unless given |
//! | `lock_at_most_for`, `lock_at_least_for`, `owner_prefix` | for locks that set none |
//!
//! Every other option is the driver's: TLS, credentials, `replicaSet`, `directConnection` and so on;
//! `connectTimeoutMS` and `serverSelectionTimeoutMS` come before `connect_timeout`. Concerns in the URL are not used:
//! a majority acknowledges writes.
//!
//! # Documents
//!
//! A lock is a document of the collection `shedLock` with ShedLock's `_id`, `lockUntil`, `lockedAt`
//! and `lockedBy`: Java services and Rust services that use one collection keep each other out.
//! Fencing token and slots are fields of ours beside them, which ShedLock neither reads nor
//! writes. Nothing has to be made for it, no index and no collection.
//!
//! # Commands
//!
//! An attempt is one `findAndModify` by the document's `_id` whose update is an aggregation
//! pipeline: it decides on the server, by the server's clock (`$$NOW`), whether the lock and the
//! slot are to be had, and leaves the document as it is where they are not, which MongoDB does not
//! write. So a won and a lost attempt are one round trip each. A first one makes the document, free,
//! and then takes it: three round trips. A lost one is two where the document alone does not show
//! why: for some slots, and where the server has not reported its time for a while. Extend and unlock
//! are one, under the condition that the lease is this owner's and runs.
//!
//! Writes are acknowledged by a majority that has them in its journal, unless a collection of your
//! own says something else. They are not retried by the driver: an attempt that is asked again
//! finds its own owner.
//!
//! # Late requests
//!
//! A request that was given up can still reach the server: from a socket's buffer, a proxy, a server that
//! was paused. An attempt carries an instant of the server's clock after which it is refused, and one
//! whose own lease was given back is refused too, so neither takes the lock, or its slot, for an owner
//! that has ended. The instant comes from an earlier reply: the first attempt of a provider on a document
//! that is there may take two round trips more. A document that is made late is free. An extension
//! keeps the later of two ends, so one that arrives late shortens no lease.
//!
//! A command that waits inside the server is judged by the instant at which it began, and with
//! [`TimeMode::Client`] by the client's instant that it carries. It finds the lock taken if another
//! process has unlocked it since, and a withdrawal moves the end of a lock that is free up to now, so
//! that it finds it taken then too.
//!
//! # What was tested
//!
//! MongoDB itself is in none of the registries that this repository's tests install from. What is
//! promised here was tested over a double, SecantusDB 0.7.0b3, which speaks MongoDB's protocol over
//! its storage engine as a replica set of one node, and after it had shown that it lets one of
//! eight clients win. It showed nothing of elections, of several nodes and shards, of collations,
//! of DNS seed lists and of MongoDB's own reading of these pipelines. Where you have a server, run
//! `SHEDLOCK_TEST_MONGODB_URL=mongodb://… cargo xtask test --store mongodb`.
//!
//! # Clocks
//!
//! The server's clock is the primary's. A new primary judges by its own, so that leases are as
//! exact as the clocks of the nodes agree: where its clock is ahead, leases end earlier than their
//! holders believe, and where it is behind, they end later and late attempts are refused later, both by
//! the difference. Synchronize the clocks of all members (NTP, chrony) to well within the margin that
//! your leases leave. `$$NOW` is cut to milliseconds and is the instant at
//! which the server began with a command: a command that had to wait there judges by a past one,
//! which can only refuse a lock that has just come free, or shorten a lease.
//!
//! # Encrypted connections
//!
//! `mongodb://` sends all in the clear unless `tls=true` is in the URL; `mongodb+srv://` uses TLS. The driver then verifies
//! the servers' certificates, their host names included, unless `tlsInsecure` or `tlsAllowInvalidCertificates` is set.
//! [`connect`](MongoProvider::connect) warns of hosts that are not this one and not verified.
//!
//! # Beside ShedLock for Java
//!
//! ShedLock judges by its own clock, and unlocks whoever holds the lock: a Java task that outlived
//! its lock frees ours. We then answer "lost", and never do the like to it. An attempt of Java's that
//! arrives late is bounded only by the instant that it carries.
//! [`TimeMode::Client`] judges by the clients' clocks as ShedLock does, and excludes ShedLock exactly as long as no clock
//! of ours is ahead of Java's, since ShedLock counts on its lease until its very end: the tolerated skew that is declared
//! holds among clients of ours. ShedLock takes over no lease of ours earlier than that skew allows for. At-least is kept,
//! and an unlocked lock free at once, only as far as the clocks agree.

mod attempt;
mod codec;
mod command;
mod explain;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod store;
mod update;
mod url;

/// The client, in the version that [`Builder`] takes.
pub use mongodb;
use shedlock_store::StoreProvider;
pub use shedlock_store::TimeMode;
pub use store::{Builder, MongoStore, Place};

/// Locks in MongoDB: [`connect`](StoreProvider::connect) takes a URL, [`builder`](StoreProvider::builder) a
/// `Database` or a `Collection` (a [`Place`]).
pub type MongoProvider = StoreProvider<MongoStore>;
