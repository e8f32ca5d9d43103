//! Locks in a key-value bucket of NATS JetStream, shared with ShedLock for Java.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use shedlock::{LockProvider, NatsProvider};
//!
//! let provider = NatsProvider::connect("nats://localhost:4222?replicas=3").await?;
//! // Or over a client of your own:
//! let client = async_nats::connect("nats://localhost:4222").await?;
//! let provider = NatsProvider::builder(client).replicas(3).build()?;
//! provider.migrate().await?; // makes the bucket `shedlock-locks` if there is none
//! # Ok(()) }
//! ```
//!
//! # The URL
//!
//! `nats://[user:password@]host[:port][,host[:port]…]` or `nats://token@host`, with several servers of one cluster parted
//! by commas; `tls://…` where the servers must speak TLS. The port is 4222 unless given.
//!
//! | option | what |
//! |---|---|
//! | `bucket` | the bucket; `shedlock-locks` unless given |
//! | `replicas` | how many servers keep the bucket, where `migrate` makes it; 1 unless given |
//! | `storage` | `file` or `memory`, where `migrate` makes it; `file` unless given |
//! | `sync_always` | `true`: you assert that each server that keeps the bucket is set up with `sync_interval: always`, see below; `false` unless given |
//! | `domain` | the JetStream domain, where it is not the server's own |
//! | `connect_timeout`, `response_timeout` | how long a connection may take, and an answer; `5s` each unless given |
//! | `tolerated_skew` | how much the clients' clocks may differ; `1s` unless given |
//! | `lock_at_most_for`, `lock_at_least_for`, `owner_prefix` | for locks that set none |
//! | `credentials` | a file of credentials (`.creds`: a token of JWT and its key) |
//! | `nkey` | a file that holds the seed of an nkey |
//! | `tls` | `true`: the server must speak TLS, as with `tls://`. Unless given, whether it does is its own choice |
//! | `tls_ca` | a file (PEM) of those who may have signed its certificate; the system's unless given |
//! | `tls_cert`, `tls_key` | files (PEM) of a certificate of ours and its key |
//!
//! A connection that is lost, or over which a request had no answer, is replaced for the next request: it may be
//! half-open, with no one left to report it.
//!
//! # What is where
//!
//! A lock is one message of the bucket: its value is ShedLock's (8 bytes, the end in milliseconds),
//! and its headers hold what ShedLock has no room for: the owner, the fencing token, the slots. So a
//! lock and its slot are taken in one step. ShedLock's own messages have no such headers; a second
//! key beside the lock keeps token and slots across them. ShedLock's records name no owner.
//!
//! Every write names the revision that it replaces; nothing is deleted. A deletion marker, which
//! ShedLock leaves when it unlocks, is a free lock. From NATS 2.12 on both keys are written in one step, where
//! the bucket allows it (`allow_atomic`: [`migrate`](shedlock_core::LockProvider::migrate) sees to that, also for a
//! bucket that is there already). Before, they are written one after the other, and a slot whose taker dies
//! between the two is lost where ShedLock takes the lock next; none is granted twice. Extending and unlocking
//! read first, in two round trips: revisions come again, see below.
//!
//! # Names
//!
//! Letters, digits, `-`, `_`, `/` and dots between them are keys as they are, and shared with
//! ShedLock. ShedLock cannot use names with other characters; here they are written with `=` and
//! two hexadecimal digits, and so is `=` itself. Up to 255 bytes.
//!
//! # The bucket
//!
//! It is made by [`migrate`](shedlock_core::LockProvider::migrate), on disk and on one server unless
//! you choose otherwise. ShedLock makes it itself, **in memory**: all locks are gone with the server.
//! This crate warns of such a bucket and uses it; make the bucket first, and ShedLock takes yours.
//!
//! Settings with which a held lock is forgotten, or none can be taken, are refused by name: an age (`max_age`, the
//! TTL), `discard` old with a limit, a sealed bucket and others. `connect` looks at them, and so do the first
//! call of a provider over your own client, the next taking over each new connection, and
//! [`check`](shedlock_core::LockProvider::check). A user with restricted rights needs
//! `$JS.API.STREAM.INFO.KV_<bucket>` for it, and for `migrate` `CREATE` and `UPDATE` as well.
//!
//! # What a server forgets
//!
//! NATS writes to disk every two minutes unless its `sync_interval` says otherwise. A server that loses its power
//! forgets what came since: locks, tokens and slots, so that another process is granted the lock of a holder that
//! still runs. Its next writes get the revisions of those that are gone; since extending and unlocking read
//! first, a holder from before does not touch the lock of another. No client can read `sync_interval`: set
//! `sync_interval: always` on all servers that keep the bucket (NATS 2.10 or later), and say so with
//! [`sync_always`](Builder::sync_always) or `sync_always=true` in the URL. Only then is
//! [`durable`](shedlock_core::Capabilities::durable) declared, and on NATS 2.12 or later extending and unlocking
//! are one round trip each.
//!
//! # Several servers
//!
//! In a cluster, `replicas(3)` (`replicas=3` in a URL) has three servers keep the bucket. A majority has to
//! have a lock before it is granted, so that one of them may fail: the next leader knows every lease,
//! and [`failover`](shedlock_core::Capabilities::failover) says `Majority`. While there is no leader, calls
//! fail as unavailable or unknown. With one replica the bucket is gone for as long as its server is.
//!
//! A bucket in memory on one server forgets everything when that restarts: locks, tokens and slots. Somebody
//! else is then granted the lock of a holder that still runs; its fencing token is larger all the same, since
//! it goes by the clock.
//!
//! # A connection that falls silent
//!
//! From a URL, a request without an answer in time, or one that was given up, has the connection replaced before the next
//! one. A client of your own is left alone, since it may serve more than locks: it finds a half-open connection out by
//! its pings, after two to three `ping_interval`s (a minute each unless set), and until then calls fail as unavailable or
//! unknown.
//!
//! # Encrypted connections
//!
//! With `nats://` and without TLS options in the URL the server decides whether it speaks TLS, and so does whoever
//! answers in its place: `connect` warns of hosts that are not this one. With `tls://`, `tls=true` or certificates in the
//! URL, the server's certificate is verified, its host name included, against the system's authorities or `tls_ca`. The
//! crypto library is `ring`, of the connection alone: nothing is installed for the process.
//!
//! # Clock
//!
//! The clients' clocks judge, as ShedLock's do; see `shedlock-store` for what they may differ by.

mod bucket;
mod codec;
mod explain;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
#[cfg(test)]
mod interleavings;
mod key;
mod line;
mod pair;
mod shape;
mod store;
mod url;

/// The client, in the version that [`Builder`] takes.
pub use async_nats;
pub use bucket::Storage;
pub use codec::Version;
use shedlock_store::{StoreProvider, Versioned};
pub use store::{Builder, NatsStore};

/// Locks in NATS: [`connect`](StoreProvider::connect) takes a URL, [`builder`](StoreProvider::builder) a
/// [`Client`](async_nats::Client).
pub type NatsProvider = StoreProvider<Versioned<NatsStore>>;
