//! The two uses of time: to stop in time, and to wait for long enough.

use std::time::Duration;

use super::{Clock, Moment};

/// The start of a lease, on the clock that bounds it from the inside. Read by
/// [`LeaseClock::read`](crate::LeaseClock::read).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    moment: Moment,
    /// In nanoseconds, and with the jumps of the wall clock.
    slewed: i128,
    steady: i128,
}

impl Reading {
    pub(super) fn new(moment: Moment, jumped: Duration) -> Self {
        let jumped = nanos(jumped);
        Self {
            moment,
            slewed: nanos(moment.since_origin()) + jumped,
            steady: nanos(moment.steady()) + jumped,
        }
    }

    /// Returns the moment of the reading, without jumps of the wall clock.
    pub fn moment(self) -> Moment {
        self.moment
    }

    /// Returns by how much the wall clock has jumped forward since an earlier reading.
    pub fn jumped_since(self, earlier: Self) -> Duration {
        let jumped = |it: Self| it.slewed - nanos(it.moment.since_origin());
        duration(jumped(self) - jumped(earlier))
    }

    /// Returns the end of what started at this reading and may last this long.
    pub fn deadline(self, after: Duration) -> Deadline {
        Deadline {
            slewed: self.slewed,
            steady: self.steady,
        }
        .later_by(after)
    }
}

/// The moment at which something must have stopped: the end of a lease for its holder.
///
/// It has passed as soon as any clock shows that it may have: the clock that is slewed, the clock
/// that is not, or the wall clock, if it has jumped forward since. So it may come too early, and
/// never too late.
///
/// A wait needs the opposite, a [`NotBefore`]. The two are different types, and nothing converts
/// one to the other:
///
/// ```
/// # async fn of(clock: std::sync::Arc<dyn shedlock_core::Clock>) {
/// use shedlock_core::{LeaseClock, NotBefore};
/// use std::time::Duration;
///
/// let lease = LeaseClock::new(clock.clone());
/// let ends = lease.read().deadline(Duration::from_secs(60));
/// lease.sleep_until(ends).await;
/// let bound = NotBefore::after(clock.now(), Duration::from_secs(10));
/// bound.wait(&*clock).await;
/// # }
/// ```
///
/// ```compile_fail,E0308
/// # async fn of(clock: std::sync::Arc<dyn shedlock_core::Clock>) {
/// use shedlock_core::{LeaseClock, NotBefore};
/// use std::time::Duration;
///
/// let lease = LeaseClock::new(clock.clone());
/// let bound = NotBefore::after(clock.now(), Duration::from_secs(10));
/// lease.sleep_until(bound).await; // A lease that ends too late.
/// # }
/// ```
///
/// ```compile_fail,E0308
/// # async fn of(clock: std::sync::Arc<dyn shedlock_core::Clock>) {
/// use shedlock_core::{LeaseClock, NotBefore};
/// use std::time::Duration;
///
/// let lease = LeaseClock::new(clock.clone());
/// let bound: NotBefore = lease.read().deadline(Duration::from_secs(10));
/// bound.wait(&*clock).await; // A wait that ends too early.
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    slewed: i128,
    steady: i128,
}

impl Deadline {
    /// Returns how much time is left at this reading, or zero if the deadline has passed.
    pub fn left(self, now: Reading) -> Duration {
        duration((self.slewed - now.slewed).min(self.steady - now.steady))
    }

    /// Returns whether the deadline may have passed at this reading.
    pub fn has_passed(self, now: Reading) -> bool {
        self.left(now).is_zero()
    }

    /// Returns the deadline that has passed when either of the two has.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            slewed: self.slewed.min(other.slewed),
            steady: self.steady.min(other.steady),
        }
    }

    /// Returns whether either clock shows this deadline before the other one.
    pub(crate) fn is_before(self, other: Self) -> bool {
        self.slewed < other.slewed || self.steady < other.steady
    }

    /// Returns the later one of the ends of two leases. If the clocks do not agree on which one
    /// that is, returns the other one.
    #[must_use]
    pub fn unless_earlier(self, other: Self) -> Self {
        if self.slewed <= other.slewed && self.steady <= other.steady {
            other
        } else {
            self
        }
    }

    /// Returns the deadline this much earlier.
    #[must_use]
    pub fn earlier_by(self, by: Duration) -> Self {
        Self {
            slewed: self.slewed - nanos(by),
            steady: self.steady - nanos(by),
        }
    }

    /// Returns the deadline this much later.
    #[must_use]
    pub fn later_by(self, by: Duration) -> Self {
        Self {
            slewed: self.slewed + nanos(by),
            steady: self.steady + nanos(by),
        }
    }
}

