//! Cron: converts local times to instants, across changes of the clock.

mod refusal;

use std::fmt;
use std::time::Duration;

use shedlock_core::{Error, ErrorKind};

use refusal::read;

use super::fields::Fields;
use super::zone::{Stretch, Zone};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cron {
    expression: Box<str>,
    fields: Fields,
    /// Vixie's wildcard jobs: they follow the clock, whereas other jobs follow times of day.
    runs_through: bool,
    zone: Zone,
}

const MICROS: i64 = 1_000_000;

impl Cron {
    pub(super) fn parse(expression: &str, zone: &str) -> Result<Self, Error> {
        Self::parse_in(expression, Zone::get(zone)?)
    }

    fn parse_in(expression: &str, zone: Zone) -> Result<Self, Error> {
        let refused = |message| Error::new(ErrorKind::InvalidInput, message);
        let parsed = read(expression).map_err(refused)?;
        let fields = Fields::of(&parsed);
        if !fields.ever_fit() {
            let message =
                format!("the cron expression {expression:?} never fires: no date matches");
            return Err(refused(message));
        }
        Ok(Self {
            expression: expression.into(),
            fields,
            runs_through: runs_through(parsed.pattern.as_str()),
            zone,
        })
    }

    pub(super) fn expression(&self) -> &str {
        &self.expression
    }

    /// The expression in words, like `At 03:00.`
    pub(super) fn in_words(&self) -> Option<String> {
        Some(read(&self.expression).ok()?.describe())
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
            let local = self.fields.first_from(from)?;
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
            let local = self.fields.last_until(until)?;
            if local >= self.begin(&stretch) {
                return instant(&stretch, local);
            }
            stretch = self.zone.stretch(stretch.start.checked_sub(1)?)?;
            until = stretch.end + stretch.offset - 1;
        }
    }

    /// Returns the shortest time between two slots, if the fields determine it.
    pub(super) fn shortest_gap(&self) -> Option<Duration> {
        self.fields.shortest_gap().map(Duration::from_secs)
    }

    /// Returns true if a day may match either of the day fields, which Spring and Quartz do not
    /// support.
    pub(super) fn takes_either_day(&self) -> bool {
        self.fields.takes_either_day()
    }

    /// Returns the first local time that can fire in this stretch.
    ///
    /// A job that runs through fires at the times that the clock shows. A job at times of day fires
    /// when the clock first reaches them. Times that the jump at the start of the stretch skipped
    /// fire at that jump. Times that had been reached before do not fire again.
    fn begin(&self, stretch: &Stretch) -> i64 {
        if self.runs_through {
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

/// Returns true if the field of seconds, minutes or hours begins with `*`.
fn runs_through(expression: &str) -> bool {
    let fields: Vec<&str> = expression.split_whitespace().collect();
    let times = fields.len().saturating_sub(3);
    fields
        .iter()
        .take(times)
        .any(|field| field.starts_with('*'))
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cron {:?} in {}", self.expression, self.zone.name())
    }
}

#[cfg(test)]
mod tests;
