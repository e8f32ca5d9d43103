//! The local times that match a cron expression.

use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;
use jiff::{Span, ToSpan};
use shedlock_grammar::civil::Day;
use shedlock_grammar::cron::Pattern;

const DAY: i64 = 86_400;

/// No expression that ever fires has a longer gap: 29 February on a given weekday recurs after at
/// most 40 years.
const YEARS_SEARCHED: i16 = 60;

/// The local times that match this pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LocalTimes(pub(super) Pattern);

impl LocalTimes {
    /// Returns the first matching local time at or after this one. Local times are in seconds as if
    /// they were UTC. Returns `None` if there is none for decades.
    pub(super) fn first_from(&self, local: i64) -> Option<i64> {
        let (today, second) = split(local)?;
        let later_today = self.has_date(today).then(|| self.time_from(second));
        if let Some(time) = later_today.flatten() {
            return join(today, time);
        }
        let time = self.time_from(0)?;
        let until = today.year().saturating_add(YEARS_SEARCHED);
        let mut day = today.tomorrow().ok()?;
        while day.year() <= until {
            if !self.has_month(day) {
                day = moved(day.first_of_month(), 1.month())?;
            } else if self.has_day(day) {
                return join(day, time);
            } else {
                day = day.tomorrow().ok()?;
            }
        }
        None
    }

    /// Returns the last matching local time at or before this one.
    pub(super) fn last_until(&self, local: i64) -> Option<i64> {
        let (today, second) = split(local)?;
        let earlier_today = self.has_date(today).then(|| self.time_until(second));
        if let Some(time) = earlier_today.flatten() {
            return join(today, time);
        }
        let time = self.time_until(DAY - 1)?;
        let until = today.year().saturating_sub(YEARS_SEARCHED);
        let mut day = today.yesterday().ok()?;
        while day.year() >= until {
            if !self.has_month(day) {
                day = day.first_of_month().yesterday().ok()?;
            } else if self.has_day(day) {
                return join(day, time);
            } else {
                day = day.yesterday().ok()?;
            }
        }
        None
    }

    fn time_from(&self, second: i64) -> Option<i64> {
        let (hour, minute, second) = clock(second);
        if has(self.0.hours, hour) {
            let in_this = has(self.0.minutes, minute).then(|| at_or_above(self.0.seconds, second));
            if let Some(second) = in_this.flatten() {
                return Some(time(hour, minute, second));
            }
            if let Some(minute) = at_or_above(self.0.minutes, minute + 1) {
                return Some(time(hour, minute, at_or_above(self.0.seconds, 0)?));
            }
        }
        let hour = at_or_above(self.0.hours, hour + 1)?;
        let minute = at_or_above(self.0.minutes, 0)?;
        Some(time(hour, minute, at_or_above(self.0.seconds, 0)?))
    }

    fn time_until(&self, second: i64) -> Option<i64> {
        let (hour, minute, second) = clock(second);
        if has(self.0.hours, hour) {
            let in_this = has(self.0.minutes, minute).then(|| below(self.0.seconds, second + 1));
            if let Some(second) = in_this.flatten() {
                return Some(time(hour, minute, second));
            }
            if let Some(minute) = below(self.0.minutes, minute) {
                return Some(time(hour, minute, below(self.0.seconds, 60)?));
            }
        }
        let hour = below(self.0.hours, hour)?;
        let minute = below(self.0.minutes, 60)?;
        Some(time(hour, minute, below(self.0.seconds, 60)?))
    }

    fn has_date(&self, date: Date) -> bool {
        self.has_month(date) && self.has_day(date)
    }

    fn has_month(&self, date: Date) -> bool {
        self.0.has_month(date.month().unsigned_abs())
    }

    fn has_day(&self, date: Date) -> bool {
        self.0.has_day(Day {
            number: date.day().unsigned_abs(),
            of: date.days_in_month().unsigned_abs(),
            weekday: date.weekday().to_sunday_zero_offset().unsigned_abs(),
        })
    }
}

fn has(bits: u64, value: u32) -> bool {
    bits & (1 << value) != 0
}

/// Returns the lowest bit at or above `from`, which is below 64.
fn at_or_above(bits: u64, from: u32) -> Option<u32> {
    let rest = bits >> from << from;
    (rest != 0).then(|| rest.trailing_zeros())
}

/// Returns the highest bit below `end`, which is below 64.
fn below(bits: u64, end: u32) -> Option<u32> {
    let rest = bits & ((1 << end) - 1);
    rest.checked_ilog2()
}

fn clock(second: i64) -> (u32, u32, u32) {
    let second = u32::try_from(second).unwrap_or_default();
    (second / 3_600, second / 60 % 60, second % 60)
}

fn time(hour: u32, minute: u32, second: u32) -> i64 {
    i64::from(hour * 3_600 + minute * 60 + second)
}

fn split(local: i64) -> Option<(Date, i64)> {
    let timestamp = jiff::Timestamp::from_second(local).ok()?;
    let date = Offset::UTC.to_datetime(timestamp).date();
    Some((date, local.rem_euclid(DAY)))
}

fn join(date: Date, second: i64) -> Option<i64> {
    let midnight = DateTime::from_parts(date, jiff::civil::Time::midnight());
    let midnight = Offset::UTC.to_timestamp(midnight).ok()?;
    Some(midnight.as_second() + second)
}

fn moved(date: Date, span: Span) -> Option<Date> {
    date.checked_add(span).ok()
}

#[cfg(test)]
mod tests;
