//! Providers around providers.

mod prefix;
mod tenant;
mod tracking;

pub use prefix::PrefixProvider;
pub use tenant::{TenantProvider, TenantRouter};
pub use tracking::TrackingProvider;
