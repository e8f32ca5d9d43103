//! shedlock over Redis and Valkey.
//!
//! Users take the facade crate `shedlock` with its feature `redis`; this crate is for those who
//! want the provider alone.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use shedlock::{Executor, LockConfig, RedisProvider};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = redis::Client::open("redis://127.0.0.1:6379")?;
//! let provider = RedisProvider::builder(client.get_connection_manager().await?).build()?;
//! let executor = Executor::new(Arc::new(provider));
//! let config = LockConfig::new("payroll").lock_at_most_for("10m");
//! executor.execute(&config, async { /* the task */ }).await?;
//! # Ok(()) }
//! ```
//!
//! # The URL
//!
//! | URL | leads to |
//! |---|---|
//! | `redis://user:password@host:6379/0` | one server |
//! | `redis-sentinel://user:password@host1:26379,host2,host3/mymaster/0` | the primary that these sentinels name `mymaster`; user, password and database are the server's |
//! | `redis-cluster://user:password@host1:6379,host2,host3` | the cluster that these servers, or some of them, belong to |
//! | `rediss://…`, `rediss-sentinel://…`, `rediss-cluster://…` | the same, encrypted |
//!
//! The connection is kept, and made again when it breaks.
//!
//! | option | meaning | unless set |
//! |---|---|---|
//! | `environment` | the environment in the keys | `default` |
//! | `key_prefix` | what the keys of locks begin with | `job-lock` |
//! | `lock_at_most_for`, `lock_at_least_for`, `owner_prefix` | for locks that set none | – |
//! | `connect_timeout`, `response_timeout` | how long a connection and an answer may take | `5s` |
//! | `tls_ca` | file (PEM) of those who may have signed the server's certificate | Mozilla's |
//! | `tls_cert`, `tls_key` | files (PEM) of a certificate of ours and its key | – |
//! | `sentinel_username`, `sentinel_password` | what the sentinels themselves ask for | – |
//! | `wait_replicas`, `wait_timeout` | see [`Builder::wait_replicas`] | no replicas; `1s` |
//! | `server_skew` | see [`Builder::server_skew`] | zero |
//! | `protocol` | the client's own: `resp2` or `resp3` | `resp2` |
//!
//! # Keys
//!
//! A lock is the key `job-lock:{environment}:{name}` with a time to live, as ShedLock for Java has
//! it: Java services and Rust services that use the same environment keep each other out. Beside it
//! lies a string of ours, `shedlock-rs:{job-lock:…}`, with owner, times, fencing token and slots. It
//! never expires, since a token must grow and a slot stay taken after the lock is gone; no lock's
//! own key can have its name. Both keys lie in one slot of a cluster, whatever the name: that of ours
//! has the hash tag of the lock's own, or that key as its tag, or, where braces in the name allow
//! neither, a number that leads to the same slot.
//!
//! # Scripts
//!
//! Each call is one script, by its hash: one round trip, atomic, judged by the server's clock. A
//! server that does not have the script yet is sent it in a second one. A forced unlock and a reset of a slot are
//! two scripts, the second of which writes only if the lock is as the first one saw it. Scripts need Redis
//! 6.2 or later, or Valkey.
//!
//! # Late requests
//!
//! A request that was given up can still reach the server: from a socket's buffer, a proxy, a server that
//! was paused. An attempt carries an instant of the server's clock after which it is refused, and one
//! whose own lease was given back is refused too, so neither takes the lock, or its slot, for an owner
//! that has ended. The instant comes from the last reply: an attempt before any reply takes two round
//! trips instead of one. [`connect`](StoreProvider::connect) and
//! [`check`](shedlock_core::LockProvider::check) have had one, but not in a cluster, where each server
//! has its own clock and the first attempt in each hash slot takes two. An extension keeps the later of
//! two ends, so one that arrives late shortens no lease.
//!
//! # Rights
//!
//! A user for locks alone needs
//!
//! ```text
//! ACL SETUSER locks on >password ~job-lock:* ~shedlock-rs:* +evalsha +eval +time +get +set +del +append
//!     +pttl +pexpireat +scan +ping +info
//! ```
//!
//! and for what goes beyond: `+role` behind sentinels, `+cluster|slots` in a cluster, `+wait` where replicas
//! are waited for, `+config|get` so that durability is seen. `scan` is for lists alone.
//!
//! # Encrypted connections
//!
//! `rediss://` verifies the server's certificate, its host name included, against the public authorities or `tls_ca`;
//! the client's `#insecure` at the end of the URL switches that off, if its feature `tls-rustls-insecure` is on.
//! `redis://` sends all in the clear, the password too. [`connect`](StoreProvider::connect) warns of both for hosts
//! that are not this one. The client takes the crypto library that the program has chosen in rustls
//! (`CryptoProvider::install_default`), or the only one that the program has, which is `ring` unless another crate brings
//! more. Where there are two and no choice, a URL with `rediss` is refused.
//!
//! # Sentinel
//!
//! From a URL (`redis-sentinel://…`) or a [`redis::sentinel::SentinelClient`], the sentinels are asked
//! for the primary whenever a connection is made, so that calls go on with the new one after a
//! failover. Until there is one they fail as unavailable, or, where a call was on its way, as
//! unknown. What a failover can lose is told below.
//!
//! # Cluster
//!
//! From a URL (`redis-cluster://…`), a [`redis::cluster::ClusterClient`] or a
//! [`redis::cluster_async::ClusterConnection`]. The client finds the server of each lock, follows keys
//! that move, and sends calls again where a server failed. A call that it gives up on may have been
//! taken before, so its error is of the kind unknown. A list asks all primaries, and is an error where
//! one of them is away; while slots move it may miss a lock.
//!
//! # What Redis can lose
//!
//! *To a failover*, by Sentinel, in a Cluster or by hand: replication is asynchronous, so that a replica
//! that is promoted may not know the last locks, tokens and slots. Then somebody else can take the same
//! lock, and run the same slot, while the first holder runs; an unlock that is forgotten keeps its lock
//! taken until its end. A primary that is cut off and goes on for a while grants locks that are forgotten
//! later. [`Capabilities::failover`](shedlock_core::Capabilities::failover) says `MayForget`, and
//! [`check`](shedlock_core::LockProvider::check) warns once where replicas are connected.
//!
//! With [`wait_replicas`](Builder::wait_replicas) (`wait_replicas=1` in a URL) a lock is granted and
//! extended, and a slot called done, only when so many replicas have confirmed it (`WAIT`); the
//! capability then says `Confirmed`. Too few in time: the lock is given back, its slot is as it was, and
//! the attempt is an error of the kind unavailable. An extension or an unlock that is not confirmed is an
//! error of the kind unknown, which may be asked again. What is left: a failover to a replica that did not
//! confirm, where there are more than were waited for (Sentinel prefers the one that knows most), and
//! replicas that confirm from memory and fail with the primary. `min-replicas-to-write` on the server
//! bounds how long a primary that is cut off goes on.
//!
//! *To another clock:* ends of leases are stored as instants of the primary's clock. A promoted replica
//! judges them by its own: where that is ahead, leases end earlier than their holders believe, and where
//! it is behind, they end later and late attempts are refused later, both by the difference. Synchronize
//! the clocks of all servers (NTP, chrony) to well within the margin that your leases leave.
//!
//! *To a restart:* a server that does not write each command to disk forgets locks when its machine fails.
//! [`durable`](shedlock_core::Capabilities::durable) is declared only with an append-only file that is
//! synced always.
//!
//! *To a full memory:* a server that evicts keys frees held locks, and
//! [`check`](shedlock_core::LockProvider::check) warns of it.
//!
//! Where two runs would do harm, a guarded write belongs behind the fencing token, or the lock into a
//! database.
//!
//! # Beside ShedLock for Java
//!
//! ShedLock's default mode ends locks without looking at their owner: a Java task that outlived its
//! lock frees ours. We then answer "lost", and never do the like to it; its `safe` mode does not do
//! so either. An attempt of Java's that arrives late has no bound. A lock that Java gave back has left no trace, so that a slot is known to be Java's
//! only while the lock is taken: give such jobs a lock_at_least_for above the worst lateness.

mod clocks;
mod codec;
mod confirm;
mod connections;
mod explain;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod key;
mod scripts;
mod servers;
mod store;
mod url;

pub use connections::Connections;
/// The client, in the version that [`Connections`] are made from.
pub use redis;
use shedlock_store::StoreProvider;
pub use store::{Builder, RedisStore};

/// Locks in Redis or Valkey: [`connect`](StoreProvider::connect) takes a URL, [`builder`](StoreProvider::builder)
/// whatever [`Connections`] are made from.
///
/// The server's clock judges leases; whole milliseconds, rounded up. Any name up to 16 KiB is
/// accepted.
pub type RedisProvider = StoreProvider<RedisStore>;
