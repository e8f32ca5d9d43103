use std::time::Duration;

use shedlock_core::{Clock as _, Finding, Moment, SystemClock, TOLERATED_PPM, parts_per_million};

/// Measures how fast the clock of this host is slewed.
#[derive(Debug)]
pub struct ClockRate(Moment);

impl ClockRate {
    /// Long enough to see the difference of two clocks that are read within microseconds.
    const SHORTEST: Duration = Duration::from_millis(500);

    /// Begins to measure.
    pub fn start() -> Self {
        Self(read())
    }

    /// What it means for leases, after half a second at least. `None` if the system has no clock that
    /// is not slewed.
    pub async fn finding(self) -> Option<Finding> {
        SystemClock.sleep_until(self.0 + Self::SHORTEST).await;
        let now = read();
        let is_measured = now.steady() != now.since_origin();
        is_measured.then(|| finding(parts_per_million(self.0, now)))
    }
}

/// Reads both clocks as closely as possible. A thread that is stopped between the two shows an error
/// that there is not.
fn read() -> Moment {
    let pairs = (0..20).map(|_| (SystemClock.now(), SystemClock.now()));
    let closest = pairs.min_by_key(|(first, second)| second.at_most_since(*first));
    closest.map_or_else(|| SystemClock.now(), |(first, _)| first)
}

fn finding(ppm: u128) -> Finding {
    const CHECK: &str = "clock-rate";
    if ppm <= TOLERATED_PPM {
        let message = format!("the clock of this host is slewed by less than {TOLERATED_PPM} ppm");
        return Finding::ok(CHECK, message);
    }
    Finding::warning(
        CHECK,
        format!(
            "the clock of this host is slewed by {ppm} ppm, and leases tolerate {TOLERATED_PPM}: they \
             end up to that much earlier for their holders here; if leases end by this clock, they can \
             end before their holders elsewhere stop"
        ),
        "wait until time synchronization has corrected the clock, or limit the rate at which it does \
         (chrony: `maxslewrate 500`)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use shedlock_core::Level;

    #[test]
    fn a_clock_that_is_slewed_too_fast_is_a_warning_with_the_rate() {
        assert_eq!(finding(500).level, Level::Ok);
        let found = finding(83_333);
        assert_eq!(found.level, Level::Warning);
        assert!(found.message.contains("slewed by 83333 ppm"), "{found:?}");
    }

    #[tokio::test]
    async fn the_clock_of_this_host_is_measured() {
        let found = ClockRate::start().finding().await;
        assert_eq!(found.is_some(), cfg!(target_os = "linux"), "{found:?}");
    }
}
