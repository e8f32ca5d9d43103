//! A point in time, as a clock shows it.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// A point on a clock that never goes back and keeps running while the machine is suspended.
///
/// Only differences are meaningful, and only between moments of one clock.
///
/// Time synchronization changes the rate of a clock to correct it: the clock is slewed. So a moment
/// has two parts, one from a clock that is slewed and one from a clock that is not. They elapse
/// differently, and which of them is right is not known. What must be over in time takes the longer
/// one ([`Deadline`](crate::Deadline)), and what must not be early takes the shorter one
/// ([`NotBefore`](crate::NotBefore)). Everything else, such as the pause before a retry, takes the
/// first part: [`saturating_since`](Self::saturating_since), comparisons and
/// [`since_origin`](Self::since_origin).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment {
    slewed: Duration,
    steady: Duration,
}

impl Moment {
    /// Returns the moment this long after the origin of a clock that has only one part.
    pub const fn from_origin(since: Duration) -> Self {
        Self::of_two_clocks(since, since)
    }

    /// Returns the moment at which a clock that is slewed and one that is not (`steady`) show this
    /// much since their origins. Both keep running while the machine is suspended.
    pub const fn of_two_clocks(slewed: Duration, steady: Duration) -> Self {
        Self { slewed, steady }
    }

    /// Returns the time since the clock's origin.
    pub const fn since_origin(self) -> Duration {
        self.slewed
    }

    /// Returns the time since the origin of the clock that is not slewed.
    pub const fn steady(self) -> Duration {
        self.steady
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later. For time limits and
    /// measurements that no lease depends on.
    pub fn saturating_since(self, earlier: Self) -> Duration {
        self.slewed.saturating_sub(earlier.slewed)
    }

    /// Returns how much time has passed since `earlier` at least: the shorter of both parts.
    pub fn at_least_since(self, earlier: Self) -> Duration {
        let steady = self.steady.saturating_sub(earlier.steady);
        self.saturating_since(earlier).min(steady)
    }

    /// Returns how much time has passed since `earlier` at most: the longer of both parts. Time
    /// during which the clock stood still is not in it: see [`LeaseClock`](crate::LeaseClock).
    pub fn at_most_since(self, earlier: Self) -> Duration {
        let steady = self.steady.saturating_sub(earlier.steady);
        self.saturating_since(earlier).max(steady)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self {
            slewed: self.slewed.saturating_add(duration),
            steady: self.steady.saturating_add(duration),
        }
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Moment({:?}", self.slewed)?;
        if self.slewed != self.steady {
            write!(f, ", steady {:?}", self.steady)?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_clocks_bound_the_time_that_has_passed() {
        let moment = |slewed, steady| {
            Moment::of_two_clocks(Duration::from_secs(slewed), Duration::from_secs(steady))
        };
        let start = moment(1_000, 50);
        for now in [moment(1_008, 60), moment(1_010, 58)] {
            assert_eq!(now.at_least_since(start), Duration::from_secs(8));
            assert_eq!(now.at_most_since(start), Duration::from_secs(10));
        }
        assert_eq!(start.at_most_since(moment(1_001, 51)), Duration::ZERO);
    }
}
