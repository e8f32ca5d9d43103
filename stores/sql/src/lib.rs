#![doc = include_str!("../README.md")]

mod attempt;
mod builder;
mod call;
mod diagnose;
mod dialect;
pub mod driver;
mod failure;
#[cfg(feature = "file")]
mod file;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod identifier;
mod journal;
mod libpq;
mod misread;
mod options;
mod others;
mod plan;
mod schema;
mod send;
mod shape;
mod statement;
mod store;
#[cfg(test)]
mod tests;
mod url;
mod values;
mod verdict;
mod zone;

pub use builder::{Builder, Duties};
pub use call::SqlStore;
pub use shedlock_provider::TimeMode;

// The sources of a driver, for the tests of what no driver sees.
#[cfg(test)]
extern crate self as shedlock_sql;
#[cfg(test)]
#[allow(dead_code, unreachable_pub, reason = "it is the whole of a crate")]
#[path = "../../tokio-postgres/src/provider.rs"]
mod provider;
#[cfg(test)]
#[allow(unreachable_pub, reason = "it is the whole of a crate")]
#[path = "../../tokio-postgres/src/session.rs"]
mod session;
#[cfg(test)]
#[allow(unreachable_pub, reason = "it is the whole of a crate")]
#[path = "../../tokio-postgres/src/source.rs"]
mod source;
#[cfg(test)]
#[allow(
    unexpected_cfgs,
    reason = "the features are those of the driver, and off here"
)]
#[path = "../../tokio-postgres/src/tls.rs"]
mod tls;
