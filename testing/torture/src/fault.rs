//! Faults of a store that is running.

/// A fault of a store that is running. A harness begins it
/// ([`TortureNamespace::begin_fault`](crate::TortureNamespace::begin_fault)) and ends it. Attempts
/// fail during the fault. The fault must not cause a call to be granted, to be skipped or to return
/// "lost", and no holder may lose its lock early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreFault {
    /// The store cuts the existing connections and accepts fewer new ones than requested.
    FewConnections,
    /// The store is read-only, like a primary after a failover to another server.
    ReadOnly,
    /// The store has no space left for writes.
    Full,
    /// Another client keeps the store locked, so that calls wait and may fail.
    Busy,
    /// The store's standby is away: what is written takes effect, and is confirmed when the standby is back.
    StandbyAway,
}

impl StoreFault {
    /// All faults.
    pub const ALL: [Self; 5] = [
        Self::FewConnections,
        Self::ReadOnly,
        Self::Full,
        Self::Busy,
        Self::StandbyAway,
    ];

    /// The text under which the fault is counted.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::FewConnections => "periods with few connections",
            Self::ReadOnly => "read-only periods",
            Self::Full => "periods without space",
            Self::Busy => "periods locked by another client",
            Self::StandbyAway => "periods without a standby",
        }
    }
}
