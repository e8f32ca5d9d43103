//! The pages outside the crates' own documentation. Their Rust blocks are compiled like examples in rustdoc.

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/decisions/0012-scheduled.md")]
mod decision_12 {}

/// The root of the repository.
#[must_use]
pub fn root() -> &'static std::path::Path {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.ancestors().nth(2).unwrap_or(folder)
}
