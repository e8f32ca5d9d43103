#![doc = include_str!("../README.md")]

mod backoff;
mod queue;
mod redact;
pub mod text;

pub use backoff::Backoff;
pub use queue::{Queue, State};
pub use redact::redact;
