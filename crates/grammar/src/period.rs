//! The limits of periods and delays.

use std::time::Duration;

use crate::duration;

/// The shortest period or delay.
pub const SHORTEST: Duration = Duration::from_millis(1);

/// The longest period or delay.
pub const HUNDRED_YEARS: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Checks the period of a job.
///
/// # Errors
/// Why it is refused.
pub fn check_every(period: Duration) -> Result<(), String> {
    let why = if period < SHORTEST {
        "the shortest period is 1ms"
    } else if period > HUNDRED_YEARS {
        "the longest period is 100 years"
    } else if period.subsec_nanos() % 1_000 != 0 {
        "periods must be whole microseconds"
    } else {
        return Ok(());
    };
    Err(format!(
        "cannot run every {}: {why}",
        duration::written(period)
    ))
}

/// Checks the delay between two runs of a job.
///
/// # Errors
/// Why it is refused.
pub fn check_fixed_delay(delay: Duration) -> Result<(), String> {
    let why = if delay.is_zero() {
        "the delay is zero: the job would run without a pause"
    } else if delay < SHORTEST {
        "the delay is shorter than 1ms: the job would use a whole core"
    } else if delay > HUNDRED_YEARS {
        "the delay is longer than 100 years: the job would never run again"
    } else {
        return Ok(());
    };
    Err(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_outside_the_limits_is_refused() {
        let above = HUNDRED_YEARS + SHORTEST;
        for (period, every, delay) in [
            (Duration::ZERO, "the shortest period", "without a pause"),
            (
                Duration::from_micros(999),
                "the shortest period",
                "a whole core",
            ),
            (above, "the longest period", "would never run again"),
            (Duration::MAX, "the longest period", "would never run again"),
        ] {
            assert!(check_every(period).unwrap_err().contains(every));
            assert!(check_fixed_delay(period).unwrap_err().contains(delay));
        }
        let odd = SHORTEST + Duration::from_nanos(1);
        let said = check_every(odd).unwrap_err();
        assert_eq!(
            said,
            "cannot run every 1ms 1ns: periods must be whole microseconds"
        );
        assert_eq!(check_fixed_delay(odd), Ok(()));
        for period in [SHORTEST, HUNDRED_YEARS] {
            assert_eq!(
                (check_every(period), check_fixed_delay(period)),
                (Ok(()), Ok(()))
            );
        }
    }
}
