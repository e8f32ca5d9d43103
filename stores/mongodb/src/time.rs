//! Whose clock judges, and instants and durations as documents keep them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mongodb::bson::DateTime;
use shedlock_core::{ClockSource, Error, ErrorKind};

/// Whose clock rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeMode {
    /// The server's: clients may be wrong by any amount.
    #[default]
    Store,
    /// Each client's own, as ShedLock has it. Among clients of ours exclusion holds as long as their
    /// clocks differ by less than the tolerated skew, which is the user's to ensure; it is declared in
    /// the provider's capabilities, and the runtime stops counting on a lease that much before its end.
    ///
    /// Beside ShedLock for Java no difference is tolerated: ShedLock counts on its lease until its very
    /// end, and a client of ours that is ahead takes the lock earlier, by as much as the clocks differ.
    /// ShedLock takes over no lease of ours earlier than the tolerated skew allows for. At-least is kept,
    /// and an unlocked lock free at once, only as far as the clocks agree.
    Client {
        /// The difference between clocks that is declared as tolerated.
        tolerated_skew: Duration,
    },
}

impl TimeMode {
    /// The clients' clocks, with a declared skew of one second.
    pub const fn client() -> Self {
        Self::Client {
            tolerated_skew: Duration::from_secs(1),
        }
    }

    pub(crate) fn source(self) -> ClockSource {
        match self {
            Self::Store => ClockSource::Store,
            Self::Client { tolerated_skew } => ClockSource::Clients { tolerated_skew },
        }
    }
}

/// A hundred years, which dates in milliseconds and slots in microseconds can show.
pub(crate) const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

/// What now is cut to, and every instant of a document with it.
pub(crate) const RESOLUTION: Duration = Duration::from_millis(1);

/// How many whole milliseconds behind a now that is cut to milliseconds this duration is over:
/// never too early. None for no duration at all.
///
/// # Errors
/// `InvalidInput` for what is longer than [`LONGEST`].
pub(crate) fn millis(duration: Duration, what: &str) -> Result<i64, Error> {
    if duration > LONGEST {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!("{what} is longer than a hundred years"),
        ));
    }
    if duration.is_zero() {
        return Ok(0);
    }
    let whole = duration.as_nanos().div_ceil(1_000_000) + RESOLUTION.as_millis();
    Ok(i64::try_from(whole).unwrap_or(i64::MAX))
}

/// A date of a document. What no calendar here shows is 1970.
pub(crate) fn instant(date: DateTime) -> SystemTime {
    let millis = date.timestamp_millis();
    let distance = Duration::from_millis(millis.unsigned_abs());
    let instant = if millis >= 0 {
        UNIX_EPOCH.checked_add(distance)
    } else {
        UNIX_EPOCH.checked_sub(distance)
    };
    instant.unwrap_or(UNIX_EPOCH)
}

/// An instant as a document keeps it, cut to milliseconds.
pub(crate) fn date(instant: SystemTime) -> DateTime {
    let since = instant.duration_since(UNIX_EPOCH).unwrap_or_default();
    DateTime::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_over_never_too_early() {
        assert_eq!(millis(Duration::ZERO, "x").unwrap(), 0);
        assert_eq!(millis(Duration::from_nanos(1), "x").unwrap(), 2);
        assert_eq!(millis(Duration::from_secs(3), "x").unwrap(), 3_001);
        assert!(millis(LONGEST + Duration::from_nanos(1), "x").is_err());
    }

    #[test]
    fn dates_are_cut_and_the_strangest_do_no_harm() {
        let at = UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_999_999);
        assert_eq!(date(at).timestamp_millis(), 1_700_000_000_123);
        assert_eq!(
            instant(date(at)),
            UNIX_EPOCH + Duration::from_millis(1_700_000_000_123)
        );
        assert!(instant(DateTime::from_millis(-1)) < UNIX_EPOCH);
        let _ = (instant(DateTime::MIN), instant(DateTime::MAX));
    }
}
