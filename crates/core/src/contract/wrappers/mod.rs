//! Providers that wrap other providers.

mod delegate;
mod prefix;

pub use prefix::PrefixProvider;
