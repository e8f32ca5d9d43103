//! Instants since 1970, as an anchor of a grid is written.

use std::time::Duration;

use crate::civil::{days_in_month, days_since_1970};

/// Parses an instant with its offset, like `2027-01-16T09:00:00+09:00`, as the time since 1970.
///
/// # Errors
/// Why it is refused.
pub fn parse(text: &str) -> Result<Duration, String> {
    read(text.trim()).ok_or_else(|| {
        format!(
            "cannot read {text:?} as an instant: write an instant since 1970 with its offset, like \
             \"2027-01-16T09:00:00Z\" or \"2027-01-16T09:00:00+09:00\""
        )
    })
}

fn read(text: &str) -> Option<Duration> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let at = time.find(['Z', 'z', '+', '-'])?;
    let (time, offset) = time.split_at(at);
    let seconds = midnight(date)? - offset_of(offset)?;
    let (seconds_of_day, nanos) = time_of_day(time)?;
    let since = u64::try_from(seconds + seconds_of_day).ok()?;
    Some(Duration::new(since, nanos))
}

/// The seconds from 1970 to the beginning of this date.
fn midnight(date: &str) -> Option<i64> {
    let mut numbers = date.splitn(3, '-');
    let year = digits(numbers.next()?, 4)?;
    let month = u8::try_from(digits(numbers.next()?, 2)?).ok()?;
    let day = u8::try_from(digits(numbers.next()?, 2)?).ok()?;
    let is_date = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    is_date.then(|| 86_400 * days_since_1970(year, month, day))
}

/// The seconds since midnight, and the nanoseconds.
fn time_of_day(time: &str) -> Option<(i64, u32)> {
    let (time, fraction) = match time.split_once(['.', ',']) {
        Some((time, fraction)) if time.matches(':').count() == 2 => (time, fraction),
        Some(_) => return None,
        None => (time, "0"),
    };
    let count = fraction.len();
    let nanos = digits(fraction, count).filter(|_| (1..=9).contains(&count))?;
    let nanos = (count..9).fold(nanos, |nanos, _| 10 * nanos);
    let mut numbers = time.splitn(3, ':');
    let hour = digits(numbers.next()?, 2)?;
    let minute = digits(numbers.next()?, 2)?;
    // A leap second is the second before it.
    let second = numbers.next().map_or(Some(0), |text| digits(text, 2))?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = 3_600 * hour + 60 * minute + second.min(59);
    Some((seconds, u32::try_from(nanos).ok()?))
}

/// The seconds by which local time is ahead of UTC: `Z`, `+09:00`, `+0900` or `+09`.
fn offset_of(text: &str) -> Option<i64> {
    if text.eq_ignore_ascii_case("Z") {
        return Some(0);
    }
    let (hours, minutes) = text.get(1..)?.split_at_checked(2)?;
    let minutes = match minutes.strip_prefix(':').unwrap_or(minutes) {
        "" if minutes.is_empty() => 0,
        minutes => digits(minutes, 2)?,
    };
    let hours = digits(hours, 2)?;
    let seconds = 3_600 * hours + 60 * minutes;
    let is_offset = hours <= 25 && minutes <= 59;
    let sign = if text.starts_with('-') { -1 } else { 1 };
    is_offset.then_some(sign * seconds)
}

fn digits(text: &str, count: usize) -> Option<i64> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}
