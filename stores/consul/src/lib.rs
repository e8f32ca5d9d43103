#![doc = include_str!("../README.md")]

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
