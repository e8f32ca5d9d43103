//! What a provider can and cannot do.

use std::time::Duration;

/// What a provider declares of itself. The conformance kit checks that it is exactly what it does.
///
/// Made with [`new`](Self::new) and the setters, since more may be declared in later versions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct Capabilities {
    /// Which clock judges leases.
    pub clock: ClockSource,
    /// How far apart the clocks may be of servers that judge leases of this store, one after another
    /// (failover) or side by side (several writers). A server that is ahead of the one that granted a
    /// lease ends it that much earlier, so the runtime stops counting on a lease that much before its
    /// end. Zero unless the provider is configured otherwise: one server judges, or the clocks agree.
    pub server_skew: Duration,
    /// Which clock a slot must not lie too far ahead of (law 9): the one that judges leases, but for
    /// stores that end leases and tell nobody the time.
    pub slot_clock: ClockSource,
    /// Whether acquisitions carry a fencing token (law 8). Without it leases have none.
    pub fencing: bool,
    /// Whether slots can be claimed (law 9). Without it an attempt with a slot is an error.
    pub slots: bool,
    /// Whether slots can be kept open until they are done, and be set by an operator (law 9). Without
    /// it an attempt with [`Completion::OnSuccess`](crate::Completion::OnSuccess) is an error.
    pub completion: bool,
    /// Whether a lease can be extended.
    pub extend: bool,
    /// Whether a skip says who holds the lock.
    pub names_holder: bool,
    /// Whether all locks can be listed.
    pub list: bool,
    /// How much later than asked the lock may come free: the store's resolution in time.
    pub granularity: Duration,
    /// The longest at-most that the store can express.
    pub longest_lock_at_most_for: Duration,
    /// After this long each call of the provider has returned, also where a server accepts its
    /// connection and never answers, and where many calls wait for one connection. The provider's
    /// own time limits ensure it, whether the runtime makes the call or not.
    pub longest_call: Duration,
    /// The longest name in bytes that is certainly accepted.
    pub longest_name: usize,
    /// Whether leases outlive a restart of the store.
    pub durable: bool,
    /// What another server knows that takes over from a failed one.
    pub failover: Failover,
}

/// The clock that judges leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClockSource {
    /// The store's own: clients may be wrong by any amount.
    Store,
    /// Each client's: exclusion holds as long as the clients differ by less than this.
    Clients {
        /// The difference that is tolerated.
        tolerated_skew: Duration,
    },
}

/// What a server that takes over from a failed one knows of the leases that were granted. Where it does
/// not know one, somebody else can be granted the same lock, or the same slot, while its holder runs: what
/// must not happen twice then needs a [guard](crate::LockRecord::fencing_token) behind the fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failover {
    /// The store's own settings decide, and the provider does not look at them.
    Unspecified,
    /// No other server takes over.
    Never,
    /// Replication is asynchronous: the last leases may be unknown.
    MayForget,
    /// So many other servers had confirmed a lease before it was granted. It is unknown only if none of
    /// them takes over.
    Confirmed {
        /// How many.
        servers: u32,
    },
    /// A majority had confirmed it, and only one that knows all that a majority knows takes over: none is
    /// unknown.
    Majority,
}

impl Capabilities {
    /// All of the contract, with this clock, exact to the nanosecond and without limits, but for calls,
    /// which have returned after 10 s, as long as the runtime waits; a provider takes away what it lacks.
    pub fn new(clock: ClockSource) -> Self {
        Self {
            clock,
            server_skew: Duration::ZERO,
            slot_clock: clock,
            fencing: true,
            slots: true,
            completion: true,
            extend: true,
            names_holder: true,
            list: true,
            granularity: Duration::ZERO,
            longest_lock_at_most_for: Duration::MAX,
            longest_call: Duration::from_secs(10),
            longest_name: usize::MAX,
            durable: true,
            failover: Failover::Unspecified,
        }
    }
}
