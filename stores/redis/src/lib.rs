#![doc = include_str!("../README.md")]

mod clocks;
mod codec;
mod confirm;
mod connections;
mod explain;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod key;
mod scripts;
mod servers;
mod store;
mod url;

pub use connections::Connections;
/// The client, in the version that [`Connections`] are made from.
pub use redis;
use shedlock_store::StoreProvider;
pub use store::{Builder, RedisStore};

/// Locks in Redis or Valkey: [`connect`](StoreProvider::connect) takes a URL, [`builder`](StoreProvider::builder)
/// whatever [`Connections`] are made from.
///
/// The server's clock judges leases; whole milliseconds, rounded up. Any name up to 16 KiB is
/// accepted.
pub type RedisProvider = StoreProvider<RedisStore>;
