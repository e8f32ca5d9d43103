#![doc = include_str!("../README.md")]

mod codec;
mod explain;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod list;
mod path;
mod privileges;
mod requests;
mod sessions;
mod store;
mod url;

pub use codec::Version;
use shedlock_provider::{StoreProvider, Versioned};
pub use store::{Builder, ZooKeeperStore};
/// The client crate, in the version that [`Builder`] uses.
pub use zookeeper_client;

/// A lock provider for ZooKeeper. [`connect`](StoreProvider::connect) takes a URL, [`builder`](StoreProvider::builder)
/// takes a [`Client`](zookeeper_client::Client).
pub type ZooKeeperProvider = StoreProvider<Versioned<ZooKeeperStore>>;
