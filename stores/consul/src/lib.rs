#![doc = include_str!("../README.md")]

mod codec;
mod explain;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod store;
mod url;

/// The client crate, in the version that [`Builder`] uses.
pub use reqwest;
use shedlock_provider::{StoreProvider, Versioned};
pub use store::{Builder, ConsulStore};

/// A lock provider for Consul. [`connect`](StoreProvider::connect) takes a URL, [`builder`](StoreProvider::builder)
/// takes a `reqwest::Client`.
pub type ConsulProvider = StoreProvider<Versioned<ConsulStore>>;
