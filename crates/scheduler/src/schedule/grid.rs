//! Points that are whole periods apart.

use std::time::Duration;

use shedlock_core::{Error, ErrorKind};
use shedlock_grammar::period;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// Period and anchor, both in microseconds.
    period: i64,
    anchor: i64,
}

impl Grid {
    pub(super) fn new(period: Duration) -> Result<Self, Error> {
        let refused = |message| Error::new(ErrorKind::InvalidInput, message);
        period::check_every(period).map_err(refused)?;
        let micros = period.as_micros() as i64;
        Ok(Self {
            period: micros,
            anchor: 0,
        })
    }

    pub(super) fn anchor_at(&mut self, anchor: i64) {
        // Only the position between two points matters, and a small number cannot overflow later.
        self.anchor = anchor.rem_euclid(self.period);
    }

    pub(super) fn period(&self) -> Duration {
        Duration::from_micros(self.period.unsigned_abs())
    }

    pub(super) fn newest_at(&self, now: i64) -> Option<i64> {
        let since = now.checked_sub(self.anchor)?;
        now.checked_sub(since.rem_euclid(self.period))
    }

    pub(super) fn first_after(&self, now: i64) -> Option<i64> {
        self.newest_at(now)?.checked_add(self.period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn periods_that_slots_cannot_hold_are_refused() {
        let message = |period| Grid::new(period).unwrap_err().to_string();
        assert!(message(Duration::ZERO).contains("shortest"));
        assert!(message(Duration::from_micros(999)).contains("shortest"));
        assert!(message(Duration::MAX).contains("longest"));
        assert!(message(Duration::new(1, 1)).contains("microseconds"));
    }

    proptest! {
        #[test]
        fn now_lies_between_two_points(
            period in 1_000_i64..1_000_000_000_000,
            anchor in any::<i64>(),
            now in -1_000_000_000_000_000_i64..1_000_000_000_000_000_000,
        ) {
            let mut grid = Grid::new(Duration::from_micros(period.unsigned_abs())).unwrap();
            grid.anchor_at(anchor);
            let (newest, next) = (grid.newest_at(now).unwrap(), grid.first_after(now).unwrap());
            prop_assert!(newest <= now && now < next);
            prop_assert_eq!(next - newest, period);
            let from_anchor = i128::from(newest) - i128::from(anchor);
            prop_assert_eq!(from_anchor.rem_euclid(i128::from(period)), 0);
        }
    }
}
