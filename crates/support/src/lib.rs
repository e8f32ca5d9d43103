#![doc = include_str!("../README.md")]

mod redact;
pub mod text;

pub use redact::redact;
