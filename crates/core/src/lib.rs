//! The lock contract and the runtime of shedlock. No store client is in here.
//!
//! Users take the facade crate `shedlock`, which re-exports this one; authors of store providers
//! depend on this crate alone.

mod answer;
mod capabilities;
mod clock;
mod config;
mod duration;
mod error;
mod identity;
mod lease;
mod memory;
mod name;
mod owner;
mod provider;
mod record;
mod request;
mod slot;
mod text;

use std::future::Future;
use std::pin::Pin;

pub use answer::{Attempt, Extension, ForceUnlock, Migration, Skip, SkipReason, Unlock};
pub use capabilities::{Capabilities, ClockSource};
pub use clock::{Clock, ManualClock, Moment, SystemClock};
pub use config::{LockConfig, LockDefaults};
pub use duration::{LockDuration, parse_duration};
pub use error::{Error, ErrorKind};
pub use identity::ProviderIdentity;
pub use lease::Lease;
pub use memory::MemoryProvider;
pub use name::LockName;
pub use owner::Owner;
pub use provider::LockProvider;
pub use record::{LockRecord, LockState};
pub use request::{AttemptRequest, ExtendRequest, ForceUnlockRequest, ListRequest};
pub use slot::Slot;

/// A future that can be sent between threads: what the methods of [`LockProvider`] return, so that
/// `Arc<dyn LockProvider>` works.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
