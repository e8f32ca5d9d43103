#![doc = include_str!("../README.md")]

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
