//! What can be wrong with a store that is up.

/// What can be wrong with a store that is up: a harness has it begin
/// ([`TortureNamespace::begin_fault`](crate::TortureNamespace::begin_fault)) and end. Meanwhile attempts fail; they are
/// never granted, skipped or told "lost" for it, and nobody who already holds a lock loses it early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreFault {
    /// It cuts the connections that there are, and takes fewer new ones than are asked for.
    FewConnections,
    /// It reads and does not write, like a primary that another server has taken over from.
    ReadOnly,
    /// It has no room left for what is written.
    Full,
    /// Somebody else keeps it for himself, so that calls wait, and may fail.
    Busy,
}

impl StoreFault {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::FewConnections, Self::ReadOnly, Self::Full, Self::Busy];

    /// As it is counted.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::FewConnections => "times of few connections",
            Self::ReadOnly => "times of only reading",
            Self::Full => "times without room",
            Self::Busy => "times kept by somebody else",
        }
    }
}
