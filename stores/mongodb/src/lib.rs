#![doc = include_str!("../README.md")]

mod attempt;
mod codec;
mod command;
mod explain;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod journal;
mod store;
mod update;
mod url;

/// The client, in the version that [`Builder`] takes.
pub use mongodb;
use shedlock_provider::StoreProvider;
pub use shedlock_provider::TimeMode;
pub use store::{Builder, MongoStore, Place};

/// Stores locks in MongoDB: [`connect`](StoreProvider::connect) takes a URL, [`builder`](StoreProvider::builder) a
/// `Database` or a `Collection` (a [`Place`]).
pub type MongoProvider = StoreProvider<MongoStore>;
