//! The Gregorian calendar.

/// A day in its month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day {
    /// Its number, from 1.
    pub number: u8,
    /// How many days the month has.
    pub of: u8,
    /// The day of the week, from 0 for Sunday.
    pub weekday: u8,
}

impl Day {
    /// The days of this month, from 1 for January.
    pub fn of_month(year: i64, month: u8) -> impl Iterator<Item = Self> {
        let of = days_in_month(year, month);
        let before = days_since_1970(year, month, 1) - 1;
        (1..=of).map(move |number| Self {
            number,
            of,
            // 1 January 1970 was a Thursday.
            weekday: (before + i64::from(number) + 4).rem_euclid(7) as u8,
        })
    }
}

/// The number of days in this month, from 1 for January.
pub fn days_in_month(year: i64, month: u8) -> u8 {
    let is_leap_year = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap_year => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The days from 1970-01-01 to this date.
pub fn days_since_1970(year: i64, month: u8, day: u8) -> i64 {
    // Years begin in March, so that a leap day is the last one.
    let year = year - i64::from(month < 3);
    let months = (i64::from(month) + 9) % 12;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * months + 2) / 5 + i64::from(day) - 719_469
}
