//! placeholder

#[cfg(feature = "macros")]
#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod connect;

pub use connect::connect;
pub use shedlock_core::*;
#[cfg(feature = "macros")]
pub use shedlock_macros::scheduler_lock;
