//! Cron expressions.

mod field;
mod refusal;
mod words;

use std::time::Duration;

use crate::civil::Day;
use field::{Part, Which};

pub use words::in_words;

/// What a cron expression matches, in a few dozen bytes, since there may be many jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Bits 0 to 59.
    pub seconds: u64,
    /// Bits 0 to 59.
    pub minutes: u64,
    /// Bits 0 to 23.
    pub hours: u64,
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
    runs_through: bool,
}

/// Which occurrences of a weekday in a month (say, which Mondays) match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Weekday {
    every: bool,
    /// Bits 1 to 5.
    nth: u8,
    last: bool,
}

/// The nicknames, and the expressions that they stand for.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * SUN"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The fields of an expression.
fn fields(expression: &str) -> Vec<&str> {
    let name = expression.trim();
    let known = NICKNAMES
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
    let expression = known.map_or(expression, |(_, expression)| expression);
    expression.split_whitespace().collect()
}

impl Pattern {
    /// Parses five fields, or six with seconds first. If one of the day fields begins with `*`, a day has to match
    /// both, as in Vixie cron.
    ///
    /// # Errors
    /// Why the expression is refused: the field, the value, and what the field allows; or that no date matches.
    pub fn parse(expression: &str) -> Result<Self, String> {
        let fields = fields(expression);
        let read = || Self::read(&fields).ok_or_else(|| refusal::reason(&fields));
        let pattern = refusal::misread(&fields)
            .map_or_else(read, Err)
            .map_err(|why| format!("cannot read {expression:?} as a cron expression: {why}"))?;
        match pattern.ever_matches() {
            true => Ok(pattern),
            false => Err(format!(
                "the cron expression {expression:?} never fires: no date matches"
            )),
        }
    }

    fn read(fields: &[&str]) -> Option<Self> {
        let all = match *fields {
            [minute, hour, day, month, weekday] => ["0", minute, hour, day, month, weekday],
            [second, minute, hour, day, month, weekday] => {
                [second, minute, hour, day, month, weekday]
            }
            _ => return None,
        };
        let [second, minute, hour, day, month, weekday] = all;
        let is_starred = |field: &str| field.starts_with(['*', '?']);
        let is_any = |field: &str| matches!(field, "*" | "?");
        let mut pattern = Self {
            seconds: field::bits(0, second)?,
            minutes: field::bits(1, minute)?,
            hours: field::bits(2, hour)?,
            months: u16::try_from(field::bits(4, month)?).ok()?,
            days: 0,
            near_days: 0,
            last_day: false,
            last_working_day: false,
            weekdays: [Weekday::default(); 7],
            any_day: is_any(day),
            any_weekday: is_any(weekday.strip_prefix('+').unwrap_or(weekday)),
            both_days: is_starred(day) || is_starred(weekday) || weekday.starts_with('+'),
            runs_through: [second, minute, hour].iter().any(|it| it.starts_with('*')),
        };
        for part in field::parts(3, day)?
            .into_iter()
            .chain(field::parts(5, weekday)?)
        {
            pattern.take(part);
        }
        Some(pattern)
    }

    /// Takes a part of a day field.
    fn take(&mut self, part: Part) {
        match part {
            Part::Values(bits) => self.days |= bits as u32,
            Part::NearDay(day) => self.near_days |= 1 << day,
            Part::LastDay => self.last_day = true,
            Part::LastWorkingDay => self.last_working_day = true,
            Part::Weekdays(bits, which) => {
                // Sunday is 0 and 7.
                for (day, weekday) in (0_u8..).zip(&mut self.weekdays) {
                    if (bits | bits >> 7) & (1 << day) == 0 {
                        continue;
                    }
                    match which {
                        Which::Every => weekday.every = true,
                        Which::Nth(nth) => weekday.nth |= 1 << nth,
                        Which::Last => weekday.last = true,
                    }
                }
            }
        }
    }

    /// Returns true if some day of the calendar matches. It repeats after 28 years, until the year 2100.
    fn ever_matches(&self) -> bool {
        let months = (2000..2028).flat_map(|year| (1..=12).map(move |month| (year, month)));
        months
            .filter(|(_, month)| self.has_month(*month))
            .any(|(year, month)| Day::of_month(year, month).any(|day| self.has_day(day)))
    }

    /// Returns true if this month matches, from 1 for January.
    pub fn has_month(&self, month: u8) -> bool {
        self.months & (1 << month) != 0
    }

    /// Returns true if this day matches, in a month that does.
    pub fn has_day(&self, day: Day) -> bool {
        let (by_day, by_weekday) = (self.has_day_of_month(day), self.has_weekday(day));
        match (self.any_day, self.any_weekday) {
            (true, true) => true,
            (true, false) => by_weekday,
            (false, true) => by_day,
            (false, false) if self.both_days => by_day && by_weekday,
            (false, false) => by_day || by_weekday,
        }
    }

    fn has_day_of_month(&self, day: Day) -> bool {
        self.days & (1 << day.number) != 0
            || (self.last_day && day.number == day.of)
            || (self.last_working_day && nearest_working_day(day, day.of) == day.number)
            || self.is_near_day(day)
    }

    /// Returns true if this is the working day nearest to a requested day, in the same month.
    fn is_near_day(&self, day: Day) -> bool {
        let around = day.number.saturating_sub(2).max(1)..=(day.number + 2).min(day.of);
        around
            .filter(|asked| self.near_days & (1 << asked) != 0)
            .any(|asked| nearest_working_day(day, asked) == day.number)
    }

    fn has_weekday(&self, day: Day) -> bool {
        let fits = self.weekdays[usize::from(day.weekday)];
        let nth = (day.number - 1) / 7 + 1;
        fits.every || fits.nth & (1 << nth) != 0 || (fits.last && day.number + 7 > day.of)
    }

    /// Returns true for Vixie's wildcard jobs: the field of seconds, minutes or hours begins with `*`. They follow the
    /// clock, whereas other jobs follow times of day.
    pub fn runs_through(&self) -> bool {
        self.runs_through
    }

    /// Returns true if a day may match either of the day fields, which Spring and Quartz do not
    /// support.
    pub fn takes_either_day(&self) -> bool {
        !self.any_day && !self.any_weekday && !self.both_days
    }

    /// Returns the shortest time between two times of one day or, if every day matches, also between
    /// those of two consecutive days. Returns `None` for one time on some days.
    pub fn shortest_gap(&self) -> Option<Duration> {
        const MONTHS: u16 = 0b1_1111_1111_1110;
        let in_minute = span(self.seconds);
        let in_hour = in_minute + 60 * span(self.minutes);
        let in_day = in_hour + 3_600 * span(self.hours);
        let is_daily = self.any_day && self.any_weekday && self.months == MONTHS;
        let gaps = [
            nearest(self.seconds),
            nearest(self.minutes).map(|apart| 60 * apart - in_minute),
            nearest(self.hours).map(|apart| 3_600 * apart - in_hour),
            is_daily.then(|| 86_400 - in_day),
        ];
        gaps.into_iter().flatten().min().map(Duration::from_secs)
    }
}

/// Returns the working day nearest to a day of the month of `day`, in that month.
fn nearest_working_day(day: Day, asked: u8) -> u8 {
    let weekday = i16::from(day.weekday) + i16::from(asked) - i16::from(day.number);
    match weekday.rem_euclid(7) {
        6 if asked > 1 => asked - 1,
        6 => asked + 2,
        0 if asked < day.of => asked + 1,
        0 => asked - 2,
        _ => asked,
    }
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

#[cfg(test)]
mod tests;
