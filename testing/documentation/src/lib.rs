//! The pages outside the crates' own documentation. Their Rust blocks are compiled like examples in rustdoc.

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/decisions/0012-scheduled.md")]
mod decision_12 {}
