//! Providers that wrap other providers.

mod delegate;
mod prefix;
mod tenant;
mod tracking;

pub use prefix::PrefixProvider;
pub use tenant::{TenantProvider, TenantRouter};
pub use tracking::TrackingProvider;
