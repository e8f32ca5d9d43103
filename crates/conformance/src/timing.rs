//! How long leases and waits are.

use std::time::Duration;

use shedlock_core::Capabilities;

/// Durations for cases, scaled by the store's granularity.
///
/// Real waits are short. A lease that must *not* end during a case is long, so that a loaded
/// machine does not affect the verdict.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    granularity: Duration,
}

impl Timing {
    pub(crate) fn new(capabilities: &Capabilities) -> Self {
        Self {
            granularity: capabilities.granularity,
        }
    }

    /// A lease whose end the case waits for.
    pub fn short(&self) -> Duration {
        self.at_least(Duration::from_millis(300), 1)
    }

    /// A lease that must outlive a few calls, and whose end the case then waits for.
    pub fn medium(&self) -> Duration {
        self.at_least(Duration::from_millis(1_500), 3)
    }

    /// A lease that outlives the case.
    pub fn long(&self) -> Duration {
        Duration::from_secs(300)
    }

    /// How long to wait until a lease of `duration` has certainly expired.
    pub fn past(&self, duration: Duration) -> Duration {
        duration + self.granularity + Duration::from_millis(50)
    }

    /// How much later than promised a lock may become free before a case fails: the declared
    /// granularity plus the delay that a loaded machine may add between two polls.
    pub fn lateness(&self) -> Duration {
        self.granularity + Duration::from_secs(5)
    }

    /// The pause between two polls.
    pub(crate) fn step(&self) -> Duration {
        Duration::from_millis(20).max(self.granularity / 10)
    }

    /// Whole multiples of a coarse granularity, which a store with that granularity can express.
    fn at_least(&self, wanted: Duration, ticks: u32) -> Duration {
        wanted.max(2 * ticks * self.granularity)
    }
}
