//! Time and chance as parts that tests replace.
//!
//! Nothing else in this crate asks the machine for the time; a lint sees to it.

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

/// A point on a clock that never goes back and goes on while the machine is suspended.
///
/// Only differences mean anything, and only between moments of one clock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// The moment this long after the clock's own beginning.
    pub const fn from_origin(since: Duration) -> Self {
        Self(since)
    }

    /// How long after the clock's own beginning.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// How long after `earlier`; zero if it is not.
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

/// Where the runtime takes its time from.
///
/// [`SystemClock`] is the real one; [`ManualClock`] stands still until a test moves it.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Now, on the clock that measures leases from the inside.
    fn now(&self) -> Moment;

    /// Now, on the calendar. Used for what people read, and by stores that have no clock of their
    /// own. It never lengthens our own lease.
    fn system_time(&self) -> SystemTime;

    /// Ends when [`now`](Self::now) has reached `moment`. Cancellation safe.
    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()>;

    /// 64 random bits: for owners, and for pauses that shall differ from those of other processes.
    ///
    /// From the operating system, and so it has to stay: two owners alike would break exclusion. Only
    /// a simulation that is to be replayed draws them from its seed.
    fn random(&self) -> u64 {
        random_u64()
    }
}

/// 64 random bits from the operating system.
#[expect(clippy::disallowed_methods, reason = "this is where chance comes from")]
pub(crate) fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    // The system's source fails only where it does not exist at all; two owners alike would break
    // exclusion, so going on with less chance is no choice.
    getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
    u64::from_ne_bytes(bytes)
}
