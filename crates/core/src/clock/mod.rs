//! Time and randomness, as parts that tests replace.
//!
//! Nothing else in this crate reads the machine's time. A lint enforces this.

mod lease;
mod manual;
mod system;

use std::fmt;
use std::ops::Add;
use std::time::{Duration, SystemTime};

pub(crate) use lease::LeaseClock;
pub use manual::ManualClock;
pub use system::SystemClock;

use crate::BoxFuture;

/// A point on a clock that never goes back and keeps running while the machine is suspended.
///
/// Only differences are meaningful, and only between moments of one clock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// Returns the moment this long after the clock's origin.
    pub const fn from_origin(since: Duration) -> Self {
        Self(since)
    }

    /// Returns the time since the clock's origin.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    pub fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Moment({:?})", self.0)
    }
}

/// The source of time for the runtime.
///
/// [`SystemClock`] is the real one. [`ManualClock`] stands still until a test moves it.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Returns the current moment, on the clock that measures leases from the inside.
    fn now(&self) -> Moment;

    /// Returns the current calendar time. It serves for display, and for stores that have no clock.
    /// It never lengthens our own lease.
    fn system_time(&self) -> SystemTime;

    /// Completes when [`now`](Self::now) has reached `moment`. Cancellation safe.
    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()>;

    /// Returns 64 random bits: for owners, and for pauses that must differ from those of other
    /// processes.
    ///
    /// The default takes them from the operating system. Keep it: two equal owners would break
    /// exclusion. Only a simulation that must be replayable draws them from its seed.
    fn random(&self) -> u64 {
        random_u64()
    }
}

/// Returns 64 random bits from the operating system.
#[expect(clippy::disallowed_methods, reason = "this is where chance comes from")]
pub(crate) fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    // The system's source fails only if it does not exist at all. Weaker randomness is no fallback:
    // two equal owners would break exclusion.
    getrandom::fill(&mut bytes).expect("random numbers from the operating system");
    u64::from_ne_bytes(bytes)
}
