//! Parses durations as users write them.

use std::fmt;
use std::time::Duration;

use crate::contract::{Error, ErrorKind};

/// Parses `10m`, `1h 30m`, `500ms`, `1d` and ISO 8601 `PT10M`, `P1DT12H`.
///
/// A day is 24 hours. The parser refuses years, months and weeks (their length depends on the
/// calendar, or they are rarely meant), bare numbers, negative durations and anything that is not a
/// duration.
///
/// # Errors
/// `InvalidInput`, with the correct form in the message.
///
/// ```
/// use shedlock::parse_duration;
/// use std::time::Duration;
/// assert_eq!(parse_duration("1h 30m")?, Duration::from_secs(5_400));
/// assert_eq!(parse_duration("PT0.5S")?, Duration::from_millis(500));
/// let error = parse_duration("10").unwrap_err();
/// assert_eq!(error.to_string(), "cannot read \"10\" as a duration; write it with its unit, like \"10m\", \"1h 30m\", \"500ms\" or \"PT10M\"");
/// # Ok::<(), shedlock::Error>(())
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, Error> {
    let span: jiff::Span = text.trim().parse().map_err(|_| unreadable(text))?;
    if span.get_years() != 0 || span.get_months() != 0 || span.get_weeks() != 0 {
        return Err(refused(text, ": years, months and weeks are not accepted"));
    }
    let signed = span
        .to_duration(jiff::SpanRelativeTo::days_are_24_hours())
        .map_err(|_| unreadable(text))?;
    if signed.is_negative() {
        return Err(refused(text, ": it is negative"));
    }
    if signed.unsigned_abs() > LONGEST {
        return Err(refused(text, ": it is longer than 19,998 years"));
    }
    Ok(signed.unsigned_abs())
}

/// The largest number of days that the parser accepts. A longer duration could be parsed in other
/// units and printed in days, but that text could not be parsed again.
const LONGEST: Duration = Duration::from_secs(7_304_484 * 86_400);

/// The longest duration that stores accept. Every store's calendar can represent an instant that far away, and every
/// script can count it in microseconds.
#[doc(hidden)]
pub const HUNDRED_YEARS: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Refuses durations over a hundred years. `what` names the setting.
#[doc(hidden)]
pub fn check_longest(what: impl fmt::Display, duration: Duration) -> Result<(), Error> {
    if duration <= HUNDRED_YEARS {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidInput,
        format!("{what} is longer than a hundred years"),
    )
    .advise("shorten it"))
}

fn unreadable(text: &str) -> Error {
    unlike(
        text,
        "",
        match has_units(text) {
            true => "write each unit once, the largest first,",
            false => "write it with its unit,",
        },
    )
}

/// Whether each number has its unit. So only their order is wrong, or a unit is repeated.
fn has_units(text: &str) -> bool {
    let mut rest = text.trim();
    while !rest.is_empty() {
        let after_number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let after_unit = after_number.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let part = &rest[..rest.len() - after_unit.len()];
        if part.parse::<jiff::Span>().is_err() {
            return false;
        }
        rest = after_unit.trim_start();
    }
    !text.trim().is_empty()
}

fn refused(text: &str, why: &str) -> Error {
    unlike(text, why, "write it")
}

fn unlike(text: &str, why: &str, how: &str) -> Error {
    let what = format!("cannot read {text:?} as a duration{why}");
    Error::new(ErrorKind::InvalidInput, what).advise(format!(
        "{how} like \"10m\", \"1h 30m\", \"500ms\" or \"PT10M\""
    ))
}

/// A duration given as a [`Duration`] or as text. Setters take it.
///
/// ```
/// use shedlock::LockConfig;
/// use std::time::Duration;
/// LockConfig::new("a").lock_at_most_for(Duration::from_secs(600));
/// LockConfig::new("a").lock_at_most_for("10m");
/// LockConfig::new("a").lock_at_most_for("PT10M");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockDuration(Result<Duration, UnreadableDuration>);

/// The text of a duration that could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnreadableDuration(String);

impl LockDuration {
    /// Returns the duration.
    ///
    /// # Errors
    /// As [`parse_duration`].
    pub fn get(self) -> Result<Duration, Error> {
        self.0.map_err(|unreadable| unreadable.error())
    }

    /// Returns the duration. If it could not be parsed, returns `None` and stores the text in
    /// `note`, unless `note` is already set.
    pub(crate) fn or_note(self, note: &mut Option<UnreadableDuration>) -> Option<Duration> {
        self.0
            .map_err(|unreadable| note.get_or_insert(unreadable))
            .ok()
    }
}

impl UnreadableDuration {
    /// Returns the error of [`parse_duration`].
    pub(crate) fn error(&self) -> Error {
        let Err(error) = parse_duration(&self.0) else {
            unreachable!("it could not be read before")
        };
        error
    }
}

impl From<Duration> for LockDuration {
    fn from(duration: Duration) -> Self {
        Self(Ok(duration))
    }
}

impl From<&str> for LockDuration {
    fn from(text: &str) -> Self {
        Self(parse_duration(text).map_err(|_| UnreadableDuration(text.to_owned())))
    }
}

impl From<String> for LockDuration {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let cases = [
            ("10m", 600_000),
            ("1h 30m", 5_400_000),
            ("1h30m", 5_400_000),
            ("500ms", 500),
            ("1d", 86_400_000),
            ("PT10M", 600_000),
            ("P1DT1H", 90_000_000),
            ("PT0.25S", 250),
            ("0s", 0),
            (" 5s ", 5_000),
        ];
        for (text, millis) in cases {
            assert_eq!(
                parse_duration(text).unwrap(),
                Duration::from_millis(millis),
                "{text}"
            );
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "",
            "10",
            "0",
            "-10s",
            "PT-5S",
            "-PT5S",
            "10 foo",
            "P",
            "PT",
            "1w",
            "P1M",
            "1y",
            "9223372036854775808s",
            "7304484d 1s",
        ] {
            let error = parse_duration(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text:?}");
            assert!(error.to_string().contains("\"1h 30m\""), "{error}");
        }
    }

    #[test]
    fn a_text_whose_numbers_have_units_is_not_refused_for_a_missing_unit() {
        for text in ["30m1h", "1h1h", " 1s 2d "] {
            let error = parse_duration(text).unwrap_err();
            let said = error.to_string();
            let order = "write each unit once, the largest first, like \"10m\"";
            assert!(said.contains(order), "{said}");
        }
        for text in ["30m1", "m", "1h soon"] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.to_string().contains("with its unit"), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_we_print_we_read(seconds in 0..LONGEST.as_secs(), nanos in 0_u32..1_000_000_000) {
            let duration = Duration::new(seconds, nanos);
            let text = shedlock_support::text::duration(duration);
            proptest::prop_assert_eq!(parse_duration(&text).unwrap(), duration);
        }
    }
}
