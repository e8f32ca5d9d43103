//! The fields of a cron expression as bits, and the local times that match them.

use croner::Cron as Parsed;
use jiff::civil::{Date, DateTime, date};
use jiff::tz::Offset;
use jiff::{Span, ToSpan};

/// Stores in a few dozen bytes what the parser keeps in several thousand, since there may be many
/// jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    seconds: u64,
    minutes: u64,
    hours: u64,
    /// Bits 1 to 12.
    months: u16,
    /// Bits 1 to 31.
    days: u32,
    /// Bits 1 to 31: the working day nearest to that day (`15W`).
    near_days: u32,
    /// `L`.
    last_day: bool,
    /// `LW`.
    last_working_day: bool,
    /// For each day of the week, Sunday first.
    weekdays: [Weekday; 7],
    any_day: bool,
    any_weekday: bool,
    /// Both day fields have to match. Otherwise a match of either is enough.
    both_days: bool,
}

/// Which occurrences of a weekday in a month (say, which Mondays) match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Weekday {
    every: bool,
    /// Bits 1 to 5.
    nth: u8,
    last: bool,
}

const DAY: i64 = 86_400;

/// The marks that the parser sets on the values of a field. It does not export them by name; the
/// tests compare the result with the parser's own search.
mod mark {
    pub(super) const PLAIN: u8 = 1;
    pub(super) const FIRST_TO_FIFTH: [u8; 5] = [1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 5];
    pub(super) const LAST: u8 = 1 << 6;
    pub(super) const NEAREST_WORKING_DAY: u8 = 1 << 7;
}

/// No expression that ever fires has a longer gap: 29 February on a given weekday recurs after at
/// most 40 years.
const YEARS_SEARCHED: i16 = 60;

impl Fields {
    pub(super) fn of(parsed: &Parsed) -> Self {
        let pattern = &parsed.pattern;
        let weekday = |day: u16| {
            let has = |mark| pattern.days_of_week.is_bit_set(day, mark).unwrap_or(false);
            let nth = (1..)
                .zip(mark::FIRST_TO_FIFTH)
                .filter(|(_, mark)| has(*mark));
            Weekday {
                every: has(mark::PLAIN),
                nth: nth.fold(0, |bits, (n, _)| bits | 1 << n),
                last: has(mark::LAST),
            }
        };
        let near_days = pattern.days.get_set_values(mark::NEAREST_WORKING_DAY);
        let last = pattern.days.is_feature_enabled(mark::LAST);
        let working = pattern.days.is_feature_enabled(mark::NEAREST_WORKING_DAY);
        Self {
            seconds: bits(&pattern.seconds.values()),
            minutes: bits(&pattern.minutes.values()),
            hours: bits(&pattern.hours.values()),
            months: u16::try_from(bits(&pattern.months.values())).unwrap_or_default(),
            days: u32::try_from(bits(&pattern.days.values())).unwrap_or_default(),
            near_days: u32::try_from(bits(&near_days)).unwrap_or_default(),
            last_day: last && !working,
            last_working_day: last && working,
            weekdays: [0, 1, 2, 3, 4, 5, 6].map(weekday),
            any_day: pattern.is_dom_wildcard(),
            any_weekday: pattern.is_dow_wildcard(),
            both_days: pattern.matches_dom_and_dow(),
        }
    }

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

    /// Returns true if some day of the calendar matches.
    pub(super) fn ever_fit(&self) -> bool {
        join(date(2000, 1, 1), 0).is_some_and(|start| self.first_from(start).is_some())
    }

    /// Returns the shortest time in seconds between two times of one day or, if every day matches,
    /// also between those of two consecutive days. Returns `None` for one time on some days.
    pub(super) fn shortest_gap(&self) -> Option<u64> {
        const MONTHS: u16 = 0b1_1111_1111_1110;
        let in_minute = span(self.seconds);
        let in_hour = in_minute + 60 * span(self.minutes);
        let in_day = in_hour + 3_600 * span(self.hours);
        let is_daily = self.any_day && self.any_weekday && self.months == MONTHS;
        let gaps = [
            nearest(self.seconds),
            nearest(self.minutes).map(|apart| 60 * apart - in_minute),
            nearest(self.hours).map(|apart| 3_600 * apart - in_hour),
            is_daily.then(|| DAY.unsigned_abs() - in_day),
        ];
        gaps.into_iter().flatten().min()
    }

