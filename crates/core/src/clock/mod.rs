//! Time and randomness, as parts that tests replace.
//!
//! Nothing else in this crate reads the machine's time. A lint enforces this.

mod ends;
mod lease;
mod manual;
mod moment;
mod system;

use std::fmt;
use std::time::SystemTime;

pub use ends::{Deadline, NotBefore, Reading};
pub use lease::{LeaseClock, TOLERATED_PPM, parts_per_million};
pub use manual::ManualClock;
pub use moment::Moment;
pub use system::SystemClock;

use crate::BoxFuture;

/// The source of time for the runtime.
///
/// [`SystemClock`] is the real one. [`ManualClock`] stands still until a test moves it.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Returns the current moment. A clock that has only one part uses
    /// [`Moment::from_origin`].
    fn now(&self) -> Moment;

    /// Returns the current calendar time. It serves for display, and for stores that have no clock.
    /// It never lengthens our own lease.
    fn system_time(&self) -> SystemTime;

    /// Completes when [`now`](Self::now) has reached `moment`, by the clock that is slewed.
    /// Cancellation safe.
    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()>;

    /// Returns whether this is [`SystemClock`]. Only by that clock can leases be looked after by a
    /// thread of their own.
    #[doc(hidden)]
    fn is_system(&self) -> bool {
        false
    }

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
