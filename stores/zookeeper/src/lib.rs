//! Locks in Apache ZooKeeper, shared with ShedLock for Java.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use shedlock::ZooKeeperProvider;
//!
//! let provider = ZooKeeperProvider::connect("zookeeper://zk1,zk2,zk3/app").await?;
//! // Or over a client of your own. When its session has expired, it makes no other one: a provider from a URL does.
//! let client = zookeeper_client::Client::connect("zk1:2181,zk2:2181,zk3:2181/app").await?;
//! let provider = ZooKeeperProvider::builder(client).path("/shedlock").build()?;
//! # drop(provider);
//! # Ok(()) }
//! ```
//!
//! # The URL
//!
//! `zookeeper://[user:password@]host[:port][,host[:port]…][/chroot]`, or, encrypted (with the feature `tls`),
//! `zookeepers://…`. The port is 2181 unless given. User and password are for the scheme `digest`.
//!
//! | option | what |
//! |---|---|
//! | `path` | below which path the locks are; `/shedlock` unless given |
//! | `acl` | who may do what with nodes that are made: `anyone` (as with ShedLock; unless given), or `creator`, the user of the URL alone |
//! | `session_timeout` | how long a session lasts without a connection, like `10s`, which it is unless given; locks do not end with it |
//! | `connect_timeout`, `response_timeout` | how long a call waits for a connection, and for an answer; `5s` each unless given |
//! | `tolerated_skew` | how much the clients' clocks may differ; `1s` unless given |
//! | `lock_at_most_for`, `lock_at_least_for`, `owner_prefix` | for locks that set none |
//! | `tls_ca` | a PEM file of the authorities that servers are trusted by; `zookeepers://` needs it |
//! | `tls_cert`, `tls_key` | PEM files of this client's certificate and its key |
//!
//! # What is where
//!
//! | node | holds |
//! |---|---|
//! | `/shedlock/NAME` | ShedLock's own record: when the lock is, or became, free, as `2026-11-21T10:00:00.123Z` and nothing else |
//! | `/shedlock.owners/NAME` | what ShedLock has no room for: owner, beginning, fencing token, slots |
//!
//! Both are persistent, so a lock does not go with the session of who took it; and both are written by
//! one transaction, each against the version that was read. Two nodes of one transaction have the same
//! `mzxid`; where they differ, ShedLock has written the lock since, and token and slots stay. The path
//! `/shedlock` can be changed ([`path`](Builder::path)); `.owners` is added to
//! whatever it is. Missing nodes are made on the way, as ShedLock does; a chroot is made by
//! [`migrate`](shedlock_core::LockProvider::migrate) alone, since a misspelt one would be a place where
//! nobody else locks.
//!
//! To delete `/shedlock/NAME` by hand frees the lock, as with ShedLock; token and slots stay.
//!
//! A node whose data is empty or no instant is a lock that is held for ever to ShedLock. Here it is an
//! error of kind `Conflict` that names the node, and a held lock in lists.
//!
//! # Names
//!
//! A name is a node as it is, and shared with ShedLock; one with `/` lies deeper, as ShedLock has it.
//! The nodes on the way hold 1970, a free lock, and not nothing as ShedLock's, which make a lock of
//! that name held for ever. Names that ZooKeeper has no node for (`..`, `a//b`, characters that it does
//! not allow, such as emoji), and so are of no use to ShedLock, are written behind `shedlock-rs:` with
//! `%` and two hexadecimal digits a byte. Up to 1024 bytes.
//!
//! # What it costs
//!
//! Both nodes are read by one request, and written by another one:
//!
//! | call | round trips |
//! |---|---|
//! | attempt that loses | 1 |
//! | attempt that wins, extend, unlock | 2: the reading, and one transaction |
//! | the first attempt below a path that is not there | 4: the nodes on the way, and the transaction again |
//!
//! Extending and unlocking read first, because ZooKeeper counts the versions of a node from 0 when it
//! is deleted and made anew: a version that a lease remembers could be somebody else's.
//!
//! In an ensemble a session reads from the server that it is on, which may be behind the leader. A
//! write could not go wrong by that, since it names versions and goes through a quorum; but a lock that
//! was just given back elsewhere would be skipped. So a `sync` goes before each reading, and the reading
//! goes along without waiting for its answer. The client leaves Nagle's algorithm on, though: unless
//! both happen to be in one packet, the second waits until the first is acknowledged, so that each
//! number above can be one more. A server that stands alone is behind nobody, and is not asked to. (What
//! is left: a leader that was deposed and does not know it yet answers a `sync`, too. An attempt can be
//! skipped by that, until the leader finds out.)
//!
//! # Clock
//!
//! The clients' clocks judge, as ShedLock's do; see `shedlock-store` for what they may differ by. A
//! node's `mtime` is the leader's clock, but at the last write: it does not tell what time it is now.
//! It stands for when ShedLock acquired, which its record does not say. Nor does it say whether ShedLock
//! gave the lock back, so such a lock comes free for us when the clocks' tolerance is over.
//!
//! # Encrypted connections
//!
//! `zookeepers://…` needs the feature `tls`, with which the client brings a crypto library of its own
//! (`aws-lc-rs`). A program whose other crates bring another one, as those of most stores do (`ring`), chooses by rustls's
//! `CryptoProvider::install_default` before it connects; where it has not, such a URL is refused.
//! Servers' certificates are verified against `tls_ca`, their host names included. `zookeeper://` sends all in the
//! clear, the password too: `connect` warns of hosts that are not this one.
//!
//! # Fencing tokens
//!
//! The `zxid` of the acquiring transaction: it grows with every write to the ensemble, whatever becomes
//! of a node. It starts anew only with an ensemble that is set up anew; guards that remember tokens of
//! the old one have to be told.

mod codec;
mod explain;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod list;
mod path;
mod requests;
mod sessions;
mod store;
mod url;

pub use codec::Version;
use shedlock_store::{StoreProvider, Versioned};
pub use store::{Builder, ZooKeeperStore};
/// The client, in the version that [`Builder`] takes.
pub use zookeeper_client;

/// Locks in ZooKeeper: [`connect`](StoreProvider::connect) takes a URL, [`builder`](StoreProvider::builder) a
/// [`Client`](zookeeper_client::Client).
pub type ZooKeeperProvider = StoreProvider<Versioned<ZooKeeperStore>>;
