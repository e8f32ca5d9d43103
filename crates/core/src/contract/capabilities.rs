//! What a provider can and cannot do.

use std::time::Duration;

/// The capabilities that a provider declares. The conformance kit checks that they match its
/// behaviour exactly.
///
/// Create it with [`new`](Self::new) and the setters, since later versions may add capabilities.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct Capabilities {
    /// The clock that judges leases.
    pub clock: ClockSource,
    /// The maximum clock skew between servers that judge leases of this store, either one after
    /// another (failover) or at the same time (several writers). A server that is ahead of the one
    /// that granted a lease ends the lease that much earlier, so the runtime stops relying on a
    /// lease that much before its end. Zero unless the provider is configured otherwise: one server
    /// judges, or the clocks agree.
    pub server_skew: Duration,
    /// The clock that a slot must not be too far ahead of (law 9). It is the clock that judges
    /// leases, except for stores that expire leases but do not report their time.
    pub slot_clock: ClockSource,
    /// Whether acquisitions carry a fencing token (law 8). If not, leases have none.
    pub fencing: bool,
    /// Whether slots can be claimed (law 9). If not, an attempt with a slot is an error.
    pub slots: bool,
    /// Whether slots can be kept open until they are done, and be set by an operator (law 9). If
    /// not, an attempt with [`Completion::OnSuccess`](crate::Completion::OnSuccess) is an error.
    pub completion: bool,
    /// Whether ShedLock's providers for this store remember the names of records that exist, so that a
    /// running JVM never creates a record again that was removed.
    pub remembered_by_shedlock: bool,
    /// Whether ShedLock's providers for this store remove the record of a lock when they unlock it, so
    /// that a job that only Java runs cannot be seen while it is idle.
    pub removed_by_shedlock: bool,
    /// How much later than requested the lock may become free: the time resolution of the store.
    pub granularity: Duration,
    /// The longest `lock_at_most_for` that the store can express.
    pub longest_lock_at_most_for: Duration,
    /// The maximum time after which each call of the provider has returned, even if a server
    /// accepts the connection but never replies, or if many calls wait for one connection. The
    /// provider's own time limits ensure this, whether or not the runtime makes the call.
    pub longest_call: Duration,
    /// The most requests that one copy of an attempt sends to the store, whatever state the record is
    /// in and however many others want the lock: statements, scripts, transactions. What a client
    /// library repeats by itself, such as a redirect within a cluster, is not included.
    pub most_requests: u32,
    /// The length in bytes up to which every name is accepted.
    pub longest_name: usize,
    /// Whether leases survive a restart of the store.
    pub durable: bool,
    /// Which leases a server has when it takes over from a failed one.
    pub failover: Failover,
    /// Whether leases are extended although the tasks of the provider's runtime block all of its
    /// threads: whether [`for_duties`](crate::LockProvider::for_duties) returns something.
    pub duties: bool,
    /// Whether the client library may send an attempt again by itself after a lost reply. Then a
    /// copy of each attempt may still be in transit, whatever the provider returned, and the
    /// runtime withdraws each attempt once more when no copy can arrive any more: one call more per
    /// attempt.
    pub repeats_attempts: bool,
}

/// The clock that judges leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClockSource {
    /// The store's own clock. Clients' clocks may be wrong by any amount.
    Store,
    /// Each client's clock. Exclusion holds as long as the clients differ by less than the
    /// tolerated skew.
    Clients {
        /// The clock skew that is tolerated.
        tolerated_skew: Duration,
    },
}

impl ClockSource {
    /// Returns by how much the clocks that judge may differ: zero for the store's own.
    pub fn tolerated_skew(self) -> Duration {
        match self {
            Self::Store => Duration::ZERO,
            Self::Clients { tolerated_skew } => tolerated_skew,
        }
    }
}

/// Which of the granted leases a server has when it takes over from a failed one. If it does not
/// have a lease, another owner can be granted the same lock, or the same slot, while its holder
/// runs. Work that must not happen twice then needs a [guard](crate::LockRecord::fencing_token)
/// that checks the fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failover {
    /// The store's own settings decide, and the provider does not check them.
    Unspecified,
    /// No other server takes over.
    Never,
    /// Replication is asynchronous: the most recent leases may be missing.
    MayForget,
    /// This many other servers had confirmed a lease before it was granted. It is missing only if
    /// none of them takes over.
    Confirmed {
        /// The number of servers.
        servers: u32,
    },
    /// A majority had confirmed the lease, and only a server that has everything a majority has can
    /// take over. No lease is missing.
    Majority,
}

impl Capabilities {
    /// Declares the whole contract, with this clock, nanosecond granularity and no limits. The one
    /// exception: calls return within 10 s, which is as long as the runtime waits. A provider
    /// removes what it does not support, and adds [`duties`](Self::duties) if it has them.
    pub fn new(clock: ClockSource) -> Self {
        Self {
            clock,
            server_skew: Duration::ZERO,
            slot_clock: clock,
            fencing: true,
            slots: true,
            completion: true,
            remembered_by_shedlock: false,
            removed_by_shedlock: false,
            granularity: Duration::ZERO,
            longest_lock_at_most_for: Duration::MAX,
            longest_call: Duration::from_secs(10),
            most_requests: 32,
            longest_name: usize::MAX,
            durable: true,
            failover: Failover::Unspecified,
            duties: false,
            repeats_attempts: false,
        }
    }
}
