#![doc = include_str!("../README.md")]

mod attempt;
mod codec;
mod command;
mod explain;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod journal;
mod place;
mod store;
mod update;
mod url;

/// The client, in the version that [`Builder`] takes.
pub use mongodb;
pub use place::Place;
use shedlock_provider::StoreProvider;
pub use shedlock_provider::TimeMode;
pub use store::{Builder, MongoStore};

/// Stores locks in MongoDB: [`connect`](StoreProvider::connect) takes a URL, [`builder`](StoreProvider::builder) a
/// `Database` or a `Collection` (a [`Place`]).
pub type MongoProvider = StoreProvider<MongoStore>;
