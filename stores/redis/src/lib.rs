#![doc = include_str!("../README.md")]

mod clocks;
mod cluster;
mod codec;
mod confirm;
mod connections;
mod explain;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod journal;
mod key;
mod privileges;
mod scripts;
mod servers;
mod store;
mod tls;
mod url;

pub use connections::Connections;
/// The client, in the version from which [`Connections`] are created.
pub use redis;
use shedlock_provider::StoreProvider;
pub use store::{Builder, RedisStore};

/// Stores locks in Redis or Valkey: [`connect`](StoreProvider::connect) takes a URL,
/// [`builder`](StoreProvider::builder) any client or connection that converts into [`Connections`].
///
/// The server's clock judges leases, in whole milliseconds, rounded up. Names may have up to 16 KiB.
pub type RedisProvider = StoreProvider<RedisStore>;
