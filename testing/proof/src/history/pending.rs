//! Requests of an owner without a reply so far.

/// When unanswered copies of an attempt may arrive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stray {
    /// A withdrawal that is sent from this moment on is final.
    pub(super) timeout: u64,
    /// The last moment at which a copy may be granted.
    pub(super) by: u64,
}

/// An extension that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renewal {
    pub(super) asked: u64,
    pub(super) at_most: u64,
}