    /// Returns true if a day may match either of the day fields.
    pub(super) fn takes_either_day(&self) -> bool {
        !self.any_day && !self.any_weekday && !self.both_days
    }

    fn time_from(&self, second: i64) -> Option<i64> {
        let (hour, minute, second) = clock(second);
        if has(self.hours, hour) {
            let in_this = has(self.minutes, minute).then(|| at_or_above(self.seconds, second));
            if let Some(second) = in_this.flatten() {
                return Some(time(hour, minute, second));
            }
            if let Some(minute) = at_or_above(self.minutes, minute + 1) {
                return Some(time(hour, minute, at_or_above(self.seconds, 0)?));
            }
        }
        let hour = at_or_above(self.hours, hour + 1)?;
        let minute = at_or_above(self.minutes, 0)?;
        Some(time(hour, minute, at_or_above(self.seconds, 0)?))
    }

    fn time_until(&self, second: i64) -> Option<i64> {
        let (hour, minute, second) = clock(second);
        if has(self.hours, hour) {
            let in_this = has(self.minutes, minute).then(|| below(self.seconds, second + 1));
            if let Some(second) = in_this.flatten() {
                return Some(time(hour, minute, second));
            }
            if let Some(minute) = below(self.minutes, minute) {
                return Some(time(hour, minute, below(self.seconds, 60)?));
            }
        }
        let hour = below(self.hours, hour)?;
        let minute = below(self.minutes, 60)?;
        Some(time(hour, minute, below(self.seconds, 60)?))
    }

    fn has_date(&self, date: Date) -> bool {
        self.has_month(date) && self.has_day(date)
    }

    fn has_month(&self, date: Date) -> bool {
        self.months & (1 << date.month()) != 0
    }

    fn has_day(&self, date: Date) -> bool {
        let day = self.has_day_of_month(date);
        let weekday = self.has_weekday(date);
        match (self.any_day, self.any_weekday) {
            (true, true) => true,
            (true, false) => weekday,
            (false, true) => day,
            (false, false) if self.both_days => day && weekday,
            (false, false) => day || weekday,
        }
    }

    fn has_day_of_month(&self, date: Date) -> bool {
        let length = date.days_in_month();
        self.days & (1 << date.day()) != 0
            || (self.last_day && date.day() == length)
            || (self.last_working_day && date.day() == last_working_day(date))
            || self.is_near_day(date)
    }

    /// Returns true if this is the working day nearest to a requested day, in the same month.
    fn is_near_day(&self, date: Date) -> bool {
        if self.near_days == 0 {
            return false;
        }
        let length = date.days_in_month();
        let around = (date.day() - 2).max(1)..=(date.day() + 2).min(length);
        around
            .filter(|day| self.near_days & (1 << day) != 0)
            .any(|day| {
                let asked = date.weekday().to_sunday_zero_offset() + day - date.day();
                let nearest = match asked.rem_euclid(7) {
                    6 if day > 1 => day - 1,
                    6 => day + 2,
                    0 if day < length => day + 1,
                    0 => day - 2,
                    _ => day,
                };
                nearest == date.day()
            })
    }

    fn has_weekday(&self, date: Date) -> bool {
        let index = usize::try_from(date.weekday().to_sunday_zero_offset()).unwrap_or_default();
        let fits = self.weekdays[index];
        let nth = (date.day() - 1) / 7 + 1;
        fits.every
            || fits.nth & (1 << nth) != 0
            || (fits.last && date.day() + 7 > date.days_in_month())
    }
}

fn last_working_day(date: Date) -> i8 {
    let last = date.last_of_month();
    match last.weekday().to_sunday_zero_offset() {
        6 => last.day() - 1,
        0 => last.day() - 2,
        _ => last.day(),
    }
}

fn bits(values: &[u16]) -> u64 {
    values.iter().fold(0, |bits, value| bits | 1 << value)
}

/// Returns the distance from the lowest bit to the highest.
fn span(bits: u64) -> u64 {
    bits.checked_ilog2()
        .map_or(0, |highest| u64::from(highest - bits.trailing_zeros()))
}

/// Returns the smallest distance between two bits.
fn nearest(bits: u64) -> Option<u64> {
    (1..64).find(|apart| bits & bits >> apart != 0)
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
