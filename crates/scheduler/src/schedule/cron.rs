//! Cron: converts local times to instants, across changes of the clock.

use std::fmt;
use std::time::Duration;

use shedlock_core::{Error, ErrorKind};
use shedlock_grammar::cron::{self, Pattern};

use super::local_times::LocalTimes;
use super::zone::{Stretch, Zone};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cron {
    expression: Box<str>,
    times: LocalTimes,
    zone: Zone,
}

const MICROS: i64 = 1_000_000;

impl Cron {
    pub(super) fn parse(expression: &str, zone: &str) -> Result<Self, Error> {
        Self::parse_in(expression, Zone::get(zone)?)
    }

    fn parse_in(expression: &str, zone: Zone) -> Result<Self, Error> {
        let pattern = Pattern::parse(expression)
            .map_err(|message| Error::new(ErrorKind::InvalidInput, message))?;
        Ok(Self {
            expression: expression.into(),
            times: LocalTimes(pattern),
            zone,
        })
    }

    pub(super) fn expression(&self) -> &str {
        &self.expression
    }

    /// The expression in words, like `at 03:00`
    pub(super) fn in_words(&self) -> Option<String> {
        cron::in_words(&self.expression)
    }

    pub(super) fn zone(&self) -> &str {
        self.zone.name()
    }

    /// Returns the first slot after this instant. Both are in microseconds since 1970.
    pub(super) fn first_after(&self, now: i64) -> Option<i64> {
        let second = now.div_euclid(MICROS);
        let mut stretch = self.zone.stretch(second)?;
        let mut from = (second + 1 + stretch.offset).max(self.begin(&stretch));
        loop {
            let local = self.times.first_from(from)?;
            if local < stretch.end.saturating_add(stretch.offset) {
                return instant(&stretch, local);
            }
            stretch = self.zone.stretch(stretch.end)?;
            from = self.begin(&stretch);
        }
    }

    /// Returns the newest slot at or before this instant.
    pub(super) fn newest_at(&self, now: i64) -> Option<i64> {
        let second = now.div_euclid(MICROS);
        let mut stretch = self.zone.stretch(second)?;
        let mut until = second + stretch.offset;
        loop {
            let local = self.times.last_until(until)?;
            if local >= self.begin(&stretch) {
                return instant(&stretch, local);
            }
            stretch = self.zone.stretch(stretch.start.checked_sub(1)?)?;
            until = stretch.end + stretch.offset - 1;
        }
    }

    /// Returns the shortest time between two slots, if the fields determine it.
    pub(super) fn shortest_gap(&self) -> Option<Duration> {
        self.times.0.shortest_gap()
    }

    /// Returns true if a day may match either of the day fields, which Spring and Quartz do not
    /// support.
    pub(super) fn takes_either_day(&self) -> bool {
        self.times.0.takes_either_day()
    }

    /// Returns the first local time that can fire in this stretch.
    ///
    /// A job that runs through fires at the times that the clock shows. A job at times of day fires
    /// when the clock first reaches them. Times that the jump at the start of the stretch skipped
    /// fire at that jump. Times that had been reached before do not fire again.
    fn begin(&self, stretch: &Stretch) -> i64 {
        if self.times.0.runs_through() {
            stretch.start.saturating_add(stretch.offset)
        } else {
            stretch.reached
        }
    }
}

/// Returns when the local clock reaches this time. For skipped times this is the start of the
/// stretch.
fn instant(stretch: &Stretch, local: i64) -> Option<i64> {
    (local - stretch.offset)
        .max(stretch.start)
        .checked_mul(MICROS)
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cron {:?} in {}", self.expression, self.zone.name())
    }
}

#[cfg(test)]
mod tests;
