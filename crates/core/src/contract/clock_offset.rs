//! By how much the clock of this host differs from the store's.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::clock::Clock;
use crate::contract::{Error, LockProvider};

/// The clock of this host and that of the store, read at the same time.
///
/// Formats itself as the reason of a message: which clock shows what, and by how much they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockOffset {
    /// The time of this host.
    pub here: SystemTime,
    /// The time of the store.
    pub store: SystemTime,
    /// By how much the difference may be wrong: the store can have read its clock at any time between
    /// request and reply.
    pub exactness: Duration,
}

/// The resolution of the coarsest clock that a store reports.
const GRANULARITY: Duration = Duration::from_millis(1);

impl ClockOffset {
    /// Hosts that use NTP differ by milliseconds.
    const OFF: Duration = Duration::from_secs(1);

    /// Creates the offset from the time of this host when a request was sent, the store's time in the
    /// reply, and the time that the reply took.
    pub fn new(sent: SystemTime, store: SystemTime, round_trip: Duration) -> Self {
        Self {
            here: sent.checked_add(round_trip / 2).unwrap_or(sent),
            store,
            exactness: round_trip / 2 + GRANULARITY,
        }
    }

    /// Reads both clocks. `None` if the store does not report its time.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn measure(
        provider: &dyn LockProvider,
        clock: &dyn Clock,
    ) -> Result<Option<Self>, Error> {
        let (asked, sent) = (clock.now(), clock.system_time());
        let store = provider.store_time().await?;
        let round_trip = clock.now().saturating_since(asked);
        Ok(store.map(|store| Self::new(sent, store, round_trip)))
    }

    /// Returns by how much the clocks differ.
    pub fn by(&self) -> Duration {
        let ahead = self.here.duration_since(self.store);
        ahead.unwrap_or_else(|behind| behind.duration())
    }

    /// Returns true if the clock of this host is ahead of the store's.
    pub fn is_ahead(&self) -> bool {
        self.here > self.store
    }

    /// Returns true if the clocks differ by more than a second: one of them is wrong.
    pub fn is_off(&self) -> bool {
        self.by() > Self::OFF.saturating_add(self.exactness)
    }
}

impl fmt::Display for ClockOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let here = shedlock_support::text::second(self.here);
        let store = shedlock_support::text::second(self.store);
        if !self.is_off() {
            return write!(
                f,
                "this host's clock ({here}) agrees with the store's ({store})"
            );
        }
        let seconds = self
            .by()
            .saturating_add(Duration::from_millis(500))
            .as_secs();
        let by = shedlock_support::text::duration(Duration::from_secs(seconds));
        let side = if self.is_ahead() {
            "ahead of"
        } else {
            "behind"
        };
        write!(
            f,
            "this host's clock ({here}) is {by} {side} the store's ({store})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_says_whose_clock_is_off_and_by_how_much() {
        let store = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let millis = Duration::from_millis;
        let said = |sent, round_trip| ClockOffset::new(sent, store, round_trip).to_string();
        assert_eq!(
            said(store + millis(179_600), millis(10)),
            "this host's clock (2027-01-15T08:02:59Z) is 3m ahead of the store's \
             (2027-01-15T08:00:00Z)"
        );
        assert_eq!(
            said(store - millis(65_000), millis(10)),
            "this host's clock (2027-01-15T07:58:55Z) is 1m 5s behind the store's \
             (2027-01-15T08:00:00Z)"
        );
        // A slow reply proves nothing.
        for (sent, round_trip) in [
            (store + millis(1_000), millis(10)),
            (store - millis(4_000), millis(8_000)),
            (store + millis(900), millis(4_000)),
        ] {
            let said = said(sent, round_trip);
            assert!(said.contains("agrees with"), "{said}");
        }
    }
}
