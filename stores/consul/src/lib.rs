//! Locks in the key/value store of Consul.
//!
//! ```no_run
//! # async fn example() -> Result<(), shedlock::Error> {
//! use shedlock::ConsulProvider;
//!
//! let provider = ConsulProvider::connect("consul://127.0.0.1:8500/shedlock").await?;
//! // Or over a client of your own, with the certificates and the header `X-Consul-Token` that it brings:
//! let provider = ConsulProvider::builder(reqwest::Client::new())
//!     .agent("http://127.0.0.1:8500")
//!     .key_prefix("shedlock/")
//!     .build()?;
//! # drop(provider);
//! # Ok(()) }
//! ```
//!
//! A lock is one key, a prefix and its name, whose value is the record as a text. Every call is one
//! request to `/v1/txn`: only there a write answers with its index; and in a path `a//b` is `a/b`.
//!
//! - **Version and fencing token** are the key's `ModifyIndex`, the number of the write among all
//!   of the cluster: not used again for a key that was deleted. A new cluster counts from 1.
//! - **Reads are `consistent`.** A write names the index that was read, so exclusion does not need
//!   it. But what is read back after a lost answer must not be older than what was read before, or
//!   a lock that was won looks like another owner's.
//! - **A list** is one request a page, each of which brings all keys: Consul cannot start a list at a key.
//! - **Clocks** are the clients': the `Date` of an answer is that of whichever agent was asked.
//!
//! # The URL
//!
//! `consul://[:token@]host[:port][/prefix]`, or, for HTTPS (with the feature `tls`), `consuls://…`. The port is 8500
//! unless given, and 8501 for HTTPS. The keys of the locks begin with the prefix and a slash; without one, with
//! `shedlock/`.
//!
//! | option | what |
//! |---|---|
//! | `token_file` | a file with the ACL token, read once, when the provider is made; the token may also stand before the host, as a password |
//! | `dc`, `ns` | the datacenter, the namespace; the agent's and the token's own unless given. Programs that share locks have to name one datacenter: keys are not copied to others |
//! | `tls_ca` | certificates (PEM) of those that may sign the agent's, instead of the system's |
//! | `tls_cert`, `tls_key` | the client's own certificate and its key (PEM), where the agent asks for one |
//! | `connect_timeout`, `response_timeout` | how long a connection may take (`2s` unless given), and an answer, the connection included (`5s`) |
//! | `tolerated_skew` | how much the clients' clocks may differ; `1s` unless given |
//! | `lock_at_most_for`, `lock_at_least_for`, `owner_prefix` | for locks that set none |
//!
//! Where the agent asks for a token it needs `key_prefix "shedlock/" { policy = "write" }`, with the
//! prefix of the keys, and nothing else.
//!
//! With `consuls://` the agent's certificate is verified, its host name included, against the system's authorities or
//! `tls_ca`. `consul://` sends everything in the clear, the token too; `connect` warns of that unless the agent is on
//! this host.

mod codec;
mod explain;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod store;
mod url;

/// The client, in the version that [`Builder`] takes.
pub use reqwest;
use shedlock_store::{StoreProvider, Versioned};
pub use store::{Builder, ConsulStore};

/// Locks in Consul: [`connect`](StoreProvider::connect) takes a URL, [`builder`](StoreProvider::builder) a
/// `reqwest::Client`.
pub type ConsulProvider = StoreProvider<Versioned<ConsulStore>>;
