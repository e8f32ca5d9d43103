//! The current time with its uncertainty, and the milliseconds that records use.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::errors::{Result, invalid};

/// One reading of the clock that leases are judged by, with its uncertainty.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// A lease that ends at or before this instant has certainly expired.
    pub(crate) sure: SystemTime,
    pub(crate) told: SystemTime,
    /// The latest instant that it can be by the judging clock.
    pub(crate) latest: SystemTime,
    /// The best guess between the two, for fencing tokens. Tokens must differ within one tick of a
    /// coarse clock, even if the record with the last token was deleted.
    pub(crate) guess: SystemTime,
}

impl Now {
    /// Creates a reading of a client's clock, from which other clocks may differ by `skew`.
    pub(crate) fn of_client(told: SystemTime, skew: Duration) -> Self {
        Self {
            sure: told.checked_sub(skew).unwrap_or(UNIX_EPOCH),
            told,
            latest: told,
            guess: told,
        }
    }

    /// Creates a reading of the store's clock, which truncates its time to `resolution`. The
    /// client's own clock is used only for the guess within that resolution.
    pub(crate) fn of_store(
        told: SystemTime,
        resolution: Duration,
        client: SystemTime,
    ) -> Result<Self> {
        let latest = after(told, resolution)?;
        Ok(Self {
            sure: told,
            told,
            latest,
            guess: client.clamp(told, latest),
        })
    }

    /// Returns the end of a duration that starts now: never too early.
    pub(crate) fn end_of(self, duration: Duration) -> Result<SystemTime> {
        after(self.latest, duration).and_then(ceil)
    }

    /// Returns the end of a duration that starts at an earlier reading of this clock: never too
    /// early.
    pub(crate) fn end_from(self, start: SystemTime, duration: Duration) -> Result<SystemTime> {
        let uncertain = self.latest.duration_since(self.told).unwrap_or_default();
        after(start, duration.saturating_add(uncertain)).and_then(ceil)
    }

    /// Returns this instant as records store it: never ahead of the clock.
    pub(crate) fn stamp(self) -> SystemTime {
        whole_millis(self.told)
    }

    /// Returns an end that counts as past, whichever clock judges it.
    pub(crate) fn past(self) -> SystemTime {
        whole_millis(self.sure)
    }

    /// Returns the latest instant that it can be by the clock of any client.
    pub(crate) fn by_any_clock(self) -> SystemTime {
        let skew = self.told.duration_since(self.sure).unwrap_or_default();
        self.latest.checked_add(skew).unwrap_or(self.latest)
    }

    pub(crate) fn micros(self) -> u64 {
        let since = self.guess.duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }
}

pub(crate) fn after(instant: SystemTime, duration: Duration) -> Result<SystemTime> {
    instant
        .checked_add(duration)
        .ok_or_else(|| invalid("the duration exceeds the calendar").advise("shorten it"))
}

/// Returns whole milliseconds since 1970. Earlier instants become 1970.
pub(crate) fn millis(instant: SystemTime) -> u64 {
    let since = instant.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Truncates an instant to whole milliseconds, as records store it.
pub fn whole_millis(instant: SystemTime) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis(instant))
}

/// Rounds an instant up to whole milliseconds, as records store ends.
fn ceil(instant: SystemTime) -> Result<SystemTime> {
    let whole = whole_millis(instant);
    if whole >= instant {
        return Ok(whole);
    }
    after(whole, Duration::from_millis(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_never_too_early_and_stamps_never_ahead() {
        let told = UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789);
        let now = Now::of_client(told, Duration::from_secs(1));
        assert_eq!(millis(now.stamp()), 1_700_000_000_123);
        let end = now.end_of(Duration::from_nanos(1)).unwrap();
        assert_eq!(millis(end), 1_700_000_000_124);
        assert_eq!(now.sure, told - Duration::from_secs(1));
    }

    #[test]
    fn a_coarse_store_is_given_the_benefit_of_the_doubt_on_both_sides() {
        let told = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let second = Duration::from_secs(1);
        let now = Now::of_store(told, second, UNIX_EPOCH).unwrap();
        assert_eq!(now.micros(), 1_700_000_000_000_000);
        let end = now.end_of(10 * second).unwrap();
        assert_eq!(end, told + 11 * second);
        assert!(
            end > now.sure + 10 * second,
            "a taker waits for the end of the second"
        );
        assert_eq!(
            now.end_from(now.stamp(), second).unwrap(),
            told + 2 * second
        );
    }

    #[test]
    fn what_no_calendar_shows_is_refused() {
        let now = Now::of_client(UNIX_EPOCH, Duration::ZERO);
        assert!(now.end_of(Duration::MAX).is_err());
    }
}
