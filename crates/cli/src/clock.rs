//! The clock that `run` and its watchdog share.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use shedlock::{Clock, LeaseClock, Moment, Reading, SystemClock};

/// Now, on the clock that measures leases from the inside.
pub(crate) fn now() -> Reading {
    LeaseClock::system().read()
}

/// A time of all clocks of this host, as another process on it understands it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    slewed: Duration,
    steady: Duration,
    wall: SystemTime,
}

impl Stamp {
    /// Smaller differences are not a jump of the wall clock.
    const JUMP: Duration = Duration::from_millis(100);

    /// Now. The wall clock is read last, and first in [`age`](Self::age): a process that is stopped in between sees no
    /// jump.
    pub(crate) fn now() -> Self {
        let [slewed, steady] = shared();
        Self {
            slewed,
            steady,
            wall: SystemClock.system_time(),
        }
    }

    /// How much time may have passed since then, with a jump of the wall clock.
    pub(crate) fn age(&self) -> Duration {
        let wall = SystemClock.system_time();
        let [slewed, steady] = shared();
        self.age_at(slewed, steady, wall)
    }

    fn age_at(&self, slewed: Duration, steady: Duration, wall: SystemTime) -> Duration {
        let now = Moment::of_two_clocks(slewed, steady);
        let then = Moment::of_two_clocks(self.slewed, self.steady);
        let by_wall = wall.duration_since(self.wall).unwrap_or_default();
        let jumped = by_wall.saturating_sub(now.saturating_since(then));
        let jumped = Some(jumped).filter(|jumped| *jumped > Self::JUMP);
        now.at_most_since(then)
            .saturating_add(jumped.unwrap_or_default())
    }
}

/// Clocks that have the same origin in every process: one that is slewed and one that is not.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn shared() -> [Duration; 2] {
    let now = SystemClock.now();
    [now.since_origin(), now.steady()]
}

/// The clock of the runtime has an origin of its own if the system has none that also counts sleep.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn shared() -> [Duration; 2] {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
    [Duration::new(seconds, nanos); 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_another_process_is_as_old_as_any_clock_shows() {
        const SECOND: Duration = Duration::from_secs(1);
        let then = Stamp {
            slewed: 100 * SECOND,
            steady: 50 * SECOND,
            wall: SystemTime::UNIX_EPOCH + 1_000 * SECOND,
        };
        let age = |slewed, steady, wall| {
            let wall = SystemTime::UNIX_EPOCH + wall * SECOND;
            then.age_at(slewed * SECOND, steady * SECOND, wall)
        };
        assert_eq!(age(102, 52, 1_002), 2 * SECOND);
        assert_eq!(age(102, 53, 1_002), 3 * SECOND);
        assert_eq!(age(102, 52, 1_042), 42 * SECOND);
        assert_eq!(age(102, 52, 10), 2 * SECOND);
        assert!(Stamp::now().age() < 60 * SECOND);
    }
}
