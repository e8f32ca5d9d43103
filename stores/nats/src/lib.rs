#![doc = include_str!("../README.md")]

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

/// The client crate, in the version that [`Builder`] uses.
pub use async_nats;
pub use bucket::Storage;
pub use codec::Version;
use shedlock_provider::{StoreProvider, Versioned};
pub use store::{Builder, NatsStore};

/// A lock provider for NATS. [`connect`](StoreProvider::connect) takes a URL, [`builder`](StoreProvider::builder) takes
/// a [`Client`](async_nats::Client).
pub type NatsProvider = StoreProvider<Versioned<NatsStore>>;
