//! What an owner asked for that has no answer yet.

/// When copies of an attempt without an answer may come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stray {
    /// A withdrawal that is asked from then on is final.
    pub(super) timeout: u64,
    /// The last moment at which one may be granted.
    pub(super) by: u64,
}

/// An extension that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renewal {
    pub(super) asked: u64,
    pub(super) at_most: u64,
}
