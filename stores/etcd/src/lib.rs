//! shedlock over etcd.
//!
//! Users take the facade crate `shedlock` with its feature `etcd`; this crate is for those who want the provider alone.
//! Its client is built with `protoc`, the protobuf compiler (on Debian the packages `protobuf-compiler` and
//! `libprotobuf-dev`), which must be in the PATH, or named by `PROTOC`.
//!
//! ```no_run
//! # use shedlock::EtcdProvider;
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = EtcdProvider::connect("etcd://host1,host2,host3").await?;
//! // Or over a client of your own:
//! let client = etcd_client::Client::connect(["127.0.0.1:2379"], None).await?;
//! let provider = EtcdProvider::builder(client).environment("prod").build()?;
//! # drop(provider);
//! # Ok(()) }
//! ```
//!
//! # The URL
//!
//! `etcd://[user:password@]host1[:2379],host2,…/?option=value`, or `etcds://…` for TLS. All servers of the cluster
//! belong into it: the provider uses one of them as long as it answers, and then the next one.
//!
//! | option | meaning | unless set |
//! |---|---|---|
//! | `environment` | the environment in the keys | `default` |
//! | `key_prefix` | what the keys of locks begin with | `shedlock` |
//! | `lock_at_most_for`, `lock_at_least_for`, `owner_prefix` | for locks that set none | – |
//! | `connect_timeout`, `response_timeout` | how long a connection and an answer may take | `5s` |
//! | `tls_ca` | a file of certificates (PEM) that the servers' are signed by | the public ones |
//! | `tls_cert`, `tls_key` | files (PEM) that show who we are; a server that asks for them hangs up on who has none | – |
//! | `tls_domain` | the name in the servers' certificates, where it is not their host's | – |
//!
//! `etcds://` verifies the servers' certificates, their host names included (or `tls_domain`), against the public
//! authorities or `tls_ca`. `etcd://` sends all in the clear, the password too:
//! [`connect`](StoreProvider::connect) warns of hosts that are not this one.
//!
//! A client of your own chooses one of its servers by itself each time, and may choose the same one again where it does
//! not answer: give it keep-alives (`ConnectOptions::with_keep_alive`), by which it sees that a server has fallen
//! silent. The provider waits 5 s for an answer, and gives a call up after 10 s.
//!
//! # Keys
//!
//! A lock is the key `shedlock:{environment}:{name}` with a lease of the store, as ShedLock for Java
//! has it: Java services and Rust services that use the same environment keep each other out. Beside
//! it lies a record of ours, `shedlock-rs:shedlock:{environment}:{name}`, with owner, times, fencing
//! token and slots. It never ends, since a slot must stay taken after the lock is gone; whoever makes
//! names without bound deletes such keys by hand. A role needs read and write on both, which the
//! prefix `shedlock` covers.
//!
//! Both are changed in one transaction, on the condition that neither was changed since it was read.
//! The fencing token is the store's revision at which the lock was taken: it grows with every write to
//! the store, and survives restarts and deleted keys. A store that is restored from a backup goes back
//! to the backup's revision, unless it is told not to (`--bump-revision`), and tokens go back with it.
//!
//! # What it costs
//!
//! | call | requests |
//! |---|---|
//! | attempt that loses | 1: a read of both keys |
//! | attempt that wins | 3: the read, a lease, the transaction |
//! | extension | 2: a lease, the transaction; 1 where the lock lasts longer than is asked for: a read |
//! | unlock | 1: the transaction; 2 where at-least keeps the lock, which takes a lease |
//! | withdrawal | 2: the read, a transaction; 1 where another owner of ours holds the lock |
//!
//! An extension and an unlock are followed by one more that nobody waits for: it gives back the lease
//! that the lock had before.
//!
//! # Time
//!
//! The store ends leases, so that no client's clock can break a lock. They last whole seconds, rounded
//! up, and no less than one and a half election timeouts: 2 s as etcd ships. The store sees within a
//! second that one is over. So a lock whose holder crashed comes free up to 3 s later than asked,
//! which is declared ([`granularity`](shedlock_core::Capabilities::granularity), exact after a
//! [`check`](shedlock_core::LockProvider::check)); at-least is rounded up in the same way. When the
//! cluster changes its leader, the new one begins all leases anew, so that a lock then lasts up to its
//! whole length longer. Never shorter: an extension moves the lock to a new lease, which the cluster
//! agrees on, rather than keep the old one alive, which only one server knows of.
//!
//! etcd tells nobody the time. Whether a slot lies too far ahead is judged by this host's clock, as
//! is declared ([`slot_clock`](shedlock_core::Capabilities::slot_clock)), and times that are told are
//! by the clock of the host that wrote them.
//!
//! # Requests that arrive late
//!
//! A transaction that was given up can still reach the store. Revisions keep it from doing harm, so that
//! an attempt carries no not-after: the transaction of an attempt needs the record beside the lock to be
//! as it was read, and every acquisition, extension and unlock of ours replaces that record. ShedLock does
//! not, so a withdrawal does: it puts the record again, also while ShedLock holds the lock, or puts a
//! released one where there is none. In any case a late attempt wins nothing once the store's lease that
//! it asked for is over. An extension never shortens: where the lock's lease lasts longer than is asked
//! for, the lock keeps it. So a late extension moves the lock to a lease that ends no earlier.
//!
//! What remains: until it is withdrawn, a copy of an attempt can take the lock, for at-most from when it
//! was sent; and if someone deletes the record by hand after the withdrawal, a copy that is still on its
//! way and was sent when there was none finds none again.
//!
//! # Beside ShedLock for Java
//!
//! Where its at-least is not over, ShedLock's unlock sets the key whoever holds it: a Java task that
//! outlived its lock takes ours over so. We then answer "lost", and never do the like to it. A lock
//! that Java gave back has left no trace, so that a slot is known to be Java's only while the lock is
//! taken: give such jobs a lock_at_least_for above the worst lateness.

mod codec;
mod connections;
mod explain;
mod found;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod lease;
mod list;
mod store;
mod txn;
mod url;

/// The client, in the version that [`Builder`] takes.
pub use etcd_client;
pub use found::Found;
use shedlock_store::StoreProvider;
pub use store::{Builder, EtcdStore};

/// Locks in etcd: [`connect`](StoreProvider::connect) takes a URL, [`builder`](StoreProvider::builder) an
/// [`etcd_client::Client`].
///
/// The store's leases judge; whole seconds, rounded up. Any name up to 4 KiB is accepted.
pub type EtcdProvider = StoreProvider<EtcdStore>;
