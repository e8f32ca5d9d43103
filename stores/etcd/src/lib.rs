#![doc = include_str!("../README.md")]

mod codec;
mod connections;
mod ending;
mod explain;
mod found;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod lease;
mod list;
mod operator;
mod store;
mod txn;
mod url;

/// The client crate, in the version that [`Builder`] uses.
pub use etcd_client;
pub use found::Found;
use shedlock_provider::StoreProvider;
pub use store::{Builder, EtcdStore};

/// A lock provider for etcd. [`connect`](StoreProvider::connect) takes a URL, [`builder`](StoreProvider::builder) takes
/// an [`etcd_client::Client`].
///
/// Locks end with the store's leases, in whole seconds, rounded up. Any name up to 4 KiB is accepted.
pub type EtcdProvider = StoreProvider<EtcdStore>;