/// The moment before which something must not happen: a wait until the store has certainly passed
/// it.
///
/// It has come when both the clock that is slewed and the clock that is not show it. A jump of the
/// wall clock does not bring it closer, since it may be only a correction. So it may come too late,
/// and never too early.
///
/// The end of a lease needs the opposite, a [`Deadline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotBefore(Moment);

impl NotBefore {
    /// Returns the moment at which at least this much time has passed since `start`.
    pub fn after(start: Moment, duration: Duration) -> Self {
        Self(start + duration)
    }

    /// Returns how long to wait from `now`, or zero if the moment has come.
    pub fn left(self, now: Moment) -> Duration {
        self.0.at_most_since(now)
    }

    /// Returns whether the moment has certainly come.
    pub fn has_come(self, now: Moment) -> bool {
        self.left(now).is_zero()
    }

    /// Returns the moment this much later.
    #[must_use]
    pub fn later_by(self, by: Duration) -> Self {
        Self(self.0 + by)
    }

    /// Completes when the moment has certainly come. Cancellation safe.
    pub async fn wait(self, clock: &dyn Clock) {
        loop {
            let now = clock.now();
            let left = self.left(now);
            if left.is_zero() {
                return;
            }
            clock.sleep_until(now + left).await;
        }
    }
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX / 8)
}

fn duration(nanos: i128) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    let Ok(nanos) = u128::try_from(nanos) else {
        return Duration::ZERO;
    };
    let seconds = u64::try_from(nanos / SECOND).unwrap_or(u64::MAX);
    Duration::new(seconds, u32::try_from(nanos % SECOND).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(slewed: u32, steady: u32) -> Moment {
        Moment::of_two_clocks(SECOND * slewed, SECOND * steady)
    }

    fn reading(slewed: u32, steady: u32, jumped: u32) -> Reading {
        Reading::new(at(slewed, steady), SECOND * jumped)
    }

    #[test]
    fn a_deadline_has_passed_when_any_clock_shows_it() {
        let ends = reading(100, 50, 0).deadline(10 * SECOND);
        assert_eq!(ends.left(reading(104, 54, 0)), 6 * SECOND);
        // A clock that is slewed by 8 %, either way, and a jump of the wall clock.
        for passed in [(110, 59, 0), (109, 60, 0), (102, 52, 8)] {
            assert!(ends.has_passed(reading(passed.0, passed.1, passed.2)));
        }
        assert!(!ends.has_passed(reading(109, 59, 0)));
    }

    #[test]
    fn a_wait_is_over_only_when_all_clocks_show_it() {
        let bound = NotBefore::after(at(100, 50), 10 * SECOND);
        assert_eq!(bound.left(at(104, 54)), 6 * SECOND);
        for early in [(110, 59), (109, 60)] {
            assert_eq!(bound.left(at(early.0, early.1)), SECOND);
        }
        assert!(bound.has_come(at(110, 60)));
    }

    #[test]
    fn a_jump_before_the_start_does_not_count() {
        let ends = reading(100, 50, 40).deadline(10 * SECOND);
        assert_eq!(ends.left(reading(104, 54, 40)), 6 * SECOND);
        assert_eq!(ends.left(reading(104, 54, 43)), 3 * SECOND);
        let jumped = reading(104, 54, 43).jumped_since(reading(100, 50, 40));
        assert_eq!(jumped, 3 * SECOND);
    }

    #[test]
    fn the_later_one_of_two_ends_is_later_on_both_clocks() {
        let end = |slewed, steady| reading(slewed, steady, 0).deadline(SECOND);
        assert_eq!(end(2, 2).unless_earlier(end(3, 3)), end(3, 3));
        assert_eq!(end(3, 3).unless_earlier(end(2, 2)), end(3, 3));
        assert_eq!(end(3, 2).unless_earlier(end(2, 3)), end(3, 2));
    }

    #[test]
    fn the_longest_times_are_no_deadline() {
        let never = reading(1, 1, 0).deadline(Duration::MAX);
        let later = reading(1_000, 1_000, 1_000);
        assert!(never.later_by(Duration::MAX).left(later) > Duration::from_secs(1 << 40));
        assert!(never.earlier_by(SECOND).left(later) > Duration::from_secs(1 << 40));
    }
}
